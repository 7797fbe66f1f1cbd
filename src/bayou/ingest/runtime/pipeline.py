"""The runner: all topics of a configuration in one Spark application.

Each topic is a streaming query over the Kafka source. It begins where its table stands and its
checkpoint lives no longer than the run, so that there is one truth about what was read: the table.
Where there are many topics they take turns instead, see `bayou.ingest.runtime.scheduler`. One that
stops while others go on may be begun again, see `bayou.ingest.runtime.topic_restarts`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from pyspark.sql import SparkSession

from bayou.ingest.background_task import all_at_once
from bayou.ingest.broker import EndsOfTopics
from bayou.ingest.config import Configuration, Topic, without_delta_spark
from bayou.ingest.events import Reporter, TopicSummary
from bayou.ingest.runtime.scheduler import Turns
from bayou.ingest.runtime.session import pipeline_session, start_workers, stop_session
from bayou.ingest.runtime.topic_restarts import Restarts
from bayou.ingest.runtime.topic_run import TopicRun
from bayou.ingest.schema.files import topic_schemas
from bayou.ingest.topic_errors import translated
from bayou.spark.kafka import KafkaDataSource

__all__ = ["run_pipeline"]

_POLL = 0.2
_MAINTAINED_AT_ONCE = 4
"""Tables; one whose store hangs may take its place for long."""


def run_pipeline(
    configuration: Configuration,
    *,
    once: bool,
    reporter: Reporter,
    stop: threading.Event | None = None,
    spark: SparkSession | None = None,
) -> tuple[TopicSummary, ...]:
    """Run every topic.

    Args:
        configuration: what to run.
        once: end when what is there now is in the tables; else go on until `stop`.
        reporter: listens.
        stop: when set, running batches are finished and the run ends.
        spark: a session to use; without it one is started, and stopped in the end.

    Returns:
        What became of each topic; the error of one doesn't stop the others.

    Raises:
        ConfigurationError: a schema file isn't usable, or the file asks for what isn't supported.
        PrerequisiteError: no Java.
        PipelineError: Spark doesn't start, or ends before any topic has begun.
    """
    configuration.check_runnable()
    schemas = topic_schemas(configuration)
    slots = threading.BoundedSemaphore(_MAINTAINED_AT_ONCE)

    def run_of(topic: Topic) -> TopicRun:
        return TopicRun(configuration, topic, schemas[topic.key], reporter, upkeep_slots=slots)

    runs = {topic.key: run_of(topic) for topic in configuration.topics}
    restarts = Restarts(run_of)
    turns: Turns | None = None
    own: SparkSession | None = None
    try:
        _prepare(list(runs.values()), once=once)
        session = spark
        working = [run for run in runs.values() if run.has_work]
        if working:
            if session is None:
                session = own = _session(configuration)
            with translated(state_path=configuration.state_path):
                if own is not None:
                    start_workers(own)
                session.dataSource.register(KafkaDataSource)
            # Topics that can't begin now may do so later.
            if len(working if once else runs) > configuration.connector.max_queries:
                ends = EndsOfTopics(configuration.connector.kafka.client_properties())
                turns = Turns(session, ends, once=once)
        begin = partial(_begin, turns=turns, spark=session, once=once)
        for run in working:
            begin(run)
        if turns is not None:
            turns.begin()
        _wait(runs, session, stop, restarts, begin, once=once)
        restarts.end()
        return tuple(restarts.whole(run.finish()) for run in runs.values())
    finally:
        if turns is not None:
            turns.stop()
        for run in runs.values():
            run.abandon()
        if own is not None:
            stop_session(own)


def _begin(run: TopicRun, *, turns: Turns | None, spark: SparkSession | None, once: bool) -> None:
    if turns is not None:
        turns.add(run)
    elif spark is not None:
        run.begin(spark, once=once)


def _prepare(runs: Sequence[TopicRun], *, once: bool) -> None:
    """All at once: a broker or a store that doesn't answer is waited for once, not once a topic."""
    all_at_once(lambda run: run.prepare(once=once), runs)
    for run in runs:
        run.tell_if_idle()


def _wait(
    runs: dict[str, TopicRun],
    spark: SparkSession | None,
    stop: threading.Event | None,
    restarts: Restarts,
    begin: Callable[[TopicRun], None],
    *,
    once: bool,
) -> None:
    """Until all have ended or `stop` is set; those that end are told at once.

    Args:
        runs: by topic; one that is begun again takes the place of the one that stopped.
    """
    going = dict(runs)
    while going:
        ended = [
            going.pop(key)
            for key, run in runs.items()
            if key in going
            and not run.active
            and (spark is None or not run.recover(spark, once=once))
        ]
        for run in ended:
            if once:
                run.complete()
            restarts.stopped(run, others=bool(going) and not once)
        if going:
            for run in restarts.ready():
                runs[run.topic.key] = going[run.topic.key] = run
                begin(run)
        for run in going.values():
            run.maintain()
        if not going or (stop is not None and stop.is_set()):
            return
        time.sleep(_POLL)


def _session(configuration: Configuration) -> SparkSession:
    spark = configuration.connector.spark
    conf = without_delta_spark(spark.conf())
    return pipeline_session(configuration.state_path, master=spark.master, conf=conf)
