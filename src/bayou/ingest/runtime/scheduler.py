"""Schedules the micro-batches of all topics, and runs several batches concurrently.

The end offsets of all topics are polled over one connection. A batch of a topic is due when Kafka
has `batch-size` unread records, or when the first unread record has waited for `flush-interval`.
Batches that are due wait in a queue for a thread of a pool, in the order in which they became due.
Each topic has at most one batch that is queued or running. Therefore a busy topic doesn't delay
other topics, and a topic that hangs occupies only one thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession

from bayou.errors import BayouError, KafkaError
from bayou.ingest.background_task import BackgroundTask
from bayou.ingest.batch.startup_session import MAX_RECORDS, StartupSession
from bayou.ingest.broker import TopicEndOffsets
from bayou.ingest.runtime.topic_run import TopicRun
from bayou.ingest.spark_errors import translate_errors
from bayou.ingest.topic_errors import report_topic_errors
from bayou.spark.kafka import TopicPartition
from bayou.spark.kafka.offsets import limit_offsets

_THREADS = 16
"""Maximum number of concurrent batches, which mostly wait for brokers, stores and Spark."""

_MIN_POLL_SECONDS = 0.1
_MAX_POLL_SECONDS = 0.5
_PREPARE_SECONDS = 24 * 3600.0
"""Seconds after which a topic is prepared again, so that idle tables are checked regularly."""

_MAX_POLL_FRACTION = 0.1
"""Maximum fraction of the scheduler's time that requests for end offsets may take."""


class Scheduler:
    """Runs the micro-batches of many topics until `stop`.

    Args:
        spark: the Spark session; a `StartupSession` while Spark is starting. A call of `use`
            replaces the `StartupSession` by the Spark session.
        ends: object that requests the end offsets of topics from the brokers.
        once: if True, each topic stops at the end offsets that its first poll has returned.
        clock: monotonic clock for flush intervals and for pauses before retries.
    """

    def __init__(
        self,
        spark: SparkSession | StartupSession,
        ends: TopicEndOffsets,
        *,
        once: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._spark = spark
        self._ends = ends
        self._once = once
        self._topics: list[_ScheduledTopic] = []
        self._changed = threading.Event()
        self._stopped = threading.Event()
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="bayou-batch")
        self._counting = threading.RLock()
        self._batches = 0  # queued and running batches
        self._thread = threading.Thread(target=self._poll, name="bayou-scheduler", daemon=True)

    def start(self) -> None:
        """Start to poll the brokers and to run batches, in background threads."""
        self._thread.start()

    def add(self, run: TopicRun) -> None:
        """Add a prepared topic and report its start. Can be called before or after `start`."""
        run.start(self._spark)
        self._topics = [
            *(topic for topic in self._topics if topic.run.active),
            _ScheduledTopic(run, prepared=self._clock()),
        ]
        self._changed.set()

    def use(self, spark: SparkSession) -> None:
        """Set the Spark session that batches and maintenance use from now on."""
        self._spark = spark
        for topic in self._topics:
            topic.run.use(spark)
        self._changed.set()

    def stop(self) -> None:
        """Start no more batches. This method doesn't wait for running batches."""
        self._stopped.set()
        self._changed.set()
        with self._counting:
            self._pool.shutdown(wait=False, cancel_futures=True)

    @property
    def has_batches(self) -> bool:
        """Whether a batch is queued or running. After `stop`, no more batches are queued."""
        with self._counting:
            return self._batches > 0

    def _poll(self) -> None:
        while not self._stopped.is_set():
            self._changed.clear()
            topics = [topic for topic in self._topics if topic.run.active and not topic.ended]
            began = time.monotonic()
            for topic, ends in self._latest(topics):
                with report_topic_errors(topic.key, partial(self._end, topic)):
                    self._schedule(topic, ends)
            pause = (time.monotonic() - began) / _MAX_POLL_FRACTION
            self._stopped.wait(_MIN_POLL_SECONDS)
            self._changed.wait(min(pause, _MAX_POLL_SECONDS) - _MIN_POLL_SECONDS)

    def _latest(
        self, topics: Sequence[_ScheduledTopic]
    ) -> list[tuple[_ScheduledTopic, Mapping[int, int] | None]]:
        """Return the topics whose next batch can start now, and the end offsets of each topic.

        A topic with a queued or running batch, or with a pause before a retry, is omitted. If the
        brokers don't report a topic, its end offsets are None.

        If the request for all topics raises an unexpected exception, each topic is requested
        separately. Topics whose own request also raises such an exception are stopped.
        """
        now = self._clock()
        topics = [topic for topic in topics if not topic.busy and topic.not_before <= now]
        if not topics:
            return []
        try:
            ends = self._ends.latest({topic.name for topic in topics})
        except KafkaError as error:
            for topic in topics:
                self._broker_failed(topic, error)
            return []
        except Exception:  # noqa: BLE001  # repeated for each topic, to find the cause
            return [result for topic in topics for result in self._latest_of(topic)]
        return [(topic, ends.get(topic.name)) for topic in topics]

    def _latest_of(
        self, topic: _ScheduledTopic
    ) -> list[tuple[_ScheduledTopic, Mapping[int, int] | None]]:
        with report_topic_errors(topic.key, partial(self._end, topic)), suppress(KafkaError):
            return [(topic, self._ends.latest({topic.name}).get(topic.name))]
        return []

    def _schedule(self, topic: _ScheduledTopic, ends: Mapping[int, int] | None) -> None:
        now = self._clock()
        position = topic.run.position
        if ends is None or any(end < position.get(p, 0) for p, end in ends.items()):
            self._submit(topic, None)  # the topic doesn't exist, or was recreated
            return
        if self._once and topic.target is None and (missing := position.keys() - ends.keys()):
            self._partition_missing(topic, min(missing))
            return
        topic.broker_failures = 0
        # Without a table, no offsets are committed yet, so a new preparation would start over.
        if topic.run.has_table and now - topic.prepared >= _PREPARE_SECONDS:
            self._submit(topic, None)
            return
        if self._once:
            topic.target = ends if topic.target is None else topic.target
            # If Kafka deleted records before they were read, the position may be after the target.
            ends = {p: max(end, position.get(p, 0)) for p, end in topic.target.items()}
        waiting = sum(end - position.get(p, 0) for p, end in ends.items())
        if waiting == 0:
            topic.waiting_since = None
            if self._once:
                self._end(topic)
            return
        topic.waiting_since = now if topic.waiting_since is None else topic.waiting_since
        limit = topic.run.batch_limit
        if isinstance(self._spark, StartupSession):
            if waiting > MAX_RECORDS and not topic.run.has_columns:
                return  # wait for a full batch, from which columns are inferred
            limit = min(limit, MAX_RECORDS)
        flush_interval = topic.run.topic.config.processing.flush_interval
        if self._once or waiting >= limit or now - topic.waiting_since >= flush_interval:
            self._submit(topic, _batch_end(limit, position, ends))

    def _submit(self, topic: _ScheduledTopic, end: Mapping[int, int] | None) -> None:
        topic.busy = True
        topic.waiting_since = None
        if end is None:
            topic.prepared = self._clock()
        with self._counting:
            if not self._stopped.is_set():  # otherwise `stop` may have closed the pool
                batch = self._pool.submit(self._run_batch, topic, end)
                self._batches += 1
                batch.add_done_callback(self._batch_ended)

    def _batch_ended(self, _batch: Future[None]) -> None:
        with self._counting:
            self._batches -= 1

    def _run_batch(self, topic: _ScheduledTopic, end: Mapping[int, int] | None) -> None:
        try:
            with report_topic_errors(topic.key, topic.run.end):
                with translate_errors(topic.key):
                    self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", topic.key)
                pause = topic.run.run_batch(self._spark, end)
                topic.not_before = 0.0 if pause is None else self._clock() + pause
        finally:
            topic.busy = False
            self._changed.set()

    def _partition_missing(self, topic: _ScheduledTopic, partition: int) -> None:
        """Poll a topic again after a pause, because the brokers don't report one of its partitions.

        For example, a new leader may not know the partition yet. Without the pause, a run with
        `once` would end without the records of this partition.
        """
        self._ends.reload_partitions()
        error = KafkaError(
            f"Topic {topic.name!r}: the brokers know the topic but report no end offset of its "
            f"partition {partition}. Check that all brokers are running.",
            topic=topic.name,
        )
        self._broker_failed(topic, error)

    def _broker_failed(self, topic: _ScheduledTopic, error: KafkaError) -> None:
        topic.broker_failures += 1
        pause = topic.run.retry_pause(error, topic.broker_failures)
        if pause is None:
            self._end(topic, error)
        else:
            topic.not_before = self._clock() + pause

    def _end(self, topic: _ScheduledTopic, error: BayouError | None = None) -> None:
        """End a topic in the background, because `end` waits for a running batch or maintenance."""
        if not topic.ended:
            topic.ended = True
            BackgroundTask(lambda: topic.run.end(error))


@dataclass(slots=True)
class _ScheduledTopic:
    """The scheduling state of a topic.

    Attributes:
        prepared: the time at which the topic was added, or was last queued to be prepared again.
        waiting_since: the time at which a poll first found an unread record; None if there is no
            unread record.
        not_before: the time before which no batch starts, because of a pause after a failure.
        broker_failures: number of failed polls since the last poll that returned all end offsets.
        target: the end offsets at which the topic stops, for a run with `once`.
    """

    run: TopicRun
    prepared: float
    busy: bool = False
    waiting_since: float | None = None
    not_before: float = 0.0
    broker_failures: int = 0
    target: Mapping[int, int] | None = None
    ended: bool = False

    @property
    def key(self) -> str:
        return self.run.topic.key

    @property
    def name(self) -> str:
        return self.run.topic.config.kafka_topic


def _batch_end(limit: int, position: Mapping[int, int], ends: Mapping[int, int]) -> dict[int, int]:
    """Return the end offset of each Kafka partition for a batch of at most `limit` records.

    Args:
        limit: maximum number of records of all partitions together.
        position: the next offset to read from each partition.
        ends: the end offset of each partition on the brokers.
    """
    partitions = {p: TopicPartition("", p) for p in ends}
    start = {key: position.get(p, 0) for p, key in partitions.items()}
    limited = limit_offsets(limit, start, {key: ends[p] for p, key in partitions.items()})
    return {key.partition: end for key, end in limited.items()}
