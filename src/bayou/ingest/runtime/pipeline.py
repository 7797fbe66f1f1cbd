"""Runs all topics of a configuration in one Spark application.

Each topic resumes after the offsets that its table has recorded, so a run needs no other state.
These modules have the parts of a run:

- `bayou.ingest.runtime.scheduler` runs the micro-batches of all topics.
- `bayou.ingest.batch.startup_session` runs small batches without Spark until Spark has started. If
  a run with `once` has only a few records, it doesn't start Spark at all.
- `bayou.ingest.runtime.topic_restarts` restarts topics that stopped with a transient error.
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
"""Maximum number of tables under maintenance at once.

More than one table is allowed, so that a store that hangs doesn't block all tables.
"""

_MAX_SECONDS_WITHOUT_SPARK = 10.0
"""Seconds after which `_ends_without_spark` returns False, so that the run starts Spark."""


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
        once: if True, the run ends when it has processed all records that Kafka has at the start.
            If False, the run ends when `stop` is set.
        reporter: receives the events of all topics.
        stop: event that ends the run. Batches that are running are completed first.
        spark: the Spark session to use. If None, the run starts its own session and stops it at the
            end.

    Returns:
        A summary of each topic. The error of one topic doesn't stop the others.

    Raises:
        ConfigurationError: a schema file is invalid, or the configuration has unsupported settings.
        PrerequisiteError: Java isn't installed.
        PipelineError: Spark doesn't start, or it ends before any topic has started.

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
    """Prepare all topics in parallel, so that the timeouts of several brokers don't add up."""
    run_parallel(lambda run: run.prepare(once=once), runs)
    for run in runs:
        run.report_if_idle()


def _ends_without_spark(
    runs: Sequence[TopicRun],
    scheduler: Scheduler,
    startup: StartupSession,
    stop: threading.Event | None,
) -> bool:
    """Wait until all topics have ended or Spark is needed; return False if Spark is needed.

    A run with `once` and few records doesn't start Spark, because the start would take longer than
    reading the records. Spark is needed for many records, for a catalog entry, for some batches,
    and for the maintenance of a large table. The result is also False if the topics haven't ended
    after 10 seconds. If `stop` is set, this function waits only for running batches.
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
    """Wait until all topics have ended or `stop` is set. Report the end of each topic immediately.

    If the configuration has a `kafka-topic-pattern` and `once` is false, this function waits for
    new topics until `stop` is set, even if all topics have ended.

    Args:
        runs: the run of each topic, by the topic's key. The run of a restarted topic replaces its
            earlier run. The runs of new topics are added.
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
    """Run the maintenance tasks that are due for a topic that has ended.

    If `stop` is set, maintenance is stopped in all `runs`, because the maintenance of a shared
    table only stops when all topics of the table have stopped it.
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
    """Start Spark and return the session.

    The signal that sets `stop` may also end Spark's JVM. If the start then fails and no batch needs
    Spark, return None.
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
