"""Runs all topics of a configuration in one Spark application.

Each topic resumes after the offsets that its table has recorded, so a run needs no other state. The
scheduler (`bayou.ingest.runtime.scheduler`) runs the micro-batches of all topics. While Spark
starts, small batches run without Spark (`bayou.ingest.batch.startup_session`). A run with `once`
that has few records ends without starting Spark. A topic that stops with a transient error is
restarted while other topics run (`bayou.ingest.runtime.topic_restarts`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from pyspark.sql import SparkSession

from bayou.errors import BayouError
from bayou.ingest.background_task import BackgroundTask, run_parallel
from bayou.ingest.batch.startup_session import MAX_RECORDS, StartupSession
from bayou.ingest.broker import TopicEndOffsets
from bayou.ingest.config import Configuration, Topic, without_delta_spark
from bayou.ingest.events import Reporter, TopicSummary
from bayou.ingest.local_state import create_folder
from bayou.ingest.runtime.scheduler import Scheduler
from bayou.ingest.runtime.session import (
    LOG_NAME,
    pipeline_session,
    start_workers,
    stop_session,
)
from bayou.ingest.runtime.shared_tables import SharedTables
from bayou.ingest.runtime.topic_discovery import TopicDiscovery
from bayou.ingest.runtime.topic_restarts import TopicRestarts
from bayou.ingest.runtime.topic_run import TopicRun
from bayou.ingest.schema.files import topic_schemas
from bayou.ingest.spark_errors import translate_errors
from bayou.kernel.transaction.background_hooks import BackgroundHooks
from bayou.spark.session.prerequisites import check_java

_POLL_SECONDS = 0.2
_MAX_CONCURRENT_MAINTENANCE = 4
"""Maximum number of tables under maintenance at once; more than one, because a store may hang."""

_MAX_SECONDS_WITHOUT_SPARK = 10.0
"""Seconds after which a run with `once` and few records starts Spark, see `_ends_without_spark`."""


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
        configuration: the configuration.
        once: if True, the run ends as soon as all records that Kafka has at the start are in the
            tables. If False, it ends when `stop` is set.
        reporter: receives the events of all topics.
        stop: when this event is set, running batches are finished and the run ends.
        spark: the session to use; None to start a session, which is stopped at the end.

    Returns:
        A summary of each topic. The error of one topic doesn't stop the others.

    Raises:
        ConfigurationError: a schema file is invalid, or the configuration has unsupported settings.
        PrerequisiteError: Java isn't installed.
        PipelineError: Spark doesn't start, or ends before any topic has started.

    Examples:
        >>> configuration = load_configuration("pipeline.yaml")
        >>> summaries = run_pipeline(configuration, once=True, reporter=NotebookProgress())
        >>> print([(summary.topic, summary.rows) for summary in summaries])
    """
    configuration.check_runnable()
    schemas = topic_schemas(configuration)
    slots = threading.BoundedSemaphore(_MAX_CONCURRENT_MAINTENANCE)
    tables = SharedTables(configuration, reporter, slots)

    def new_run(topic: Topic, before: TopicRun | None = None) -> TopicRun:
        schema = schemas[topic.section]
        return TopicRun(configuration, topic, schema, reporter, tables=tables, before=before)

    runs = {topic.key: new_run(topic) for topic in configuration.topics}
    restarts = TopicRestarts(new_run)
    discovery = TopicDiscovery(configuration, new_run, restarts)
    scheduler: Scheduler | None = None
    startup: StartupSession | None = None
    own_session: SparkSession | None = None
    with BackgroundHooks():
        try:
            if spark is None and not once:
                startup = _startup_session(configuration)
            _prepare(list(runs.values()), once=once)
            runs_with_work = [run for run in runs.values() if run.has_work]
            if runs_with_work or (discovery.is_enabled and not once):
                session: SparkSession | StartupSession
                if spark is None:
                    check_java()
                    session = startup = startup or _startup_session(configuration)
                else:
                    session = spark
                ends = TopicEndOffsets(configuration.connector.kafka.client_properties())
                scheduler = Scheduler(session, ends, once=once)
                for run in runs_with_work:
                    scheduler.add(run)
                scheduler.start()
                if startup is not None and not (
                    once and _ends_without_spark(runs_with_work, scheduler, startup, stop)
                ):
                    own_session = _session_unless_stopped(configuration, startup, stop)
                    if own_session is not None:
                        with translate_errors():
                            start_workers(own_session)
                        scheduler.use(own_session)
                        startup.started(own_session)
            _wait(runs, scheduler, stop, restarts, discovery, once=once)
            if scheduler is not None:
                scheduler.stop()  # so that the running batches of all topics end at the same time
            restarts.end()
            discovery.end()
            return tuple(restarts.total_summary(run.finish()) for run in runs.values())
        finally:
            if scheduler is not None:
                scheduler.stop()
            if startup is not None:
                startup.close()
            for run in runs.values():
                run.abandon()
            if own_session is not None:
                stop_session(own_session)


def _prepare(runs: Sequence[TopicRun], *, once: bool) -> None:
    """Prepare all topics in parallel, so that timeouts of the brokers don't add up."""
    run_parallel(lambda run: run.prepare(once=once), runs)
    for run in runs:
        run.report_if_idle()


def _ends_without_spark(
    runs: Sequence[TopicRun],
    scheduler: Scheduler,
    startup: StartupSession,
    stop: threading.Event | None,
) -> bool:
    """Wait until all topics have ended, and return whether the run can end without Spark.

    Spark isn't started for a run with `once` and few records, because the start of Spark takes
    longer than reading these records, and slows the reading down. The result is False as soon as
    Spark is needed: if there are more records, for a catalog entry, for a batch, or for the
    maintenance of a large table. It is also False after 10 seconds. If `stop` is set, no more
    batches are started, and the running ones are awaited.
    """
    if sum(run.waiting for run in runs) > MAX_RECORDS or any(run.has_entries for run in runs):
        return False
    deadline = time.monotonic() + _MAX_SECONDS_WITHOUT_SPARK
    while any(run.active for run in runs):
        if startup.is_spark_needed:
            return False
        if _is_set(stop):
            scheduler.stop()
            if not scheduler.has_batches:
                break
        elif time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    if any(run.has_entries for run in runs):
        return False
    return _is_set(stop) or not any(run.needs_spark() for run in runs)


def _wait(
    runs: dict[str, TopicRun],
    scheduler: Scheduler | None,
    stop: threading.Event | None,
    restarts: TopicRestarts,
    discovery: TopicDiscovery,
    *,
    once: bool,
) -> None:
    """Wait until all topics have ended or `stop` is set; report each topic as soon as it ends.

    If the configuration has a `kafka-topic-pattern` and `once` is false, wait for new topics until
    `stop` is set, even after all topics have ended.

    Args:
        runs: the run of each topic by the topic's key. Restarted runs replace ended runs, and runs
            of new topics are added.
    """
    active = dict(runs)
    finds_topics = discovery.is_enabled and not once
    while active or finds_topics:
        ended = [active.pop(key) for key, run in runs.items() if key in active and not run.active]
        for run in ended:
            if once:
                _complete(run, list(runs.values()), stop)
            restarts.finish_run(run, may_restart=(bool(active) or finds_topics) and not once)
        if (active or finds_topics) and scheduler is not None:
            started = restarts.ready()
            for run in discovery.prepared(runs) if finds_topics else ():
                if run.has_work:
                    started.append(run)
                else:
                    runs[run.topic.key] = run
                    restarts.finish_run(run, may_restart=True)
            for run in started:
                runs[run.topic.key] = active[run.topic.key] = run
                scheduler.add(run)
        for run in active.values():
            run.maintain()
        if not (active or finds_topics) or _is_set(stop):
            return
        time.sleep(_POLL_SECONDS)


def _complete(run: TopicRun, runs: Sequence[TopicRun], stop: threading.Event | None) -> None:
    """Run due maintenance of an ended topic, until `stop` is set.

    The maintenance of a table stops when no topic uses it, so it is stopped for all `runs`.
    """
    if _is_set(stop):
        return
    completion = BackgroundTask(run.complete)
    while not completion.wait(_POLL_SECONDS):
        if _is_set(stop):
            for each in runs:
                each.stop_maintenance()
    completion.finish()


def _is_set(stop: threading.Event | None) -> bool:
    return stop is not None and stop.is_set()


def _startup_session(configuration: Configuration) -> StartupSession:
    create_folder(configuration.state_path)
    return StartupSession(_spark_conf(configuration), configuration.state_path / LOG_NAME)


def _session_unless_stopped(
    configuration: Configuration, startup: StartupSession, stop: threading.Event | None
) -> SparkSession | None:
    """Start Spark. If the start fails after a stop, and no batch needs Spark, return None.

    A signal that stops the pipeline may also reach Spark's JVM, and end it.
    """
    try:
        return _session(configuration)
    except BayouError:
        if not _is_set(stop) or startup.is_spark_needed:
            raise
    startup.not_started()
    return None


def _session(configuration: Configuration) -> SparkSession:
    master = configuration.connector.spark.master
    return pipeline_session(
        configuration.state_path, master=master, conf=_spark_conf(configuration)
    )


def _spark_conf(configuration: Configuration) -> dict[str, str]:
    catalog = configuration.connector.catalog
    return {
        **({} if catalog is None else catalog.spark_conf()),
        **without_delta_spark(configuration.connector.spark.conf()),
    }
