"""Bayou's exceptions: every error that Bayou raises deliberately is a `BayouError`.

    BayouError
    ├── TableError                        an error of a table
    │   ├── TableNotFoundError            no Delta log at the path
    │   ├── TableAlreadyExistsError       a table can't be created because it exists
    │   ├── VersionNotFoundError          the log can't reconstruct a version or timestamp
    │   ├── ChangeDataFeedError           changes weren't recorded, or the schema changed
    │   ├── StreamingSourceError          a stream of a table can't start or continue
    │   ├── ProtocolError                 a rule of the Delta protocol prevents the operation
    │   │   ├── UnsupportedFeatureError   the protocol requires an unsupported feature
    │   │   ├── CorruptTableError         the log or a data file violates PROTOCOL.md
    │   │   └── ConstraintViolationError  rows violate NOT NULL, a CHECK or an invariant
    │   ├── FeatureInUseError             a table feature can't be dropped because it is in use
    │   ├── DataFileError                 a data file is missing or can't be read
    │   ├── SchemaError                   an invalid schema, or data that doesn't match the schema
    │   │   └── CorruptSchemaError        a schema in the log can't be read
    │   ├── TablePropertyError            a table property with an invalid value
    │   ├── IcebergCompatError            a rule of Iceberg compatibility is violated
    │   ├── UniversalFormatError          Iceberg metadata can't be written or read
    │   ├── MultipleMatchesError          several source rows of a merge match one target row
    │   └── CommitError                   a commit wasn't written, or its result is unknown
    │       ├── CommitConflictError       the commit can't be rebased onto a winning commit
    │       │   ├── ProtocolChangedError
    │       │   ├── MetadataChangedError
    │       │   ├── ConcurrentTransactionError
    │       │   ├── ConcurrentAppendError
    │       │   ├── ConcurrentDeleteReadError
    │       │   └── ConcurrentDeleteDeleteError
    │       └── CommitFailedError         the commit failed, or its result is unknown
    ├── StorageError                      an operation of the object store or disk failed
    │   ├── FileMissingError              a file or folder doesn't exist
    │   └── CatalogError                  a request to a catalog failed
    ├── PredicateError                    a filter or expression can't be parsed or resolved
    │   └── EvaluationError               an expression fails for a value: overflow, 1/0, ...
    ├── StatementError                    a SQL statement can't be parsed or executed
    ├── ArgumentError                     an argument or option with an invalid value
    │   └── ArgumentTypeError             an argument of the wrong type
    ├── SerializationError                bytes that this version of Bayou can't decode
    ├── ConfigurationError                the pipeline's YAML is invalid
    ├── KafkaError                        an error of brokers, topics or offsets
    │   └── RecordsLostError              Kafka deleted records before they were read
    ├── PipelineError                     a topic's pipeline stopped
    └── PrerequisiteError                 Java, Spark, a port or an extra is missing

A message names the table, file or setting, says what is wrong, and says what to do. The same
facts are attributes of the error, so programs don't have to parse messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self, TypeVar

from bayou.redaction import without_secrets

__all__ = [
    "ArgumentError",
    "ArgumentTypeError",
    "BayouError",
    "CatalogError",
    "ChangeDataFeedError",
    "CommitConflictError",
    "CommitError",
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
    "IcebergCompatError",
    "KafkaError",
    "MetadataChangedError",
    "MultipleMatchesError",
    "PipelineError",
    "PredicateError",
    "PrerequisiteError",
    "ProtocolChangedError",
    "ProtocolError",
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
    "UniversalFormatError",
    "UnsupportedFeatureError",
    "VersionNotFoundError",
]


class BayouError(Exception):
    """Base class of all errors that Bayou raises deliberately.

    Keyword arguments become attributes, which are also pickled: errors of Spark workers have the
    same attributes in the driver. Secrets are removed from the message.
    """

    def __init__(self, message: str, **facts: object) -> None:
        if not message.isascii():
            # A path that isn't UTF-8 has lone surrogates, which can't be printed.
            message = message.encode("utf-8", "backslashreplace").decode()
        self.message = without_secrets(message)
        super().__init__(self.message)
        self.facts: Mapping[str, object] = facts

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, dict(self.facts)))

    def with_sentences(self, sentences: str) -> Self:
        """Return a copy of the error with more sentences at the end of its message."""
        return _rebuild(type(self), f"{self.message} {sentences}", dict(self.facts))


_Error = TypeVar("_Error", bound="BayouError")


def _rebuild(kind: type[_Error], message: str, facts: dict[str, object]) -> _Error:
    error = kind.__new__(kind)
    BayouError.__init__(error, message, **facts)
    for name, value in facts.items():
        setattr(error, name, value)
    return error


class TableError(BayouError):
    """An error of a table. `table` is the table's path."""

    def __init__(self, message: str, *, table: str, **facts: object) -> None:
        super().__init__(message, table=table, **facts)
        self.table = table


class TableNotFoundError(TableError):
    """There is no Delta table at the path."""


class TableAlreadyExistsError(TableError):
    """The Delta table already exists."""


class VersionNotFoundError(TableError):
    """The requested version, or the version at a timestamp, can't be reconstructed from the log.

    Attributes:
        earliest: earliest version that can be reconstructed; None if unknown.
        latest: latest version; None if unknown.
    """

    def __init__(
        self, message: str, *, table: str, earliest: int | None = None, latest: int | None = None
    ) -> None:
        super().__init__(message, table=table, earliest=earliest, latest=latest)
        self.earliest = earliest
        self.latest = latest


class ChangeDataFeedError(TableError):
    """The change data feed of a range of versions can't be read.

    The changes weren't recorded, or the schema changed in an incompatible way.

    Attributes:
        version: version at which the feed is disabled or the schema changed.
    """

    def __init__(self, message: str, *, table: str, version: int) -> None:
        super().__init__(message, table=table, version=version)
        self.version = version


class StreamingSourceError(TableError):
    """A streaming read of a table can't start or continue; the message says what to do.

    Attributes:
        condition: delta-spark's error class, such as `DELTA_SOURCE_IGNORE_DELETE`.
        version: version that caused the error; None if no single version is the cause.
    """

    def __init__(
        self, message: str, *, table: str, condition: str, version: int | None = None
    ) -> None:
        super().__init__(message, table=table, condition=condition, version=version)
        self.condition = condition
        self.version = version


class ProtocolError(TableError):
    """A rule of the Delta protocol prevents the operation, or the table violates the protocol."""


class UnsupportedFeatureError(ProtocolError):
    """The table's protocol requires unsupported features (PROTOCOL.md, Table Features).

    Attributes:
        features: names of the features, as in the protocol action.
    """

    def __init__(self, message: str, *, table: str, features: Sequence[str]) -> None:
        super().__init__(message, table=table, features=tuple(features))
        self.features = tuple(features)


class FeatureInUseError(TableError):
    """A table feature can't be dropped: another feature, the table or older versions require it.

    Attributes:
        feature: name of the feature.
    """

    def __init__(self, message: str, *, table: str, feature: str) -> None:
        super().__init__(message, table=table, feature=feature)
        self.feature = feature


class CorruptTableError(ProtocolError):
    """The log or a data file violates PROTOCOL.md.

    Attributes:
        file: the corrupt file; None if the error isn't in a single file.
    """

    def __init__(self, message: str, *, table: str, file: str | None = None) -> None:
        super().__init__(message, table=table, file=file)
        self.file = file


class DataFileError(TableError):
    """A data file that the log references is missing or can't be read."""

    def __init__(self, message: str, *, table: str, file: str) -> None:
        super().__init__(message, table=table, file=file)
        self.file = file


class SchemaError(TableError):
    """The schema is invalid, or data doesn't match the table's schema.

    Attributes:
        column: dotted path of the column; None if the error isn't about a single column.
    """

    def __init__(self, message: str, *, table: str, column: str | None = None) -> None:
        super().__init__(message, table=table, column=column)
        self.column = column


class CorruptSchemaError(CorruptTableError, SchemaError):
    """The schema in the log can't be read. `file` is the log file; None if unknown."""

    def __init__(self, message: str, *, table: str, file: str | None = None) -> None:
        TableError.__init__(self, message, table=table, file=file, column=None)
        self.file = file
        self.column = None


class TablePropertyError(TableError):
    """A table property is unknown or has an invalid value. `key` is the name of the property."""

    def __init__(self, message: str, *, table: str, key: str) -> None:
        super().__init__(message, table=table, key=key)
        self.key = key


class IcebergCompatError(TableError):
    """A change violates the rules of Iceberg compatibility (PROTOCOL.md, Iceberg Compatibility).

    Attributes:
        version: the version of Iceberg compatibility; None if no version is enabled.
        condition: delta-spark's error class of the violated rule, such as
            `DELTA_ICEBERG_COMPAT_VIOLATION.UNSUPPORTED_DATA_TYPE`; None if the rule has none.
    """

    def __init__(
        self, message: str, *, table: str, version: int | None, condition: str | None
    ) -> None:
        super().__init__(message, table=table, version=version, condition=condition)
        self.version = version
        self.condition = condition


class UniversalFormatError(TableError):
    """The Iceberg metadata of a table can't be written or read."""


class ConstraintViolationError(ProtocolError):
    """Rows violate NOT NULL, a CHECK constraint or an invariant; nothing was committed.

    Attributes:
        constraint: name of the constraint, or `NOT NULL` followed by the path of the column.
    """

    def __init__(self, message: str, *, table: str, constraint: str) -> None:
        super().__init__(message, table=table, constraint=constraint)
        self.constraint = constraint


class MultipleMatchesError(TableError):
    """Several source rows of a merge match one target row; nothing was committed.

    delta-spark's error class is DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE.
    """


class CommitError(TableError):
    """A commit wasn't written, or its result is unknown."""


class CommitConflictError(CommitError):
    """The commit can't be rebased onto a winning commit of another writer.

    Attributes:
        winning_version: version of the winning commit.
        winning_operation: `commitInfo.operation` of the winning commit; None if the commit has
            none.
        attempts: number of commit attempts.
        rule: name of the violated rule, such as `concurrent append`.
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
    """The winning commit changed the protocol."""


class MetadataChangedError(CommitConflictError):
    """The winning commit changed the table's metadata (schema, partitioning, properties)."""


class ConcurrentTransactionError(CommitConflictError):
    """This commit and the winning commit set the same transaction identifier or domain metadata."""


class ConcurrentAppendError(CommitConflictError):
    """The winning commit added files that this transaction should have read."""


class ConcurrentDeleteReadError(CommitConflictError):
    """The winning commit removed a file that this transaction read."""


class ConcurrentDeleteDeleteError(CommitConflictError):
    """This commit and the winning commit remove the same file."""


class CommitFailedError(CommitError):
    """The commit failed, or it is unknown whether it failed; see the message.

    Attributes:
        version: version of the failed commit.
        attempts: number of commit attempts.
        winning_version: version that another writer committed before the last attempt; None if the
            last attempt failed for another reason.
        winning_operation: `commitInfo.operation` of the winning version; None if unknown.
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
    """An operation of the object store or disk failed. `path` is the path of the operation."""

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(message, path=path)
        self.path = path


class FileMissingError(StorageError):
    """A file or folder doesn't exist.

    Attributes:
        obstacle: path of the file, if a file exists where a folder is required; else None.
    """

    def __init__(self, message: str, *, path: str, obstacle: str | None = None) -> None:
        BayouError.__init__(self, message, path=path, obstacle=obstacle)
        self.path = path
        self.obstacle = obstacle


class CatalogError(StorageError):
    """A request to a catalog failed. `path` is the name of the table.

    Attributes:
        status: status of the HTTP response; None if there was no response.
        code: the catalog's error code, such as `PermissionDeniedException`; None if the response
            has none.
    """

    def __init__(
        self, message: str, *, path: str, status: int | None = None, code: str | None = None
    ) -> None:
        BayouError.__init__(self, message, path=path, status=status, code=code)
        self.path = path
        self.status = status
        self.code = code

    @property
    def is_refusal(self) -> bool:
        """Whether the catalog rejected the request without changing anything."""
        return self.status is not None and 400 <= self.status < 500


class PredicateError(BayouError):
    """A filter or expression can't be parsed or resolved.

    Attributes:
        expression: the invalid expression, or its invalid part.
    """

    def __init__(self, message: str, *, expression: str) -> None:
        super().__init__(message, expression=expression)
        self.expression = expression


class StatementError(BayouError):
    """A SQL statement can't be parsed, isn't supported, or fails while it runs.

    Attributes:
        statement: the SQL statement.
    """

    def __init__(self, message: str, *, statement: str) -> None:
        super().__init__(message, statement=statement)
        self.statement = statement


class EvaluationError(PredicateError):
    """An expression fails for a row: overflow, division by zero, a string that isn't a number.

    In Spark's ANSI mode, a query over the same rows also fails.
    """


class ArgumentError(BayouError, ValueError):
    """An argument or option has an invalid value. `argument` is its name."""

    def __init__(self, message: str, *, argument: str) -> None:
        super().__init__(message, argument=argument)
        self.argument = argument


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument has the wrong type. `argument` is its name."""


class SerializationError(BayouError):
    """Bytes can't be decoded: they are damaged, or another version of Bayou wrote them."""


class ConfigurationError(BayouError):
    """The pipeline's configuration is invalid.

    Attributes:
        file: path of the YAML file.
        line: line in the file, counted from 1; None if unknown.
        key: path of the key, such as `connector.topics.user-events.kafka-topic`.
    """

    def __init__(
        self, message: str, *, file: str, line: int | None = None, key: str | None = None
    ) -> None:
        super().__init__(message, file=file, line=line, key=key)
        self.file = file
        self.line = line
        self.key = key


class KafkaError(BayouError):
    """An error of brokers, topics or offsets. `topic` is set if a single topic is affected."""

    def __init__(self, message: str, *, topic: str | None = None) -> None:
        super().__init__(message, topic=topic)
        self.topic = topic


class RecordsLostError(KafkaError):
    """Kafka deleted records before they were read, by retention or together with their topic."""


class PipelineError(BayouError):
    """A topic's pipeline stopped. `topic` is the topic's key in the configuration."""

    def __init__(self, message: str, *, topic: str) -> None:
        super().__init__(message, topic=topic)
        self.topic = topic


class PrerequisiteError(BayouError):
    """Java, Spark, an optional dependency, a port or disk space is missing; `what` names it."""

    def __init__(self, message: str, *, what: str) -> None:
        super().__init__(message, what=what)
        self.prerequisite = what
