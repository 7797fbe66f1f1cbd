from __future__ import annotations

import pickle

import pyarrow as pa

from bayou.spark.kafka import KafkaTasks, OffsetRange, ProducedRecord, TopicPartition
from bayou.spark.kafka.columns import unpack_headers


def _shares(broker, topic, ranges, *, tasks, **options):
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": topic, **options}
    wanted = [OffsetRange(TopicPartition(topic, p), start, end) for p, start, end in ranges]
    return pickle.loads(pickle.dumps(KafkaTasks.of(given, wanted, tasks=tasks)))


def test_the_shares_hold_every_record_once_and_whole(broker):
    broker.create_topic("shared", 2)
    broker.produce(
        "shared",
        [ProducedRecord(b"%d" % n, b"k", n % 2, 1000 + n, [("h", b"1")]) for n in range(9_000)],
    )
    shares = _shares(broker, "shared", [(0, 10, 4_500), (1, 0, 4_500)], tasks=3)
    rows = [
        row
        for share in range(len(shares.tasks))
        for row in pa.Table.from_batches(shares.read(share)).to_pylist()
    ]
    assert len(shares.tasks) == 3
    assert sorted(int(row["value"]) for row in rows) == sorted(
        [*range(20, 9_000, 2), *range(1, 9_000, 2)]
    )
    last = max(rows, key=lambda row: row["timestamp"])
    assert (last["topic"], last["partition"], last["offset"]) == ("shared", 1, 4_499)
    assert (last["key"], unpack_headers(last["headers"])) == (b"k", [("h", b"1")])


def test_few_records_are_one_share_and_very_many_more_than_tasks(broker):
    assert len(_shares(broker, "t", [(0, 0, 10), (1, 0, 10)], tasks=8).tasks) == 1
    many = _shares(broker, "t", [(0, 0, 1_000)], tasks=2, maxRecordsPerPartition="100")
    assert len(many.tasks) == 10


def test_nothing_to_read_is_no_share(broker):
    assert _shares(broker, "t", [(0, 5, 5)], tasks=2).tasks == ()
