"""Batches of many topics, a few at a time, in place of a streaming query for each.

One connection tells where all topics end. A topic that has a full batch, or whose first waiting
record has waited for its flush interval, gets in line, once; the threads that take batches serve
whoever came first. So a topic with a lot to do waits for its next batch as long as others have to
wait for theirs, and one that hangs holds one thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession

from bayou.errors import BayouError, KafkaError
from bayou.ingest.background_task import Errand
from bayou.ingest.broker import EndsOfTopics
from bayou.ingest.runtime.topic_run import TopicRun
from bayou.ingest.topic_errors import errors_of_topic, translated
from bayou.spark.kafka import TopicPartition
from bayou.spark.kafka.offsets import limit_offsets

__all__ = ["Turns"]

_THREADS = 16
"""Topics that are served at once. Most of a turn waits for brokers, stores and Spark."""

_LOOK = 0.5
_SHORTEST = 0.1


class Turns:
    """Serves topics until `stop`.

    Args:
        ends: tells where topics end.
        once: each ends where its topic ends now.
        clock: monotonic seconds; measures flush intervals and the pauses before retries.
    """

    def __init__(
        self,
        spark: SparkSession,
        ends: EndsOfTopics,
        *,
        once: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._spark = spark
        self._ends = ends
        self._once = once
        self._lines: list[_Line] = []
        self._failures = 0
        self._news = threading.Event()
        self._over = threading.Event()
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="bayou-turn")
        self._thread = threading.Thread(target=self._deal, name="bayou-turns", daemon=True)

    def begin(self) -> None:
        """Begin to serve topics, in threads of its own."""
        self._thread.start()

    def add(self, run: TopicRun) -> None:
        """Serve a topic whose run is prepared and has work, before `begin` or after it."""
        run.begin_turns()
        self._lines = [*(line for line in self._lines if line.run.active), _Line(run)]
        self._news.set()

    def stop(self) -> None:
        """No further turn begins; those that run are not waited for."""
        self._over.set()
        self._news.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _deal(self) -> None:
        while not self._over.is_set():
            self._news.clear()
            going = [line for line in self._lines if line.run.active]
            ends = self._latest(going)
            for line in going:
                if ends is not None:
                    with errors_of_topic(line.run.topic.key, partial(self._end, line)):
                        self._look(line, ends.get(line.run.topic.config.kafka_topic))
            self._over.wait(_SHORTEST)
            self._news.wait(_LOOK)

    def _latest(self, going: Sequence[_Line]) -> Mapping[str, Mapping[int, int]] | None:
        """The end of each topic; None where no broker answers.

        A topic whose own request raises an unexpected exception ends, and no other topic with it.
        """
        names = {line.run.topic.config.kafka_topic for line in going}
        try:
            ends = self._ends.latest(names)
        except KafkaError as error:
            self._brokers_failed(going, error)
            return None
        except Exception:  # noqa: BLE001  # asked again, topic by topic
            found: dict[str, Mapping[int, int]] = {}
            for line in going:
                key, name = line.run.topic.key, line.run.topic.config.kafka_topic
                with errors_of_topic(key, partial(self._end, line)), suppress(KafkaError):
                    found |= self._ends.latest({name})
            return found
        self._failures = 0
        return ends

    def _look(self, line: _Line, ends: Mapping[int, int] | None) -> None:
        now = self._clock()
        if line.busy or line.ended or now < line.not_before:
            return
        position = line.run.position
        if ends is None or any(end < position.get(p, 0) for p, end in ends.items()):
            self._serve(line, None)  # the topic is gone, or another one
            return
        if self._once:
            line.target = ends if line.target is None else line.target
            # What retention took may have led beyond it.
            ends = {p: max(end, position.get(p, 0)) for p, end in line.target.items()}
        waiting = sum(end - position.get(p, 0) for p, end in ends.items())
        if waiting == 0:
            line.since = None
            if self._once:
                self._end(line)
            return
        line.since = now if line.since is None else line.since
        processing = line.run.topic.config.processing
        if (
            self._once
            or waiting >= processing.batch_size
            or now - line.since >= processing.flush_interval
        ):
            self._serve(line, _limited(processing.batch_size, position, ends))

    def _serve(self, line: _Line, end: Mapping[int, int] | None) -> None:
        line.busy = True
        line.since = None
        try:
            self._pool.submit(self._turn, line, end)
        except RuntimeError:
            if not self._over.is_set():
                raise  # else `stop` has closed the pool while brokers were asked

    def _turn(self, line: _Line, end: Mapping[int, int] | None) -> None:
        key = line.run.topic.key
        try:
            with errors_of_topic(key, line.run.end_turns):
                with translated(key):
                    self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", key)
                pause = line.run.turn(self._spark, end)
                line.not_before = 0.0 if pause is None else self._clock() + pause
        finally:
            line.busy = False
            self._news.set()

    def _brokers_failed(self, going: Iterable[_Line], error: BayouError) -> None:
        self._failures += 1
        for line in going:
            if self._failures > line.run.topic.config.processing.max_retries:
                self._end(line, error)

    def _end(self, line: _Line, error: BayouError | None = None) -> None:
        """Without waiting for its turn, or for maintenance between two of them."""
        if not line.ended:
            line.ended = True
            Errand(lambda: line.run.end_turns(error))


@dataclass(slots=True)
class _Line:
    """A topic's place in line.

    Attributes:
        busy: it has a turn, or waits for one.
        since: when the first of the waiting records was seen; None where none waits.
        not_before: it failed, and is left alone for a while.
        target: where it ends, for a run that ends.
        ended: no turn will come any more.
    """

    run: TopicRun
    busy: bool = False
    since: float | None = None
    not_before: float = 0.0
    target: Mapping[int, int] | None = None
    ended: bool = False


def _limited(limit: int, position: Mapping[int, int], ends: Mapping[int, int]) -> dict[int, int]:
    partitions = {p: TopicPartition("", p) for p in ends}
    start = {key: position.get(p, 0) for p, key in partitions.items()}
    found = limit_offsets(limit, start, {key: ends[p] for p, key in partitions.items()})
    return {key.partition: end for key, end in found.items()}
