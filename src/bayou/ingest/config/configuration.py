"""A validated configuration and its topics."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from bayou.errors import ArgumentError, BayouError, ConfigurationError, PipelineError
from bayou.ingest.config.model import ConnectorConfig
from bayou.ingest.config.notices import Notice
from bayou.ingest.config.pipeline_files import file_in_table
from bayou.ingest.config.routing import VALUE, RouteByConfig, RouteTable, pattern_of
from bayou.ingest.config.table_paths import (
    dead_letters_path,
    deleted_keys_path,
    ledger_path,
    normalized_table_path,
    resolve_path,
)
from bayou.ingest.config.topic import TopicConfig
from bayou.ingest.topic_key import section_key, topic_key
from bayou.ingest.upsert_order import UpsertKeys
from bayou.suggestions import did_you_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A Kafka topic of the configuration, with absolute paths.

    Attributes:
        key: the name of the topic in messages, metrics and commands. This is the YAML key of the
            topic's section, or `SECTION/KAFKA-TOPIC` if the section has several topics.
        config: the settings of the section for this topic.
        table_path: the target table: a URI, or an absolute local path.
        schema_file: absolute path of the schema file; None if the schema is inferred.
        shares_table: whether all topics of the section are written to the same table.
        from_pattern: whether the section selects the topic by a pattern instead of by its name.
        table_problem: the reason why the topic can't be written to its table, such as another topic
            with the same table; None if there is no problem. It is only set for topics that a
            pattern selects. For listed topics, the same problem raises a `ConfigurationError`.
        routed_table: the name of the `route-by` table to which the topic writes; None if the topic
            writes to the table of `destination.table-path`.
        accepts_deleted: whether `accept-deleted` lists the routed table. If it does, a missing or
            replaced table isn't an error.
        time_zone: the time zone of the Spark session. Partition values of type timestamp that have
            no time zone are in this time zone.
    """

    key: str
    config: TopicConfig
    table_path: str
    schema_file: Path | None
    shares_table: bool = False
    from_pattern: bool = False
    table_problem: str | None = None
    routed_table: str | None = None
    accepts_deleted: bool = False
    time_zone: str = "UTC"

    def check_table(self) -> None:
        """Raise a `PipelineError` if the topic can't be written to its table."""
        if self.table_problem is not None:
            raise PipelineError(
                f"topic {self.key!r}: table-path: {self.table_problem}.", topic=self.key
            )

    @property
    def section(self) -> str:
        """The key of the topic's section in the configuration."""
        return section_key(self.key)

    @property
    def table_key(self) -> str:
        """The name of the table in messages, metrics and commands.

        If the section's topics share a table, this is the section's key; otherwise it is the
        topic's key. For a table of `route-by`, the table's name is appended.
        """
        key = self.section if self.shares_table else self.key
        return key if self.routed_table is None else f"{key}//{self.routed_table}"

    @property
    def routes(self) -> RouteByConfig | None:
        """The `route-by` settings, with absolute paths; None if the topic has only one table."""
        return self.config.destination.route_by

    def restore_setting(self, version: int | str) -> str:
        """Return the `accept-restore` setting that a message tells the user to write.

        `version` is the version that the RESTORE created, or a placeholder for it.
        """
        prefix = f"connector.topics.{self.section}"
        if self.routed_table is None:
            return f"{prefix}.accept-restore: {version}"
        return f"{prefix}.destination.route-by.accept-restore: {{{self.routed_table}: {version}}}"

    def routed(self, table: RouteTable) -> Topic:
        """Return a copy of this topic that writes all its records to one table of `route-by`.

        The copy has no filter, because its records have already been filtered by `where`.
        """
        routes = self.routes
        accepted = None if routes is None else routes.accept_restore.get(table.name)
        config = self.config.without_routes()
        destination = config.destination.model_copy(
            update={"table_path": table.path, "table_name": table.name, "bucket": None}
        )
        config = config.model_copy(update={"destination": destination, "accept_restore": accepted})
        return replace(
            self,
            config=config,
            table_path=table.path,
            routed_table=table.name,
            accepts_deleted=routes is not None and table.name in routes.accept_deleted,
        )

    @property
    def upsert_keys(self) -> UpsertKeys | None:
        """The key columns and the ordering column for upserts; None if every record is appended."""
        destination = self.config.destination
        if not destination.upsert_keys:
            return None
        return UpsertKeys(columns=destination.upsert_keys, ordering=destination.ordering_column)

    @property
    def metadata_columns(self) -> tuple[str, ...]:
        names = tuple(f"_kafka_{name.replace('-', '_')}" for name in self.config.kafka_columns)
        if self.upsert_keys is not None and "_kafka_timestamp" not in names:
            names += ("_kafka_timestamp",)
        return names


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSection:
    """A section of `connector.topics`.

    Attributes:
        key: the section's key in the YAML file.
        folder: the folder of the YAML file. Relative paths in the section are relative to this
            folder.
        time_zone: the time zone of the Spark session.
    """

    key: str
    config: TopicConfig
    folder: Path
    schema_file: Path | None
    time_zone: str = "UTC"

    @property
    def has_pattern(self) -> bool:
        """Whether the section selects its topics with `kafka-topic-pattern`."""
        return self.config.kafka_topic_pattern is not None

    @property
    def topics(self) -> tuple[Topic, ...]:
        """The topics that the section lists; a section with a pattern lists no topics."""
        if self.has_pattern:
            return ()
        names = self.config.kafka_topics or (self.config.kafka_topic,)
        return tuple(map(self.topic, names))

    @property
    def table_path(self) -> str:
        """The path of the section's table; it may contain `{topic}`."""
        return resolve_path(self.config.destination.path, self.folder)

    def matches(self, name: str) -> bool:
        """Whether the section's pattern matches the name of a Kafka topic."""
        pattern = self.config.kafka_topic_pattern
        if pattern is None or (name.startswith("__") and not pattern.startswith("__")):
            return False
        return re.fullmatch(pattern, name) is not None

    def topic(self, name: str) -> Topic:
        """Create the topic `name` (a Kafka topic name) with the settings of the section.

        Raises:
            ArgumentError: the path of the table isn't valid, or contains a secret.
        """
        config = self.config.for_topic(name)
        routes = config.destination.route_by
        if routes is not None:
            routes = routes.with_paths(lambda p: resolve_path(p, self.folder), lambda name: name)
            destination = config.destination.model_copy(update={"route_by": routes})
            config = config.model_copy(update={"destination": destination})
        return Topic(
            key=topic_key(self.key, name) if self.config.has_several_topics else self.key,
            config=config,
            table_path=resolve_path(config.destination.path, self.folder),
            schema_file=self.schema_file,
            shares_table=self.config.shares_table,
            from_pattern=self.has_pattern,
            time_zone=self.time_zone,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A validated configuration of a pipeline.

    Attributes:
        topics: the topics that sections list, and the topics that `with_matching` added.
        patterns: the sections with a `kafka-topic-pattern`.
        state_path: absolute path of the folder for locks, the times of maintenance runs, and
            `spark.log`.
        notices: a notice for each setting that has no effect or needs attention.
        refusals: a notice for each setting that prevents a pipeline from starting.
        missing_broker: the notice for a configuration without brokers; None if it has brokers.
    """

    file: str
    connector: ConnectorConfig
    topics: tuple[Topic, ...]
    state_path: Path
    notices: tuple[Notice, ...]
    refusals: tuple[Notice, ...] = ()
    missing_broker: Notice | None = None
    folder: Path = Path()
    patterns: tuple[TopicSection, ...] = ()

    def matching(self, names: Iterable[str]) -> tuple[Topic, ...]:
        """Create a topic for each pair of a pattern and a matching Kafka topic name in `names`."""
        ordered = sorted(names)
        return tuple(s.topic(name) for s in self.patterns for name in ordered if s.matches(name))

    def with_matching(self, names: Iterable[str]) -> Configuration:
        """Return a copy that also has the topics whose names are in `names` and match a pattern.

        If the table of a new topic conflicts with another table, the new topic isn't run, and its
        `table_problem` is set. All other topics are run, so that users who can create topics can't
        stop the pipeline.
        """
        known = {topic.key for topic in self.topics}
        new = (topic for topic in self.matching(names) if topic.key not in known)
        return replace(self, topics=(*self.topics, *self.with_table_problems(self.topics, new)))

    def with_table_problems(
        self, known: Iterable[Topic], new: Iterable[Topic]
    ) -> tuple[Topic, ...]:
        """Return the topics in `new`; set `table_problem` if a topic can't be written to its table.

        If the tables of two topics in `new` conflict, `table_problem` is only set for the second
        topic. A topic that has written its table precedes topics that haven't, so that a topic
        continues after a restart even if a topic was created whose table conflicts.

        Args:
            known: topics whose tables are used already. A topic in `new` also has a problem if its
                table conflicts with one of these tables.
        """
        options = self.connector.storage.storage_options()
        return tuple(
            replace(topic, table_problem=topic.table_problem or self._file_problem(topic))
            for topic in _with_conflicts(known, new, options)
        )

    def _file_problem(self, topic: Topic) -> str | None:
        path = file_in_table(self, topic.table_path)
        if path is None:
            return None
        return (
            f"{path} is inside {topic.table_path}, and VACUUM of this table would delete it; move "
            "it, or choose another path"
        )

    def find_topics(self, name: str) -> tuple[Topic, ...]:
        """Return all topics of the section `name`.

        If there is no such section, return the topic with this key, or all topics of the table with
        this name or path.

        Raises:
            ArgumentError: `name` is the name of several tables.
        """
        section = tuple(topic for topic in self.topics if topic.section == name)
        if section:
            return section
        topic = self._topic_of_key(name)
        return self._topics_of_table(name) if topic is None else (topic,)

    def find_topic(self, name: str) -> Topic | None:
        """Return the topic whose key, table name or table path equals `name`; None if none matches.

        If `name` identifies a table that several topics share, the first of these topics is
        returned.

        Raises:
            ArgumentError: `name` is the name of several tables.
        """
        return self._topic_of_key(name) or next(iter(self._topics_of_table(name)), None)

    def _topic_of_key(self, name: str) -> Topic | None:
        for topic in self.topics:
            if name in (topic.key, topic.table_key):
                return topic
        for section in self.patterns:
            kafka_topic = name.removeprefix(topic_key(section.key, ""))
            if kafka_topic != name and section.matches(kafka_topic):
                return section.topic(kafka_topic)
        return None

    def _topics_of_table(self, name: str) -> tuple[Topic, ...]:
        topics = []
        for topic in self.topics:
            destination = topic.config.destination
            if name in (destination.name, topic.table_path, destination.path.rstrip("/")):
                topics.append(topic)
        self._check_one_table(name, (topic.table_path for topic in topics))
        return tuple(topics)

    def _check_one_table(self, name: str, paths: Iterable[str]) -> None:
        """Check that a table's name in an argument identifies only one table.

        Otherwise a command could change another table than the user means.

        Raises:
            ArgumentError: `paths` contains several tables.
        """
        tables = sorted({normalized_table_path(path) for path in paths})
        if len(tables) > 1:
            raise ArgumentError(
                f"{self.file}: several tables have the name {name!r}: {', '.join(tables)}. Use the "
                "path of a table, or the key of its topic.",
                argument="topic",
            )

    def find_table(self, name: str) -> str | None:
        """Return the path of the table that `name` identifies; None if there is no such table.

        Args:
            name: the key, table name or table path of a topic, the key of a section whose topics
                share a table, or the name or path of a table of `route-by`.

        Raises:
            ArgumentError: `name` is the name of several tables.
        """
        for section in self.patterns:
            if name == section.key and section.config.shares_table:
                return section.table_path
        topic = self.find_topic(name)
        if topic is not None:
            return topic.table_path
        routes = [topic.routes.find(name) for topic in self.topics if topic.routes is not None]
        tables = [table for table in routes if table is not None]
        listed = [table for table in tables if table.value_name is None]
        # A name with {value} matches many names. It matters only if no table is listed.
        paths = [table.path for table in listed or tables]
        self._check_one_table(name, paths)
        return next(iter(paths), None)

    def topic(self, name: str) -> Topic:
        """Return the topic whose key, table name or table path is `name`.

        Raises:
            ArgumentError: no topic matches, or `name` is the name of several tables.
            PipelineError: the topic can't be written to its table.
        """
        topic = self.find_topic(name)
        if topic is None:
            known = ", ".join(repr(topic.key) for topic in self.topics)
            names = [topic.key for topic in self.topics]
            names += [topic.config.destination.name for topic in self.topics]
            raise ArgumentError(
                f"{self.file} has no topic or table {name!r}.{did_you_mean(name, names)} "
                f"Its topics are {known}.",
                argument="topic",
            )
        topic.check_table()
        return topic

    def json_path(self, topic: Topic) -> str | None:
        """Return the path of the JSON files to migrate for a topic; None if migration is off."""
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


def table_problems(topics: Iterable[Topic]) -> Iterator[tuple[Topic, Topic, str]]:
    """Yield each topic whose table conflicts with another topic, that topic, and the reason.

    Two tables conflict if they have the same path and their topics aren't in the same section. They
    also conflict if one table is an auxiliary table of the other; see `auxiliary_tables`. The
    tables of `route-by` are checked, too; they can also conflict with the table of the same topic.
    """
    owners: dict[str, Topic] = {}
    auxiliary: dict[str, tuple[Topic, str]] = {}
    checked: set[str] = set()
    topics = tuple(topics)
    for topic in topics:
        table = normalized_table_path(topic.table_path)
        owner = owners.setdefault(table, topic)
        if owner.table_key != topic.table_key:
            problem = (
                f"topic {owner.key!r} already writes to {topic.table_path}; set a different "
                "table-path for each topic, or list the topics of one table in kafka-topics"
            )
            yield topic, owner, problem
        for path, kind in auxiliary_tables(topic).items():
            auxiliary.setdefault(path, (topic, kind))
    for topic in topics:
        owner_and_kind = auxiliary.get(normalized_table_path(topic.table_path))
        if owner_and_kind is not None:
            owner, kind = owner_and_kind
            problem = (
                f"{topic.table_path} is the {kind} of topic {owner.key!r}; choose another path"
            )
            yield topic, owner, problem
        if topic.table_key not in checked:
            checked.add(topic.table_key)
            yield from ((topic, *problem) for problem in _route_problems(topic, topics))


def auxiliary_tables(topic: Topic) -> dict[str, str]:
    """Return the auxiliary tables of a topic, such as its dead letter table.

    The keys are normalized paths. The values are names for messages, such as "dead letter table".
    """
    table = normalized_table_path(topic.table_path)
    tables = {
        dead_letters_path(table): "dead letter table",
        ledger_path(table): "migration ledger",
    }
    if topic.config.destination.upsert_keys:
        tables[deleted_keys_path(table)] = "table of deleted keys"
    return tables


def _route_problems(topic: Topic, topics: Iterable[Topic]) -> Iterator[tuple[Topic, str]]:
    """Yield a message for each table of `route-by` that conflicts with a table, and its topic."""
    routes = topic.routes
    for path in () if routes is None else routes.paths:
        table = normalized_table_path(path)
        default = normalized_table_path(topic.table_path)
        for inner, outer in ((table, default), (default, table)):
            if inner.startswith(f"{outer}/"):
                problem = (
                    f"route-by: the table {path} and the default table {topic.table_path} are "
                    "nested, so VACUUM of one table would delete the other; choose a path "
                    "outside the default table"
                )
                yield topic, problem
        is_listed = VALUE not in path
        if is_listed and table == default:
            problem = f"route-by: tables: {path} is the default table; remove it from tables"
            yield topic, problem
        for other in topics:
            if other.table_key == topic.table_key:
                # The tables of the topic itself. Only a listed path can conflict with them, because
                # `value_name` avoids their names.
                used = auxiliary_tables(other) if is_listed else {}
            else:
                main = normalized_table_path(other.table_path)
                used = {main: "table", **auxiliary_tables(other)}
                if other.routes is not None:
                    used |= {normalized_table_path(p): "table" for p in other.routes.paths}
            for used_path, kind in used.items():
                name = used_path.replace(VALUE, "v")
                if table == used_path or pattern_of(table).fullmatch(name):
                    problem = (
                        f"route-by: {path} may be the {kind} {used_path} of topic {other.key!r}; "
                        "choose another path"
                    )
                    yield other, problem


def _with_conflicts(
    known: Iterable[Topic], new: Iterable[Topic], storage_options: Mapping[str, str]
) -> tuple[Topic, ...]:
    """Set the `table_problem` of topics in `new`; see `Configuration.with_table_problems`."""
    accepted = [topic for topic in known if topic.table_problem is None]
    new = tuple(new)
    conflicts = [pair for *pair, _ in table_problems((*accepted, *new))]
    keys = {topic.key for pair in conflicts for topic in pair}
    accepted += [topic for topic in new if topic.key not in keys]
    conflicting = [topic for topic in new if topic.key in keys]
    # Otherwise, a new topic could take the place of a topic that has run for a long time.
    conflicting.sort(key=lambda topic: not _is_target(topic.table_path, storage_options))
    problems: dict[str, str | None] = {}
    for topic in conflicting:
        problem = None
        for first, _, reason in table_problems((*accepted, topic)):
            is_own = first.key == topic.key
            problem = reason if is_own else f"it conflicts with topic {first.key!r}: {reason}"
            break
        problems[topic.key] = problem
        if problem is None:
            accepted.append(topic)
    return tuple(replace(topic, table_problem=problems.get(topic.key)) for topic in new)


def _is_target(path: str, storage_options: Mapping[str, str]) -> bool:
    """Whether there is a table with rows of Kafka records at a path; not their dead letters."""
    from bayou.api import table

    try:
        target = table(path, storage_options)
        return target.exists() and "_kafka_offset" in target.snapshot().schema.names
    except BayouError:  # reported when the topic is prepared
        return False
