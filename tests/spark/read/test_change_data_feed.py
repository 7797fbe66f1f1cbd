from __future__ import annotations

import datetime as dt
import os

import pyarrow as pa
import pytest

import bayou

pytestmark = pytest.mark.spark

FEED = {"delta.enableChangeDataFeed": "true"}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Insert 0-4, update 2, delete 4, insert 5; version v is of 2024-01-05, v hours."""
    table = tmp_path_factory.mktemp("tables") / "feed"
    days = ["a", "b", "a", "b", "a"]
    rows = pa.table({"id": range(5), "name": [f"n{i}" for i in range(5)], "day": days})
    bayou.write(str(table), rows, partition_by=["day"], configuration=FEED)
    bayou.table(table).update({"name": "'new'"}, predicate="id = 2")
    bayou.table(table).delete("id = 4")
    bayou.write(str(table), pa.table({"id": [5], "name": ["n5"], "day": ["b"]}))
    for version in range(4):
        at = dt.datetime(2024, 1, 5, version, tzinfo=dt.UTC).timestamp()
        os.utime(table / "_delta_log" / f"{version:020}.json", (at, at))
    return table


def changes(spark, path, **options):
    reader = spark.read.format("delta").option("readChangeFeed", "true").options(**options)
    return reader.load(str(path))


def seen(frame):
    columns = ("_commit_version", "_change_type", "id", "name", "day")
    return sorted(tuple(r[c] for c in columns) for r in frame.collect())


def expected(path, start, end):
    table = bayou.table(path).changes(start, end).to_arrow()
    columns = ("_commit_version", "_change_type", "id", "name", "day")
    return sorted(tuple(r[c] for c in columns) for r in table.to_pylist())


@pytest.mark.parametrize(
    ("options", "start", "end"),
    [
        ({"startingVersion": 0}, 0, 3),
        ({"startingVersion": 1, "endingVersion": 2}, 1, 2),
        ({"startingVersion": 1, "endingVersion": 99}, 1, 3),
        ({"startingTimestamp": "2024-01-05 00:30:00", "endingVersion": 2}, 1, 2),
        ({"startingVersion": 0, "endingTimestamp": "2024-01-05 01:30:00"}, 0, 1),
    ],
)
def test_the_rows_of_a_range_are_those_of_the_kernel(spark, path, options, start, end):
    assert seen(changes(spark, path, **options)) == expected(path, start, end)


def test_an_update_shows_both_of_its_rows(spark, path):
    found = seen(changes(spark, path, startingVersion=1, endingVersion=1))
    assert found == [
        (1, "update_postimage", 2, "new", "a"),
        (1, "update_preimage", 2, "n2", "a"),
    ]


def test_a_range_is_narrowed_and_filtered(spark, path):
    frame = changes(spark, path, startingVersion=0, filter="name = 'n5' OR _change_type = 'delete'")
    assert [r[:2] for r in seen(frame)] == [(2, "delete"), (3, "insert")]
    narrow = (
        spark.read.schema("_commit_version long, id long")
        .format("delta")
        .options(readChangeFeed="true", startingVersion=2, filter="day = 'a'")
        .load(str(path))
    )
    assert [tuple(r) for r in narrow.collect()] == [(2, 4)]
    assert changes(spark, path, startingVersion=0).where("id = 5").count() == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "DELTA_NO_START_FOR_CDC_READ"),
        ({"startingVersion": 0, "startingTimestamp": "2024-01-05"}, "DELTA_MULTIPLE_CDC_BOUNDARY"),
        ({"startingVersion": 0, "endingVersion": 1, "endingTimestamp": "2024-01-05"}, "MULTIPLE"),
        ({"startingVersion": "one"}, "startingVersion: 'one' isn't"),
        ({"startingVersion": 9}, "version 9 doesn.t exist"),
        ({"startingVersion": 2, "endingVersion": 1}, "at the earlier version 1"),
        ({"startingVersion": 0, "versionAsOf": 1}, "readChangeFeed doesn't support versionAsOf"),
    ],
)
def test_a_range_that_makes_no_sense_is_explained(spark, path, options, said):
    with pytest.raises(Exception, match=said):
        changes(spark, path, **options).collect()


def test_a_table_without_a_feed_says_which_version_has_none(spark, tmp_path):
    bayou.write(str(tmp_path / "t"), pa.table({"id": [1]}))
    with pytest.raises(Exception, match="enableChangeDataFeed"):
        changes(spark, tmp_path / "t", startingVersion=0).collect()
