"""Random histories of tables with Iceberg metadata: first rows, and steps that change a table."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import note
from hypothesis import strategies as st

import bayou
from support.iceberg_tables import ICEBERG, ICEBERG_V3

__all__ = ["History", "delta_rows_where", "histories", "run"]

_SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "part": pa.string(),
        "number": pa.int32(),
        "ratio": pa.float64(),
        "price": pa.decimal128(9, 2),
        "name": pa.string(),
        "at": pa.timestamp("us", "UTC"),
        "day": pa.date32(),
        "place": pa.struct([("x", pa.int64()), ("y", pa.string())]),
        "tags": pa.list_(pa.string()),
    }
)
_AT = dt.datetime(2024, 1, 2, 3, 4, 5, 678_901, tzinfo=dt.UTC)
_VALUES = st.fixed_dictionaries(
    {
        "id": st.integers(0, 20),
        "part": st.sampled_from(["a", "b/c", "d e%", None]),
        "number": st.none() | st.integers(-5, 5),
        "ratio": st.sampled_from([None, 0.0, -0.0, 0.1, -3.5, math.inf]),
        "price": st.sampled_from([None, Decimal("0.10"), Decimal("-9.99"), Decimal("1234567.89")]),
        "name": st.sampled_from([None, "", "a", "b" * 40, "\U0001f600" * 20, "z"]),
        "at": st.sampled_from([None, _AT, _AT.replace(year=1960), _AT.replace(microsecond=0)]),
        "day": st.sampled_from([None, dt.date(1960, 1, 1), dt.date(2024, 2, 29)]),
        "place": st.sampled_from([None, {"x": None, "y": None}, {"x": 1, "y": "q"}]),
        "tags": st.sampled_from([None, [], ["t", None]]),
    }
)
_ROWS = st.lists(_VALUES, min_size=1, max_size=6)
_CONDITIONS = st.sampled_from(
    ["id < 5", "id = 7", "part = 'a'", "part is null", "number > 0", "name = 'a'", "id >= 0"]
)
_FILTERS = (
    *("id < 5", "id = 7", "part = 'a'", "part is null", "part != 'a'", "number > 0"),
    *("number is null", "ratio <= 0.0", "ratio > 0.1", "name = 'a'", "name > 'b'"),
    *("price < 0", "day >= '2024-01-01'", "place.x = 1"),
)

_Step = Callable[[Path, st.DataObject], Any]


@dataclass(frozen=True, slots=True)
class History:
    """The first version of a table, and the steps that follow.

    Attributes:
        filters: conditions to read the table with.
    """

    configuration: dict[str, str]
    partitioned: bool
    first: list[dict[str, Any]]
    steps: Sequence[_Step]
    filters: Sequence[str]


def histories(*, filters: int) -> st.SearchStrategy[History]:
    """Draw histories with a number of filters."""
    return st.builds(
        History,
        configuration=st.sampled_from([ICEBERG, ICEBERG_V3]),
        partitioned=st.booleans(),
        first=_ROWS,
        steps=st.lists(st.sampled_from(_STEPS), min_size=1, max_size=8),
        filters=st.lists(
            st.sampled_from(_FILTERS), min_size=filters, max_size=filters, unique=True
        ),
    )


def run(path: Path, history: History, data: st.DataObject) -> None:
    """Create a table and change it."""
    partition_by = ["part"] if history.partitioned else None
    table = pa.Table.from_pylist(history.first, schema=_SCHEMA)
    bayou.write(path, table, partition_by=partition_by, configuration=history.configuration)
    for step in history.steps:
        note(step.__name__)
        step(path, data)


def delta_rows_where(path: Path, condition: str) -> pa.Table:
    """Return the rows that Bayou reads with a filter."""
    where = condition.replace("'2024-01-01'", "DATE'2024-01-01'")
    return bayou.table(path).to_arrow(filter=where)


def _table_of(rows: list[dict[str, Any]], columns: list[str]) -> pa.Table:
    table = pa.Table.from_pylist(rows, schema=_SCHEMA)
    return table.select([name for name in _SCHEMA.names if name in columns])


def _columns_of(path: Path) -> list[str]:
    return list(bayou.table(path).schema().names)


def _append(path: Path, data: st.DataObject) -> None:
    bayou.write(path, _table_of(data.draw(_ROWS), _columns_of(path)))


def _overwrite(path: Path, data: st.DataObject) -> None:
    bayou.write(path, _table_of(data.draw(_ROWS), _columns_of(path)), mode="overwrite")


def _replace_where(path: Path, data: st.DataObject) -> None:
    rows = [{**row, "part": "a"} for row in data.draw(_ROWS)]
    table = _table_of(rows, _columns_of(path))
    bayou.write(path, table, mode="overwrite", replace_where="part = 'a'")


def _delete(path: Path, data: st.DataObject) -> None:
    bayou.table(path).delete(data.draw(_CONDITIONS))


def _update(path: Path, data: st.DataObject) -> None:
    value = data.draw(st.sampled_from(["'a'", "'new'", "NULL"]))
    bayou.table(path).update({"part": value}, predicate=data.draw(_CONDITIONS))


def _merge(path: Path, data: st.DataObject) -> None:
    rows = data.draw(st.lists(_VALUES, min_size=1, max_size=4, unique_by=lambda row: row["id"]))
    source = _table_of(rows, _columns_of(path))
    merger = bayou.table(path).merge(source, "t.id = s.id", source_alias="s", target_alias="t")
    values = {name: f"s.{name}" for name in source.schema.names}
    merger.when_matched_update(values).when_not_matched_insert(values).execute()


def _optimize(path: Path, data: st.DataObject) -> None:
    bayou.table(path).optimize()


def _purge(path: Path, data: st.DataObject) -> None:
    bayou.table(path).optimize.purge()


def _add_column(path: Path, data: st.DataObject) -> None:
    version = bayou.table(path).version()
    bayou.table(path).alter.add_columns({f"extra{version}": "long"})


def _rename_column(path: Path, data: st.DataObject) -> None:
    extra = [name for name in _columns_of(path) if name.startswith("extra")]
    if extra:
        bayou.table(path).alter.rename_column(extra[0], f"renamed{bayou.table(path).version()}")


def _drop_column(path: Path, data: st.DataObject) -> None:
    extra = [name for name in _columns_of(path) if name.startswith(("extra", "renamed"))]
    if extra:
        bayou.table(path).alter.drop_columns([data.draw(st.sampled_from(extra))])


def _restore(path: Path, data: st.DataObject) -> None:
    table = bayou.table(path)
    if version := table.version():
        table.restore(data.draw(st.integers(0, version - 1)))


def _checkpoint(path: Path, data: st.DataObject) -> None:
    bayou.table(path).create_checkpoint()


_STEPS: tuple[_Step, ...] = (
    *(_append, _append, _overwrite, _replace_where, _delete, _update, _merge, _optimize, _purge),
    *(_add_column, _rename_column, _drop_column, _restore, _checkpoint),
)
