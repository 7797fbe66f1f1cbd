"""Decides when the micro-batch of each topic is due and runs a few batches at the same time.

One connection asks the brokers for the end of all topics. A topic with a full batch, or whose first
waiting record has waited for the flush interval, gets one place in a first-in, first-out queue.
Worker threads serve the queue: a busy topic waits for its next batch while other topics have
theirs, and a topic that hangs occupies one thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession

from bayou.errors import BayouError, KafkaError
from bayou.ingest.background_task import BackgroundTask
from bayou.ingest.broker import TopicEndOffsets
from bayou.ingest.runtime.topic_run import TopicRun
from bayou.ingest.topic_errors import report_topic_errors, translate_errors
from bayou.spark.kafka import TopicPartition
from bayou.spark.kafka.offsets import limit_offsets

__all__ = ["Scheduler"]

_THREADS = 16
"""Maximum number of concurrent batches. A batch mostly waits for brokers, stores and Spark."""

_MIN_POLL_SECONDS = 0.1
_MAX_POLL_SECONDS = 0.5
_POLL_SHARE = 0.1
"""Highest share of the time that requests for the end of topics may take."""


class Scheduler:
    """Runs the micro-batches of many topics until `stop`.

    Args:
        spark: runs the batches.
        ends: asks the brokers where topics end.
        once: each topic ends at the offsets where it ends now.
        clock: monotonic seconds; measures flush intervals and the pauses before retries.
    """

    def __init__(
        self,
        spark: SparkSession,
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
        self._thread = threading.Thread(target=self._poll, name="bayou-scheduler", daemon=True)

    def start(self) -> None:
        """Start to poll the brokers and to run batches, in background threads."""
        self._thread.start()

    def add(self, run: TopicRun) -> None:
        """Start a prepared topic; before `start` or after it."""
        run.start()
        self._topics = [
            *(topic for topic in self._topics if topic.run.active),
            _ScheduledTopic(run),
        ]
        self._changed.set()

    def stop(self) -> None:
        """Start no further batch; doesn't wait for running ones."""
        self._stopped.set()
        self._changed.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _poll(self) -> None:
        while not self._stopped.is_set():
            self._changed.clear()
            topics = [topic for topic in self._topics if topic.run.active and not topic.ended]
            began = time.monotonic()
            for topic, ends in self._latest(topics):
                with report_topic_errors(topic.key, partial(self._end, topic)):
                    self._schedule(topic, ends)
            pause = (time.monotonic() - began) / _POLL_SHARE
            self._stopped.wait(_MIN_POLL_SECONDS)
            self._changed.wait(min(pause, _MAX_POLL_SECONDS) - _MIN_POLL_SECONDS)

    def _latest(
        self, topics: Sequence[_ScheduledTopic]
    ) -> list[tuple[_ScheduledTopic, Mapping[int, int] | None]]:
        """The end of each topic that is neither busy nor pauses; None where the topic is missing.

        A topic whose own request raises an unexpected exception ends, and no other topic with it.
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
        except Exception:  # noqa: BLE001  # repeated for each topic, to find the one that fails
            return [found for topic in topics for found in self._latest_of(topic)]
        for topic in topics:
            topic.broker_failures = 0
        return [(topic, ends.get(topic.name)) for topic in topics]

    def _latest_of(
        self, topic: _ScheduledTopic
    ) -> list[tuple[_ScheduledTopic, Mapping[int, int] | None]]:
        with report_topic_errors(topic.key, partial(self._end, topic)), suppress(KafkaError):
            return [(topic, self._ends.latest({topic.name}).get(topic.name))]
        return []

    def _schedule(self, topic: _ScheduledTopic, ends: Mapping[int, int] | None) -> None:
        """Queue a topic's next batch if it is due."""
        now = self._clock()
        position = topic.run.position
        if ends is None or any(end < position.get(p, 0) for p, end in ends.items()):
            self._submit(topic, None)  # the topic is missing, or was deleted and created again
            return
        if self._once:
            topic.target = ends if topic.target is None else topic.target
            # Retention may have moved the position beyond the target.
            ends = {p: max(end, position.get(p, 0)) for p, end in topic.target.items()}
        waiting = sum(end - position.get(p, 0) for p, end in ends.items())
        if waiting == 0:
            topic.waiting_since = None
            if self._once:
                self._end(topic)
            return
        topic.waiting_since = now if topic.waiting_since is None else topic.waiting_since
        processing = topic.run.topic.config.processing
        if (
            self._once
            or waiting >= processing.batch_size
            or now - topic.waiting_since >= processing.flush_interval
        ):
            self._submit(topic, _batch_end(processing.batch_size, position, ends))

    def _submit(self, topic: _ScheduledTopic, end: Mapping[int, int] | None) -> None:
        topic.busy = True
        topic.waiting_since = None
        try:
            self._pool.submit(self._run_batch, topic, end)
        except RuntimeError:
            if not self._stopped.is_set():
                raise  # otherwise `stop` has closed the pool in the meantime

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

    def _broker_failed(self, topic: _ScheduledTopic, error: KafkaError) -> None:
        topic.broker_failures += 1
        pause = topic.run.retry_pause(error, topic.broker_failures)
        if pause is None:
            self._end(topic, error)
        else:
            topic.not_before = self._clock() + pause

    def _end(self, topic: _ScheduledTopic, error: BayouError | None = None) -> None:
        """End a topic in the background: its running batch or maintenance may take long."""
        if not topic.ended:
            topic.ended = True
            BackgroundTask(lambda: topic.run.end(error))


@dataclass(slots=True)
class _ScheduledTopic:
    """The scheduling state of a topic.

    Attributes:
        busy: a batch is queued or runs.
        waiting_since: when the first waiting record was seen; None if none waits.
        not_before: the end of the pause after a failure.
        broker_failures: how many requests in a row no broker answered.
        target: the offsets where the topic ends, in a run with `once`.
        ended: no further batch is scheduled.
    """

    run: TopicRun
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
    """The end of a batch of at most `limit` records, spread over the partitions."""
    partitions = {p: TopicPartition("", p) for p in ends}
    start = {key: position.get(p, 0) for p, key in partitions.items()}
    limited = limit_offsets(limit, start, {key: ends[p] for p, key in partitions.items()})
    return {key.partition: end for key, end in limited.items()}
