"""Entry point of the API: `table`, which returns a `TableHandle`."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bayou.api.argument_checks import (
    checked_number,
    checked_path,
    checked_string,
    checked_strings,
    checked_version,
)
from bayou.api.commands.maintenance import Maintenance
from bayou.api.commands.row_operations import RowOperations
from bayou.api.conditions import Condition
from bayou.api.data_frames import DataFrames
from bayou.api.fixed_version import TableAtVersion
from bayou.api.rows.read import Timestamp, milliseconds
from bayou.api.snapshot import SnapshotHandle, TableSchema
from bayou.engines import for_path
from bayou.errors import ArgumentError, VersionNotFoundError
from bayou.kernel import Catalog, Engine, Table
from bayou.protocol.actions import Metadata, Protocol
from bayou.unity.names import is_unity_name

if TYPE_CHECKING:
    from bayou.api.changes import ChangesHandle
    from bayou.api.commands.alter import TableAlterer
    from bayou.api.datasets.dataset import DeltaDataset
    from bayou.api.iceberg_metadata import IcebergMetadata
    from bayou.kernel import CommitBoundary
    from bayou.kernel.table_detail import TableDetail


def table(
    path: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None = None,
    *,
    engine: Engine | None = None,
    catalog: Catalog | None = None,
    version: int | None = None,
) -> TableHandle:
    """Return a handle of the Delta table at a path. Nothing is read yet, unless `version` is set.

    Args:
        path: local path or URI. The schemes are `file://`, `s3://`, `s3a://`, `gs://`, `abfss://`,
            `az://`, `hdfs://`, and `memory://` for tests. `uc://catalog.schema.table` is a table of
            Unity Catalog. This call then requests the table's location from Unity Catalog, with
            `UC_URI` and `UC_TOKEN` from `storage_options` or from the environment.
        storage_options: settings and credentials of the store, with the names of `deltalake`
            (`AWS_ENDPOINT_URL`, `AWS_ACCESS_KEY_ID`, ...). Missing options are taken from the
            environment.
        engine: engine to use instead of the default engine, for custom handlers or a
            `MetricsReporter`.
        catalog: catalog that manages the table (table feature `catalogManaged`): an object with the
            methods of `bayou.kernel.Catalog`.
        version: fixed version of the handle; see `TableHandle.load_as_version`. If None, each call
            uses the latest version.

    Raises:
        ArgumentError: the path isn't valid or its scheme is unknown; the storage options aren't
            valid, or are combined with an engine.
        TableNotFoundError: Unity Catalog has no such table.
        CatalogError: Unity Catalog can't be reached, or rejects the request.
        VersionNotFoundError: `version` can't be reconstructed from the log.

    Examples:
        >>> orders = bayou.table("lake/orders")
        >>> orders.to_arrow(filter="price > 10")
    """
    handle = _open(path, storage_options, engine, catalog)
    if version is not None:
        handle.load_as_version(version)
    return handle


def _open(
    path: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None,
    engine: Engine | None,
    catalog: Catalog | None,
) -> TableHandle:
    location = checked_path(path)
    options = checked_strings(storage_options, "storage_options")
    if is_unity_name(location):
        if engine is not None or catalog is not None:
            raise ArgumentError(
                f"{location}: the arguments engine and catalog can't be used with a table of "
                "Unity Catalog. Remove them.",
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
            "engine, or remove the argument engine.",
            argument="storage_options",
        )
    return TableHandle(engine, Table.for_path(engine, location, catalog))


class TableHandle(RowOperations, Maintenance, DataFrames):
    """A table and the engine that accesses it. Each call reads the log again.

    `bayou.table` returns a handle. A handle is thread-safe, except for `load_as_version` and
    `update_incremental`. A handle `t` exports an Arrow stream, so it can be used in
    `pyarrow.table(t)`, `polars.DataFrame(t)` and `duckdb.sql("SELECT * FROM t")`.

    Examples:
        >>> orders = bayou.table("lake/orders")
        >>> print(orders)
        >>> orders.to_pandas(columns=["id"], filters="price > 10")
    """

    __slots__ = ()

    def exists(self) -> bool:
        """Whether the table exists.

        Examples:
            >>> bayou.table("lake/orders").exists()
        """
        return self._table.exists(self._engine)

    def __repr__(self) -> str:
        from bayou.api.representation import as_text

        return as_text(self._engine, self._table)

    def _repr_html_(self) -> str:
        from bayou.api.representation import as_html

        return as_html(self._engine, self._table)

    def __dir__(self) -> list[str]:
        return [name for name in object.__dir__(self) if not name.startswith("_")]

    @property
    def alter(self) -> TableAlterer:
        """ALTER TABLE: each method of `TableAlterer` commits a change and returns the version.

        Examples:
            >>> bayou.table("lake/orders").alter.add_columns({"note": "string"})
        """
        from bayou.api.commands.alter import TableAlterer

        return TableAlterer(self._engine, self._table)

    @property
    def iceberg(self) -> IcebergMetadata:
        """The Iceberg metadata of a table with `delta.universalFormat.enabledFormats`.

        Examples:
            >>> bayou.table("lake/customers").iceberg.sync()
        """
        from bayou.api.iceberg_metadata import IcebergMetadata

        return IcebergMetadata(self._engine, self._table)

    def version(self) -> int:
        """Return the latest version, or the fixed version of this handle.

        Examples:
            >>> bayou.table("lake/orders").version()
        """
        return self.snapshot().version

    def load_as_version(self, version: int | dt.datetime | str) -> None:
        """Pin this handle to a version, until `update_incremental` is called.

        DELETE, UPDATE and MERGE are then based on this version. They fail if a later commit
        conflicts.

        Args:
            version: a version; or a datetime or an ISO 8601 string, which selects the last version
                at or before this time.

        Raises:
            VersionNotFoundError: the version doesn't exist or can't be reconstructed.

        Examples:
            >>> orders = bayou.table("lake/orders")
            >>> orders.load_as_version(0)
            >>> orders.version()
        """
        self.update_incremental()
        if isinstance(version, int):
            snapshot = self.snapshot(version)
        else:
            snapshot = self.snapshot(timestamp=version)
        self._table = TableAtVersion(self._table, snapshot.kernel)

    def update_incremental(self) -> None:
        """Use the latest version again, after `load_as_version`.

        Examples:
            >>> orders = bayou.table("lake/orders", version=0)
            >>> orders.update_incremental()
        """
        if isinstance(self._table, TableAtVersion):
            self._table = self._table.latest()

    def schema(self) -> TableSchema:
        """Return the latest version's schema: `fields`, `names`, `to_arrow()`, `to_json()`.

        Examples:
            >>> bayou.table("lake/orders").schema().names
        """
        return self.snapshot().schema

    def metadata(self) -> Metadata:
        """Return the table's metadata: id, name, description, partition columns, configuration.

        Examples:
            >>> bayou.table("lake/orders").metadata().configuration
        """
        return self.snapshot().metadata()

    def protocol(self) -> Protocol:
        """Return the reader and writer versions and features.

        Examples:
            >>> bayou.table("lake/orders").protocol().min_reader_version
        """
        return self.snapshot().protocol

    def count(self) -> int:
        """Count the rows. No data file is opened if all files have statistics.

        Examples:
            >>> bayou.table("lake/orders").count()
        """
        return self.snapshot().count()

    def files(
        self, columns: Sequence[str] | None = None, filter: Condition | None = None
    ) -> pa.Table:
        """Return the live files that may contain matching rows; see `SnapshotHandle.files`.

        Examples:
            >>> bayou.table("lake/orders").files(["path", "num_records"])
        """
        return self.snapshot().files(columns, filter)

    def file_batches(
        self, columns: Sequence[str] | None = None, filter: Condition | None = None
    ) -> pa.RecordBatchReader:
        """Stream the result of `files` in batches, for file lists that don't fit into memory.

        Examples:
            >>> for batch in bayou.table("lake/orders").file_batches(["size"]):
            ...     print(batch.num_rows)
        """
        return self.snapshot().file_batches(columns, filter)

    def get_add_actions(self, flatten: bool = False) -> pa.Table:
        """Return the live files with their typed statistics and partition values.

        Columns: `path`, `size_bytes`, `modification_time` (ms since the epoch), `num_records`, and
        the structs `null_count`, `min` and `max`, which have a field for each column with
        statistics. The struct `partition` has a field for each partition column.

        Args:
            flatten: whether to return the fields of the structs as separate columns, such as
                `min.id`.

        Examples:
            >>> bayou.table("lake/orders").get_add_actions(flatten=True).column_names
        """
        return self.snapshot().get_add_actions(flatten)

    def file_uris(self, partition_filters: Condition | None = None) -> list[str]:
        """Return the full paths or URIs of live files that may have rows that match the filter.

        Examples:
            >>> bayou.table("lake/orders").file_uris([("country", "=", "NZ")])
        """
        return self.snapshot().file_uris(partition_filters)

    def partitions(self, partition_filters: Condition | None = None) -> list[dict[str, str | None]]:
        """Return the partitions that have files; each one maps column names to serialized values.

        Examples:
            >>> bayou.table("lake/orders").partitions()
        """
        return self.snapshot().partitions(partition_filters)

    def transaction_version(self, app_id: str) -> int | None:
        """Return the last transaction version of an application; None if the application has none.

        Examples:
            >>> bayou.table("lake/orders").transaction_version("nightly load")
        """
        return self.snapshot().transactions.get(checked_string(app_id, "app_id"))

    def snapshot(
        self, version: int | None = None, timestamp: Timestamp | None = None
    ) -> SnapshotHandle:
        """Return a version of the table; by default, the latest.

        Args:
            version: number of the version.
            timestamp: time of the version. The last version at or before this time is returned.

        Raises:
            TableNotFoundError, VersionNotFoundError, CorruptTableError, UnsupportedFeatureError:
                the version can't be read.
            ArgumentError: `version` and `timestamp` are both set, or one of them is invalid.

        Examples:
            >>> bayou.table("lake/orders").snapshot(version=0).to_pandas()
        """
        if version is not None and timestamp is not None:
            raise ArgumentError(
                "version: version and timestamp are both set. Give one of them.",
                argument="version",
            )
        if version is not None:
            checked_version(version, "version")
            snapshot = self._table.snapshot_as_of_version(self._engine, version)
        elif timestamp is not None:
            snapshot = self._table.snapshot_as_of_timestamp(self._engine, milliseconds(timestamp))
        else:
            snapshot = self._table.latest_snapshot(self._engine)
        return SnapshotHandle(self._engine, snapshot)

    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        filter: Condition | None = None,
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

        Examples:
            >>> bayou.table("lake/orders").to_arrow(columns=["id"], filter="price > 10")
        """
        return self.snapshot(version, timestamp).to_arrow(columns, filter, limit)

    def to_batches(
        self,
        columns: Sequence[str] | None = None,
        filter: Condition | None = None,
        version: int | None = None,
        timestamp: Timestamp | None = None,
        limit: int | None = None,
    ) -> pa.RecordBatchReader:
        """Stream rows of the table in bounded memory. See `to_arrow` for the arguments.

        Files are read in parallel. The batches of one file are in order, but batches of several
        files interleave. To stop early, delete the reader (`del reader`): the reader's
        method `close()` doesn't close the files.

        Examples:
            >>> for batch in bayou.table("lake/orders").to_batches():
            ...     print(batch.num_rows)
        """
        return self.snapshot(version, timestamp).to_batches(columns, filter, limit)

    def to_pyarrow_dataset(
        self,
        partitions: Condition | None = None,
        filter: Condition | None = None,
        version: int | None = None,
        timestamp: Timestamp | None = None,
    ) -> DeltaDataset:
        """Return a version as a `pyarrow.dataset`; see `SnapshotHandle.to_pyarrow_dataset`.

        Examples:
            >>> dataset = bayou.table("lake/orders").to_pyarrow_dataset()
            >>> dataset.count_rows()
        """
        return self.snapshot(version, timestamp).to_pyarrow_dataset(partitions, filter)

    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Return the commits in the log, newest first.

        Each commit has `version`, `timestamp` (ms), `operation`, `operationParameters`,
        `operationMetrics`, `engineInfo`, ... as written in the log.

        Examples:
            >>> bayou.table("lake/orders").history(limit=1)[0]["operation"]
        """
        checked_number(limit, "limit", "a number of commits")
        return self._table.history(self._engine, limit)

    def detail(self) -> TableDetail:
        """Return details of the latest version: id, path, layout, files, properties, protocol.

        If the version has no version checksum, the files are counted by reading the log.

        Examples:
            >>> bayou.table("lake/orders").detail().size_in_bytes
        """
        from bayou.kernel.table_detail import table_detail

        return table_detail(self._engine, self._table.latest_snapshot(self._engine))

    def load_cdf(  # noqa: PLR0917 - deltalake's order of parameters
        self,
        starting_version: int = 0,
        ending_version: int | None = None,
        starting_timestamp: dt.datetime | str | None = None,
        ending_timestamp: dt.datetime | str | None = None,
        columns: Sequence[str] | None = None,
        predicate: Condition | None = None,
        allow_out_of_range: bool = False,
    ) -> pa.RecordBatchReader:
        """Stream the change data feed of a range, like the method of `deltalake`; see `changes`.

        Args:
            starting_version, ending_version: the range of versions, both ends included.
            starting_timestamp, ending_timestamp: the range of timestamps, both ends included.
                `starting_timestamp` replaces `starting_version`, and `ending_timestamp` replaces
                `ending_version`.
            columns, predicate: columns and filter; see `ChangesHandle.to_arrow`.
            allow_out_of_range: whether the range can exceed the latest version. If True, a range
                that starts after the latest version has no rows, and an `ending_timestamp` after
                the last commit selects the latest version. If False, both are errors.

        Raises:
            VersionNotFoundError, ChangeDataFeedError, ArgumentError: see `changes`.

        Examples:
            >>> bayou.table("lake/orders").load_cdf(starting_version=1).read_all()
        """
        start = starting_version if starting_timestamp is None else starting_timestamp
        end = ending_version if ending_timestamp is None else ending_timestamp
        try:
            return self.changes(start, end).to_batches(columns, predicate)
        except VersionNotFoundError as error:
            if not allow_out_of_range or error.latest is None:
                raise
            latest = self.snapshot(error.latest)
        if _is_after(start, latest):
            rows = self.changes(latest.version).to_batches(columns, predicate)
            return pa.RecordBatchReader.from_batches(rows.schema, iter(()))
        end = None if end is not None and _is_after(end, latest) else end
        return self.changes(start, end).to_batches(columns, predicate)

    def changes(
        self, start: int | dt.datetime | str, end: int | dt.datetime | str | None = None
    ) -> ChangesHandle:
        """Return the change data feed of a range of versions or timestamps, both ends included.

        Args:
            start: a version, or a timestamp, which selects the first commit at or after this time.
            end: a version, or a timestamp, which selects the last commit at or before this time.
                If `end` is None or a version above the latest version, the range ends with the
                latest version.

        Raises:
            VersionNotFoundError: the log doesn't have all commits of the range. This error is also
                raised if the start version is above the latest version, or if the start or end
                timestamp is after the last commit.
            ChangeDataFeedError: at a version of the range, `delta.enableChangeDataFeed` isn't set,
                or the schema has a change other than new columns; the message names the version.
            ArgumentError: the range ends before it starts, or a boundary is invalid.

        Examples:
            >>> bayou.table("lake/orders").changes(1).to_arrow(filter="_change_type = 'insert'")
        """
        from bayou.api.changes import ChangesHandle

        last = None if end is None else _boundary(end, "end")
        changes = self._table.changes(self._engine, _boundary(start, "start"), last)
        return ChangesHandle(self._engine, changes)


def _is_after(at: int | dt.datetime | str, snapshot: SnapshotHandle) -> bool:
    if isinstance(at, int):
        return at > snapshot.version
    return milliseconds(at) > snapshot.timestamp


def _boundary(at: int | dt.datetime | str, argument: str) -> CommitBoundary:
    if isinstance(at, bool) or (isinstance(at, int) and at < 0):
        raise ArgumentError(
            f"{argument}: {at!r} isn't a table version. Give an integer of 0 or more.",
            argument=argument,
        )
    from bayou.kernel import CommitBoundary

    if isinstance(at, int):
        return CommitBoundary.at_version(at)
    return CommitBoundary.at_timestamp(milliseconds(at))
