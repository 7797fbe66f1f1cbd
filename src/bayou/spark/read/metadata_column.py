"""The column `_metadata`: which file a row is from, and where it stands there.

Spark gives its own file sources such a hidden column, a Python source none: here it comes on
request, with the read option `metadataColumn`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from bayou.errors import ArgumentError, SchemaError
from bayou.kernel import Scan, Snapshot
from bayou.protocol.schema import LONG, STRING, TIMESTAMP, StructField, StructType

__all__ = ["METADATA", "metadata_field", "metadata_names", "wants_metadata", "with_metadata"]

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
_OF_TRACKED_ROWS = ("row_id", "row_commit_version")


def wants_metadata(options: Mapping[str, str]) -> bool:
    """Whether the options (keys in lower case) ask for the column.

    Raises:
        ArgumentError: neither true nor false.
    """
    text = options.get("metadatacolumn", "false").strip().lower()
    if text not in ("true", "false"):
        raise ArgumentError(
            f"metadataColumn is {text!r}; it must be true or false.", argument="metadataColumn"
        )
    return text == "true"


def metadata_field(snapshot: Snapshot) -> StructField:
    """The column of a table: ids of rows are in it where the table tracks rows.

    Raises:
        SchemaError: the table has a column of that name.
    """
    if snapshot.schema.get(METADATA) is not None:
        raise SchemaError(
            f"{snapshot.path} has a column {METADATA!r} of its own: read it without the option "
            "metadataColumn.",
            table=snapshot.path,
            column=METADATA,
        )
    tracked = snapshot.properties.get("delta.enableRowTracking", "").strip().lower() == "true"
    fields = (
        StructField(name=name, data_type=kind)
        for name, kind in _TYPES.items()
        if tracked or name not in _OF_TRACKED_ROWS
    )
    return StructField(name=METADATA, data_type=StructType(tuple(fields)))


def metadata_names(wanted: StructField, table: str) -> tuple[str, ...]:
    """The kernel's names of the fields that are asked for, which the user may have narrowed.

    Raises:
        SchemaError: a field that there isn't, or one of another type.
    """
    kind = wanted.data_type
    fields: tuple[StructField, ...] = kind.fields if isinstance(kind, StructType) else ()
    wrong = next((f for f in fields if _TYPES.get(f.name) != f.data_type), None)
    if wrong is not None or not fields:
        named = kind if wrong is None else f"{wrong.name} {wrong.data_type}"
        raise SchemaError(
            f"{METADATA} is a struct of {', '.join(f'{n} {t}' for n, t in _TYPES.items())}; the "
            f"schema given to the reader asks for {named}.",
            table=table,
            column=METADATA,
        )
    names = tuple(f"{METADATA}.{f.name}" for f in fields)
    assert set(names) <= set(Scan.METADATA_COLUMNS)  # the kernel knows each of them
    return names


def with_metadata(batch: pa.RecordBatch, names: tuple[str, ...]) -> pa.RecordBatch:
    """A batch with one struct in place of the columns of the kernel, which it takes away."""
    parts: list[Any] = [batch.column(name) for name in names]
    fields = [name.removeprefix(f"{METADATA}.") for name in names]
    struct = pa.StructArray.from_arrays(parts, names=fields)
    return batch.drop_columns(list(names)).append_column(METADATA, struct)
