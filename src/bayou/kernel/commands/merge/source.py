"""The source of a merge: an Arrow stream, read into memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bayou.errors import ArgumentError, SchemaError
from bayou.kernel.arrow.serialization import PickledTask
from bayou.kernel.arrow.types import from_arrow_schema, to_arrow_schema
from bayou.kernel.batch_conversion import conform_to_schema
from bayou.kernel.transaction.schema_evolution import check_names
from bayou.protocol.schema import StructField, StructType

_concat: Any = pa.concat_batches  # type: ignore[attr-defined]  # the stubs lack it

MAX_SOURCE_BYTES = (1 << 31) - 1
"""Maximum size of a source in memory: 2 GiB, the limit of Arrow's 32-bit string offsets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSource(PickledTask):
    """The source rows of a merge, in memory, in the Arrow types of `schema`."""

    schema: StructType
    rows: pa.RecordBatch

    @classmethod
    def read(
        cls,
        schema: pa.Schema,
        batches: Iterable[pa.RecordBatch],
        columns: StructType | None = None,
    ) -> MergeSource:
        """Read a stream into memory; raise an error if it exceeds `MAX_SOURCE_BYTES`.

        Args:
            columns: Delta schema of the stream; None to derive it from `schema`. It is required if
                the Arrow types are ambiguous: Spark's variants, for example, are structs in Arrow.
        """
        derived = _columns(schema)  # checks the names, too
        columns = derived if columns is None else columns
        conformed: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            rows = conform_to_schema("the source", columns, batch)
            size += rows.nbytes
            if size > MAX_SOURCE_BYTES:
                raise ArgumentError(
                    f"Source of the merge: the data is larger than {MAX_SOURCE_BYTES >> 20} MiB, "
                    "the maximum for a source in memory. Split the source by key ranges, and "
                    "merge the parts one by one.",
                    argument="source",
                )
            conformed.append(rows)
        if not conformed:
            return cls(schema=columns, rows=_empty(columns))
        return cls(schema=columns, rows=_concat(conformed))


def _columns(schema: pa.Schema) -> StructType:
    seen: set[str] = set()
    fields: list[StructField] = []
    for field in schema:
        if field.name.lower() in seen:
            raise SchemaError(
                f"Source of the merge: duplicate column {field.name!r} (names are "
                "case-insensitive). Rename one of the columns.",
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
