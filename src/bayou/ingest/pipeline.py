"""The runner: all topics of a configuration in one Spark application.

Each topic is a streaming query over the Kafka source. It begins where its table stands and its
checkpoint lives no longer than the run, so that there is one truth about what was read: the table.
Where there are many topics they take turns instead, see `bayou.ingest.turns`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from pyspark.sql import SparkSession

from bayou.ingest.broker import EndsOfTopics
from bayou.ingest.config import Configuration, without_delta_spark
from bayou.ingest.errand import all_at_once
from bayou.ingest.progress import Reporter, TopicSummary
from bayou.ingest.schemas import topic_schemas
from bayou.ingest.session import pipeline_session, start_workers, stop_session
from bayou.ingest.spark_errors import translated
from bayou.ingest.topic_run import TopicRun
from bayou.ingest.turns import Turns
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
    runs = [
        TopicRun(configuration, topic, schemas[topic.key], reporter, upkeep_slots=slots)
        for topic in configuration.topics
    ]
    turns: Turns | None = None
    own: SparkSession | None = None
    try:
        _prepare(runs, once=once)
        session = spark
        working = [run for run in runs if run.has_work]
        if working:
            if session is None:
                session = own = _session(configuration)
            with translated(state_path=configuration.state_path):
                if own is not None:
                    start_workers(own)
                session.dataSource.register(KafkaDataSource)
            if len(working) > configuration.connector.max_queries:
                turns = _turns(configuration, working, session, once=once)
                turns.begin()
            else:
                for run in working:
                    run.begin(session, once=once)
        _wait(runs, session, stop, once=once)
        return tuple(run.finish() for run in runs)
    finally:
        if turns is not None:
            turns.stop()
        for run in runs:
            run.abandon()
        if own is not None:
            stop_session(own)


def _prepare(runs: Sequence[TopicRun], *, once: bool) -> None:
    """All at once: a broker or a store that doesn't answer is waited for once, not once a topic."""
    all_at_once(lambda run: run.prepare(once=once), runs)
    for run in runs:
        run.tell_if_idle()


def _wait(
    runs: Sequence[TopicRun],
    spark: SparkSession | None,
    stop: threading.Event | None,
    *,
    once: bool,
) -> None:
    """Until all have ended or `stop` is set; those that end are told at once."""
    going = list(runs)
    while going:
        for run in [r for r in going if not r.active]:
            if spark is None or not run.recover(spark, once=once):
                if once:
                    run.complete()
                run.finish()
                going.remove(run)
        for run in going:
            run.maintain()
        if not going or (stop is not None and stop.is_set()):
            return
        time.sleep(_POLL)


def _turns(
    configuration: Configuration, runs: Sequence[TopicRun], spark: SparkSession, *, once: bool
) -> Turns:
    ends = EndsOfTopics(configuration.connector.kafka.client_properties())
    return Turns(runs, spark, ends, once=once)


def _session(configuration: Configuration) -> SparkSession:
    spark = configuration.connector.spark
    conf = without_delta_spark(spark.conf())
    return pipeline_session(configuration.state_path, master=spark.master, conf=conf)
