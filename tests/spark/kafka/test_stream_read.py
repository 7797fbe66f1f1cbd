from __future__ import annotations

import pickle

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from bayou.errors import ArgumentError, KafkaError
from bayou.spark.kafka import ProducedRecord
from bayou.spark.kafka.columns import arrow_schema
from bayou.spark.kafka.options import parse_options
from bayou.spark.kafka.stream_read import FIRST_START, KafkaStreamReader

_ALL = ReadAllAvailable()


def _stream(source, **options):
    made = source(**options)
    return made.streamReader(made.schema())


def _read(stream, start, end):
    parts = stream.partitions(start, end)
    executor = pickle.loads(pickle.dumps(stream))
    return [
        (row["partition"], row["offset"])
        for part in parts
        for batch in executor.read(part)
        for row in batch.to_pylist()
    ]


def _ends(offset):
    return {topic: ends for topic, ends in offset.items() if topic != FIRST_START}


def _fill(broker, topic, partitions, count):
    broker.create_topic(topic, partitions)
    _add(broker, topic, partitions, count)


def _add(broker, topic, partitions, count):
    broker.produce(topic, [ProducedRecord(b"x", partition=i % partitions) for i in range(count)])


def test_a_stream_starts_at_the_end_unless_told(broker, source):
    _fill(broker, "start", 2, 10)
    assert _stream(source, subscribe="start").initialOffset() == {"start": {"0": 5, "1": 5}}
    first = _stream(source, subscribe="start", startingOffsets="earliest")
    assert first.initialOffset() == {"start": {"0": 0, "1": 0}}
    mixed = _stream(source, subscribe="start", startingOffsets='{"start": {"0": 2, "1": -1}}')
    assert mixed.initialOffset() == {"start": {"0": 2, "1": 5}}


def test_a_stream_reads_what_comes_and_then_nothing(broker, source):
    _fill(broker, "comes", 2, 4)
    stream = _stream(source, subscribe="comes", startingOffsets="earliest")
    start = stream.initialOffset()
    end = stream.latestOffset(start, _ALL)
    assert _read(stream, start, end) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert stream.latestOffset(end, _ALL) == end
    assert stream.partitions(end, end) == []
    _add(broker, "comes", 2, 2)
    assert _read(stream, end, stream.latestOffset(end, _ALL)) == [(0, 2), (1, 2)]
    assert stream.reportLatestOffset() == {"comes": {"0": 3, "1": 3}}


@pytest.mark.parametrize("limit", [_ALL, ReadMaxRows(3)])
def test_a_first_batch_that_a_restart_repeats_has_its_records(broker, source, limit):
    topic = f"repeated-{type(limit).__name__}"
    _fill(broker, topic, 1, 10)
    stream = _stream(source, subscribe=topic)
    start = stream.initialOffset()
    _add(broker, topic, 1, 3)
    end = stream.latestOffset(start, limit)
    at_once = _stream(source, subscribe=topic)
    assert _read(at_once, at_once.initialOffset(), end) == [(0, 10), (0, 11), (0, 12)]
    _add(broker, topic, 1, 10)
    restarted = _stream(source, subscribe=topic)
    assert _read(restarted, restarted.initialOffset(), end) == [(0, 10), (0, 11), (0, 12)]
    following = restarted.latestOffset(end, _ALL)
    assert following == {topic: {"0": 23}}
    assert _read(restarted, end, following) == [(0, offset) for offset in range(13, 23)]


def test_without_new_records_the_offset_of_the_first_batch_stays(broker, source):
    _fill(broker, "stays", 1, 2)
    stream = _stream(source, subscribe="stays", startingOffsets="earliest")
    end = stream.latestOffset(stream.initialOffset(), _ALL)
    assert stream.latestOffset(end, _ALL) == end
    assert _stream(source, subscribe="stays").latestOffset(end, _ALL) == end


def test_the_limit_is_shared_over_the_partitions(broker, source):
    _fill(broker, "shared", 2, 100)
    _add(broker, "shared", 1, 100)
    stream = _stream(
        source, subscribe="shared", startingOffsets="earliest", maxOffsetsPerTrigger="40"
    )
    limit = stream.getDefaultReadLimit()
    assert limit == ReadMaxRows(40)
    start = stream.initialOffset()
    assert _ends(stream.latestOffset(start, limit)) == {"shared": {"0": 30, "1": 10}}
    assert _ends(stream.latestOffset(start, _ALL)) == {"shared": {"0": 150, "1": 50}}


def test_a_batch_waits_for_enough_records_or_the_delay(broker, source):
    _fill(broker, "waits", 1, 10)
    options = {"subscribe": "waits", "startingOffsets": "earliest"}
    stream = _stream(source, **options, minOffsetsPerTrigger="5")
    limit = stream.getDefaultReadLimit()
    assert limit == ReadMinRows(5)
    first = stream.latestOffset(stream.initialOffset(), limit)
    assert _ends(first) == {"waits": {"0": 10}}
    _add(broker, "waits", 1, 4)
    assert stream.latestOffset(first, limit) == first
    _add(broker, "waits", 1, 1)
    assert stream.latestOffset(first, limit) == {"waits": {"0": 15}}
    hasty = _stream(source, **options, minOffsetsPerTrigger="50", maxTriggerDelay="0ms")
    assert hasty.latestOffset(first, limit) == {"waits": {"0": 15}}


def test_records_are_read_a_delay_after_the_first_of_them_or_when_they_fill_a_batch(broker, source):
    now = 1000.0
    made = source(
        subscribe="delayed",
        startingOffsets="earliest",
        minOffsetsPerTrigger="50",
        maxOffsetsPerTrigger="50",
        maxRecordDelay="3s",
    )
    options, columns = parse_options(made.options), arrow_schema(made.schema())
    stream = KafkaStreamReader(options, columns, clock=lambda: now)
    limit = stream.getDefaultReadLimit()
    broker.create_topic("delayed", 1)
    start = stream.initialOffset()
    assert stream.latestOffset(start, limit) == start
    now += 4  # the time in which no record waits does not count
    _add(broker, "delayed", 1, 10)
    assert stream.latestOffset(start, limit) == start
    now += 2.5
    _add(broker, "delayed", 1, 10)
    assert stream.latestOffset(start, limit) == start
    now += 0.5
    end = stream.latestOffset(start, limit)
    assert _ends(end) == {"delayed": {"0": 20}}
    _add(broker, "delayed", 1, 120)
    for offset in (70, 120):
        end = stream.latestOffset(end, limit)
        assert end == {"delayed": {"0": offset}}
    assert stream.latestOffset(end, limit) == end
    now += 2.5
    assert stream.latestOffset(end, limit) == end
    now += 0.5
    assert stream.latestOffset(end, limit) == {"delayed": {"0": 140}}


def test_available_now_stops_where_the_records_ended_at_its_start(broker, source):
    _fill(broker, "now", 1, 10)
    options = {"subscribe": "now", "startingOffsets": "earliest", "minOffsetsPerTrigger": "50"}
    stream = _stream(source, **options)
    stream.prepareForTriggerAvailableNow()
    _add(broker, "now", 1, 10)
    end = stream.latestOffset(stream.initialOffset(), ReadMinRows(50))
    assert _ends(end) == {"now": {"0": 10}}
    assert stream.latestOffset(end, ReadMinRows(50)) == end


def test_a_new_topic_of_a_pattern_is_read_from_its_first_record(broker, source):
    _fill(broker, "grow-a", 1, 3)
    stream = _stream(source, subscribePattern="grow-.")
    start = stream.initialOffset()
    assert start == {"grow-a": {"0": 3}}
    _fill(broker, "grow-b", 1, 2)
    end = stream.latestOffset(start, ReadMaxRows(1))
    assert _ends(end) == {"grow-a": {"0": 3}, "grow-b": {"0": 1}}
    assert _read(stream, start, end) == [(0, 0)]


def test_a_partition_that_is_gone_is_reported_or_left_out(broker, source):
    _fill(broker, "left", 1, 3)
    start = {"left": {"0": 1}, "gone": {"0": 7}}
    strict = _stream(source, subscribe="left,gone")
    with pytest.raises(KafkaError, match="'gone' partition 0: .* it was read up to offset 6"):
        strict.latestOffset(start, _ALL)
    tolerant = _stream(source, subscribe="left,gone", failOnDataLoss="false")
    end = tolerant.latestOffset(start, _ALL)
    assert end == {"left": {"0": 3}}
    assert _read(tolerant, start, end) == [(0, 1), (0, 2)]
    with pytest.raises(
        KafkaError, match="'gone' partition 0: the partition doesn't exist any more"
    ):
        strict.partitions(start, end)


def test_a_partition_that_ends_before_the_checkpoint_is_reported_or_read_anew(broker, source):
    _fill(broker, "shrunk", 1, 3)
    start = {"shrunk": {"0": 50}}
    with pytest.raises(KafkaError, match="read up to offset 49, but its last offset is 2"):
        _stream(source, subscribe="shrunk").latestOffset(start, _ALL)
    tolerant = _stream(source, subscribe="shrunk", failOnDataLoss="false")
    end = tolerant.latestOffset(start, _ALL)
    assert end == {"shrunk": {"0": 3}}
    assert tolerant.partitions(start, end) == []
    _add(broker, "shrunk", 1, 1)
    assert _read(tolerant, end, tolerant.latestOffset(end, _ALL)) == [(0, 3)]


def test_records_deleted_before_a_batch_is_planned_are_reported_or_skipped(broker, source):
    broker.create_topic("aged")
    raw = {"compression.type": "none", "batch.size": "200000"}
    broker.produce("aged", [bytes(1000)] * 8000, properties=raw, keep_all=False)
    low, high = broker.watermarks("aged")[0]
    start, end = {"aged": {"0": 0}}, {"aged": {"0": low + 2}}
    with pytest.raises(KafkaError, match=f"offsets 0 to {low - 1} are missing"):
        _stream(source, subscribe="aged").partitions(start, end)
    tolerant = _stream(source, subscribe="aged", failOnDataLoss="false")
    assert _read(tolerant, start, end) == [(0, low), (0, low + 1)]
    assert high > low + 2


def test_ending_offsets_are_refused(source):
    with pytest.raises(ArgumentError, match="endingOffsets isn't valid in a streaming query"):
        _stream(source, subscribe="t", endingOffsets="latest")


def test_a_topic_that_is_deleted_after_its_partitions_are_listed_is_omitted(
    broker, source, monkeypatch
):
    _fill(broker, "lasting", 1, 2)
    _fill(broker, "ended", 1, 2)
    options = {"startingOffsets": "earliest", "failOnDataLoss": "false"}
    stream = _stream(source, subscribePattern="lasting|ended", **options)
    start = stream.initialOffset()
    listed = [stream._cluster.partitions(stream._options.selection)]
    latest = stream._cluster.latest
    existing = [partition for partition in listed[0] if partition.topic == "lasting"]
    monkeypatch.setattr(
        stream._cluster, "partitions", lambda _: listed.pop() if listed else existing
    )
    monkeypatch.setattr(stream._cluster, "latest", lambda _: latest(existing))
    assert stream.latestOffset(start, _ALL)["lasting"] == {"0": 2}


def test_a_partition_without_an_end_offset_is_an_error(broker, source, monkeypatch):
    """A new leader may not know its partition yet."""
    _fill(broker, "led", 2, 4)
    options = {"subscribe": "led", "startingOffsets": "earliest", "failOnDataLoss": "false"}
    stream = _stream(source, **options)
    start = stream.initialOffset()
    latest = stream._cluster.latest
    monkeypatch.setattr(
        stream._cluster,
        "latest",
        lambda partitions: {p: end for p, end in latest(partitions).items() if p.partition == 0},
    )
    for request in (lambda: stream.latestOffset(start, _ALL), stream.prepareForTriggerAvailableNow):
        with pytest.raises(KafkaError, match="'led' partition 1: .* report no offsets"):
            request()


def test_a_new_topic_that_is_deleted_after_its_end_was_read_is_omitted(broker, source, monkeypatch):
    _fill(broker, "older", 1, 2)
    stream = _stream(source, subscribePattern="older|newer", startingOffsets="earliest")
    start = stream.initialOffset()
    existing = stream._cluster.partitions(stream._options.selection)
    _fill(broker, "newer", 1, 2)
    latest, earliest = stream._cluster.latest, stream._cluster.earliest

    def delete_after(partitions):
        ends = latest(partitions)
        monkeypatch.setattr(stream._cluster, "partitions", lambda _: existing)
        monkeypatch.setattr(stream._cluster, "earliest", lambda _: earliest(existing[:0]))
        return ends

    monkeypatch.setattr(stream._cluster, "latest", delete_after)
    assert _ends(stream.latestOffset(start, ReadMaxRows(9))) == {"older": {"0": 2}}
