"""Runs all topics of a configuration in one Spark application.

Each topic starts where its table stands, so the table is the only record of what was read. The
scheduler (`bayou.ingest.runtime.scheduler`) runs the micro-batches of all topics. A topic that ends
with an error that may pass is started again while other topics continue
(`bayou.ingest.runtime.topic_restarts`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from pyspark.sql import SparkSession

from bayou.ingest.background_task import run_parallel
from bayou.ingest.broker import TopicEndOffsets
from bayou.ingest.config import Configuration, Topic, without_delta_spark
from bayou.ingest.events import Reporter, TopicSummary
from bayou.ingest.runtime.scheduler import Scheduler
from bayou.ingest.runtime.session import pipeline_session, start_workers, stop_session
from bayou.ingest.runtime.topic_restarts import TopicRestarts
from bayou.ingest.runtime.topic_run import TopicRun
from bayou.ingest.schema.files import topic_schemas
from bayou.ingest.topic_errors import translate_errors

__all__ = ["run_pipeline"]

_POLL_SECONDS = 0.2
_MAX_CONCURRENT_MAINTENANCE = 4
"""Number of tables. A table whose store hangs may occupy its slot for long."""


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
        once: end when the records that are there now are in the tables; else run until `stop`.
        reporter: receives the events of all topics.
        stop: when set, running batches are finished and the run ends.
        spark: a session to use; without it one is started, and stopped at the end.

    Returns:
        A summary of each topic. The error of one topic doesn't stop the others.

    Raises:
        ConfigurationError: a schema file isn't usable, or the file uses unsupported settings.
        PrerequisiteError: Java isn't installed.
        PipelineError: Spark doesn't start, or ends before any topic has started.
    """
    configuration.check_runnable()
    schemas = topic_schemas(configuration)
    slots = threading.BoundedSemaphore(_MAX_CONCURRENT_MAINTENANCE)

    def new_run(topic: Topic) -> TopicRun:
        return TopicRun(configuration, topic, schemas[topic.key], reporter, upkeep_slots=slots)

    runs = {topic.key: new_run(topic) for topic in configuration.topics}
    restarts = TopicRestarts(new_run)
    scheduler: Scheduler | None = None
    own_session: SparkSession | None = None
    try:
        _prepare(list(runs.values()), once=once)
        runs_with_work = [run for run in runs.values() if run.has_work]
        if runs_with_work:
            session = spark
            if session is None:
                session = own_session = _session(configuration)
                with translate_errors():
                    start_workers(own_session)
            ends = TopicEndOffsets(configuration.connector.kafka.client_properties())
            scheduler = Scheduler(session, ends, once=once)
            for run in runs_with_work:
                scheduler.add(run)
            scheduler.start()
        _wait(runs, scheduler, stop, restarts, once=once)
        restarts.end()
        return tuple(restarts.total_summary(run.finish()) for run in runs.values())
    finally:
        if scheduler is not None:
            scheduler.stop()
        for run in runs.values():
            run.abandon()
        if own_session is not None:
            stop_session(own_session)


def _prepare(runs: Sequence[TopicRun], *, once: bool) -> None:
    """Prepare all topics at once: a broker that doesn't answer is waited for once in total."""
    run_parallel(lambda run: run.prepare(once=once), runs)
    for run in runs:
        run.report_if_idle()


def _wait(
    runs: dict[str, TopicRun],
    scheduler: Scheduler | None,
    stop: threading.Event | None,
    restarts: TopicRestarts,
    *,
    once: bool,
) -> None:
    """Wait until all topics have ended or `stop` is set; a topic that ends is reported at once.

    Args:
        runs: by topic; a restarted run replaces the one that ended.
    """
    active = dict(runs)
    while active:
        ended = [active.pop(key) for key, run in runs.items() if key in active and not run.active]
        for run in ended:
            if once:
                run.complete()
            restarts.finish_run(run, may_restart=bool(active) and not once)
        if active and scheduler is not None:
            for run in restarts.ready():
                runs[run.topic.key] = active[run.topic.key] = run
                scheduler.add(run)
        for run in active.values():
            run.maintain()
        if not active or (stop is not None and stop.is_set()):
            return
        time.sleep(_POLL_SECONDS)


def _session(configuration: Configuration) -> SparkSession:
    spark = configuration.connector.spark
    conf = without_delta_spark(spark.conf())
    return pipeline_session(configuration.state_path, master=spark.master, conf=conf)
