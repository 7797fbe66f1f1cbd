"""Reading one range of one partition, in an executor."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from bayou.errors import KafkaError
from bayou.spark.kafka.client import Complaints, KafkaProperties, make_consumer, passes
from bayou.spark.kafka.columns import MAX_BATCH_ROWS, Records, batch_builder, record_offsets
from bayou.spark.kafka.data_loss import DataLoss
from bayou.spark.kafka.offsets import OffsetRange
from bayou.spark.kafka.options import KafkaSourceOptions

if TYPE_CHECKING:
    from confluent_kafka import Consumer

Connect: TypeAlias = "Callable[[KafkaProperties, str, Complaints, int], Consumer]"
"""Makes the consumer of a range, as `make_consumer` does."""


def read_range(
    offsets: OffsetRange,
    options: KafkaSourceOptions,
    schema: pa.Schema,
    connect: Connect = make_consumer,
) -> Iterator[pa.RecordBatch]:
    """The records of a range, in order, as batches of the given columns.

    Offsets have gaps (compaction, markers of transactions), so the range is read when the partition
    has gone past its end, not when a number of records is there.

    Raises:
        KafkaError: records of the range are gone and `failOnDataLoss` holds, or nothing came in
            time.
    """
    reader = _RangeReader(offsets, options, connect)
    try:
        yield from reader.batches(schema)
    finally:
        reader.close()


class _RangeReader:
    """One consumer on its way through one range. `_position` is the next offset to come."""

    def __init__(self, offsets: OffsetRange, options: KafkaSourceOptions, connect: Connect) -> None:
        self._range = offsets
        self._options = options
        self._loss = DataLoss(options.fail_on_data_loss)
        self._complaints = Complaints(options.properties)
        self._position = offsets.start
        self._patience = min(_LOOKUP, options.timeout)
        self._consumer = connect(
            options.properties, options.group_id_prefix, self._complaints, offsets.size
        )

    def close(self) -> None:
        self._consumer.close()

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        build = batch_builder(schema, self._range.partition)
        count = _FIRST_BATCH
        self._assign()
        progress = time.monotonic()
        while self._position < self._range.end:
            # consume() waits out its time unless it gets all it asked for.
            wanted = min(count, self._range.end - self._position)
            records, events = self._consume(wanted)
            if records:
                offsets = record_offsets(records)
                records, offsets = self._inside(records, offsets)
            if records:
                batch = build(records, offsets)
                count = max(
                    1, min(MAX_BATCH_ROWS, _BATCH_BYTES * len(records) // (batch.nbytes + 1))
                )
                yield batch
                progress = time.monotonic()
            for event in events:
                self._handle(event)
            if not records:
                self._complaints.raise_if_refused()
                if time.monotonic() - progress > self._options.timeout:
                    self._stalled()
                    progress = time.monotonic()

    def _consume(self, wanted: int) -> tuple[Records, Records]:
        """Records, and what else arrives in their place: errors and ends of the partition."""
        from confluent_kafka import KafkaException, Message

        try:
            arrived = self._consumer.consume(wanted, _POLL)
        except KafkaException as failure:
            raise self._error(failure.args[0].str()) from None
        if not any(map(Message.error, arrived)):
            return arrived, ()
        return (
            [message for message in arrived if message.error() is None],
            [message for message in arrived if message.error() is not None],
        )

    def _inside(self, records: Records, offsets: list[int]) -> tuple[Records, list[int]]:
        """The records between the position and the end; moves the position behind the last one."""
        start, end = self._position, self._range.end
        self._position = max(start, offsets[-1] + 1)
        if offsets[0] >= start and offsets[-1] < end:
            return records, offsets
        kept = [i for i, offset in enumerate(offsets) if start <= offset < end]
        return [records[i] for i in kept], [offsets[i] for i in kept]

    def _handle(self, event: Any) -> None:
        error = event.error()
        name = error.name()
        if name == "_PARTITION_EOF":
            self._end_reached(event.offset())
        elif name in _OUT_OF_RANGE:
            self._out_of_range()
        elif name in _GONE:
            self._loss.report(
                f"{self._range.partition} is gone, and with it offsets {self._position} to "
                f"{self._range.end - 1}",
                self._range.partition.topic,
            )
            self._position = self._range.end
        elif error.fatal() or not passes(error):
            raise self._error(error.str())

    def _end_reached(self, offset: int) -> None:
        """The partition ends at `offset`; behind it may have been nothing but markers."""
        if offset >= self._range.end:
            self._position = self._range.end
        elif self._watermarks()[1] < self._range.end:
            self._out_of_range()

    def _out_of_range(self) -> None:
        """The broker lacks the position: its records were deleted, or the topic is another."""
        if self._position >= self._range.end:
            return
        low, high = self._watermarks()
        until = min(low, self._range.end) if low > self._position else self._range.end
        if low <= self._position < high and self._range.end <= high:
            self._assign()  # it was a passing state, such as a change of leader
            return
        self._loss.report(
            f"{self._range.partition}: offsets {self._position} to {until - 1} were to be read, "
            "but the "
            f"partition has {low} to {high - 1}" + (" (it is empty)" if low == high else ""),
            self._range.partition.topic,
        )
        if low > self._position:
            self._position = until
        elif self._position < high:
            self._range = self._range._replace(end=high)
        else:
            self._position = self._range.end
        if self._position < self._range.end:
            self._assign()

    def _stalled(self) -> None:
        """Nothing came for as long as we wait: says why, or raises."""
        from confluent_kafka import KafkaException

        topic, number = self._range.partition
        try:
            known = self._consumer.list_topics(topic, timeout=self._patience).topics[topic]
        except KafkaException:
            raise self._error(str(self._complaints) or "the brokers don't answer") from None
        if known.error is not None or number not in known.partitions:
            self._loss.report(f"{self._range.partition} is gone", topic)
            self._position = self._range.end
        elif self._watermarks()[1] < self._range.end:
            self._out_of_range()
        else:
            raise self._error(str(self._complaints) or "the broker sends none")

    def _assign(self) -> None:
        from confluent_kafka import TopicPartition

        topic, number = self._range.partition
        self._consumer.assign([TopicPartition(topic, number, self._position)])

    def _watermarks(self) -> tuple[int, int]:
        from confluent_kafka import KafkaException, TopicPartition

        topic, number = self._range.partition
        try:
            marks = self._consumer.get_watermark_offsets(
                TopicPartition(topic, number), timeout=self._patience
            )
        except KafkaException as failure:
            raise self._error(failure.args[0].str()) from None
        if marks is None:
            raise self._error(str(self._complaints) or "the brokers don't answer")
        low, high = marks
        return low, high

    def _error(self, reason: str) -> KafkaError:
        return KafkaError(
            f"Reading {self._range.partition} at offset {self._position} (up to {self._range.end}) "
            f"from the Kafka brokers {self._options.properties.bootstrap_servers} failed: "
            f"{self._options.properties.scrub(reason)}. Check that the brokers run and can be "
            f"reached from here; kafkaConsumer.pollTimeoutMs ({self._options.timeout:g} s) is how "
            "long a record is waited for.",
            topic=self._range.partition.topic,
        )


_FIRST_BATCH = 500
_BATCH_BYTES = 8 << 20
_POLL = 0.1
_LOOKUP = 10.0

_OUT_OF_RANGE = {"_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"}
_GONE = {"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "UNKNOWN_TOPIC_ID"}
