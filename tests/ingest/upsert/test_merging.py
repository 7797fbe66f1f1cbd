"""Upserts into a table whose partition timestamps have no time zone, as of older delta-spark."""

from __future__ import annotations

import datetime as dt
import json

import pyarrow as pa
import pytest

import bayou
from bayou.engines import for_path
from bayou.ingest.upsert import DELETED, UpsertKeys, UpsertTable
from bayou.kernel import Table

NOON = dt.datetime(2024, 1, 5, 3, tzinfo=dt.UTC)
NOON_IN_TOKYO = "2024-01-05 12:00:00"
SCHEMA = pa.schema(
    {
        "user": pa.string(),
        "p": pa.timestamp("us", tz="UTC"),
        "rank": pa.int64(),
        "_kafka_topic": pa.string(),
        "_kafka_partition": pa.int32(),
        "_kafka_offset": pa.int64(),
        "_kafka_timestamp": pa.timestamp("us", tz="UTC"),
        DELETED: pa.bool_(),
    }
)


def record(offset, rank, *, deleted=False):
    position = {"_kafka_topic": "t", "_kafka_partition": 0, "_kafka_offset": offset}
    row = {"user": "u", "p": NOON, "rank": rank, "_kafka_timestamp": NOON, DELETED: deleted}
    return pa.Table.from_pylist([{**row, **position}], SCHEMA)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "t"
    bayou.write(str(path), record(0, 5).drop_columns([DELETED]), partition_by=["p"])
    log = path / "_delta_log"
    commit = log / f"{0:020d}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            action["add"]["partitionValues"]["p"] = NOON_IN_TOKYO
    commit.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
    for checksum in log.glob("*.crc"):
        checksum.unlink()
    return str(path)


@pytest.mark.parametrize(
    ("rows", "ranks"), [(record(1, 6), [6]), (record(1, None, deleted=True), [])]
)
def test_keys_are_compared_in_the_time_zone_of_the_session(path, rows, ranks):
    engine = for_path(path, {})
    keys = UpsertKeys(columns=("user", "p"), ordering="rank")
    upserts = UpsertTable(engine, path, keys, engine_info="test", time_zone="Asia/Tokyo")
    snapshot = Table.for_path(engine, path).latest_snapshot(engine)
    winners = upserts.last_of_each_key(snapshot, rows)
    upserts.deleted_keys.remember(winners)
    upserts.merge(snapshot, winners, transaction_ids={"t": 1}, table_properties={})
    assert bayou.table(path).to_arrow()["rank"].to_pylist() == ranks
