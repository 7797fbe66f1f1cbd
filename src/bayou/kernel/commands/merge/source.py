"""The source of a merge: any Arrow stream, held in memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from bayou.errors import ArgumentError, SchemaError
from bayou.kernel.arrow.serialization import WireFormat, batch_from_bytes, batch_to_bytes
from bayou.kernel.arrow.types import from_arrow_schema, to_arrow_schema
from bayou.kernel.schema_enforcement import conform
from bayou.kernel.transaction.schema_evolution import check_names
from bayou.protocol.schema import StructField, StructType

__all__ = ["MOST_SOURCE_BYTES", "MergeSource"]

_concatenated: Any = pa.concat_batches  # type: ignore[attr-defined]  # the stubs lack it

MOST_SOURCE_BYTES = (1 << 31) - 1
"""What a source may take in memory: 2 GiB, which is also where Arrow's offsets of texts end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSource:
    """Rows that are merged into a table.

    Attributes:
        schema: their columns, as Delta's types.
        rows: all of them, in the Arrow types of `schema`.
    """

    schema: StructType
    rows: pa.RecordBatch

    @classmethod
    def read(cls, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> MergeSource:
        """Take in a stream.

        Raises:
            SchemaError: a column of a type that Delta doesn't have, or two of one name.
            ArgumentError: more than `MOST_SOURCE_BYTES`.
        """
        columns = _columns(schema)
        kept: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            rows = conform("the source", columns, batch)
            size += rows.nbytes
            if size > MOST_SOURCE_BYTES:
                raise ArgumentError(
                    "The source of a merge is held in memory, and this one takes more than "
                    f"{MOST_SOURCE_BYTES >> 20} MiB. Merge it in parts of its keys.",
                    argument="source",
                )
            kept.append(rows)
        if not kept:
            return cls(schema=columns, rows=_empty(columns))
        return cls(schema=columns, rows=_concatenated(kept))

    def to_bytes(self) -> bytes:
        """For other processes; not for a source of more than 1 GiB, which goes there as a file."""
        return _WIRE.encode(_WireSource(self.schema.to_json(), batch_to_bytes(self.rows)))

    @classmethod
    def from_bytes(cls, data: bytes) -> MergeSource:
        """The inverse of `to_bytes`.

        Raises:
            SerializationError: not such bytes, or of a newer version of the package.
        """
        return _WIRE.decode(
            data,
            lambda wire: cls(
                schema=StructType.from_json(wire.schema), rows=batch_from_bytes(wire.rows)
            ),
        )


class _WireSource(msgspec.Struct, frozen=True, array_like=True):
    schema: str
    rows: bytes


_WIRE = WireFormat("source of a merge", 1, _WireSource)


def _columns(schema: pa.Schema) -> StructType:
    seen: set[str] = set()
    fields: list[StructField] = []
    for field in schema:
        if field.name.lower() in seen:
            raise SchemaError(
                f"The source of the merge has two columns {field.name!r} (names that differ in "
                "case only are one). Rename one.",
                table="the source",
                column=field.name,
            )
        seen.add(field.name.lower())
        fields += from_arrow_schema(pa.schema([field]), table="the source", void=True).fields
    columns = StructType(tuple(fields))
    check_names("the source of the merge", columns, mapped=True)
    return columns


def _empty(columns: StructType) -> pa.RecordBatch:
    schema = to_arrow_schema(columns)
    return pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)
