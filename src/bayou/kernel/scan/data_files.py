"""Scan files as columns for a reader of another make: where each file is, and what its rows lack.

A connector with a Parquet reader of its own needs no more of a file than its decoded path, its size
and time, the values of its partition columns, and which of its rows are deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.errors import CorruptTableError
from bayou.kernel.arrow.types import to_arrow_type
from bayou.kernel.scan.data_skipping.pruning import partition_texts
from bayou.kernel.scan.scan_file import DELETION_VECTOR_TYPE, ScanFileBatch, data_file_path
from bayou.kernel.table_features.column_mapping import physical_name
from bayou.protocol import partition_values
from bayou.protocol.schema import StructField, StructType

__all__ = ["DataFiles", "data_files", "join_data_files", "vector_keys"]

pc: Any = pyarrow.compute

_FILE_FIELDS: list[pa.Field[Any]] = [
    pa.field("path", pa.string()),
    pa.field("size", pa.int64()),
    pa.field("modification_time", pa.int64()),
    pa.field("deletion_vector", DELETION_VECTOR_TYPE),
]
_FILE_SCHEMA = pa.schema(_FILE_FIELDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFiles:
    """Files, row by row the same in both batches.

    Attributes:
        files: `path` (decoded, absolute), `size` in bytes, `modification_time` in ms since the
            epoch, `deletion_vector` (null for none; a scan file's `deletionVector`).
        partitions: the partition columns by their logical names, in the table's order and types;
            timestamps with zone UTC.
    """

    files: pa.RecordBatch
    partitions: pa.RecordBatch

    def __len__(self) -> int:
        """How many files."""
        return self.files.num_rows


def data_files(
    batch: ScanFileBatch, schema: StructType, partition_columns: Sequence[str], time_zone: str
) -> DataFiles:
    """The files of a batch that are to be read.

    Args:
        schema: the table's.
        partition_columns: the table's, by logical names.
        time_zone: of partition values that are timestamps without one.

    Raises:
        CorruptTableError: a file without path or size, or a partition value that isn't one.
    """
    selected = batch.selected()
    add: Any = selected.column("add")
    root = selected.column("tableRoot")
    table = str(root[0].as_py()) if len(root) else ""
    paths, sizes = pc.struct_field(add, "path"), pc.struct_field(add, "size")
    if paths.null_count or sizes.null_count:
        raise CorruptTableError(
            f"The log of {table} has a file without its path or size: its checkpoint is damaged. "
            "Restore that file, or delete the checkpoint if all commits from version 0 on are "
            "still there.",
            table=table,
        )
    times = pc.fill_null(pc.struct_field(add, "modificationTime"), 0)
    files = pa.RecordBatch.from_arrays(
        [_decoded(table, paths), sizes, times, pc.struct_field(add, "deletionVector")],
        schema=_FILE_SCHEMA,
    )
    fields = [_field(schema, name) for name in partition_columns]
    values = pc.struct_field(add, "partitionValues")
    return DataFiles(
        files=files,
        partitions=pa.RecordBatch.from_arrays(
            [_values(table, values, field, time_zone) for field in fields],
            schema=_partition_schema(fields),
        )
        if fields
        else pa.RecordBatch.from_arrays([], schema=pa.schema([])),
    )


def join_data_files(
    parts: Sequence[DataFiles], schema: StructType, partition_columns: Sequence[str]
) -> DataFiles:
    """All of them at once, in their order; the arguments as those of `data_files`."""
    fields = [_field(schema, name) for name in partition_columns]
    return DataFiles(
        files=_joined([p.files for p in parts], _FILE_SCHEMA),
        partitions=_joined([p.partitions for p in parts], _partition_schema(fields)),
    )


def vector_keys(files: pa.RecordBatch) -> pa.Array[Any]:
    """What tells logical files with a deletion vector apart, null for files without.

    Args:
        files: as in `DataFiles`.
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
    keys: pa.Array[Any] = pc.if_else(pc.is_valid(vector), key, pa.scalar(None, pa.string()))
    return keys


def _field(schema: StructType, name: str) -> StructField:
    field = schema.get(name)
    assert field is not None  # opening the table has checked it
    return field


def _partition_schema(fields: Sequence[StructField]) -> pa.Schema:
    return pa.schema([(f.name, to_arrow_type(f.data_type)) for f in fields])


def _joined(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    table = pa.Table.from_batches(batches, schema=schema).combine_chunks()
    found = table.to_batches()
    if found:
        return found[0]
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


def _decoded(table: str, uris: Any) -> pa.Array[Any]:
    """Paths in the log as absolute paths; those that need no decoding are put together at once."""
    special = pc.match_substring_regex(uris, r"^/|%|:|(?:^|/)\.\.(?:/|$)")
    paths: pa.Array[Any] = pc.binary_join_element_wise(table, uris, "/")
    if not pc.any(special).as_py():
        return paths
    decoded = [data_file_path(table, uri) for uri in uris.filter(special).to_pylist()]
    replaced: pa.Array[Any] = pc.replace_with_mask(paths, special, pa.array(decoded, pa.string()))
    return replaced


def _values(table: str, values: Any, field: StructField, time_zone: str) -> pa.Array[Any]:
    """A partition column's values; each distinct text is parsed once."""
    encoded: Any = partition_texts(values, physical_name(field)).dictionary_encode()
    try:
        distinct: Any = pa.array(
            [
                partition_values.parse(text, field.data_type, time_zone)
                for text in encoded.dictionary.to_pylist()
            ],
            to_arrow_type(field.data_type),
        )
    except (ValueError, ArithmeticError, pa.ArrowInvalid) as error:
        raise CorruptTableError(
            f"The log of {table} has a value of partition column {field.name!r} "
            f"({field.data_type}) that isn't one: {error}.",
            table=table,
        ) from error
    taken: pa.Array[Any] = distinct.take(encoded.indices)
    return taken
