"""Runs all topics of a configuration in one Spark application.

Each topic is a streaming query over the Kafka source. It resumes from the offsets in its table; its
checkpoint is deleted after the run, so that the table is the only record of what was read. With
more topics than `max-queries`, `bayou.ingest.runtime.scheduler` schedules their batches instead.
`bayou.ingest.runtime.topic_restarts` restarts topics that stop while others run.
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

_POLL_INTERVAL = 0.2
_MAX_MAINTENANCE_TASKS = 4
"""Maximum number of concurrent maintenance tasks; one may take long if its object store hangs."""


def run_pipeline(
    configuration: Configuration,
    *,
    once: bool,
    reporter: Reporter,
    stop: threading.Event | None = None,
    spark: SparkSession | None = None,
) -> tuple[TopicSummary, ...]:
    """Run every topic of a configuration.

    Args:
        configuration: the configuration.
        once: end when all currently available records are in the tables; otherwise run until
            `stop` is set.
        reporter: receives the events of the run.
        stop: when set, running batches finish and the run ends.
        spark: the session to use; None to start a session and stop it at the end.

    Returns:
        The summary of each topic; the error of one topic doesn't stop the others.

    Raises:
        ConfigurationError: a schema file is invalid, or a setting isn't supported.
        PrerequisiteError: Java is missing.
        PipelineError: Spark doesn't start, or ends before any topic has started.
    """
    configuration.check_runnable()
    schemas = topic_schemas(configuration)
    slots = threading.BoundedSemaphore(_MAX_MAINTENANCE_TASKS)

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
            # Topics without work now may be restarted later, so they count too.
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
    """Prepare all topics in parallel, so that timeouts of a broker or a store don't add up."""
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
    """Wait until all topics have ended or `stop` is set; report each topic when it ends.

    Args:
        runs: the runs by topic; a restarted run replaces the stopped one.
    """
    running = dict(runs)
    while running:
        ended = [
            running.pop(key)
            for key, run in runs.items()
            if key in running
            and not run.active
            and (spark is None or not run.recover(spark, once=once))
        ]
        for run in ended:
            if once:
                run.complete()
            restarts.stopped(run, others=bool(running) and not once)
        if running:
            for run in restarts.ready():
                runs[run.topic.key] = running[run.topic.key] = run
                begin(run)
        for run in running.values():
            run.maintain()
        if not running or (stop is not None and stop.is_set()):
            return
        time.sleep(_POLL_INTERVAL)


def _session(configuration: Configuration) -> SparkSession:
    spark = configuration.connector.spark
    conf = without_delta_spark(spark.conf())
    return pipeline_session(configuration.state_path, master=spark.master, conf=conf)
