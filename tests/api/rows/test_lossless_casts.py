"""`bayou.write` casts values that fit a table's types, and refuses others by column name."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

import bayou
from bayou.errors import SchemaError

TABLE = pa.schema(
    [
        ("id", pa.int64()),
        ("small", pa.int16()),
        ("x", pa.float64()),
        ("price", pa.decimal128(10, 2)),
        ("name", pa.string()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("s", pa.struct([("n", pa.int64()), ("t", pa.string())])),
        ("ns", pa.list_(pa.int64())),
        ("m", pa.map_(pa.string(), pa.int64())),
    ]
)
NOON = dt.datetime(2024, 1, 5, 12, tzinfo=dt.UTC)


@pytest.fixture
def table(path) -> bayou.api.TableHandle:
    return bayou.create(path, TABLE)


@pytest.mark.parametrize(
    ("column", "values", "expected"),
    [
        ("id", pa.array([1, None], pa.int8()), [1, None]),
        ("id", pa.array([1, None], pa.int32()), [1, None]),
        ("id", pa.array([7], pa.uint64()), [7]),
        ("id", pa.array([3, 3], pa.int32()).dictionary_encode(), [3, 3]),
        ("small", pa.array([5, -5], pa.int64()), [5, -5]),
        ("x", pa.array([1, 2], pa.int32()), [1.0, 2.0]),
        ("x", pa.array([1.5], pa.float32()), [1.5]),
        ("price", pa.array([3], pa.int32()), [Decimal("3.00")]),
        ("price", pa.array([Decimal("1.5")], pa.decimal128(4, 1)), [Decimal("1.50")]),
        ("name", pa.array(["a"], pa.large_string()), ["a"]),
        ("name", pa.array(["a"], pa.string_view()), ["a"]),
        ("name", pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
        ("at", pa.array([NOON], pa.timestamp("s", tz="UTC")), [NOON]),
        ("at", pa.array([NOON], pa.timestamp("ns", tz="Europe/Berlin")), [NOON]),
        (
            "s",
            pa.array([{"n": 1, "t": "a"}], pa.struct([("n", pa.int32()), ("t", pa.string())])),
            [{"n": 1, "t": "a"}],
        ),
        ("ns", pa.array([[1, None], None], pa.list_(pa.int16())), [[1, None], None]),
        ("m", pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())), [[("k", 1)]]),
    ],
)
def test_values_that_fit_are_cast(table, column, values, expected):
    bayou.write(table.table_uri, pa.table({column: values}))
    assert table.to_arrow([column]).column(column).to_pylist() == expected
    assert table.snapshot().arrow_schema.equals(TABLE)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("small", pa.array([70_000], pa.int64())),
        ("id", pa.array([2**63], pa.uint64())),
        ("id", pa.array(["1"])),
        ("id", pa.array([1.0])),
        ("x", pa.array([2**53 + 1], pa.int64())),
        ("price", pa.array([Decimal("1.555")], pa.decimal128(10, 3))),
        ("price", pa.array([1.5])),
        ("name", pa.array([1])),
        ("at", pa.array([dt.datetime(2024, 1, 5)])),
        ("at", pa.array([1_704_456_000_000_000_001], pa.timestamp("ns", tz="UTC"))),
    ],
)
def test_values_that_do_not_fit_are_refused_by_column_name(table, column, values):
    with pytest.raises(SchemaError, match=f"'{column}'") as refused:
        bayou.write(table.table_uri, pa.table({column: values}))
    assert refused.value.column == column
    assert table.version() == 0


def test_a_cast_that_fails_late_leaves_no_file(tmp_path):
    bayou.write(str(tmp_path), pa.table({"n": pa.array([1], pa.int16())}))
    before = sorted(tmp_path.rglob("*.parquet"))
    batches = [pa.record_batch({"n": [1]}), pa.record_batch({"n": [1 << 40]})]
    with pytest.raises(SchemaError, match="'n'"):
        bayou.write(str(tmp_path), pa.RecordBatchReader.from_batches(batches[0].schema, batches))
    assert sorted(tmp_path.rglob("*.parquet")) == before
