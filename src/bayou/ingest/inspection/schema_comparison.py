"""Lists the columns of a schema, and compares two schemas.

Also finds masks whose field isn't in the table; with a schema file the configuration refuses them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bayou.api import SnapshotHandle
from bayou.api import table as open_table
from bayou.errors import ConfigurationError, StorageError
from bayou.ingest.background_task import BackgroundTask
from bayou.ingest.batch.rows import record_part
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.decode import record_columns
from bayou.ingest.schema.files import topic_schemas
from bayou.ingest.schema.policy import unseen_masks
from bayou.ingest.schema.topic_format import topic_columns
from bayou.protocol.schema import ArrayType, DataType, MapType, StructType

__all__ = [
    "SchemaChange",
    "compare_schemas",
    "masks_without_field",
    "schema_file_changes",
    "schema_rows",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaChange:
    """A column that only one schema has, or whose type or nullability differs.

    Attributes:
        column: path of the column, such as `place.city` or `lines.element.sku`.
        before, after: SQL type, with `not null` if it applies; None for a missing column.
    """

    column: str
    before: str | None
    after: str | None


def schema_rows(schema: StructType) -> list[dict[str, Any]]:
    """Return a row for each column and nested column: `column`, `type`, `nullable`."""
    return [
        {"column": path, "type": kind, "nullable": nullable}
        for path, kind, nullable in _leaves(schema, "")
    ]


def compare_schemas(before: StructType, after: StructType) -> tuple[SchemaChange, ...]:
    """Return the differences, in the order of `before`, followed by new columns of `after`."""
    old = {
        path: _type_with_nullability(kind, nullable) for path, kind, nullable in _leaves(before, "")
    }
    new = {
        path: _type_with_nullability(kind, nullable) for path, kind, nullable in _leaves(after, "")
    }
    return tuple(
        SchemaChange(column=path, before=old.get(path), after=new.get(path))
        for path in (*old, *(p for p in new if p not in old))
        if old.get(path) != new.get(path)
    )


def schema_file_changes(
    configuration: Configuration, topic: Topic, snapshot: SnapshotHandle
) -> tuple[SchemaChange, ...]:
    """Return the differences between a topic's table and its schema file.

    Columns that the pipeline adds are ignored.

    Raises:
        ConfigurationError: the topic has no schema file, or the file is invalid.
    """
    schema = topic_schemas(configuration)[topic.key]
    if schema is None:
        raise ConfigurationError(
            f"{configuration.file}: connector.topics.{topic.key}: there is no schema-file to "
            "compare with; omit --schema-file to compare versions of the table",
            file=configuration.file,
            key=f"connector.topics.{topic.key}.schema-file",
        )
    return compare_schemas(
        record_part(snapshot.schema, snapshot.partition_columns, topic.more_columns),
        record_columns(schema),
    )


def _leaves(schema: StructType, prefix: str) -> Iterator[tuple[str, str, bool]]:
    for field in schema:
        path = f"{prefix}{field.name}"
        yield path, _type_name(field.data_type), field.nullable
        yield from _nested(field.data_type, path)


def _nested(kind: DataType, path: str) -> Iterator[tuple[str, str, bool]]:
    match kind:
        case StructType():
            yield from _leaves(kind, f"{path}.")
        case ArrayType(element_type=StructType() as element):
            yield from _leaves(element, f"{path}.element.")
        case MapType(value_type=StructType() as value):
            yield from _leaves(value, f"{path}.value.")
        case _:
            pass


def _type_name(kind: DataType) -> str:
    match kind:
        case StructType():
            return "struct"
        case ArrayType(element_type=StructType()):
            return "array<struct>"
        case MapType(value_type=StructType()):
            return f"map<{kind.key_type},struct>"
        case _:
            return str(kind)


def _type_with_nullability(kind: str, nullable: bool) -> str:
    return kind if nullable else f"{kind} not null"


_TIMEOUT = 10.0


def masks_without_field(configuration: Configuration) -> dict[str, tuple[str, ...]]:
    """Return the paths of masks that match no column, by topic.

    Topics with a schema file or without a table have none.

    Raises:
        BayouError: a table can't be opened, or its store doesn't answer within ten seconds.
    """
    topics = [t for t in configuration.topics if t.config.masks and t.schema_file is None]
    unseen: dict[str, tuple[str, ...]] = {}

    def check() -> None:
        for topic in topics:
            unseen[topic.key] = _unseen(configuration, topic)

    task = BackgroundTask(check)
    if not task.wait(_TIMEOUT):
        raise StorageError("the store doesn't answer", path=topics[0].table_path)
    task.finish()
    return {key: paths for key, paths in unseen.items() if paths}


def _unseen(configuration: Configuration, topic: Topic) -> tuple[str, ...]:
    columns = topic_columns(topic, None)
    handle = open_table(topic.table_path, configuration.connector.storage.storage_options())
    if handle.exists():
        snapshot = handle.snapshot()
        columns = record_part(snapshot.schema, snapshot.partition_columns, topic.more_columns)
    return unseen_masks(topic, columns)
