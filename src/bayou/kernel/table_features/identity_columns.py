"""Values of identity columns (PROTOCOL.md, Identity Columns).

Each writer of a transaction takes values of its own: writer i of n gives out every n-th. Values are
never given out twice; gaps are allowed, and are there where a write failed.
"""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from bayou.errors import ArgumentError, SchemaError
from bayou.kernel.table_features.column_mapping import physical_name
from bayou.kernel.transaction_state import TransactionState
from bayou.protocol.actions import AddFile
from bayou.protocol.column_rules import IdentityColumn, identity_of, with_high_water_mark
from bayou.protocol.json_decoding import decode_json
from bayou.protocol.schema import StructType

__all__ = ["IdentityValues", "with_high_water_marks"]


class IdentityValues:
    """Gives out the values of a state's identity columns."""

    def __init__(self, state: TransactionState) -> None:
        self._state = state
        self._columns: dict[str, IdentityColumn] = {
            f.name: found for f in state.schema if (found := identity_of(f)) is not None
        }

    def makes(self, name: str) -> bool:
        """Whether a column is one whose values are made here."""
        return name in self._state.generated_identity

    def refuse_given(self, given: set[str]) -> None:
        """Check that rows don't bring values where they are made, by names in lower case.

        Raises:
            SchemaError: they do.
        """
        for name, column in self._columns.items():
            if name.lower() not in given:
                continue
            if not column.allow_explicit:
                raise SchemaError(
                    f"Column {name!r} of {self._state.table} is GENERATED ALWAYS AS IDENTITY: its "
                    "values are made on write. Leave it out of the rows.",
                    table=self._state.table,
                    column=name,
                )
            if self.makes(name):
                raise SchemaError(
                    f"The rows bring values of identity column {name!r} of {self._state.table}, "
                    "and the transaction was begun without: give it the rows' schema "
                    "(with_schema).",
                    table=self._state.table,
                    column=name,
                )

    def next_values(self, name: str, count: int) -> pa.Array[pa.Int64Scalar]:
        """Values for some rows, int64.

        Raises:
            ArgumentError: the state came as bytes, and nobody said which writer of how many this
                is; or the numbers are used up.
        """
        writer, writers = self._state.writer
        if writers < 1:
            raise ArgumentError(
                f"{self._state.table} has identity column {name!r}, and its writers must not give "
                "out one value twice: give each process state.for_writer(i, n).",
                argument="state",
            )
        column = self._columns[name]
        first = self._state.given_out(name, count)
        step = column.step * writers
        begin = column.next_value + column.step * writer + step * first
        last = begin + step * max(0, count - 1)
        if not -(1 << 63) <= last < 1 << 63:
            raise ArgumentError(
                f"Identity column {name!r} of {self._state.table} has no numbers left.",
                argument="rows",
            )
        numbers = pa.array(range(count), pa.int64())
        values: pa.Array[pa.Int64Scalar] = pc.add(pc.multiply(numbers, step), begin)
        return values


class _Bounds(msgspec.Struct, frozen=True, rename="camel"):
    min_values: dict[str, object] = {}
    max_values: dict[str, object] = {}


def with_high_water_marks(
    schema: StructType, generated: tuple[str, ...], adds: list[AddFile]
) -> StructType:
    """The schema with the marks that files with made values move.

    A file's statistics say which values it has, its partition values where a table that others
    made is partitioned by an identity column.
    """
    if not generated or not adds:
        return schema
    bounds = [decode_json(a.stats, _Bounds) for a in adds if a.stats is not None]
    fields = []
    for field in schema:
        column = identity_of(field)
        if column is None or field.name not in generated:
            fields.append(field)
            continue
        name = physical_name(field)
        ends = [(b.max_values if column.step > 0 else b.min_values).get(name) for b in bounds]
        ends += (_whole_number(a.partition_values.get(name)) for a in adds)
        values = [v for v in (*ends, column.high_water_mark) if isinstance(v, int)]
        mark = max(values, default=None) if column.step > 0 else min(values, default=None)
        fields.append(field if mark is None else with_high_water_mark(field, mark))
    return StructType(tuple(fields))


def _whole_number(text: str | None) -> int | None:
    """A partition value as the log has it; None for none."""
    try:
        return None if text is None else int(text)
    except ValueError:
        return None
