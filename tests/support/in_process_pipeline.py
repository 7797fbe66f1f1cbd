"""Runs a pipeline's micro-batches without Spark: tasks run sequentially in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from bayou.ingest.broker import with_matching_topics
from bayou.ingest.config import Configuration, Topic, load_configuration
from bayou.ingest.events import AttemptFailed, BatchReport, RecordsLost
from bayou.ingest.offsets import OffsetSpan, ranges_between
from bayou.ingest.runtime.prepared_topic import prepare_topic
from bayou.ingest.runtime.shared_tables import SharedTables
from bayou.ingest.runtime.topic_run import TopicRun
from bayou.ingest.schema.files import topic_schemas

__all__ = ["Heard", "InProcessContext", "take_in"]


class InProcessContext:
    """Implements the methods of SparkSession, SparkContext and RDD that a micro-batch calls."""

    defaultParallelism = 1  # noqa: N815  # Spark's name

    def __init__(self, values: Iterable[Any] = ()) -> None:
        self._values = list(values)
        self.conf: dict[str, str] = {}

    @property
    def sparkContext(self) -> InProcessContext:  # noqa: N802  # Spark's name
        """This object, which is its own SparkContext."""
        return self

    def parallelize(self, values: Iterable[Any], _slices: int) -> InProcessContext:
        """Return an RDD of these values."""
        return InProcessContext(values)

    def map(self, task: Callable[[Any], Any]) -> InProcessContext:
        """Return an RDD of the results of `task`, which is called immediately."""
        return InProcessContext(task(value) for value in self._values)

    def collect(self) -> list[Any]:
        """Return the values of the RDD."""
        return self._values


class Heard:
    """A `Reporter` with the methods that are called before a batch is written.

    Attributes:
        lost: the events of lost records.
    """

    def __init__(self) -> None:
        self.lost: list[RecordsLost] = []

    def attempt_failed(self, event: AttemptFailed) -> None:
        """Ignore the event; the batch's report counts retries."""

    def records_lost(self, event: RecordsLost) -> None:
        """Append the event to `lost`."""
        self.lost.append(event)


def take_in(
    file: Path,
    environment: Mapping[str, str] | None = None,
    heard: Heard | None = None,
    session: Any = None,
) -> list[BatchReport]:
    """Ingest the waiting records of each topic of a configuration, in one batch per topic.

    Args:
        file: the YAML file of the configuration.
        environment: environment variables for the configuration; None for no variables.
        heard: receives events.
        session: replaces the `InProcessContext`.

    Returns:
        The report of each batch.
    """
    session = InProcessContext() if session is None else session
    configuration = with_matching_topics(load_configuration(file, environment=environment or {}))
    schemas = topic_schemas(configuration)
    told = Heard() if heard is None else heard
    return [
        _batch(configuration, topic, schemas[topic.section], told, session)
        for topic in configuration.topics
    ]


def _batch(
    configuration: Configuration, topic: Topic, schema: str | None, heard: Heard, session: Any
) -> BatchReport:
    reporter: Any = heard
    prepared = prepare_topic(configuration, topic, schema, reporter)
    end = {p: span.end for p, span in prepared.kafka.bounds.items()}
    spans: dict[int, OffsetSpan] = ranges_between(prepared.positions, end)
    return prepared.writer.process(session, spans)


def new_topic_run(
    configuration: Configuration,
    topic: Topic,
    reporter: Any,
    tables: SharedTables | None = None,
    *,
    before: TopicRun | None = None,
) -> TopicRun:
    """Return a run of a topic that isn't prepared."""
    schema = topic_schemas(configuration)[topic.section]
    tables = tables or SharedTables(configuration, reporter, nullcontext())
    return TopicRun(configuration, topic, schema, reporter, tables=tables, before=before)
