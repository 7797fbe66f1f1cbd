"""Runs the conformance sets' own runner, and first compares large tables with Arrow.

usage: conformance_runner.py RUNNER ARGUMENT...

The runner converts each row of both tables to JSON and compares hashes of the JSON, which takes 97
percent of its time. Tables with equal values have equal JSON, so only tables that differ in Arrow
are converted.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

HASH = "row_sha256"


class LazyCanon:
    """The result of the runner's `canon.canon` for a table, computed on demand.

    The number of rows, and the comparison of equal tables, don't need it.

    Args:
        canon: the runner's module `canon`.
        arguments: the arguments of `canon.canon`: a table, its schema, the columns.
    """

    def __init__(self, canon: Any, arguments: Sequence[Any]) -> None:
        self.table = canon.norm(arguments[0])
        self._canon = canon
        self._arguments = arguments
        self._computed: dict[str, Any] | None = None

    def __getitem__(self, key: str) -> Any:
        if key == "rows":
            return self.table.num_rows
        return LazyHash(self) if key == HASH else self.computed[key]

    @property
    def computed(self) -> dict[str, Any]:
        """The result of `canon.canon`."""
        if self._computed is None:
            self._computed = self._canon.canon(*self._arguments)
        return self._computed


class LazyHash:
    """The hash of a table's rows. It is only computed to compare tables that differ in Arrow."""

    def __init__(self, owner: LazyCanon) -> None:
        self.owner = owner

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, LazyHash)
        return are_equal(self.owner.table, other.owner.table) or (
            self.owner.computed[HASH] == other.owner.computed[HASH]
        )

    __hash__ = object.__hash__


def are_equal(one: pa.Table, other: pa.Table) -> bool:
    """Whether two tables have the same rows, in any order.

    False if this is unknown: a column is nested and contains floats, or Arrow can't sort its type.
    """
    if sorted(one.schema.names) != sorted(other.schema.names):
        return False
    if len(set(one.schema.names)) != len(one.schema.names):
        return False
    one, other = (_comparable(table.select(sorted(table.schema.names))) for table in (one, other))
    if one.schema.types != other.schema.types or any(map(_has_floats, one.schema.types)):
        return False
    keys = [(f.name, "ascending") for f in one.schema if not pt.is_nested(f.type)]
    if keys:
        try:
            one, other = one.sort_by(keys), other.sort_by(keys)
        except pa.ArrowNotImplementedError:
            return False
    return bool(one.equals(other))


def _comparable(table: pa.Table) -> pa.Table:
    """Convert floats to their bits, because 0.0 equals -0.0 in Arrow but not as JSON."""
    for number, field in enumerate(table.schema):
        bits = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}.get(field.type)
        if bits is not None:
            chunks = [chunk.view(bits) for chunk in table.column(number).chunks]
            table = table.set_column(number, field.name, pa.chunked_array(chunks, bits))
    return table


def _has_floats(type_: pa.DataType) -> bool:
    if pt.is_nested(type_):
        return any(_has_floats(type_.field(i).type) for i in range(type_.num_fields))
    return bool(pt.is_floating(type_))


def install(folder: Path) -> None:
    """Replace the runner's module `canon` in `folder` by one that returns `LazyCanon`."""
    sys.path.insert(0, str(folder))
    import canon

    lazy = ModuleType("canon")
    lazy.canon = lambda *arguments: LazyCanon(canon, arguments)  # type: ignore[attr-defined]
    sys.modules["canon"] = lazy


if __name__ == "__main__":
    runner = Path(sys.argv[1])
    install(runner.parent)
    sys.argv = sys.argv[1:]
    runpy.run_path(str(runner), run_name="__main__")
