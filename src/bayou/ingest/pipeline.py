"""The runner: all topics of a configuration in one Spark application.

Each topic is a streaming query over the Kafka source. It begins where its table stands and its
checkpoint lives no longer than the run, so that there is one truth about what was read: the table.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from bayou.engines import for_path
from bayou.errors import BayouError
from bayou.ingest.broker import describe_topic
from bayou.ingest.config import Configuration, Topic, without_delta_spark
from bayou.ingest.dead_letter_table import DeadLetterTable
from bayou.ingest.decode import record_columns
from bayou.ingest.micro_batch import MicroBatchWriter
from bayou.ingest.offsets import batch_end, ranges_between, starting_offsets
from bayou.ingest.progress import Reporter, TopicStarted, TopicSummary
from bayou.ingest.schemas import topic_schemas
from bayou.ingest.session import pipeline_session
from bayou.ingest.spark_errors import as_error, translated
from bayou.ingest.state import topic_state
from bayou.ingest.target_table import TargetTable
from bayou.protocol.schema import StructType
from bayou.spark.kafka import KafkaDataSource

__all__ = ["run_pipeline"]

_POLL = 0.2


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
    """
    configuration.check_supported()
    schemas = topic_schemas(configuration)
    runs = [
        _TopicRun(configuration, topic, schemas[topic.key], reporter)
        for topic in configuration.topics
    ]
    own: SparkSession | None = None
    try:
        for run in runs:
            run.prepare(once=once)
        if any(run.has_work for run in runs):
            session = spark
            if session is None:
                session = own = _session(configuration)
            session.dataSource.register(KafkaDataSource)
            for run in runs:
                run.begin(session, once=once)
        _wait(runs, stop)
        return tuple(run.finish() for run in runs)
    finally:
        for run in runs:
            run.abandon()
        if own is not None:
            own.stop()


def _wait(runs: Sequence[_TopicRun], stop: threading.Event | None) -> None:
    """Until all have ended or `stop` is set; those that end are told at once."""
    going = list(runs)
    while going:
        for run in [r for r in going if not r.active]:
            run.finish()
            going.remove(run)
        if not going or (stop is not None and stop.is_set()):
            return
        time.sleep(_POLL)


class _TopicRun:
    """One topic's query, from its start to its summary."""

    def __init__(
        self, configuration: Configuration, topic: Topic, schema: str | None, reporter: Reporter
    ) -> None:
        self._configuration = configuration
        self._topic = topic
        self._schema = schema
        self._reporter = reporter
        self._resources = ExitStack()
        self._query: StreamingQuery | None = None
        self.has_work = False
        self._in_batch = threading.Lock()
        self._ended = False
        self._error: BayouError | None = None
        self._summary: TopicSummary | None = None
        self._rows = self._dead_letters = self._commits = 0
        self._version: int | None = None
        self._began = self._last = time.monotonic()

    @property
    def active(self) -> bool:
        """Whether the query goes on by itself."""
        return self._query is not None and bool(self._query.isActive)

    def prepare(self, *, once: bool) -> None:
        """Ask broker and tables where things stand; an error is kept for the summary.

        With `once` a topic whose records are all in the table has no work.
        """
        try:
            self._checkpoint = self._resources.enter_context(
                topic_state(self._configuration.state_path, self._topic.key)
            )
            self._started = self._open()
        except BayouError as error:
            self._error = error
            return
        self.has_work = not once or self._started.waiting > 0
        if not self.has_work:
            self._reporter.topic_started(self._started)

    def begin(self, spark: SparkSession, *, once: bool) -> None:
        """Begin to read where there is work; an error is kept for the summary."""
        if not self.has_work:
            return
        self._reporter.topic_started(self._started)
        try:
            with translated(self._topic.key, self._configuration.state_path):
                self._query = self._start_query(spark, once=once)
        except BayouError as error:
            self._error = error

    def finish(self) -> TopicSummary:
        """End the query after its running batch, and tell; a second call changes nothing."""
        if self._summary is not None:
            return self._summary
        query = self._query
        if query is not None:
            with self._in_batch:
                self._ended = True
            failure = None if query.isActive else query.exception()
            query.stop()
            if failure is not None and self._error is None:
                self._error = as_error(failure, self._topic.key, self._configuration.state_path)
        self._query = None
        self._resources.close()
        self._summary = TopicSummary(
            topic=self._topic.key,
            table_path=self._topic.table_path,
            rows=self._rows,
            dead_letters=self._dead_letters,
            commits=self._commits,
            version=self._version,
            seconds=self._last - self._began,
            error=self._error,
        )
        self._reporter.topic_finished(self._summary)
        return self._summary

    def abandon(self) -> None:
        """Let go of everything, in the middle of a batch if need be; after `finish` nothing."""
        query, self._query = self._query, None
        self._ended = True
        if query is not None:
            with contextlib.suppress(Exception):  # Spark may be gone already; so is the query
                query.stop()
        self._resources.close()

    def _open(self) -> TopicStarted:
        connector = self._configuration.connector
        config = self._topic.config
        kafka = describe_topic(config.kafka_topic, connector.kafka.client_properties())
        storage_options = connector.storage.storage_options()
        engine = for_path(self._topic.table_path, storage_options)
        target = TargetTable(engine, self._topic, kafka)
        dead_letters = DeadLetterTable(engine, self._topic, kafka)
        columns = StructType() if self._schema is None else record_columns(self._schema)
        writer = MicroBatchWriter(
            topic=self._topic,
            engine=engine,
            target=target,
            dead_letters=dead_letters,
            json_schema=self._schema,
            schema_columns=columns,
            storage_options=storage_options,
            kafka_options=self._kafka_options(kafka.name),
        )
        covered, start = writer.open(), config.starting_offsets
        if start == "latest" and not covered:
            covered = dead_letters.fix_start({p: there.end for p, there in kafka.bounds.items()})
        self._position = starting_offsets(kafka, covered, key=self._topic.key)
        self._version = target.version
        waiting = sum(max(0, kafka.bounds[p].end - o) for p, o in self._position.items())
        self._kafka, self._writer, self._target = kafka, writer, target
        return TopicStarted(
            topic=self._topic.key,
            kafka_topic=kafka.name,
            table_path=target.path,
            partitions=len(kafka.bounds),
            waiting=waiting,
        )

    def _kafka_options(self, topic: str) -> dict[str, str]:
        properties = self._configuration.connector.kafka.client_properties()
        return {"subscribe": topic, **{f"kafka.{name}": v for name, v in properties.items()}}

    def _start_query(self, spark: SparkSession, *, once: bool) -> StreamingQuery:
        processing = self._topic.config.processing
        start = {self._kafka.name: {str(p): o for p, o in self._position.items()}}
        options = {
            **self._kafka_options(self._kafka.name),
            "startingOffsets": json.dumps(start),
            "maxOffsetsPerTrigger": str(processing.batch_size),
        }
        if not once:
            options["minOffsetsPerTrigger"] = str(processing.batch_size)
            options["maxRecordDelay"] = f"{int(processing.flush_interval * 1000)}ms"
        # The query only finds out what there is: tasks read the records of a batch themselves.
        records = spark.readStream.format("bayou-kafka").options(**options).load()
        writer = (
            records.writeStream.foreachBatch(self._on_batch)
            .option("checkpointLocation", self._checkpoint.as_uri())
            .queryName(f"bayou {self._topic.key}")
        )
        writer = writer.trigger(availableNow=True) if once else writer
        self._began = self._last = time.monotonic()
        return writer.start()

    def _on_batch(self, records: DataFrame, batch_id: int) -> None:
        with self._in_batch:
            if self._ended:
                return  # the checkpoint ends with the run; the table hasn't moved
            try:
                end = batch_end(self._checkpoint, batch_id, self._kafka.name, key=self._topic.key)
                report = self._writer.process(
                    records.sparkSession, ranges_between(self._position, end)
                )
            except BayouError as error:
                self._error = error
                self._ended = True
                raise
            self._position.update(end)
            self._rows += report.rows
            self._dead_letters += report.dead_letters
            self._commits += report.version is not None
            self._version = self._target.version
            self._last = time.monotonic()
            if report.spans:
                self._reporter.batch_committed(report)


def _session(configuration: Configuration) -> SparkSession:
    spark = configuration.connector.spark
    conf = without_delta_spark(spark.conf())
    return pipeline_session(configuration.state_path, master=spark.master, conf=conf)
