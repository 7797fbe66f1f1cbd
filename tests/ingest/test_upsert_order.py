"""The last record of each key where values are odd."""

from __future__ import annotations

import datetime as dt
import math
import zlib
from decimal import Decimal

import pyarrow as pa
import pytest

from bayou.ingest.upsert import DELETED, SUPERSEDED, UpsertKeys
from bayou.ingest.upsert_order import key_buckets, last_of_each_key
from bayou.kernel.arrow.compute import pc

MOMENT = dt.datetime(2024, 1, 5, tzinfo=dt.UTC)


def rows(**columns):
    count = len(next(iter(columns.values())))
    return pa.table(
        {
            **columns,
            "_kafka_topic": ["t"] * count,
            "_kafka_partition": pa.array([0] * count, pa.int32()),
            "_kafka_offset": pa.array(range(count), pa.int64()),
            "_kafka_timestamp": pa.array([MOMENT] * count, pa.timestamp("us", tz="UTC")),
            DELETED: [False] * count,
        }
    )


def winners(keys, batch):
    nothing = batch.select(list(keys.all_columns)).slice(0, 0)
    return last_of_each_key(keys, batch, nothing, nothing)["_kafka_offset"].to_pylist()


def test_zeros_of_either_sign_are_one_key_and_nan_is_one() -> None:
    batch = rows(x=[0.0, -0.0, math.nan, math.nan, None])
    assert winners(UpsertKeys(columns=("x",)), batch) == [1, 3, 4]


def test_nan_is_above_all_numbers_as_it_is_to_sql() -> None:
    batch = rows(id=[1, 1, 1, 1], rank=[None, math.nan, math.inf, 3.0])
    assert winners(UpsertKeys(columns=("id",), ordering="rank"), batch) == [1]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([0.0, -0.0], pa.float64()),
        ([math.nan, -math.nan], pa.float32()),
        ([b"", None], pa.binary()),
        ([dt.date(2024, 1, 5)] * 2, pa.date32()),
        ([MOMENT] * 2, pa.timestamp("us", tz="UTC")),
        ([Decimal("1.50"), Decimal("1.5")], pa.decimal128(9, 2)),
        ([True, True], pa.bool_()),
    ],
)
def test_equal_keys_are_in_the_same_bucket(values, kind) -> None:
    keys = pa.array(values, kind)
    others = pa.array(["x", "x"])
    assert len(set(key_buckets([keys], 1000).to_pylist())) == 1
    assert len(set(key_buckets([keys, others], 1000).to_pylist())) == 1


def test_keys_are_distributed_over_all_buckets_in_the_same_way_in_every_process() -> None:
    numbers = range(100)
    buckets = key_buckets([pa.array([f"k{n}" for n in numbers]), pa.array(numbers)], 4).to_pylist()
    assert buckets == [zlib.crc32(f"k{n}\0{n}".encode()) % 4 for n in numbers]
    assert set(buckets) == {0, 1, 2, 3}


def test_columns_that_the_table_lacks_are_null_in_its_rows() -> None:
    keys = UpsertKeys(columns=("id",), ordering="rank")
    assert "t.`rank`" in keys.newer_than(["rank", "_kafka_timestamp"])
    assert "t.`rank`" not in keys.newer_than(["_kafka_timestamp"])


@pytest.mark.parametrize("tombstone", [0, 1])
def test_records_of_a_key_in_two_partitions_are_in_the_order_of_their_timestamps(tombstone) -> None:
    """Partitions were added to the topic, so the later record has a lower offset."""
    keys = UpsertKeys(columns=("id",), ordering="rank")
    is_deleted = [tombstone == 0, tombstone == 1]
    times = [MOMENT, MOMENT + dt.timedelta(seconds=1)]
    batch = pa.table(
        {
            "id": [1, 1],
            "rank": pa.array([None if deleted else 5 for deleted in is_deleted], pa.int64()),
            "_kafka_topic": ["t", "t"],
            "_kafka_partition": pa.array([0, 1], pa.int32()),
            "_kafka_offset": pa.array([10, 0], pa.int64()),
            "_kafka_timestamp": pa.array(times, pa.timestamp("us", tz="UTC")),
            DELETED: is_deleted,
        }
    )
    nothing = batch.select(list(keys.all_columns)).slice(0, 0)
    last = last_of_each_key(keys, batch, nothing, nothing)
    (row,) = last.filter(pc.invert(last[SUPERSEDED])).to_pylist()
    assert (row["_kafka_partition"], row["rank"], row[DELETED]) == (1, 5, tombstone == 1)


def test_rows_that_are_not_from_kafka_do_not_change_the_order_of_offsets() -> None:
    """The clock of the producer of the tombstone was behind."""
    keys = UpsertKeys(columns=("id",), ordering="rank")
    times = [MOMENT + dt.timedelta(seconds=n) for n in (2, 1, 0)]
    batch = pa.table(
        {
            "id": [1, 1, 1],
            "rank": pa.array([5, None, 1], pa.int64()),
            "_kafka_topic": ["t", "t", "t"],
            "_kafka_partition": pa.array([0, 0, -1], pa.int32()),
            "_kafka_offset": pa.array([5, 6, 0], pa.int64()),
            "_kafka_timestamp": pa.array(times, pa.timestamp("us", tz="UTC")),
            DELETED: [False, True, False],
        }
    )
    nothing = batch.select(list(keys.all_columns)).slice(0, 0)
    last = last_of_each_key(keys, batch, nothing, nothing)
    (row,) = last.filter(pc.invert(last[SUPERSEDED])).to_pylist()
    assert (row["_kafka_offset"], row["rank"], row[DELETED]) == (6, 5, True)
