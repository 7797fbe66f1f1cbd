"""Lists the columns of a schema, and compares two schemas.

Also finds fields in masks and expressions that the table doesn't have, for topics without a schema
file. With a schema file, such fields are errors when the configuration is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bayou.api import SnapshotHandle
from bayou.api import table as open_table
from bayou.errors import ConfigurationError, StorageError
from bayou.ingest.background_task import BackgroundTask
from bayou.ingest.batch.expressions import unseen_fields
from bayou.ingest.batch.target.stored_columns import record_columns_of
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.decode import record_columns
from bayou.ingest.routing.inspection import routed_snapshots
from bayou.ingest.routing.routed_columns import all_columns
from bayou.ingest.schema.files import topic_schemas
from bayou.ingest.schema.policy import unseen_masks
from bayou.ingest.schema.record_schema import topic_columns
from bayou.protocol.schema import ArrayType, DataType, MapType, StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaChange:
    """A column that only one of two schemas has, or whose type or nullability differs.

    Attributes:
        column: path of the column, such as `place.city` or `lines.element.sku`.
        before: SQL type in the first schema, such as `int not null`; None if the column isn't in
            the first schema.
        after: SQL type in the second schema; None if the column isn't in the second schema.
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
    """Return the columns that differ: columns of `before` in order, then new columns of `after`."""
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
    """Return the differences between a topic's table (`before`) and its schema file (`after`).

    Dropped fields and columns that aren't record fields, such as `_kafka_offset` and derived
    columns, are ignored.

    Raises:
        ConfigurationError: the topic has no schema file.
    """
    schema = topic_schemas(configuration)[topic.section]
    if schema is None:
        raise ConfigurationError(
            f"{configuration.file}: connector.topics.{topic.section}: there is no schema-file to "
            "compare with; omit --schema-file to compare versions of the table",
            file=configuration.file,
            key=f"connector.topics.{topic.section}.schema-file",
        )
    unstored = topic.config.processing.unstored
    before, after = (
        StructType(tuple(f for f in columns if f.name.lower() not in unstored))
        for columns in (record_columns_of(topic, snapshot.kernel), record_columns(schema))
    )
    return compare_schemas(before, after)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class UnseenSettings:
    """Fields in a topic's settings that no record has contained yet.

    Attributes:
        masks: paths of `masks`.
        fields: paths of fields that `processing.columns`, `processing.where` or `route-by` read.
    """

    masks: tuple[str, ...]
    fields: tuple[str, ...]


def unseen_settings(configuration: Configuration) -> dict[str, UnseenSettings]:
    """Find fields in masks and expressions that have no column, for topics without a schema file.

    The result has the fields of each topic by its key. Topics without such fields are omitted.

    Raises:
        BayouError: a table can't be opened, or its store doesn't answer within ten seconds.
    """
    topics = [
        t
        for t in configuration.topics
        if t.schema_file is None
        and (t.config.masks or t.config.processing.inputs or t.config.route_inputs)
    ]
    unseen: dict[str, UnseenSettings] = {}

    def check() -> None:
        for topic in topics:
            unseen[topic.key] = _unseen(configuration, topic)

    task = BackgroundTask(check)
    if not task.wait(_TIMEOUT):
        raise StorageError("the store doesn't answer", path=topics[0].table_path)
    task.finish()
    return {key: found for key, found in unseen.items() if found.masks or found.fields}


def _unseen(configuration: Configuration, topic: Topic) -> UnseenSettings:
    columns = topic_columns(topic, None)
    handle = open_table(topic.table_path, configuration.connector.storage.storage_options())
    if handle.exists():
        snapshot = handle.snapshot()
        routed = routed_snapshots(configuration, topic, snapshot)
        columns = all_columns(record_columns_of(topic, s.kernel) for s in (snapshot, *routed))
    elif not columns.fields:
        return UnseenSettings(masks=(), fields=())
    return UnseenSettings(
        masks=unseen_masks(topic, columns), fields=unseen_fields(topic.config, columns)
    )
