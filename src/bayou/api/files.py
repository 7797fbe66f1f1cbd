"""The live files of a table version, as rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from bayou.api.argument_checks import checked_names
from bayou.api.conditions import Condition, checked_condition
from bayou.api.rows.read import statistics_counts
from bayou.errors import ArgumentError
from bayou.kernel import Engine, Snapshot, closeable
from bayou.kernel.arrow.arrays import to_scalar
from bayou.kernel.arrow.compute import pc
from bayou.kernel.scan.scan_file import data_file_path
from bayou.kernel.table_features.column_mapping import (
    ColumnMappingMode,
    physical_name,
    to_physical_schema,
)
from bayou.protocol.properties import TableProperties
from bayou.protocol.schema import StructField

_TYPES: dict[str, pa.Field[Any]] = {
    field.name: field
    for field in (
        pa.field("path", pa.string(), False),
        pa.field("size", pa.int64(), False),
        pa.field("modification_time", pa.int64(), False),
        pa.field("partition_values", pa.map_(pa.string(), pa.string())),
        pa.field("num_records", pa.int64()),
        pa.field("stats", pa.string()),
    )
}
_IN_LOG = {
    "path": "path",
    "size": "size",
    "modification_time": "modificationTime",
    "partition_values": "partitionValues",
    "stats": "stats",
}


def file_batches(
    engine: Engine, snapshot: Snapshot, columns: Sequence[str] | None, filter: Condition | None
) -> pa.RecordBatchReader:
    """Stream the live files of a version; see `SnapshotHandle.files`."""
    names = checked_names(columns, "columns")
    selected = tuple(_TYPES) if names is None else names
    unknown = [name for name in selected if name not in _TYPES]
    if unknown:
        raise ArgumentError(
            f"columns: the list of files has no column {unknown[0]!r}. The columns are "
            f"{', '.join(_TYPES)}.",
            argument="columns",
        )
    schema = pa.schema([_TYPES[name] for name in selected])
    builder = snapshot.scan_builder().with_filter(checked_condition(filter, "filter"))
    if "num_records" in selected or "stats" in selected:
        builder = builder.with_statistics()
    scan = builder.build()
    return pa.RecordBatchReader.from_batches(schema, _batches(engine, snapshot, scan, schema))


@closeable
def _batches(
    engine: Engine, snapshot: Snapshot, scan: Any, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    with scan.scan_files(engine) as batches:
        for files in batches:
            add = files.selected().column("add")
            yield pa.RecordBatch.from_arrays(
                [_column(engine, snapshot, add, name) for name in schema.names], schema=schema
            )


def _column(engine: Engine, snapshot: Snapshot, add: Any, name: str) -> Any:
    if name == "num_records":
        stats = pc.struct_field(add, "stats")
        return statistics_counts(engine, snapshot, stats).column("numRecords")
    return pc.struct_field(add, _IN_LOG[name])


def file_uris(engine: Engine, snapshot: Snapshot, filter: Condition | None) -> list[str]:
    """Return the full paths of the live files; see `SnapshotHandle.file_uris`."""
    paths = file_batches(engine, snapshot, ["path"], filter).read_all().column("path")
    return [data_file_path(snapshot.path, path) for path in paths.to_pylist() if path is not None]


def partitions(
    engine: Engine, snapshot: Snapshot, filter: Condition | None
) -> list[dict[str, str | None]]:
    """Return the partitions that have files; see `SnapshotHandle.partitions`."""
    columns = snapshot.partition_columns
    if not columns:
        return []
    files = file_batches(engine, snapshot, ["partition_values"], filter).read_all()
    values = files.column("partition_values").combine_chunks()
    fields = snapshot.schema.select(list(columns)).fields
    mapped = snapshot.column_mapping != "none"
    physical = [physical_name(field) if mapped else field.name for field in fields]
    arrays = [pc.map_lookup(values, to_scalar(name, pa.string()), "first") for name in physical]
    distinct = pa.table(arrays, names=list(columns)).group_by(list(columns)).aggregate([])
    return distinct.sort_by([(name, "ascending") for name in columns]).to_pylist()


def add_actions(engine: Engine, snapshot: Snapshot, *, flatten: bool) -> pa.Table:
    """Return the live files with typed statistics; see `TableHandle.get_add_actions`."""
    from bayou.kernel.checkpoint.parsed_stats import full_stats_type
    from bayou.kernel.checkpoint.stats import indexed_schema, parse_stats, parsed_partition_values

    partitions = snapshot.schema.select(list(snapshot.partition_columns))
    data = indexed_schema(
        snapshot.schema, snapshot.partition_columns, TableProperties(snapshot.properties)
    )
    stored = to_physical_schema(data, snapshot.column_mapping)
    names: Any = full_stats_type(data)
    types: Any = full_stats_type(stored)
    files = file_batches(engine, snapshot, None, None).read_all().combine_chunks()
    stats = _renamed(parse_stats(engine, _array(files.column("stats")), types), names)
    columns: dict[str, Any] = {
        "path": files.column("path"),
        "size_bytes": files.column("size"),
        "modification_time": files.column("modification_time"),
        "num_records": files.column("num_records"),
    }
    for name, key in (("null_count", "nullCount"), ("min", "minValues"), ("max", "maxValues")):
        if names.get_field_index(key) >= 0:
            columns[name] = pc.struct_field(stats, key)
    if partitions.fields:
        kinds = {
            _stored_name(field, snapshot.column_mapping): field.data_type for field in partitions
        }
        values = parsed_partition_values(_array(files.column("partition_values")), kinds)
        columns["partition"] = pa.StructArray.from_arrays(
            values.flatten(), names=list(partitions.names)
        )
    table = pa.table(columns)
    while flatten and any(pa.types.is_struct(kind) for kind in table.schema.types):
        table = table.flatten()
    return table


def _stored_name(field: StructField, mode: ColumnMappingMode) -> str:
    return field.name if mode == "none" else physical_name(field)


def _array(column: Any) -> Any:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)


def _renamed(array: Any, arrow_type: Any) -> Any:
    """Rename the struct fields of an array to the names in `arrow_type`, at all levels."""
    if not pa.types.is_struct(arrow_type):
        return array
    fields = list(arrow_type)
    children = [array.field(number) for number in range(len(fields))]
    renamed = [_renamed(child, field.type) for child, field in zip(children, fields, strict=True)]
    return pa.StructArray.from_arrays(renamed, fields=fields, mask=pc.is_null(array))
