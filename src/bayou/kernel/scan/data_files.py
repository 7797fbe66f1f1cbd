"""The files of a scan as Arrow columns, for connectors that have their own Parquet reader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bayou.errors import CorruptTableError
from bayou.kernel.arrow.arrays import to_array, to_scalar
from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.types import to_arrow_type
from bayou.kernel.log.listing import damaged_checkpoint
from bayou.kernel.scan.data_skipping.pruning import partition_strings
from bayou.kernel.scan.data_skipping.skipping import parse_partition_values
from bayou.kernel.scan.scan_file import DELETION_VECTOR_TYPE, ScanFileBatch, data_file_path
from bayou.kernel.table_features.column_mapping import physical_name
from bayou.protocol.schema import StructField, StructType

_FILE_FIELDS: list[pa.Field[Any]] = [
    pa.field("path", pa.string()),
    pa.field("size", pa.int64()),
    pa.field("modification_time", pa.int64()),
    pa.field("deletion_vector", DELETION_VECTOR_TYPE),
]
_FILE_SCHEMA = pa.schema(_FILE_FIELDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFiles:
    """The files of a scan as two batches, each with one row per file.

    Attributes:
        files: columns `path` (decoded, absolute), `size` (bytes), `modification_time` (ms since the
            epoch), and `deletion_vector` (the descriptor, or null).
        partition_values: one column for each partition column, with its logical name and type, in
            the table's order. Columns of type `timestamp` are in UTC.
    """

    files: pa.RecordBatch
    partition_values: pa.RecordBatch

    def __len__(self) -> int:
        return self.files.num_rows


def data_files(
    batch: ScanFileBatch, schema: StructType, partition_columns: Sequence[str], time_zone: str
) -> DataFiles:
    """Convert the selected scan files of a batch to `DataFiles`.

    Args:
        time_zone: time zone for partition values of type `timestamp` whose strings in the log have
            no time zone.
    """
    selected = batch.selected()
    add: Any = selected.column("add")
    root = selected.column("tableRoot")
    table = str(root[0].as_py()) if len(root) else ""
    paths, sizes = pc.struct_field(add, "path"), pc.struct_field(add, "size")
    if paths.null_count or sizes.null_count:
        raise damaged_checkpoint(
            table, "the checkpoint is damaged: an add action has no path or no size"
        )
    times = pc.fill_null(pc.struct_field(add, "modificationTime"), 0)
    files = pa.RecordBatch.from_arrays(
        [_decode_paths(table, paths), sizes, times, pc.struct_field(add, "deletionVector")],
        schema=_FILE_SCHEMA,
    )
    fields = [_field(schema, name) for name in partition_columns]
    values = pc.struct_field(add, "partitionValues")
    return DataFiles(
        files=files,
        partition_values=pa.RecordBatch.from_arrays(
            [_partition_column(table, values, field, time_zone) for field in fields],
            schema=_partition_schema(fields),
        )
        if fields
        else pa.RecordBatch.from_arrays([], schema=pa.schema([])),
    )


def concat_data_files(
    parts: Sequence[DataFiles], schema: StructType, partition_columns: Sequence[str]
) -> DataFiles:
    """Concatenate `parts` in order.

    Args:
        schema: the table's schema.
        partition_columns: names of the table's partition columns.
    """
    fields = [_field(schema, name) for name in partition_columns]
    return DataFiles(
        files=_concatenate([p.files for p in parts], _FILE_SCHEMA),
        partition_values=_concatenate(
            [p.partition_values for p in parts], _partition_schema(fields)
        ),
    )


def vector_keys(files: pa.RecordBatch) -> pa.Array[Any]:
    """Return a string for each file that identifies the file's deletion vector.

    The string is null if the file has no deletion vector.
    """
    vector = files.column("deletion_vector")
    offset = pc.fill_null(pc.cast(pc.struct_field(vector, "offset"), pa.string()), "")
    key = pc.binary_join_element_wise(
        files.column("path"),
        pc.struct_field(vector, "storageType"),
        pc.struct_field(vector, "pathOrInlineDv"),
        offset,
        "\n",
    )
    keys: pa.Array[Any] = pc.if_else(pc.is_valid(vector), key, to_scalar(None, pa.string()))
    return keys


def _field(schema: StructType, name: str) -> StructField:
    field = schema.get(name)
    assert field is not None  # checked when the table was loaded
    return field


def _partition_schema(fields: Sequence[StructField]) -> pa.Schema:
    return pa.schema([(f.name, to_arrow_type(f.data_type)) for f in fields])


def _concatenate(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    table = pa.Table.from_batches(batches, schema=schema).combine_chunks()
    combined = table.to_batches()
    if combined:
        return combined[0]
    return pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)


def _decode_paths(table: str, uris: Any) -> pa.Array[Any]:
    """Return the absolute paths of data files.

    Args:
        table: path of the table.
        uris: paths as in the log: URIs, usually relative to `table`.
    """
    special = pc.match_substring_regex(uris, r"^/|%|:|(?:^|/)\.\.(?:/|$)")
    paths: pa.Array[Any] = pc.binary_join_element_wise(table, uris, "/")
    if not pc.any(special).as_py():
        return paths
    decoded = [data_file_path(table, uri) for uri in uris.filter(special).to_pylist()]
    replaced: pa.Array[Any] = pc.replace_with_mask(paths, special, to_array(decoded, pa.string()))
    return replaced


def _partition_column(table: str, values: Any, field: StructField, time_zone: str) -> pa.Array[Any]:
    """Parse the values of a partition column.

    Args:
        values: `partitionValues` of the files.
        time_zone: time zone of timestamps whose strings in the log have no time zone.
    """
    serialized = partition_strings(values, physical_name(field))
    try:
        return parse_partition_values(serialized, field.data_type, time_zone)
    except (ValueError, ArithmeticError, pa.ArrowInvalid) as error:
        raise CorruptTableError(
            f"{table}: a value of partition column {field.name!r} ({field.data_type}) in the log "
            f"is invalid: {error}. Restore an earlier version of the table.",
            table=table,
        ) from error
