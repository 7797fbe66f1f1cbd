"""Random histories of tables with Iceberg metadata: both formats must be equal at each version.

The rows are read by pyiceberg, also with filters that let it skip files.
"""

from __future__ import annotations

import datetime as dt
import math
import tempfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given, note, settings
from hypothesis import strategies as st

import bayou
from support.examples import examples
from support.iceberg_tables import (
    ICEBERG,
    ICEBERG_V3,
    assert_equal_formats,
    delta_rows,
    iceberg_rows,
    iceberg_table,
)

SCHEMA = pa.schema(
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
AT = dt.datetime(2024, 1, 2, 3, 4, 5, 678_901, tzinfo=dt.UTC)
VALUES = st.fixed_dictionaries(
    {
        "id": st.integers(0, 20),
        "part": st.sampled_from(["a", "b/c", "d e%", None]),
        "number": st.none() | st.integers(-5, 5),
        "ratio": st.sampled_from([None, 0.0, -0.0, 0.1, -3.5, math.inf]),
        "price": st.sampled_from([None, Decimal("0.10"), Decimal("-9.99"), Decimal("1234567.89")]),
        "name": st.sampled_from([None, "", "a", "b" * 40, "\U0001f600" * 20, "z"]),
        "at": st.sampled_from([None, AT, AT.replace(year=1960), AT.replace(microsecond=0)]),
        "day": st.sampled_from([None, dt.date(1960, 1, 1), dt.date(2024, 2, 29)]),
        "place": st.sampled_from([None, {"x": None, "y": None}, {"x": 1, "y": "q"}]),
        "tags": st.sampled_from([None, [], ["t", None]]),
    }
)
ROWS = st.lists(VALUES, min_size=1, max_size=6)
CONDITIONS = st.sampled_from(
    ["id < 5", "id = 7", "part = 'a'", "part is null", "number > 0", "name = 'a'", "id >= 0"]
)
FILTERS = (
    *("id < 5", "id = 7", "part = 'a'", "part is null", "part != 'a'", "number > 0"),
    *("number is null", "ratio <= 0.0", "ratio > 0.1", "name = 'a'", "name > 'b'"),
    *("price < 0", "day >= '2024-01-01'", "place.x = 1"),
)

Step = Callable[[Path, st.DataObject], Any]


def table_of(rows: list[dict[str, Any]], columns: list[str]) -> pa.Table:
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    return table.select([name for name in SCHEMA.names if name in columns])


def columns_of(path: Path) -> list[str]:
    return list(bayou.table(path).schema().names)


def append(path: Path, data: st.DataObject) -> None:
    bayou.write(path, table_of(data.draw(ROWS), columns_of(path)))


def overwrite(path: Path, data: st.DataObject) -> None:
    bayou.write(path, table_of(data.draw(ROWS), columns_of(path)), mode="overwrite")


def replace_where(path: Path, data: st.DataObject) -> None:
    rows = [{**row, "part": "a"} for row in data.draw(ROWS)]
    table = table_of(rows, columns_of(path))
    bayou.write(path, table, mode="overwrite", replace_where="part = 'a'")


def delete(path: Path, data: st.DataObject) -> None:
    bayou.table(path).delete(data.draw(CONDITIONS))


def update(path: Path, data: st.DataObject) -> None:
    value = data.draw(st.sampled_from(["'a'", "'new'", "NULL"]))
    bayou.table(path).update({"part": value}, predicate=data.draw(CONDITIONS))


def merge(path: Path, data: st.DataObject) -> None:
    rows = data.draw(st.lists(VALUES, min_size=1, max_size=4, unique_by=lambda row: row["id"]))
    source = table_of(rows, columns_of(path))
    merger = bayou.table(path).merge(source, "t.id = s.id", source_alias="s", target_alias="t")
    values = {name: f"s.{name}" for name in source.schema.names}
    merger.when_matched_update(values).when_not_matched_insert(values).execute()


def optimize(path: Path, data: st.DataObject) -> None:
    bayou.table(path).optimize()


def purge(path: Path, data: st.DataObject) -> None:
    bayou.table(path).optimize.purge()


def add_column(path: Path, data: st.DataObject) -> None:
    version = bayou.table(path).version()
    bayou.table(path).alter.add_columns({f"extra{version}": "long"})


def rename_column(path: Path, data: st.DataObject) -> None:
    extra = [name for name in columns_of(path) if name.startswith("extra")]
    if extra:
        bayou.table(path).alter.rename_column(extra[0], f"renamed{bayou.table(path).version()}")


def drop_column(path: Path, data: st.DataObject) -> None:
    extra = [name for name in columns_of(path) if name.startswith(("extra", "renamed"))]
    if extra:
        bayou.table(path).alter.drop_columns([data.draw(st.sampled_from(extra))])


def restore(path: Path, data: st.DataObject) -> None:
    table = bayou.table(path)
    if version := table.version():
        table.restore(data.draw(st.integers(0, version - 1)))


def checkpoint(path: Path, data: st.DataObject) -> None:
    bayou.table(path).create_checkpoint()


STEPS: tuple[Step, ...] = (
    *(append, append, overwrite, replace_where, delete, update, merge, optimize, purge),
    *(add_column, rename_column, drop_column, restore, checkpoint),
)


@settings(max_examples=examples(200))
@given(
    configuration=st.sampled_from([ICEBERG, ICEBERG_V3]),
    partitioned=st.booleans(),
    first=ROWS,
    steps=st.lists(st.sampled_from(STEPS), min_size=1, max_size=8),
    data=st.data(),
)
def test_random_histories_end_with_both_formats_equal(
    configuration: dict[str, str],
    partitioned: bool,
    first: list[dict[str, Any]],
    steps: list[Step],
    data: st.DataObject,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table"
        partition_by = ["part"] if partitioned else None
        table = pa.Table.from_pylist(first, schema=SCHEMA)
        bayou.write(path, table, partition_by=partition_by, configuration=configuration)
        for step in steps:
            note(step.__name__)
            step(path, data)
        assert_equal_formats(path)
        for condition in FILTERS:
            expected = delta_rows_where(path, condition)
            assert iceberg_rows(path, row_filter=condition) == expected, condition
        for snapshot in iceberg_table(path).metadata.snapshots:
            version = int(snapshot.summary["delta-version"])
            rows = iceberg_rows(path, snapshot_id=snapshot.snapshot_id)
            assert rows == delta_rows(path, version=version), version


def delta_rows_where(path: Path, condition: str) -> list[dict[str, Any]]:
    rows = bayou.table(path).to_arrow(filter=condition.replace("'2024-01-01'", "DATE'2024-01-01'"))
    return sorted(rows.to_pylist(), key=repr)
