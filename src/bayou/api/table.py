"""The short API's entry point: `table`, and the handles of a table and of its versions."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bayou.api.alter import AlterTable
from bayou.api.argument_checks import checked_number, checked_path, checked_strings
from bayou.api.changes import ChangesHandle
from bayou.api.optimize import Maintenance, TableRewrites
from bayou.api.read import (
    PlannedRead,
    Timestamp,
    files_table,
    milliseconds,
    row_count_from_statistics,
)
from bayou.api.row_operations import RowOperations
from bayou.engines import for_path
from bayou.errors import ArgumentError
from bayou.kernel import Catalog, CommitBoundary, Engine, Predicate, Snapshot, Table
from bayou.kernel.table_detail import TableDetail, table_detail
from bayou.protocol.actions import Protocol
from bayou.protocol.schema import StructType
from bayou.unity.names import is_unity_name

if TYPE_CHECKING:
    from bayou.api.dataset import DeltaDataset


def table(
    path: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None = None,
    *,
    engine: Engine | None = None,
    catalog: Catalog | None = None,
) -> TableHandle:
    """Return a handle of the Delta table at a path. Nothing is read yet.

    Args:
        path: local path or URI: `file://`, `s3://`, `s3a://`, `gs://`, `abfss://`, `az://`, `hdfs://`;
            `memory://` in tests. `uc://catalog.schema.table` is a table of Unity Catalog; its name
            is resolved at once, with `UC_URI` and `UC_TOKEN` of `storage_options` or of the
            environment.
        storage_options: settings and credentials of the store, under the names that `deltalake`
            uses (`AWS_ENDPOINT_URL`, `AWS_ACCESS_KEY_ID`, ...). Missing options are taken from the
            environment.
        engine: engine to use instead of Bayou's, for custom handlers or a `MetricsReporter`.
        catalog: catalog that manages the table (table feature `catalogManaged`) and knows the
            table's latest commits; any object with the methods of `bayou.kernel.Catalog`.

    Raises:
        ArgumentError: the path isn't valid or its scheme is unknown; the storage options aren't
            valid, or are combined with an engine.
        TableNotFoundError: Unity Catalog has no such table.
        CatalogError: Unity Catalog can't be reached, or refuses the request.
    """
    location = checked_path(path)
    options = checked_strings(storage_options, "storage_options")
    if is_unity_name(location):
        if engine is not None or catalog is not None:
            raise ArgumentError(
                f"{location}: a table of Unity Catalog has its own engine and catalog. Leave out "
                "the arguments engine and catalog.",
                argument="engine" if engine is not None else "catalog",
            )
        from bayou.unity.tables import open_table

        found = open_table(location, options)
        return TableHandle(found.engine, found.table)
    if engine is None:
        engine = for_path(location, options)
    elif options:
        raise ArgumentError(
            "storage_options: storage_options and engine are both set. Give the options to the "
            "engine, or leave it out.",
            argument="storage_options",
        )
    return TableHandle(engine, Table.for_path(engine, location, catalog))


class TableHandle(RowOperations, Maintenance, TableRewrites, AlterTable):
    """A table and the engine that accesses it; thread-safe. Every call reads the log again."""

    __slots__ = ()

    def exists(self) -> bool:
        """Whether the table exists."""
        return self._table.exists(self._engine)

    def snapshot(
        self, version: int | None = None, timestamp: Timestamp | None = None
    ) -> SnapshotHandle:
        """Return version `version`, the last one at or before `timestamp`, or the latest one.

        Raises:
            TableNotFoundError, VersionNotFoundError, CorruptTableError, UnsupportedFeatureError:
                the version can't be read.
            ArgumentError: version and timestamp are both set, or one isn't valid.
        """
        if version is not None and timestamp is not None:
            raise ArgumentError(
                "version: version and timestamp are both set. Give one of them.",
                argument="version",
            )
        if version is not None:
            if type(version) is not int or version < 0:
                raise ArgumentError(
                    f"version: {version!r} isn't a table version. Give 0 or more.",
                    argument="version",
                )
            snapshot = self._table.snapshot_as_of_version(self._engine, version)
        elif timestamp is not None:
            snapshot = self._table.snapshot_as_of_timestamp(self._engine, milliseconds(timestamp))
        else:
            snapshot = self._table.latest_snapshot(self._engine)
        return SnapshotHandle(self._engine, snapshot)

    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        filter: Predicate | str | None = None,
        version: int | None = None,
        timestamp: Timestamp | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """Read rows of the table into memory, in file order.

        Variants are `struct<metadata: binary, value: binary>` in Parquet's binary encoding.

        Args:
            columns: top-level columns in result order; None for all columns. The list may also
                contain `_metadata.file_path`, `_metadata.file_name`, `_metadata.file_size`,
                `_metadata.file_modification_time`, `_metadata.row_index`, `_metadata.row_id`,
                `_metadata.row_commit_version`.
            filter: return only matching rows; an SQL string such as
                `"day = '2024-01-05' AND id > 3"`, or a `Predicate`.
            version, timestamp: see `snapshot`.
            limit: maximum number of rows.

        Raises:
            PredicateError: the filter isn't valid.
            SchemaError: a column doesn't exist.
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
        """Stream rows of the table in bounded memory. See `to_arrow` for the arguments.

        Files are read in parallel: batches of one file keep their order, batches of several files
        interleave. To stop early, delete the reader (`del reader`); its `close()` doesn't close the
        files.
        """
        return self.snapshot(version, timestamp).to_batches(columns, filter, limit)

    def to_pyarrow_dataset(
        self,
        filter: Predicate | str | None = None,
        version: int | None = None,
        timestamp: Timestamp | None = None,
    ) -> DeltaDataset:
        """Return a version as a `pyarrow.dataset`; see `SnapshotHandle.to_pyarrow_dataset`."""
        return self.snapshot(version, timestamp).to_pyarrow_dataset(filter)

    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Return the commits in the log, newest first.

        Each commit has `version`, `timestamp` (ms), `operation`, `operationParameters`,
        `operationMetrics`, `engineInfo`, ... as written in the log.
        """
        checked_number(limit, "limit", "a number of commits")
        return self._table.history(self._engine, limit)

    def detail(self) -> TableDetail:
        """Return details of the latest version: id, path, layout, files, properties, protocol.

        If the version has no version checksum, the files are counted by reading the log.
        """
        return table_detail(self._engine, self._table.latest_snapshot(self._engine))

    def changes(
        self, start: int | dt.datetime | str, end: int | dt.datetime | str | None = None
    ) -> ChangesHandle:
        """Return the change data feed of a range of versions or timestamps, both ends included.

        Args:
            start: a version, or a timestamp, which stands for the first commit at or after it.
            end: a version, or a timestamp, which stands for the last commit at or before it. None,
                or a version above the latest version, stands for the latest version.

        Raises:
            VersionNotFoundError: the range starts after the latest version or before the earliest
                available version, or a timestamp is after the last commit.
            ChangeDataFeedError: at a version of the range, `delta.enableChangeDataFeed` is off, or
                a schema change does more than add columns; the message names the version.
            ArgumentError: the range ends before it starts, or a boundary isn't valid.
        """
        last = None if end is None else _boundary(end, "end")
        changes = self._table.changes(self._engine, _boundary(start, "start"), last)
        return ChangesHandle(self._engine, changes)


class SnapshotHandle:
    """One version of a table; immutable."""

    __slots__ = ("_engine", "_snapshot")

    def __init__(self, engine: Engine, snapshot: Snapshot) -> None:
        self._engine = engine
        self._snapshot = snapshot

    def __repr__(self) -> str:
        return f"bayou.table({self._snapshot.path!r}).snapshot(version={self.version})"

    @property
    def version(self) -> int:
        """The version number."""
        return self._snapshot.version

    @property
    def timestamp(self) -> int:
        """Commit timestamp in ms since the epoch."""
        return self._snapshot.timestamp

    @property
    def schema(self) -> StructType:
        """The table schema; `arrow_schema` is the same schema in Arrow types."""
        return self._snapshot.schema

    @property
    def arrow_schema(self) -> pa.Schema:
        """Arrow schema of the rows that `to_arrow` returns by default."""
        return self._snapshot.arrow_schema

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """Partition columns, in folder order."""
        return self._snapshot.partition_columns

    @property
    def properties(self) -> Mapping[str, str]:
        """Table properties as written in the log."""
        return self._snapshot.properties

    @property
    def protocol(self) -> Protocol:
        """Reader and writer versions and features."""
        return self._snapshot.protocol

    @property
    def transactions(self) -> Mapping[str, int]:
        """Transaction identifiers: the latest transaction version by application id."""
        return self._snapshot.transactions

    @property
    def kernel(self) -> Snapshot:
        """The kernel's snapshot."""
        return self._snapshot

    def files(self, filter: Predicate | str | None = None) -> pa.Table:
        """Return the live files that may contain rows that match the filter.

        Columns: `path` (as written in the log), `size` (bytes), `modification_time` (ms since the
        epoch), `partition_values` (map of serialized values), `num_records` (null if the file has
        no statistics), `stats` (JSON string).
        """
        return files_table(self._engine, self._snapshot, filter)

    def row_count(self) -> int:
        """Count the rows. No data file is opened if all files have statistics."""
        stated = row_count_from_statistics(self._engine, self._snapshot)
        if stated is not None:
            return stated
        return sum(batch.num_rows for batch in self.to_batches(columns=[]))

    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        filter: Predicate | str | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """Read rows of this version into memory; see `TableHandle.to_arrow`."""
        return self._reading(columns, filter, limit).to_arrow()

    def to_batches(
        self,
        columns: Sequence[str] | None = None,
        filter: Predicate | str | None = None,
        limit: int | None = None,
    ) -> pa.RecordBatchReader:
        """Stream rows of this version; see `TableHandle.to_batches`."""
        return self._reading(columns, filter, limit).to_batches()

    def _reading(
        self, columns: Sequence[str] | None, filter: Predicate | str | None, limit: int | None
    ) -> PlannedRead:
        return PlannedRead.plan(self._engine, self._snapshot, columns, filter, limit)

    def to_pyarrow_dataset(self, filter: Predicate | str | None = None) -> DeltaDataset:
        """Return this version as a `pyarrow.dataset`, for DuckDB, Polars and other engines.

        These engines push column selections and filters into the dataset. It skips files and row
        groups as `to_arrow` does, and streams the rows in bounded memory. Every table that
        `to_arrow` reads has a dataset; see `bayou.api.dataset.DeltaDataset`.

        Args:
            filter: condition on rows; the dataset has only matching rows.

        Raises:
            PredicateError: the filter isn't valid.
        """
        from bayou.api.dataset import to_dataset

        return to_dataset(self._engine, self._snapshot, filter)

    def diff(
        self,
        after: SnapshotHandle,
        *,
        columns: Sequence[str] | None = None,
        where: Predicate | str | None = None,
        key: Sequence[str] | None = None,
    ) -> pa.RecordBatchReader:
        """Return the rows that differ between this version and another version or table.

        Rows are compared as multisets, by the columns of both. Of two versions of one table, only
        files that aren't in both are read. Memory is bounded by the number of different rows.

        Args:
            after: the version to compare with.
            columns: columns to compare; None for all columns that both have.
            where: compare only matching rows.
            key: columns that identify a row. If set, the result is sorted by the key, so that the
                two states of a changed row follow each other; it is then held in memory.

        Returns:
            The different rows with the column `_change` in front: `-` for rows of this version,
            `+` for rows of `after`.

        Raises:
            ArgumentError: a column isn't in both schemas.
            PredicateError: `where` isn't valid.
        """
        from bayou.api.diff import differing_rows

        other = (after._engine, after._snapshot)  # another handle of this class
        return differing_rows((self._engine, self._snapshot), other, columns, where, key)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(self.to_batches())


def _boundary(at: int | dt.datetime | str, argument: str) -> CommitBoundary:
    if isinstance(at, bool) or (isinstance(at, int) and at < 0):
        raise ArgumentError(
            f"{argument}: {at!r} isn't a table version. Give 0 or more.", argument=argument
        )
    if isinstance(at, int):
        return CommitBoundary.at_version(at)
    return CommitBoundary.at_timestamp(milliseconds(at))
