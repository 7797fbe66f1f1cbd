"""A validated configuration and its topics."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bayou.errors import ArgumentError, ConfigurationError
from bayou.ingest.config.model import ConnectorConfig
from bayou.ingest.config.notices import Notice
from bayou.ingest.config.table_paths import resolve_path
from bayou.ingest.config.topic import TopicConfig
from bayou.ingest.upsert_keys import UpsertKeys


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic with its paths resolved.

    Attributes:
        key: the topic's key in the configuration.
        table_path: the target table: a URI, or an absolute local path.
        schema_file: absolute path of the schema file; None if the schema is inferred.
    """

    key: str
    config: TopicConfig
    table_path: str
    schema_file: Path | None

    @property
    def upsert_keys(self) -> UpsertKeys | None:
        """The keys of an upsert; None if every record is appended."""
        destination = self.config.destination
        if not destination.upsert_keys:
            return None
        return UpsertKeys(columns=destination.upsert_keys, ordering=destination.ordering_column)

    @property
    def more_columns(self) -> tuple[str, ...]:
        more = tuple(f"_kafka_{name.replace('-', '_')}" for name in self.config.kafka_columns)
        if self.upsert_keys is not None and "_kafka_timestamp" not in more:
            more += ("_kafka_timestamp",)
        return more


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A configuration that can be run.

    Attributes:
        state_path: absolute path of the folder for locks, the times of maintenance runs, and
            `spark.log`.
        notices: a notice for each setting that has no effect or needs attention.
        refusals: a notice for each setting that prevents a pipeline from starting.
        missing_broker: the notice that no brokers are configured; None if brokers are configured.
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
        """Return the topic with the key, table name or table path `name`; None if there is none."""
        for topic in self.topics:
            if name == topic.key:
                return topic
        for topic in self.topics:
            destination = topic.config.destination
            if name in (destination.name, topic.table_path, destination.path.rstrip("/")):
                return topic
        return None

    def topic(self, name: str) -> Topic:
        """Return the topic whose key, table name or table path is `name`.

        Raises:
            ArgumentError: no topic matches.
        """
        topic = self.find_topic(name)
        if topic is None:
            known = ", ".join(repr(topic.key) for topic in self.topics)
            raise ArgumentError(
                f"{self.file} has no topic or table {name!r}. Its topics are {known}.",
                argument="topic",
            )
        return topic

    def json_path(self, topic: Topic) -> str | None:
        """Return the path of a topic's JSON files to migrate; None if migration is disabled."""
        migration = self.connector.migration
        if not migration.enabled:
            return None
        configured = migration.json_path.get(topic.key)
        if configured is not None:
            return resolve_path(configured, self.folder)
        scheme, separator, rest = topic.table_path.partition("://")
        if separator:
            return f"{scheme}://{rest.split('/', 1)[0]}/json/{topic.key}"
        return str(Path(topic.table_path).parent / "json" / topic.key)

    def check_supported(self) -> None:
        """Raise an error if there are `refusals`."""
        self._refuse(self.refusals)

    def check_runnable(self) -> None:
        """Raise an error if there are `refusals` or no brokers are configured."""
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
