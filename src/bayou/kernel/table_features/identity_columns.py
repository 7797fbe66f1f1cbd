"""Values of identity columns (PROTOCOL.md, Identity Columns).

If a transaction has n writers, each writer generates every n-th value, starting at a different
value, so values are unique. Failed writes leave gaps, which the protocol allows.
"""

from __future__ import annotations

import msgspec
import pyarrow as pa

from bayou.errors import ArgumentError, SchemaError
from bayou.json_decoding import decode_json
from bayou.kernel.arrow.arrays import arange
from bayou.kernel.arrow.compute import pc
from bayou.kernel.table_features.column_mapping import physical_name
from bayou.kernel.transaction_state import TransactionState
from bayou.protocol.actions import AddFile
from bayou.protocol.column_metadata import IdentityColumn, identity_column, with_high_water_mark
from bayou.protocol.schema import StructType


class IdentityValues:
    """Generates the values of a table's identity columns."""

    def __init__(self, state: TransactionState) -> None:
        self._state = state
        self._columns: dict[str, IdentityColumn] = {
            f.name: column for f in state.schema if (column := identity_column(f)) is not None
        }

    def is_generated(self, name: str) -> bool:
        """Whether this transaction generates the values of a column."""
        return name in self._state.generated_identity

    def check_explicit_values(self, columns: set[str]) -> None:
        """Raise an error if the rows contain an identity column whose values must be generated.

        The values of all GENERATED ALWAYS columns must be generated. The same applies to other
        identity columns if this transaction generates their values.

        Args:
            columns: names of the rows' columns in lower case.
        """
        for name, column in self._columns.items():
            if name.lower() not in columns:
                continue
            if not column.allow_explicit_insert:
                raise SchemaError(
                    f"{self._state.table}: column {name!r} is GENERATED ALWAYS AS IDENTITY, and "
                    "its values are generated on write. Remove the column from the rows.",
                    table=self._state.table,
                    column=name,
                )
            if self.is_generated(name):
                raise SchemaError(
                    f"{self._state.table}: the rows have values for identity column {name!r}, "
                    "but the transaction was built for rows without this column. Pass the "
                    "schema of the rows to with_schema.",
                    table=self._state.table,
                    column=name,
                )

    def next_values(self, name: str, count: int) -> pa.Array[pa.Int64Scalar]:
        """Return the values of the identity column `name` for the next `count` rows, as int64."""
        writer, writers = self._state.writer
        if writers < 1:
            raise ArgumentError(
                f"{self._state.table}: the values of identity column {name!r} can't be generated, "
                "because the deserialized transaction state has no writer index. Call "
                "for_writer(index, count) on the state.",
                argument="state",
            )
        column = self._columns[name]
        first = self._state.reserve_identity_values(name, count)
        step = column.step * writers
        begin = column.next_value + column.step * writer + step * first
        last = begin + step * max(0, count - 1)
        if not -(1 << 63) <= last < 1 << 63:
            raise ArgumentError(
                f"{self._state.table}: identity column {name!r} has no more values, because the "
                "next value exceeds the range of bigint. Write the rows to a new table.",
                argument="rows",
            )
        numbers = arange(0, count)
        values: pa.Array[pa.Int64Scalar] = pc.add(pc.multiply(numbers, step), begin)
        return values


class _Bounds(msgspec.Struct, frozen=True, rename="camel"):
    min_values: dict[str, object] = {}
    max_values: dict[str, object] = {}


def with_high_water_marks(
    schema: StructType, generated: tuple[str, ...], adds: list[AddFile]
) -> StructType:
    """Return `schema` with the high water marks that identity columns have after a write.

    Args:
        generated: names of the identity columns whose values the write generated.
        adds: the new files; their statistics contain the bounds of the values.
    """
    if not generated or not adds:
        return schema
    bounds = [decode_json(a.stats, _Bounds) for a in adds if a.stats is not None]
    fields = []
    for field in schema:
        column = identity_column(field)
        if column is None or field.name not in generated:
            fields.append(field)
            continue
        name = physical_name(field)
        latest = [(b.max_values if column.step > 0 else b.min_values).get(name) for b in bounds]
        latest += (_parse_int(a.partition_values.get(name)) for a in adds)
        values = [v for v in (*latest, column.high_water_mark) if isinstance(v, int)]
        mark = max(values, default=None) if column.step > 0 else min(values, default=None)
        fields.append(field if mark is None else with_high_water_mark(field, mark))
    return StructType(tuple(fields))


def _parse_int(string: str | None) -> int | None:
    try:
        return None if string is None else int(string)
    except ValueError:
        return None
