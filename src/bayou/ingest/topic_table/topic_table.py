"""`TopicTable`, which reads and writes a topic's table in a Python program without Kafka or Spark.

Records of a program are encoded as JSON. Dates, times, UUIDs, decimals and bytes become strings;
bytes are encoded as Base64. Values of numpy and timestamps of pandas are converted. NaN and
infinity become null.
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
from bayou.ingest.local_state import topic_lock
from bayou.ingest.maintenance import maintain_table
from bayou.ingest.migration import FileCheck, migrate_json, verify_migration
from bayou.ingest.topic_table.direct_writer import WRITTEN, DirectWriter, record_batch
from bayou.protocol.schema import StructType


def json_records(records: Iterable[Mapping[str, Any]], *, argument: str) -> list[bytes]:
    """Encode each record as JSON.

    Args:
        argument: the name of the parameter that contains the records, for error messages.
    """
    encoder = msgspec.json.Encoder(enc_hook=_encode_other)
    encoded: list[bytes] = []
    for record in records:
        try:
            encoded.append(encoder.encode(record))
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise ArgumentError(
                f"{argument}[{len(encoded)}] can't be encoded as JSON: {error}. Nothing was "
                "written.",
                argument=argument,
            ) from error
    return encoded


def _encode_other(value: Any) -> Any:
    match value:
        case Mapping():
            return dict(value)
        case dt.datetime():  # pandas: nanoseconds, and NaT, which isn't equal to itself
            return value.isoformat(timespec="microseconds") if value == value else None  # noqa: PLR0124
        case str():
            return str(value)
        case float():
            return float(value)
    if hasattr(value, "tolist"):
        converted = value.tolist()
        # Nanoseconds of datetime64 and timedelta64 are ambiguous.
        if not (isinstance(converted, int) and value.dtype.kind in "mM"):
            return converted
    kind = type(value).__name__
    raise TypeError(f"{str(value)[:60]!r} has the type {kind}, which isn't supported")


class TopicTable:
    """The table of one topic of a configuration.

    Args:
        configuration: the configuration.
        topic: the topic's key in the configuration, or the name or path of its table.

    Raises:
        ArgumentError: the configuration has no such topic.

    Examples:
        >>> events = TopicTable(load_configuration("pipeline.yaml"), "events")
        >>> events.write([{"id": 1, "name": "click"}])
        >>> print(events.read(version=0).num_rows)
    """

    def __init__(self, configuration: Configuration, topic: str) -> None:
        self._configuration = configuration
        self._topic = configuration.topic(topic)

    @property
    def topic(self) -> Topic:
        """The topic's configuration."""
        return self._topic

    @property
    def handle(self) -> TableHandle:
        """The table's handle, as returned by `bayou.table`."""
        storage_options = self._configuration.connector.storage.storage_options()
        return open_table(self._topic.table_path, storage_options)

    def write(self, records: Iterable[Mapping[str, Any]]) -> BatchReport:
        """Write records to the table in one commit, in the same way as Kafka records of the topic.

        Records are validated, partitioned, and appended or upserted according to the configuration.
        Invalid records become dead letters. In the rows, `_kafka_partition` is -2, and
        `_kafka_offset` is the record's index in `records`. Dates, decimals and bytes are written as
        strings, and NaN and infinity as null. Values of numpy are converted.

        Raises:
            ArgumentError: a record can't be encoded as JSON.
            BayouError: the write failed. No row was written, unless the message says that it is
                unknown whether the rows were committed. If dead letters were committed before the
                error, the message contains their number.
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
        """Add a column to the table for each new field of messages.

        The table is created if it doesn't exist.

        Args:
            messages: records, which aren't written.

        Returns:
            The table's schema.

        Raises:
            ArgumentError: a message can't be encoded as JSON.
            PipelineError: the topic's schema policy doesn't allow new columns.
        """
        values = json_records(messages, argument="messages")
        return self._writer().merge_schema(values)

    def optimize(self) -> MaintenanceReport:
        """Compact the small files in all table partitions."""
        return self._maintain("optimize")

    def vacuum(self) -> MaintenanceReport:
        """Delete files that no version within `vacuum-retention-hours` needs."""
        return self._maintain("vacuum")

    def maintain(self) -> list[MaintenanceReport]:
        """Run all maintenance tasks that the configuration enables, even if they aren't due."""
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
        """Read rows of the latest version or of an earlier version.

        See `TableHandle.to_arrow` for the arguments.
        """
        return self.handle.to_arrow(columns, filter, version, timestamp, limit)

    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Return the commits, newest first."""
        return self.handle.history(limit)

    def migrate(
        self,
        source: str,
        *,
        on_commit: Callable[[MigrationReport], None] | None = None,
        dry_run: bool = False,
    ) -> MigrationReport:
        """Migrate the JSON files in a folder into the table; see `migrate_json`.

        Args:
            source: the folder, or a single file.
            on_commit: function that is called after each commit, with the report so far.
            dry_run: if true, files and records are only counted, and nothing is written.

        Raises:
            PipelineError: a pipeline with the same state path is running the topic. To migrate the
                files in the pipeline, set `connector.migration`.
            BayouError: see `migrate_json`.
        """
        with topic_lock(self._configuration.state_path, self._topic.key, shared=True):
            return migrate_json(
                self._configuration, self._topic, source, on_commit=on_commit, dry_run=dry_run
            )

    def verify_migration(self, source: str) -> list[FileCheck]:
        """Compare the files in a folder with the table; see `bayou.ingest.migration.verify`."""
        return verify_migration(self._configuration, self._topic, source)

    def _writer(self) -> DirectWriter:
        return DirectWriter(self._configuration, self._topic)

    def _maintain(self, task: MaintenanceTask) -> MaintenanceReport:
        delta = self._topic.config.destination.delta_config
        report = maintain_table(
            self._topic.key,
            self.handle,
            task,
            retention_hours=delta.vacuum_retention_hours,
            z_order_by=delta.z_order_by,
        )
        if report.error is not None:
            raise report.error
        return report
