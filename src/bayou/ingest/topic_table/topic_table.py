"""A topic's table from a program: what the pipeline does to it, without Kafka and Spark.

Records that a program hands over, as the JSON that a topic's records are.

Dates, times, UUIDs, decimals and bytes (in base 64) are texts; numbers, texts and arrays of numpy
are what they hold, as are timestamps of pandas. JSON has neither NaN nor infinity: they are null.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from bayou.api import TableHandle
from bayou.api import table as open_table
from bayou.errors import ArgumentError
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.events import (
    BatchReport,
    MaintenanceReport,
    MaintenanceTask,
    MigrationReport,
)
from bayou.ingest.maintenance import maintain_table
from bayou.ingest.migration import FileCheck, migrate_json, verify_migration
from bayou.ingest.state import topic_lock
from bayou.ingest.topic_table.writer import WRITTEN, DirectWriter, record_batch
from bayou.protocol.schema import StructType

__all__ = ["TopicTable", "json_records"]


def json_records(records: Iterable[Mapping[str, Any]], *, argument: str) -> list[bytes]:
    """The JSON text of each record.

    Args:
        argument: what the caller calls them, for messages.

    Raises:
        ArgumentError: one holds what has no JSON.
    """
    encoder = msgspec.json.Encoder(enc_hook=_plain)
    found: list[bytes] = []
    for record in records:
        try:
            found.append(encoder.encode(record))
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise ArgumentError(
                f"{argument}[{len(found)}] can't be written as JSON: {error}. Nothing was written.",
                argument=argument,
            ) from error
    return found


def _plain(value: Any) -> Any:
    """What stands for a value of a type that the encoder doesn't know."""
    match value:
        case Mapping():
            return dict(value)
        case dt.datetime():  # of pandas: to the nanosecond, and NaT, which isn't equal to itself
            return value.isoformat(timespec="microseconds") if value == value else None  # noqa: PLR0124
        case str():
            return str(value)
        case float():
            return float(value)
    if hasattr(value, "tolist"):
        held = value.tolist()
        if not (isinstance(held, int) and value.dtype.kind in "mM"):  # nanoseconds since when?
            return held
    raise TypeError(f"{str(value)[:60]!r} is of the type {type(value).__name__}")


class TopicTable:
    """The table of one topic of a configuration.

        events = TopicTable(load_configuration("pipeline.yaml"), "user-events")
        events.write([{"user_id": "u1", "event_type": "click"}])
        events.read(version=0).num_rows

    Args:
        topic: its name in the configuration, or its table's name or path.

    Raises:
        ArgumentError: there is no such topic.
    """

    def __init__(self, configuration: Configuration, topic: str) -> None:
        self._configuration = configuration
        self._topic = configuration.topic(topic)

    @property
    def topic(self) -> Topic:
        """What the configuration says."""
        return self._topic

    @property
    def handle(self) -> TableHandle:
        """The table, for everything that `bayou.table` offers."""
        storage_options = self._configuration.connector.storage.storage_options()
        return open_table(self._topic.table_path, storage_options)

    def write(self, records: Iterable[Mapping[str, Any]]) -> BatchReport:
        """Put records into the table as if they had come from the topic, now; one commit.

        They are validated, partitioned, appended or upserted as the configuration says; what
        doesn't fit is among the dead letters. `_kafka_partition` is -2, `_kafka_offset` the
        record's place. Dates, decimals and bytes are written as texts, NaN and infinity as null;
        values of numpy are what they hold.

        Raises:
            ArgumentError: a record holds what can't be written as JSON.
            BayouError: it can't be done, and nothing was.
        """
        values = json_records(records, argument="records")
        now = time.time_ns() // 1000
        batch = record_batch(
            self._topic.config.kafka_topic,
            values,
            partition=WRITTEN,
            first=0,
            timestamps=[now] * len(values),
        )
        return self._writer().write([batch], {})

    def merge_schema(self, messages: Iterable[Mapping[str, Any]]) -> StructType:
        """Give the table a column for each field of some messages; it is made where there is none.

        Returns:
            The table's schema.

        Raises:
            ArgumentError: a message holds what can't be written as JSON.
            PipelineError: the topic's schema policy has no new columns.
        """
        values = json_records(messages, argument="messages")
        return self._writer().merge_schema(values)

    def optimize(self) -> MaintenanceReport:
        """Pack the small files of all partitions."""
        return self._maintain("optimize")

    def vacuum(self) -> MaintenanceReport:
        """Delete files that no version within `vacuum-retention-hours` needs."""
        return self._maintain("vacuum")

    def maintain(self) -> list[MaintenanceReport]:
        """What the configuration has done by the clock, now."""
        delta = self._topic.config.destination.delta_config
        tasks: list[MaintenanceTask] = []
        if delta.enable_optimize:
            tasks.append("optimize")
        elif delta.enable_compaction:
            tasks.append("compaction")
        if delta.enable_vacuum:
            tasks.append("vacuum")
        return [self._maintain(task) for task in tasks]

    def read(
        self,
        *,
        version: int | None = None,
        timestamp: Any = None,
        columns: Sequence[str] | None = None,
        filter: str | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """Rows of the latest version, or of one by number or time; see `bayou.table`."""
        return self.handle.to_arrow(columns, filter, version, timestamp, limit)

    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Commits, the newest first."""
        return self.handle.history(limit)

    def migrate(
        self, source: str, *, told: Callable[[MigrationReport], None] | None = None
    ) -> MigrationReport:
        """Move the JSON files below a folder into the table; see `migrate_json`.

        Args:
            told: called after each commit with what was done so far.

        Raises:
            PipelineError: a pipeline runs the topic with this state path; with
                `connector.migration` it migrates by itself.
            BayouError: as `migrate_json`.
        """
        with topic_lock(self._configuration.state_path, self._topic.key, shared=True):
            return migrate_json(self._configuration, self._topic, source, told=told)

    def verify_migration(self, source: str) -> list[FileCheck]:
        """Compare the files below a folder with the table; see `verify_migration`."""
        return verify_migration(self._configuration, self._topic, source)

    def _writer(self) -> DirectWriter:
        return DirectWriter(self._configuration, self._topic)

    def _maintain(self, task: MaintenanceTask) -> MaintenanceReport:
        delta = self._topic.config.destination.delta_config
        report = maintain_table(
            self._topic.key, self.handle, task, retention_hours=delta.vacuum_retention_hours
        )
        if report.error is not None:
            raise report.error
        return report
