"""The column `_metadata`: the file of each row, and the row index in the file.

In Spark's file sources, `_metadata` is a hidden column. The Python data source adds the column only
if the read option `metadataColumn` is true.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from bayou.errors import SchemaError
from bayou.kernel import Scan, Snapshot
from bayou.protocol.schema import LONG, STRING, TIMESTAMP, StructField, StructType
from bayou.spark.session.storage_options import boolean_option

METADATA = "_metadata"

_TYPES = {
    "file_path": STRING,
    "file_name": STRING,
    "file_size": LONG,
    "file_modification_time": TIMESTAMP,
    "row_index": LONG,
    "row_id": LONG,
    "row_commit_version": LONG,
}
_ROW_TRACKING_FIELDS = ("row_id", "row_commit_version")


def wants_metadata(options: Mapping[str, str]) -> bool:
    """Whether the option `metadataColumn` is true.

    Args:
        options: the read options, with keys in lower case.
    """
    return boolean_option(options, "metadataColumn")


def metadata_name(schema: StructType) -> str:
    """Return the name of the metadata column of a table: `_metadata` in most tables.

    If the table has a column of this name, underscores are put before the name, as in Spark.
    """
    name = METADATA
    while schema.get(name) is not None:
        name = f"_{name}"
    return name


def metadata_field(snapshot: Snapshot) -> StructField:
    """Return the metadata column as a field. It includes row ids if the table has row tracking."""
    tracked = snapshot.properties.get("delta.enableRowTracking", "").strip().lower() == "true"
    fields = (
        StructField(name=name, data_type=data_type)
        for name, data_type in _TYPES.items()
        if tracked or name not in _ROW_TRACKING_FIELDS
    )
    return StructField(name=metadata_name(snapshot.schema), data_type=StructType(tuple(fields)))


def metadata_names(requested: StructField, table: str) -> tuple[str, ...]:
    """Return the names of the kernel's metadata columns that the fields of `requested` need.

    Args:
        requested: the column `_metadata` with the requested fields.

    Raises:
        SchemaError: a field isn't a field of `_metadata`, or has another type.
    """
    data_type = requested.data_type
    fields: tuple[StructField, ...] = data_type.fields if isinstance(data_type, StructType) else ()
    wrong = next((f for f in fields if _TYPES.get(f.name) != f.data_type), None)
    if wrong is not None or not fields:
        invalid = data_type if wrong is None else f"{wrong.name} {wrong.data_type}"
        raise SchemaError(
            f"{table}: {invalid} in the reader's schema isn't a field of {METADATA}, which has "
            f"{', '.join(f'{n} {t}' for n, t in _TYPES.items())}. Correct the schema.",
            table=table,
            column=METADATA,
        )
    names = tuple(f"{METADATA}.{f.name}" for f in fields)
    assert set(names) <= set(Scan.METADATA_COLUMNS)  # the kernel supports all of them
    return names


def with_metadata(batch: pa.RecordBatch, names: tuple[str, ...], column: str) -> pa.RecordBatch:
    """Replace the kernel's metadata columns in a batch by the struct column `column`."""
    parts: list[Any] = [batch.column(name) for name in names]
    fields = [name.removeprefix(f"{METADATA}.") for name in names]
    struct = pa.StructArray.from_arrays(parts, names=fields)
    return batch.drop_columns(list(names)).append_column(column, struct)
