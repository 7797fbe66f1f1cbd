"""Streaming reads of Kafka topics, with read limits and Trigger.AvailableNow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from bayou.spark.kafka.cluster import KafkaCluster
from bayou.spark.kafka.consumer import read_range
from bayou.spark.kafka.data_loss import DataLoss
from bayou.spark.kafka.offsets import (
    OffsetRange,
    TopicPartition,
    limit_offsets,
    offsets_from_json,
    offsets_to_json,
)
from bayou.spark.kafka.options import KafkaSourceOptions
from bayou.spark.kafka.planning import (
    KafkaInputPartition,
    check_starts,
    input_partitions,
    resolve_position,
    selected_partitions,
)
from bayou.spark.streaming.read_limits import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

FIRST_START = "#start"
"""Key in the JSON of the first batch's end offset; its value is the batch's start offset.

If a query stops before it commits its first batch, Spark repeats the batch, but knows only the end
offset. Without this key, a start such as `latest` would be resolved again, and the records before
the new start would be lost. The key can't be the name of a topic, because topic names have no `#`.
"""


class KafkaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The stream reader of the Kafka source.

    Offsets have the same JSON as in Spark's Kafka source: `{"topic": {"0": 23}}`. In the first
    batch, the JSON of the end offset also contains the start offset (key `FIRST_START`). When the
    reader is pickled, the connection to the cluster is left out.

    Args:
        clock: function that returns monotonic time in seconds.
    """

    def __init__(
        self,
        options: KafkaSourceOptions,
        schema: pa.Schema,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._options = options
        self._schema = schema
        self._start = options.stream_start()
        self._loss = DataLoss(options.fail_on_data_loss)
        self._connection: KafkaCluster | None = None
        self._target: dict[TopicPartition, int] | None = None
        self._latest: dict[TopicPartition, int] | None = None
        self._initial: dict[TopicPartition, int] | None = None
        self._last_batch = float("-inf")
        self._waiting_since: float | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        partitions = selected_partitions(self._cluster, self._options)
        self._initial = resolve_position(
            self._start, partitions, self._cluster, self._options, "startingOffsets"
        )
        return offsets_to_json(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._ends(selected_partitions(self._cluster, self._options))

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        begin = _from_json(start)
        end = self._available(begin)
        self._latest = end
        if not isinstance(limit, ReadAllAvailable):
            new = self._existing(self._cluster.earliest, [p for p in end if p not in begin])
            end = {p: offset for p, offset in end.items() if p in begin or p in new}
            known = begin | new
            if self._target is None and self._must_wait(known, end):
                return start
            if isinstance(limit, ReadMaxRows):
                end = limit_offsets(limit.max_rows, known, end)
        if end == begin:
            return start
        first = {FIRST_START: offsets_to_json(begin)} if begin == self._initial else {}
        return {**offsets_to_json(end), **first}

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return None if self._latest is None else offsets_to_json(self._latest)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        # If Spark repeats the first batch after a restart, it passes a new initial offset as
        # `start`. The start of the original batch is in its end offset (`FIRST_START`).
        begin, until = _from_json(start), _from_json(end)
        if FIRST_START in end and FIRST_START not in start:
            begin = offsets_from_json(end[FIRST_START])
        for partition in sorted(begin.keys() - until.keys()):
            self._loss.report(f"{partition}: the partition doesn't exist any more", partition.topic)
        # Partitions that were added while the query runs are read from their first record.
        new = sorted(until.keys() - begin.keys())
        begin |= dict.fromkeys(new, 0)
        ranges = [OffsetRange(p, begin[p], until[p]) for p in sorted(until)]
        return input_partitions(check_starts(ranges, self._cluster, self._loss), self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, KafkaInputPartition):
            yield from read_range(partition.offsets, self._options, self._schema)

    def stop(self) -> None:
        self._connection = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_connection": None}

    @property
    def _cluster(self) -> KafkaCluster:
        if self._connection is None:
            self._connection = KafkaCluster(
                self._options.properties, self._options.planning_timeout
            )
        return self._connection

    def _available(self, begin: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the end offset of each partition, and report missing partitions and records.

        With Trigger.AvailableNow, these are the end offsets at the start of the query. With other
        triggers, these are the current end offsets.

        Args:
            begin: the offsets up to which the query has read.
        """
        if self._target is not None:
            end = self._target
        else:
            end = self._ends(self._cluster.partitions(self._options.selection))
        for partition, offset in begin.items():
            if partition not in end:
                self._loss.report(
                    f"{partition}: the partition doesn't exist any more, it was read up to offset "
                    f"{offset - 1}",
                    partition.topic,
                )
            elif end[partition] < offset:
                self._loss.report(
                    f"{partition}: it was read up to offset {offset - 1}, but its last offset is "
                    f"{end[partition] - 1}",
                    partition.topic,
                )
        return end

    def _ends(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the current end offset of each existing partition.

        A partition without an end offset is an error. If the partition were omitted,
        `Trigger.AvailableNow` would end without the partition's records, and a later batch could
        read the partition from its first record again.
        """
        return self._existing(self._cluster.latest, partitions)

    def _existing(
        self,
        request: Callable[[list[TopicPartition]], dict[TopicPartition, int]],
        partitions: list[TopicPartition],
    ) -> dict[TopicPartition, int]:
        """Request an offset of each partition that still exists.

        Args:
            request: function that requests an offset of each partition from the brokers.
            partitions: partitions that existed when they were listed. Partitions that have been
                deleted since then are omitted.

        Raises:
            KafkaError: the brokers report no offset of an existing partition.
        """
        offsets = request(partitions)
        if any(partition not in offsets for partition in partitions):
            existing = set(self._cluster.partitions(self._options.selection))
            partitions = [partition for partition in partitions if partition in existing]
        return self._cluster.require_offsets(offsets, partitions)

    def _must_wait(self, begin: dict[TopicPartition, int], end: dict[TopicPartition, int]) -> bool:
        """Whether the next batch must wait for `min_offsets_per_trigger` offsets."""
        min_offsets = self._options.min_offsets_per_trigger
        if min_offsets is None:
            return False
        now = self._clock()
        available = sum(max(0, end[p] - begin[p]) for p in end)
        if available and self._waiting_since is None:
            self._waiting_since = now
        if available < min_offsets and not self._delay_passed(now):
            return True
        self._last_batch = now
        self._waiting_since = None
        return False

    def _delay_passed(self, now: float) -> bool:
        delay = self._options.max_record_delay
        if delay is None:
            return now - self._last_batch >= self._options.max_trigger_delay
        return self._waiting_since is not None and now - self._waiting_since >= delay


def _from_json(offset: dict[str, Any]) -> dict[TopicPartition, int]:
    return offsets_from_json({key: value for key, value in offset.items() if key != FIRST_START})
