"""The short API for reading: a table bound to an engine."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bayou.api.alter import Alterations
from bayou.api.argument_checks import checked_number, checked_path, checked_texts
from bayou.api.changes import ChangesHandle
from bayou.api.dataset import to_dataset
from bayou.api.optimize import Layout, Maintenance
from bayou.api.read import Reading, Timestamp, files_table, milliseconds, stated_row_count
from bayou.api.row_operations import RowOperations
from bayou.engines import for_path
from bayou.errors import ArgumentError
from bayou.kernel import Catalog, CommitBoundary, Engine, Predicate, Snapshot, Table
from bayou.kernel.table_detail import TableDetail, table_detail
from bayou.protocol.actions import Protocol
from bayou.protocol.schema import StructType

if TYPE_CHECKING:
    import pyarrow.dataset as pads

__all__ = ["SnapshotHandle", "TableHandle", "Timestamp", "table"]


def table(
    path: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None = None,
    *,
    engine: Engine | None = None,
    catalog: Catalog | None = None,
) -> TableHandle:
    """A Delta table by its path; nothing is read yet.

    Args:
        path: local path, `file://`, `s3://`, `s3a://`, `gs://`, `abfss://`, `az://`; `memory://`
            in tests.
        storage_options: settings and credentials of the store, in the names that `deltalake` uses
            (`AWS_ENDPOINT_URL`, `AWS_ACCESS_KEY_ID`, ...); the environment gives what isn't here.
        engine: how to reach the store, instead of Bayou's way to do so: with handlers or a
            `MetricsReporter` of your own.
        catalog: the one that manages the table (table feature `catalogManaged`), which alone knows
            its latest commits; any object with the methods of `bayou.kernel.Catalog`.

    Raises:
        ArgumentError: the path isn't one or has a scheme that isn't known; storage options that
            aren't any, or that come with an engine.
    """
    location = checked_path(path)
    options = checked_texts(storage_options, "storage_options")
    if engine is None:
        engine = for_path(location, options)
    elif options:
        raise ArgumentError(
            "Give storage options to the engine, or leave it out.", argument="storage_options"
        )
    return TableHandle(engine, Table.for_path(engine, location, catalog))


class TableHandle(RowOperations, Maintenance, Layout, Alterations):
    """A table and the engine that reaches it; safe in threads. Every call reads the log anew."""

    __slots__ = ()

    def exists(self) -> bool:
        """Whether there is a table."""
        return self._table.exists(self._engine)

    def snapshot(
        self, version: int | None = None, timestamp: Timestamp | None = None
    ) -> SnapshotHandle:
        """One version: the latest, by number, or the last at or before a time.

        Raises:
            TableNotFoundError, VersionNotFoundError, CorruptTableError, UnsupportedFeatureError:
                it can't be opened.
            ArgumentError: both version and timestamp, or a timestamp that isn't one.
        """
        if version is not None and timestamp is not None:
            raise ArgumentError("Give a version or a timestamp, not both.", argument="version")
        if version is not None:
            if type(version) is not int or version < 0:
                raise ArgumentError(
                    f"A version is a number from 0 on, not {version!r}.", argument="version"
                )
            found = self._table.snapshot_as_of_version(self._engine, version)
        elif timestamp is not None:
            found = self._table.snapshot_as_of_timestamp(self._engine, milliseconds(timestamp))
        else:
            found = self._table.latest_snapshot(self._engine)
        return SnapshotHandle(self._engine, found)

    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        filter: Predicate | str | None = None,
        version: int | None = None,
        timestamp: Timestamp | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """Rows of the table, all in memory; file after file, in each in its order.

        Args:
            columns: names of top-level columns, in the order wanted; None for all. Also
                `_metadata.file_path`, `_metadata.file_name`, `_metadata.file_size`,
                `_metadata.file_modification_time`, `_metadata.row_index`, `_metadata.row_id`,
                `_metadata.row_commit_version`.
            filter: SQL text such as `"day = '2024-01-05' AND id > 3"`, or a `Predicate`; rows for
                which it is true.
            version, timestamp: see `snapshot`.
            limit: most rows wanted; reading stops there.

        Variants come as `struct<metadata: binary, value: binary>` in Parquet's binary encoding.

        Raises:
            PredicateError: the filter can't be understood.
            SchemaError: an unknown column.
            DataFileError: a data file is missing or can't be read.
        """
        return self.snapshot(version, timestamp).to_arrow(columns, filter, limit)

    def to_batches(
        self,
        columns: Sequence[str] | None = None,
        filter: Predicate | str | None = None,
        version: int | None = None,
        timestamp: Timestamp | None = None,
        limit: int | None = None,
    ) -> pa.RecordBatchReader:
        """Rows of the table, batch after batch; memory stays flat. Arguments as of `to_arrow`.

        Files are read side by side: batches of one keep their order, those of several mix. Whoever
        stops early lets go of the reader (`del reader`): its `close()` doesn't reach the files.
        """
        return self.snapshot(version, timestamp).to_batches(columns, filter, limit)

    def to_arrow_dataset(
        self,
        filter: Predicate | str | None = None,
        version: int | None = None,
        timestamp: Timestamp | None = None,
    ) -> pads.Dataset:
        """A version as a `pyarrow.dataset`; see `SnapshotHandle.to_arrow_dataset`."""
        return self.snapshot(version, timestamp).to_arrow_dataset(filter)

    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The commits still in the log, newest first: `version`, `timestamp` (ms), `operation`,
        `operationParameters`, `operationMetrics`, `engineInfo`, ... as written.
        """
        checked_number(limit, "limit", "a number of commits")
        return self._table.history(self._engine, limit)

    def detail(self) -> TableDetail:
        """What the latest version is: id, place, layout, number of files, properties, protocol.

        Without a checksum of the version its files are counted, by streaming their sizes.
        """
        return table_detail(self._engine, self._table.latest_snapshot(self._engine))

    def changes(
        self, start: int | dt.datetime | str, end: int | dt.datetime | str | None = None
    ) -> ChangesHandle:
        """The change data feed from one version or time to another, both included.

        Args:
            start: a version; or a time, which names the first commit at or after it.
            end: a version; or a time, which names the last commit at or before it. None, or a
                version above the latest one, ends with the latest.

        Raises:
            VersionNotFoundError: the range begins after the latest version or before the earliest
                that can be rebuilt, or a time is after the last commit.
            ChangeDataFeedError: `delta.enableChangeDataFeed` is off at a version of the range, or
                its schema changed otherwise than by new columns; names the version.
            ArgumentError: the range ends before it begins, or a boundary isn't one.
        """
        last = None if end is None else _boundary(end, "end")
        changes = self._table.changes(self._engine, _boundary(start, "start"), last)
        return ChangesHandle(self._engine, changes)


class SnapshotHandle:
    """One version of a table, immutable."""

    __slots__ = ("_engine", "_snapshot")

    def __init__(self, engine: Engine, snapshot: Snapshot) -> None:
        self._engine = engine
        self._snapshot = snapshot

    def __repr__(self) -> str:
        return f"bayou.table({self._snapshot.path!r}).snapshot(version={self.version})"

    @property
    def version(self) -> int:
        """The version."""
        return self._snapshot.version

    @property
    def timestamp(self) -> int:
        """When it was committed, ms since the epoch."""
        return self._snapshot.timestamp

    @property
    def schema(self) -> StructType:
        """All columns; `arrow_schema` is the same in Arrow's types."""
        return self._snapshot.schema

    @property
    def arrow_schema(self) -> pa.Schema:
        """Schema of `to_arrow`."""
        return self._snapshot.arrow_schema

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """Names, in the order of the directories."""
        return self._snapshot.partition_columns

    @property
    def properties(self) -> Mapping[str, str]:
        """Table properties as they stand in the log."""
        return self._snapshot.properties

    @property
    def protocol(self) -> Protocol:
        """Reader and writer versions and features."""
        return self._snapshot.protocol

    @property
    def transactions(self) -> Mapping[str, int]:
        """Latest version by application id."""
        return self._snapshot.transactions

    @property
    def kernel(self) -> Snapshot:
        """The kernel's snapshot."""
        return self._snapshot

    def files(self, filter: Predicate | str | None = None) -> pa.Table:
        """The live files, those that may hold a row for which the filter is true.

        Columns: `path` (as written in the log), `size` (bytes), `modification_time` (ms since the
        epoch), `partition_values` (map of serialized values), `num_records` (null where the file
        has no statistics), `stats` (JSON text).
        """
        return files_table(self._engine, self._snapshot, filter)

    def row_count(self) -> int:
        """Rows of this version. No data file is opened where all have statistics."""
        stated = stated_row_count(self._engine, self._snapshot)
        if stated is not None:
            return stated
        return sum(batch.num_rows for batch in self.to_batches(columns=[]))

    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        filter: Predicate | str | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """Rows of this version, all in memory; see `TableHandle.to_arrow`."""
        return self._reading(columns, filter, limit).to_arrow()

    def to_batches(
        self,
        columns: Sequence[str] | None = None,
        filter: Predicate | str | None = None,
        limit: int | None = None,
    ) -> pa.RecordBatchReader:
        """Rows of this version, batch after batch; see `TableHandle.to_batches`."""
        return self._reading(columns, filter, limit).to_batches()

    def _reading(
        self, columns: Sequence[str] | None, filter: Predicate | str | None, limit: int | None
    ) -> Reading:
        return Reading.plan(self._engine, self._snapshot, columns, filter, limit)

    def to_arrow_dataset(self, filter: Predicate | str | None = None) -> pads.Dataset:
        """This version as a `pyarrow.dataset`, for DuckDB, Polars and others that push into one.

        They choose columns and filter rows by themselves; the partition values are known to it, so
        that whole files are left out. It holds the list of its files.

        Args:
            filter: leaves out files that hold no such row, by their statistics too; rows aren't
                filtered.

        Raises:
            UnsupportedFeatureError: files with deletion vectors, mapped columns, variants: what
                pyarrow would read past.
        """
        return to_dataset(self._engine, self._snapshot, filter)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(self.to_batches())


def _boundary(at: int | dt.datetime | str, argument: str) -> CommitBoundary:
    if isinstance(at, bool) or (isinstance(at, int) and at < 0):
        raise ArgumentError(
            f"{argument} is {at!r}; a version is a number from 0 on.", argument=argument
        )
    if isinstance(at, int):
        return CommitBoundary.at_version(at)
    return CommitBoundary.at_timestamp(milliseconds(at))
