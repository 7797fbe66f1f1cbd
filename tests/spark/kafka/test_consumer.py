"""The reading of a range, against a consumer that plays a script.

The embedded broker knows neither compaction nor markers of transactions, so gaps are played here.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError as ClientError
from confluent_kafka import Message

from bayou.errors import KafkaError
from bayou.spark.kafka.columns import arrow_schema, record_schema
from bayou.spark.kafka.consumer import read_range
from bayou.spark.kafka.offsets import OffsetRange, TopicPartition
from bayou.spark.kafka.options import parse_options

_PARTITION = TopicPartition("t", 0)
_SCHEMA = arrow_schema(record_schema(False))


class ScriptedConsumer:
    """Holds a partition's records by offset, and delivers like the client does."""

    def __init__(self, offsets, *, low=0, high, batch=1000):
        self.offsets = sorted(offsets)
        self.low, self.high, self.batch = low, high, batch
        self.position = None
        self.told_end = False
        self.closed = False

    def assign(self, partitions):
        self.position = partitions[0].offset
        self.told_end = False

    def consume(self, count, _timeout):
        if not self.low <= self.position <= self.high:
            self.position = self.low
            return [_event(ClientError._AUTO_OFFSET_RESET, self.position)]
        found = [o for o in self.offsets if o >= self.position][: min(count, self.batch)]
        if found:
            self.position = found[-1] + 1
            return [_record(offset) for offset in found]
        if self.told_end:
            return []
        self.told_end = True
        return [_event(ClientError._PARTITION_EOF, self.high)]

    def get_watermark_offsets(self, _partition, timeout):
        return self.low, self.high

    def close(self):
        self.closed = True


def _record(offset):
    return Message(topic="t", partition=0, offset=offset, value=b"%d" % offset, timestamp=(1, 5))


def _event(code, offset):
    return Message(topic="t", partition=0, offset=offset, error=ClientError(code))


def _read(consumer, start, end, **options):
    given = {"kafka.bootstrap.servers": "b:9092", "subscribe": "t", **options}
    batches = read_range(
        OffsetRange(_PARTITION, start, end),
        parse_options(given),
        _SCHEMA,
        connect=lambda *_: consumer,
    )
    read = [offset for batch in batches for offset in batch["offset"].to_pylist()]
    assert consumer.closed
    return read


def test_a_range_ends_at_its_end_and_not_with_the_partition():
    assert _read(ScriptedConsumer(range(100), high=100), 10, 20) == list(range(10, 20))


def test_gaps_are_skipped_and_records_behind_the_end_are_dropped():
    consumer = ScriptedConsumer([1, 5, 8, 30, 31], high=40)
    assert _read(consumer, 2, 31) == [5, 8, 30]
    assert _read(ScriptedConsumer([1, 5, 8, 30, 31], high=40), 9, 30) == []


def test_a_range_that_ends_with_markers_ends_with_the_partition():
    assert _read(ScriptedConsumer([1, 2], high=10), 0, 10) == [1, 2]


def test_small_deliveries_add_up():
    assert _read(ScriptedConsumer(range(50), high=50, batch=3), 0, 50) == list(range(50))


def test_deleted_records_fail_the_read_with_what_to_do():
    consumer = ScriptedConsumer(range(40, 100), low=40, high=100)
    with pytest.raises(
        KafkaError, match=r"offsets 10 to 39.*has 40 to 99.*failOnDataLoss"
    ) as caught:
        _read(consumer, 10, 60)
    assert caught.value.topic == "t"
    assert consumer.closed


def test_without_fail_on_data_loss_the_read_goes_on_with_what_is_there():
    consumer = ScriptedConsumer(range(40, 100), low=40, high=100)
    assert _read(consumer, 10, 60, failOnDataLoss="false") == list(range(40, 60))
    gone = ScriptedConsumer(range(40, 100), low=40, high=100)
    assert _read(gone, 10, 30, failOnDataLoss="false") == []


def test_a_partition_that_ends_before_the_range_has_lost_records():
    with pytest.raises(KafkaError, match="offsets 5 to 19 are missing, the partition has 0 to 4"):
        _read(ScriptedConsumer(range(5), high=5), 2, 20)
    assert _read(ScriptedConsumer(range(5), high=5), 2, 20, failOnDataLoss="false") == [2, 3, 4]


def test_a_range_that_is_truncated_has_lost_the_records_after_the_end():
    consumer = ScriptedConsumer([], high=5)
    consumer.told_end = True
    consumer.consume = lambda *_: [_event(ClientError.OFFSET_OUT_OF_RANGE, 2)]
    with pytest.raises(KafkaError, match="offsets 5 to 19 are missing, the partition has 0 to 4"):
        _read(consumer, 2, 20)


@pytest.mark.parametrize(
    ("code", "fails"),
    [(ClientError.LEADER_NOT_AVAILABLE, True), (ClientError._UNKNOWN_TOPIC, False)],
)
def test_only_a_topic_that_is_gone_has_lost_the_records_of_a_read_that_stalls(code, fails):
    consumer = ScriptedConsumer([], high=50)
    consumer.consume = lambda *_: []
    metadata = SimpleNamespace(error=ClientError(code), partitions={})
    consumer.list_topics = lambda *_, **__: SimpleNamespace(topics={"t": metadata})
    options = {"failOnDataLoss": "false", "kafkaConsumer.pollTimeoutMs": "1"}
    if fails:
        with pytest.raises(KafkaError, match="reading offset 0"):
            _read(consumer, 0, 50, **options)
    else:
        assert _read(consumer, 0, 50, **options) == []


def test_an_emptied_partition_has_lost_records():
    with pytest.raises(KafkaError, match="it is empty"):
        _read(ScriptedConsumer([], low=9, high=9), 2, 9)


def test_a_consumer_is_closed_when_the_reader_stops_early():
    consumer = ScriptedConsumer(range(5000), high=5000)
    options = parse_options({"kafka.bootstrap.servers": "b:9092", "subscribe": "t"})
    batches = read_range(
        OffsetRange(_PARTITION, 0, 5000), options, _SCHEMA, connect=lambda *_: consumer
    )
    next(batches)
    batches.close()
    assert consumer.closed
