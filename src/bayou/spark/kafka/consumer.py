"""`read_range`: reads an offset range of a Kafka partition in a task."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from bayou.errors import KafkaError
from bayou.spark.kafka.client import ClientErrors, KafkaProperties, is_transient, make_consumer
from bayou.spark.kafka.columns import MAX_BATCH_ROWS, Records, batch_builder, record_offsets
from bayou.spark.kafka.data_loss import DataLoss
from bayou.spark.kafka.offsets import OffsetRange
from bayou.spark.kafka.options import KafkaSourceOptions

if TYPE_CHECKING:
    from confluent_kafka import Consumer

Connect: TypeAlias = "Callable[[KafkaProperties, str, ClientErrors, int], Consumer]"
"""A function with the signature of `make_consumer`."""


def read_range(
    offsets: OffsetRange,
    options: KafkaSourceOptions,
    schema: pa.Schema,
    connect: Connect = make_consumer,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of an offset range, in order, as batches of the requested columns.

    Offsets can have gaps because of compaction and transaction markers. Therefore a range is
    complete when the consumer's position reaches the end of the range, regardless of the number of
    records.

    Args:
        schema: the requested columns.
        connect: function that creates the consumer.
    """
    reader = _RangeReader(offsets, options, connect)
    try:
        yield from reader.batches(schema)
    finally:
        reader.close()


class _RangeReader:
    """A consumer that reads one offset range. `_position` is the next offset to read."""

    def __init__(self, offsets: OffsetRange, options: KafkaSourceOptions, connect: Connect) -> None:
        self._range = offsets
        self._options = options
        self._loss = DataLoss(options.fail_on_data_loss)
        self._client_errors = ClientErrors(options.properties)
        self._position = offsets.start
        self._lookup_timeout = min(_LOOKUP_TIMEOUT, options.timeout)
        self._consumer = connect(
            options.properties, options.group_id_prefix, self._client_errors, offsets.size
        )

    def close(self) -> None:
        self._consumer.close()

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        build = batch_builder(schema, self._range.partition)
        count = _FIRST_BATCH_ROWS
        self._assign()
        progress = time.monotonic()
        while self._position < self._range.end:
            # consume() returns when it has received the requested number, or after a timeout.
            records, events = self._consume(min(count, self._range.end - self._position))
            if records:
                offsets = record_offsets(records)
                records, offsets = self._within_range(records, offsets)
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
                self._client_errors.raise_if_permanent()
                if time.monotonic() - progress > self._options.timeout:
                    self._handle_stall()
                    progress = time.monotonic()

    def _consume(self, count: int) -> tuple[Records, Records]:
        """Poll up to `count` messages; return the records, and other events such as errors."""
        from confluent_kafka import KafkaException, Message

        try:
            messages = self._consumer.consume(count, _POLL)
        except KafkaException as failure:
            raise self._error(failure.args[0].str()) from None
        if not any(map(Message.error, messages)):
            return messages, ()
        return (
            [message for message in messages if message.error() is None],
            [message for message in messages if message.error() is not None],
        )

    def _within_range(self, records: Records, offsets: list[int]) -> tuple[Records, list[int]]:
        """Remove records before `_position` or after the end of the range; advance `_position`."""
        start, end = self._position, self._range.end
        self._position = max(start, offsets[-1] + 1)
        if offsets[0] >= start and offsets[-1] < end:
            return records, offsets
        inside = [i for i, offset in enumerate(offsets) if start <= offset < end]
        return [records[i] for i in inside], [offsets[i] for i in inside]

    def _handle(self, event: Any) -> None:
        error = event.error()
        name = error.name()
        if name == "_PARTITION_EOF":
            self._handle_partition_end(event.offset())
        elif name in _OUT_OF_RANGE:
            self._handle_out_of_range()
        elif name in _UNKNOWN:
            self._loss.report(
                f"{self._range.partition}: the partition doesn't exist any more, and offsets "
                f"{self._position} to {self._range.end - 1} are missing",
                self._range.partition.topic,
            )
            self._position = self._range.end
        elif name == "_BAD_MSG":
            raise self._damaged(error.str())
        elif error.fatal() or not is_transient(error):
            raise self._error(error.str())

    def _handle_partition_end(self, offset: int) -> None:
        """Handle the event that the partition ends at `offset`.

        If the range ends at or before `offset`, the range is complete, and `_position` is set to
        the range's end. The last offsets of the range can be transaction markers, which the client
        doesn't return.

        If the range ends after `offset`, the current end of the partition is looked up. If the
        range also ends after the current end, missing records are reported.
        """
        if offset >= self._range.end:
            self._position = self._range.end
        elif self._watermarks()[1] < self._range.end:
            self._handle_out_of_range()

    def _handle_out_of_range(self) -> None:
        """Report the offsets of the range that are missing in the partition, and skip them.

        Offsets are missing if Kafka's retention has deleted records, or if the topic was deleted
        and created again. After a change of the leader, the partition may have the offsets again.
        In this case, nothing is reported, and the read continues.
        """
        if self._position >= self._range.end:
            return
        low, high = self._watermarks()
        if low <= self._position < high and self._range.end <= high:
            self._assign()  # the state was transient, for example a change of the leader
            return
        if low > self._position:
            first, until = self._position, min(low, self._range.end)
        else:
            first, until = max(self._position, high), self._range.end
        self._loss.report(
            f"{self._range.partition}: offsets {first} to {until - 1} are missing, the partition "
            f"has {low} to {high - 1}" + (" (it is empty)" if low == high else ""),
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

    def _handle_stall(self) -> None:
        """Find out why no record has arrived within the timeout.

        Missing records are reported if the partition no longer exists, or if it ends before the
        range ends.

        Raises:
            KafkaError: the brokers don't answer, or they don't send the records of the partition.
        """
        from confluent_kafka import KafkaException

        topic, number = self._range.partition
        try:
            known = self._consumer.list_topics(topic, timeout=self._lookup_timeout).topics[topic]
        except KafkaException:
            raise self._error(str(self._client_errors) or "the brokers don't answer") from None
        if known.error is not None and known.error.name() not in _UNKNOWN:
            raise self._error(known.error.str())
        if known.error is not None or number not in known.partitions:
            self._loss.report(
                f"{self._range.partition}: the partition doesn't exist any more", topic
            )
            self._position = self._range.end
        elif self._watermarks()[1] < self._range.end:
            self._handle_out_of_range()
        else:
            raise self._error(str(self._client_errors) or "the broker sends no records")

    def _assign(self) -> None:
        from confluent_kafka import TopicPartition

        topic, number = self._range.partition
        self._consumer.assign([TopicPartition(topic, number, self._position)])

    def _watermarks(self) -> tuple[int, int]:
        from confluent_kafka import KafkaException, TopicPartition

        topic, number = self._range.partition
        try:
            watermarks = self._consumer.get_watermark_offsets(
                TopicPartition(topic, number), timeout=self._lookup_timeout
            )
        except KafkaException as failure:
            raise self._error(failure.args[0].str()) from None
        if watermarks is None:
            raise self._error(str(self._client_errors) or "the brokers don't answer")
        low, high = watermarks
        return low, high

    def _damaged(self, reason: str) -> KafkaError:
        properties = self._options.properties
        return KafkaError(
            f"Kafka {self._range.partition}: the brokers {properties.bootstrap_servers} return "
            f"damaged records between offsets {self._range.start} and {self._range.end - 1}: "
            f"{properties.scrub(reason)}. Check the disks of the brokers, and restore the "
            "partition from another replica. To read the records as they are, set the property "
            "check.crcs to false.",
            topic=self._range.partition.topic,
        )

    def _error(self, reason: str) -> KafkaError:
        return KafkaError(
            f"Kafka {self._range.partition}: reading offset {self._position} (up to "
            f"{self._range.end}) from the brokers {self._options.properties.bootstrap_servers} "
            f"failed: {self._options.properties.scrub(reason)}. Check that the brokers run and are "
            "reachable from this machine, or raise kafkaConsumer.pollTimeoutMs "
            f"({self._options.timeout:g} s), the time to wait for a record.",
            topic=self._range.partition.topic,
        )


_FIRST_BATCH_ROWS = 500
_BATCH_BYTES = 8 << 20
_POLL = 0.1
_LOOKUP_TIMEOUT = 10.0

_OUT_OF_RANGE = {"_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"}
_UNKNOWN = {"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "UNKNOWN_TOPIC_ID"}
