"""A configuration that was read, and its topics."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bayou.errors import ArgumentError, ConfigurationError
from bayou.ingest.config.model import ConnectorConfig
from bayou.ingest.config.notices import Notice
from bayou.ingest.config.table_paths import resolve_path
from bayou.ingest.config.topic import TopicConfig
from bayou.ingest.upsert_keys import UpsertKeys

__all__ = ["Configuration", "Topic"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic with its paths resolved.

    Attributes:
        key: its name in the configuration.
        config: its section.
        table_path: where the target is: a URI, or an absolute local path.
        schema_file: absolute path of the JSON Schema, None to infer.
    """

    key: str
    config: TopicConfig
    table_path: str
    schema_file: Path | None

    @property
    def upsert_keys(self) -> UpsertKeys | None:
        """What makes rows the same row; None where every record is appended."""
        destination = self.config.destination
        if not destination.upsert_keys:
            return None
        return UpsertKeys(columns=destination.upsert_keys, ordering=destination.ordering_column)

    @property
    def more_columns(self) -> tuple[str, ...]:
        """Columns of what Kafka says of a record that rows have besides the usual ones."""
        more = tuple(f"_kafka_{name}" for name in self.config.kafka_columns)
        if self.upsert_keys is not None and "_kafka_timestamp" not in more:
            more += ("_kafka_timestamp",)
        return more


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A configuration that can be run.

    Attributes:
        file: the YAML file as it was given.
        connector: the validated section.
        topics: the topics in the order of the file.
        state_path: absolute folder for locks and checkpoints.
        notices: what the file says that this version doesn't do, one line each.
        refusals: what it says that can't be followed and mustn't be ignored, one line each.
        folder: that of the file.
        missing_broker: said where nobody names the brokers, so that it can't be run here.
    """

    file: str
    connector: ConnectorConfig
    topics: tuple[Topic, ...]
    state_path: Path
    notices: tuple[Notice, ...]
    refusals: tuple[Notice, ...] = ()
    missing_broker: Notice | None = None
    folder: Path = Path()

    def find_topic(self, name: str) -> Topic | None:
        """The topic of that name, or of the table of that name or path; None for none."""
        for topic in self.topics:
            if name == topic.key:
                return topic
        for topic in self.topics:
            destination = topic.config.destination
            if name in (destination.name, topic.table_path, destination.path.rstrip("/")):
                return topic
        return None

    def topic(self, name: str) -> Topic:
        """As `find_topic`.

        Raises:
            ArgumentError: there is none.
        """
        found = self.find_topic(name)
        if found is None:
            known = ", ".join(repr(topic.key) for topic in self.topics)
            raise ArgumentError(
                f"{self.file} has no topic or table {name!r}; its topics are {known}.",
                argument="topic",
            )
        return found

    def json_path(self, topic: Topic) -> str | None:
        """Where the JSON files of a topic are that are to be migrated; None for no migration."""
        migration = self.connector.migration
        if not migration.enabled:
            return None
        given = migration.json_path.get(topic.key)
        if given is not None:
            return resolve_path(given, self.folder)
        scheme, separator, rest = topic.table_path.partition("://")
        if separator:
            return f"{scheme}://{rest.split('/', 1)[0]}/json/{topic.key}"
        return str(Path(topic.table_path).parent / "json" / topic.key)

    def check_supported(self) -> None:
        """Refuse what would make another table than the file asks for, or no Kafka client.

        Raises:
            ConfigurationError: a line for each of `refusals`.
        """
        self._refuse(self.refusals)

    def check_runnable(self) -> None:
        """Refuse what can't be run here.

        Raises:
            ConfigurationError: a line for each of `refusals`, and for `missing_broker`.
        """
        missing = () if self.missing_broker is None else (self.missing_broker,)
        self._refuse((*missing, *self.refusals))

    def _refuse(self, reasons: tuple[Notice, ...]) -> None:
        if reasons:
            first = reasons[0]
            raise ConfigurationError(
                "\n".join(r.text for r in reasons),
                file=self.file,
                line=first.line,
                key=first.key,
            )
