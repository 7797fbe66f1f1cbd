"""The tree of errors: everything Bayou raises on purpose is a `BayouError`.

    BayouError
    ├── TableError                        names the table it is about
    │   ├── TableNotFoundError            no Delta log at the path
    │   ├── TableAlreadyExistsError       mode "error" or a create met an existing table
    │   ├── VersionNotFoundError          version or timestamp outside of what the log can rebuild
    │   ├── ChangeDataFeedError           changes weren't recorded, or their schema changed
    │   ├── StreamingSourceError          a stream of a table can't start or can't go on
    │   ├── UnsupportedFeatureError       the protocol asks for something that isn't supported
    │   ├── FeatureInUseError             a table feature can't be dropped: something needs it
    │   ├── CorruptTableError             the log or a data file breaks PROTOCOL.md
    │   ├── DataFileError                 a data file is missing or can't be read
    │   ├── SchemaError                   a schema that isn't valid, or data that doesn't fit it
    │   │   └── CorruptSchemaError        a schema in the log that can't be read
    │   ├── TablePropertyError            a table property with an unusable value
    │   ├── ConstraintViolationError      rows break NOT NULL, a CHECK or an invariant
    │   ├── MultipleMatchesError          several source rows of a merge match one target row
    │   ├── CommitConflictError           another writer won, and the changes don't commute
    │   │   ├── ProtocolChangedError
    │   │   ├── MetadataChangedError
    │   │   ├── ConcurrentTransactionError
    │   │   ├── ConcurrentAppendError
    │   │   ├── ConcurrentDeleteReadError
    │   │   └── ConcurrentDeleteDeleteError
    │   └── CommitFailedError             a commit failed or its outcome could not be learned
    ├── StorageError                      the store or the disk refused, names the path
    │   └── FileMissingError              no such file
    ├── PredicateError                    filter text or expression that can't be understood
    │   └── EvaluationError               a value that an expression can't take: overflow, 1/0, ...
    ├── StatementError                    a SQL statement that can't be understood or run
    ├── ArgumentError                     an argument or option of ours with an unusable value
    ├── SerializationError                bytes that this version of the package can't read back
    ├── ConfigurationError                the pipeline's YAML: names file, line and key
    ├── KafkaError                        broker, topic or offsets
    │   └── RecordsLostError              records are gone from Kafka that were still to be read
    ├── PipelineError                     a topic's pipeline had to stop
    └── PrerequisiteError                 Java, Spark, a port or an extra is missing

A message names the table (or file, or setting), says what is wrong, and what to do next. The same
facts are attributes, so that a program doesn't have to read the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bayou.redaction import without_secrets

__all__ = [
    "ArgumentError",
    "BayouError",
    "ChangeDataFeedError",
    "CommitConflictError",
    "CommitFailedError",
    "ConcurrentAppendError",
    "ConcurrentDeleteDeleteError",
    "ConcurrentDeleteReadError",
    "ConcurrentTransactionError",
    "ConfigurationError",
    "ConstraintViolationError",
    "CorruptSchemaError",
    "CorruptTableError",
    "DataFileError",
    "EvaluationError",
    "FeatureInUseError",
    "FileMissingError",
    "KafkaError",
    "MetadataChangedError",
    "MultipleMatchesError",
    "PipelineError",
    "PredicateError",
    "PrerequisiteError",
    "ProtocolChangedError",
    "RecordsLostError",
    "SchemaError",
    "SerializationError",
    "StatementError",
    "StorageError",
    "StreamingSourceError",
    "TableAlreadyExistsError",
    "TableError",
    "TableNotFoundError",
    "TablePropertyError",
    "UnsupportedFeatureError",
    "VersionNotFoundError",
]


class BayouError(Exception):
    """Root of everything Bayou raises on purpose.

    Keyword arguments become attributes and survive pickling, so that an error raised in a Spark
    worker arrives whole. Secrets are removed from the message, whoever wrote it.
    """

    def __init__(self, message: str, **facts: object) -> None:
        if not message.isascii():
            # A path that isn't UTF-8 has lone surrogates, which no output could print.
            message = message.encode("utf-8", "backslashreplace").decode()
        self.message = without_secrets(message)
        super().__init__(self.message)
        self.facts: Mapping[str, object] = facts

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, dict(self.facts)))


def _rebuild(kind: type[BayouError], message: str, facts: dict[str, object]) -> BayouError:
    error = kind.__new__(kind)
    BayouError.__init__(error, message, **facts)
    for name, value in facts.items():
        setattr(error, name, value)
    return error


class TableError(BayouError):
    """Something about one table. `table` is its path as the user gave it or as resolved."""

    def __init__(self, message: str, *, table: str, **facts: object) -> None:
        super().__init__(message, table=table, **facts)
        self.table = table


class TableNotFoundError(TableError):
    """There is no Delta table at the path."""


class TableAlreadyExistsError(TableError):
    """There is a Delta table at the path already."""


class VersionNotFoundError(TableError):
    """The version or timestamp asked for can't be rebuilt from the log.

    Attributes:
        earliest: earliest version that can be rebuilt, None where unknown.
        latest: latest version, None where unknown.
    """

    def __init__(
        self, message: str, *, table: str, earliest: int | None = None, latest: int | None = None
    ) -> None:
        super().__init__(message, table=table, earliest=earliest, latest=latest)
        self.earliest = earliest
        self.latest = latest


class ChangeDataFeedError(TableError):
    """The changes of a range can't be given: not recorded, or of a schema that doesn't fit.

    Attributes:
        version: where the feed is off, or where the schema changed.
    """

    def __init__(self, message: str, *, table: str, version: int) -> None:
        super().__init__(message, table=table, version=version)
        self.version = version


class StreamingSourceError(TableError):
    """A stream of a table can't start or can't go on; the message says what helps.

    Attributes:
        condition: the name that delta-spark has for it, such as `DELTA_SOURCE_IGNORE_DELETE`.
        version: the version at fault, None where it isn't one.
    """

    def __init__(
        self, message: str, *, table: str, condition: str, version: int | None = None
    ) -> None:
        super().__init__(message, table=table, condition=condition, version=version)
        self.condition = condition
        self.version = version


class UnsupportedFeatureError(TableError):
    """The table's protocol needs features that aren't supported (PROTOCOL.md, Table Features).

    Attributes:
        features: the names, as they stand in the protocol action.
    """

    def __init__(self, message: str, *, table: str, features: Sequence[str]) -> None:
        super().__init__(message, table=table, features=tuple(features))
        self.features = tuple(features)


class FeatureInUseError(TableError):
    """A table feature can't be dropped: another one, the table or its older versions need it.

    Attributes:
        feature: its name.
    """

    def __init__(self, message: str, *, table: str, feature: str) -> None:
        super().__init__(message, table=table, feature=feature)
        self.feature = feature


class CorruptTableError(TableError):
    """The log breaks PROTOCOL.md. `file` is the file at fault, if it is one file."""

    def __init__(self, message: str, *, table: str, file: str | None = None) -> None:
        super().__init__(message, table=table, file=file)
        self.file = file


class DataFileError(TableError):
    """A data file named by the log is missing or can't be read."""

    def __init__(self, message: str, *, table: str, file: str) -> None:
        super().__init__(message, table=table, file=file)
        self.file = file


class SchemaError(TableError):
    """A schema that isn't valid, or data that doesn't fit the table's schema.

    Attributes:
        column: the dotted name of the column at fault, where it is one column.
    """

    def __init__(self, message: str, *, table: str, column: str | None = None) -> None:
        super().__init__(message, table=table, column=column)
        self.column = column


class CorruptSchemaError(CorruptTableError, SchemaError):
    """The schema in the log can't be read. `file` is the log file, where it is known."""

    def __init__(self, message: str, *, table: str, file: str | None = None) -> None:
        TableError.__init__(self, message, table=table, file=file, column=None)
        self.file = file
        self.column = None


class TablePropertyError(TableError):
    """A table property with an unusable value."""

    def __init__(self, message: str, *, table: str, key: str) -> None:
        super().__init__(message, table=table, key=key)
        self.key = key


class ConstraintViolationError(TableError):
    """Rows break NOT NULL, a CHECK constraint or an invariant; nothing was written.

    Attributes:
        constraint: its name, or `NOT NULL column`.
    """

    def __init__(self, message: str, *, table: str, constraint: str) -> None:
        super().__init__(message, table=table, constraint=constraint)
        self.constraint = constraint


class MultipleMatchesError(TableError):
    """Several rows of a merge's source match one row of the target; nothing was changed.

    Delta's condition is DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE.
    """


class CommitConflictError(TableError):
    """Another writer's commit won, and ours can't be put behind it.

    Attributes:
        winning_version: the version that was committed by the other writer.
        winning_operation: its operation, as in its commitInfo, None where it has none.
        attempts: how often the commit was tried.
        rule: the rule that failed, in a few words: `concurrent append`, ...
    """

    def __init__(
        self,
        message: str,
        *,
        table: str,
        winning_version: int,
        winning_operation: str | None = None,
        attempts: int = 1,
        rule: str | None = None,
    ) -> None:
        super().__init__(
            message,
            table=table,
            winning_version=winning_version,
            winning_operation=winning_operation,
            attempts=attempts,
            rule=rule,
        )
        self.winning_version = winning_version
        self.winning_operation = winning_operation
        self.attempts = attempts
        self.rule = rule


class ProtocolChangedError(CommitConflictError):
    """The winner changed the protocol."""


class MetadataChangedError(CommitConflictError):
    """The winner changed the table's metadata (schema, partitioning, properties)."""


class ConcurrentTransactionError(CommitConflictError):
    """The winner wrote the transaction identifier or metadata domain that ours relies on."""


class ConcurrentAppendError(CommitConflictError):
    """The winner added files that ours should have read."""


class ConcurrentDeleteReadError(CommitConflictError):
    """The winner removed a file that ours has read."""


class ConcurrentDeleteDeleteError(CommitConflictError):
    """The winner removed a file that ours removes too."""


class CommitFailedError(TableError):
    """The commit failed, or its outcome could not be learned; the message says which.

    Attributes:
        version: the version that it was to have.
        attempts: how often it was tried.
        winning_version, winning_operation: the commit that was there first the last time, None
            where it didn't fail for that.
    """

    def __init__(
        self,
        message: str,
        *,
        table: str,
        version: int,
        attempts: int = 1,
        winning_version: int | None = None,
        winning_operation: str | None = None,
    ) -> None:
        super().__init__(
            message,
            table=table,
            version=version,
            attempts=attempts,
            winning_version=winning_version,
            winning_operation=winning_operation,
        )
        self.version = version
        self.attempts = attempts
        self.winning_version = winning_version
        self.winning_operation = winning_operation


class StorageError(BayouError):
    """The store or the disk refused. `path` is what was asked for."""

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(message, path=path)
        self.path = path


class FileMissingError(StorageError):
    """There is no such file or folder.

    Attributes:
        obstacle: a file that stands where the path needs a folder, None where that isn't why.
    """

    def __init__(self, message: str, *, path: str, obstacle: str | None = None) -> None:
        BayouError.__init__(self, message, path=path, obstacle=obstacle)
        self.path = path
        self.obstacle = obstacle


class PredicateError(BayouError):
    """A filter or expression that can't be understood, or names what isn't there.

    Attributes:
        expression: the text or part at fault.
    """

    def __init__(self, message: str, *, expression: str) -> None:
        super().__init__(message, expression=expression)
        self.expression = expression


class StatementError(BayouError):
    """A SQL statement that can't be understood, or that isn't one that can be run here.

    Attributes:
        statement: its text.
    """

    def __init__(self, message: str, *, statement: str) -> None:
        super().__init__(message, statement=statement)
        self.statement = statement


class EvaluationError(PredicateError):
    """A row's value that an expression can't take: an overflow, a division by zero, a text that
    isn't a number.

    Where Spark's ANSI mode fails a query, so does this.
    """


class ArgumentError(BayouError, ValueError):
    """An argument or option of ours with an unusable value. `argument` is its name."""

    def __init__(self, message: str, *, argument: str) -> None:
        super().__init__(message, argument=argument)
        self.argument = argument


class SerializationError(BayouError):
    """Bytes that weren't written by us, or by a newer version of the package."""


class ConfigurationError(BayouError):
    """The pipeline's configuration is wrong.

    Attributes:
        file: path of the YAML file.
        line: its line, counted from 1, None where it isn't known.
        key: the key's path, such as `connector.topics.user-events.kafka-topic`.
    """

    def __init__(
        self, message: str, *, file: str, line: int | None = None, key: str | None = None
    ) -> None:
        super().__init__(message, file=file, line=line, key=key)
        self.file = file
        self.line = line
        self.key = key


class KafkaError(BayouError):
    """Broker, topic or offsets. `topic` is the topic's name where it is one topic."""

    def __init__(self, message: str, *, topic: str | None = None) -> None:
        super().__init__(message, topic=topic)
        self.topic = topic


class RecordsLostError(KafkaError):
    """Records are gone from Kafka that were still to be read: by retention, or with their topic."""


class PipelineError(BayouError):
    """A topic's pipeline had to stop. `topic` is its key in the configuration."""

    def __init__(self, message: str, *, topic: str) -> None:
        super().__init__(message, topic=topic)
        self.topic = topic


class PrerequisiteError(BayouError):
    """Java, Spark, an optional dependency, a port or disk space is missing. `what` names it."""

    def __init__(self, message: str, *, what: str) -> None:
        super().__init__(message, what=what)
        self.what = what
