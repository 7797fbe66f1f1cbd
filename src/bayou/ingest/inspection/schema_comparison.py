"""Columns of a table as rows, and what differs between two schemas.

Masks whose field isn't in the table; with a schema file the configuration is refused for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bayou.api import SnapshotHandle
from bayou.api import table as open_table
from bayou.errors import ConfigurationError, StorageError
from bayou.ingest.background_task import Errand
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
    """A column that is on one side only, or has another type or nullability there.

    Attributes:
        column: its path: `place.city`, `lines.element.sku`.
        before, after: type as SQL spells it, with `not null` where it is; None where it isn't.
    """

    column: str
    before: str | None
    after: str | None


def schema_rows(schema: StructType) -> list[dict[str, Any]]:
    """A row for each column, nested ones below theirs: `column`, `type`, `nullable`."""
    return [
        {"column": path, "type": kind, "nullable": nullable}
        for path, kind, nullable in _leaves(schema, "")
    ]


def compare_schemas(before: StructType, after: StructType) -> tuple[SchemaChange, ...]:
    """What differs, in the order of `before`, then what only `after` has."""
    old = {path: _described(kind, nullable) for path, kind, nullable in _leaves(before, "")}
    new = {path: _described(kind, nullable) for path, kind, nullable in _leaves(after, "")}
    return tuple(
        SchemaChange(column=path, before=old.get(path), after=new.get(path))
        for path in (*old, *(p for p in new if p not in old))
        if old.get(path) != new.get(path)
    )


def schema_file_changes(
    configuration: Configuration, topic: Topic, snapshot: SnapshotHandle
) -> tuple[SchemaChange, ...]:
    """What a topic's schema file says otherwise than its table; columns that the pipeline makes
    aside.

    Raises:
        ConfigurationError: the file isn't usable, or there is none.
    """
    schema = topic_schemas(configuration)[topic.key]
    if schema is None:
        raise ConfigurationError(
            f"{configuration.file}: connector.topics.{topic.key}: there is no schema-file to "
            "compare with; leave --schema-file out to compare versions of the table",
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
        yield path, _kind(field.data_type), field.nullable
        yield from _below(field.data_type, path)


def _below(kind: DataType, path: str) -> Iterator[tuple[str, str, bool]]:
    match kind:
        case StructType():
            yield from _leaves(kind, f"{path}.")
        case ArrayType(element_type=StructType() as element):
            yield from _leaves(element, f"{path}.element.")
        case MapType(value_type=StructType() as value):
            yield from _leaves(value, f"{path}.value.")
        case _:
            pass


def _kind(kind: DataType) -> str:
    match kind:
        case StructType():
            return "struct"
        case ArrayType(element_type=StructType()):
            return "array<struct>"
        case MapType(value_type=StructType()):
            return f"map<{kind.key_type},struct>"
        case _:
            return str(kind)


def _described(kind: str, nullable: bool) -> str:
    return kind if nullable else f"{kind} not null"


_PATIENCE = 10.0


def masks_without_field(configuration: Configuration) -> dict[str, tuple[str, ...]]:
    """The paths of such masks by topic; of a topic without a table nothing is known.

    Raises:
        BayouError: a table can't be opened, or its store takes more than ten seconds to answer.
    """
    asked = [t for t in configuration.topics if t.config.masks and t.schema_file is None]
    found: dict[str, tuple[str, ...]] = {}

    def look() -> None:
        for topic in asked:
            found[topic.key] = _unseen(configuration, topic)

    errand = Errand(look)
    if not errand.wait(_PATIENCE):
        raise StorageError("the store doesn't answer", path=asked[0].table_path)
    errand.finish()
    return {key: paths for key, paths in found.items() if paths}


def _unseen(configuration: Configuration, topic: Topic) -> tuple[str, ...]:
    columns = topic_columns(topic, None)
    handle = open_table(topic.table_path, configuration.connector.storage.storage_options())
    if handle.exists():
        there = handle.snapshot()
        columns = record_part(there.schema, there.partition_columns, topic.more_columns)
    return unseen_masks(topic, columns)
