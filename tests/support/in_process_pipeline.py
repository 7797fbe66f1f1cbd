"""A pipeline's micro-batches without Spark: tasks run one after another in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from bayou.engines import for_path
from bayou.ingest.batch.micro_batch import MicroBatchWriter
from bayou.ingest.batch.target_table import TargetTable
from bayou.ingest.broker import RecreatedTopicCheck, describe_topic
from bayou.ingest.config import Configuration, Topic, load_configuration
from bayou.ingest.dead_letters.table import DeadLetterTable
from bayou.ingest.events import BatchReport, RecordsLost
from bayou.ingest.offsets import OffsetSpan, ranges_between
from bayou.ingest.runtime.prepared_topic import start_positions
from bayou.ingest.schema.files import topic_schemas
from bayou.ingest.schema.topic_format import topic_columns, topic_format

__all__ = ["Heard", "InProcessContext", "take_in"]


class InProcessContext:
    """As much of a session and its context as a micro-batch uses."""

    defaultParallelism = 1  # noqa: N815  # Spark's name

    def __init__(self, values: Iterable[Any] = ()) -> None:
        self._values = list(values)
        self.conf: dict[str, str] = {}

    @property
    def sparkContext(self) -> InProcessContext:  # noqa: N802  # Spark's name
        """Itself."""
        return self

    def parallelize(self, values: Iterable[Any], _slices: int) -> InProcessContext:
        """Values for tasks."""
        return InProcessContext(values)

    def map(self, task: Callable[[Any], Any]) -> InProcessContext:
        """The tasks' outcomes."""
        return InProcessContext(task(value) for value in self._values)

    def collect(self) -> list[Any]:
        """All of them."""
        return self._values


class Heard:
    """As much of a reporter as is told before a batch.

    Attributes:
        lost: what was gone before it was read.
    """

    def __init__(self) -> None:
        self.lost: list[RecordsLost] = []

    def records_lost(self, event: RecordsLost) -> None:
        """It is remembered."""
        self.lost.append(event)


def take_in(
    file: Path,
    environment: Mapping[str, str] | None = None,
    heard: Heard | None = None,
    session: Any = None,
) -> list[BatchReport]:
    """Put what the topics of a configuration have into their tables, one batch a topic.

    Args:
        session: in place of an `InProcessContext`.
    """
    session = InProcessContext() if session is None else session
    configuration = load_configuration(file, environment=environment or {})
    schemas = topic_schemas(configuration)
    told = Heard() if heard is None else heard
    return [
        _batch(configuration, topic, schemas[topic.key], told, session)
        for topic in configuration.topics
    ]


def _batch(
    configuration: Configuration, topic: Topic, schema: str | None, heard: Heard, session: Any
) -> BatchReport:
    properties = configuration.connector.kafka.client_properties()
    kafka = describe_topic(topic.config.kafka_topic, properties)
    engine = for_path(topic.table_path, {})
    target = TargetTable(engine, topic, kafka)
    dead_letters = DeadLetterTable(engine, topic, kafka)
    writer = MicroBatchWriter(
        topic=topic,
        engine=engine,
        watch=RecreatedTopicCheck(kafka, properties, key=topic.key),
        target=target,
        dead_letters=dead_letters,
        json_schema=schema,
        schema_columns=topic_columns(topic, schema),
        storage_options={},
        record_format=topic_format(configuration, topic, schema),
        kafka_options={
            "subscribe": kafka.name,
            **{f"kafka.{name}": value for name, value in properties.items()},
        },
    )
    reporter: Any = heard
    start = start_positions(
        topic,
        kafka,
        writer=writer,
        target=target,
        dead_letters=dead_letters,
        storage_options={},
        reporter=reporter,
    )
    end = {p: span.end for p, span in kafka.bounds.items()}
    spans: dict[int, OffsetSpan] = ranges_between(start, end)
    return writer.process(session, spans)
