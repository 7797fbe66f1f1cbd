"""A version of a table: `SnapshotHandle`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bayou.api.conditions import Condition, checked_condition, combine_with_and
from bayou.api.data_frames import DataFrames
from bayou.api.files import add_actions, file_batches, file_uris, partitions
from bayou.api.rows.read import PlannedRead, row_count_from_statistics
from bayou.kernel import Engine, Snapshot
from bayou.kernel.arrow.types import to_arrow_schema
from bayou.protocol.actions import Metadata, Protocol
from bayou.protocol.schema import StructType

if TYPE_CHECKING:
    from bayou.api.datasets.dataset import DeltaDataset


class TableSchema(StructType):
    """A table's schema. `pyarrow.schema(schema)` converts it to an Arrow schema.

    Examples:
        >>> bayou.table("lake/orders").schema().to_arrow()
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self.fields == other.fields if isinstance(other, StructType) else NotImplemented

    def __hash__(self) -> int:
        return hash(StructType(self.fields))

    def to_arrow(self) -> pa.Schema:
        """Return the schema in Arrow types."""
        return to_arrow_schema(self)

    def __arrow_c_schema__(self) -> object:
        """Export the Arrow schema (Arrow PyCapsule interface)."""
        schema: Any = self.to_arrow()
        return schema.__arrow_c_schema__()


class SnapshotHandle(DataFrames):
    """One version of a table; immutable. `TableHandle.snapshot` returns it.

    Examples:
        >>> snapshot = bayou.table("lake/orders").snapshot(version=0)
        >>> print(snapshot.version, snapshot.schema, snapshot.count())
    """

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
        """Commit timestamp in milliseconds since the epoch."""
        return self._snapshot.timestamp

    @property
    def schema(self) -> TableSchema:
        """The table schema; `arrow_schema` is the same schema in Arrow types."""
        return TableSchema(self._snapshot.schema.fields)

    @property
    def arrow_schema(self) -> pa.Schema:
        """Arrow schema of the rows that `to_arrow` returns by default."""
        return self._snapshot.arrow_schema

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """Partition columns, in the order in which the table's metadata lists them."""
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

    def metadata(self) -> Metadata:
        """Return the table's metadata: id, name, description, partition columns, configuration."""
        return self._snapshot.metadata

    def files(
        self, columns: Sequence[str] | None = None, filter: Condition | None = None
    ) -> pa.Table:
        """Return the live files that may contain rows that match the filter.

        Columns: `path` (as written in the log), `size` (bytes), `modification_time` (ms since the
        epoch), `partition_values` (map of serialized values), `num_records` (null if the file has
        no statistics), `stats` (JSON text).

        Args:
            columns: which of these columns to return, in result order; None for all. If the list
                has neither `num_records` nor `stats`, statistics aren't read.
            filter: condition on rows.

        Examples:
            >>> bayou.table("lake/orders").snapshot().files(["path", "size"])
        """
        return self.file_batches(columns, filter).read_all()

    def file_batches(
        self, columns: Sequence[str] | None = None, filter: Condition | None = None
    ) -> pa.RecordBatchReader:
        """Stream the result of `files` in batches, for file lists that don't fit into memory."""
        return file_batches(self._engine, self._snapshot, columns, filter)

    def get_add_actions(self, flatten: bool = False) -> pa.Table:
        """Return the live files with their typed statistics; see `TableHandle.get_add_actions`."""
        return add_actions(self._engine, self._snapshot, flatten=flatten)

    def file_uris(self, partition_filters: Condition | None = None) -> list[str]:
        """Return the full paths or URIs of live files that may have rows that match the filter.

        Examples:
            >>> bayou.table("lake/orders").snapshot().file_uris([("country", "=", "NZ")])
        """
        return file_uris(self._engine, self._snapshot, partition_filters)

    def partitions(self, partition_filters: Condition | None = None) -> list[dict[str, str | None]]:
        """Return the partitions that have files; each one maps column names to serialized values.

        Examples:
            >>> bayou.table("lake/orders").snapshot().partitions()
        """
        return partitions(self._engine, self._snapshot, partition_filters)

    def count(self) -> int:
        """Count the rows. No data file is opened if all files have statistics."""
        stated = row_count_from_statistics(self._engine, self._snapshot)
        if stated is not None:
            return stated
        return sum(batch.num_rows for batch in self.to_batches(columns=[]))

    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        filter: Condition | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """Read rows of this version into memory; see `TableHandle.to_arrow`."""
        return self._reading(columns, filter, limit).to_arrow()

    def to_batches(
        self,
        columns: Sequence[str] | None = None,
        filter: Condition | None = None,
        limit: int | None = None,
    ) -> pa.RecordBatchReader:
        """Stream rows of this version; see `TableHandle.to_batches`."""
        return self._reading(columns, filter, limit).to_batches()

    def _reading(
        self, columns: Sequence[str] | None, filter: Condition | None, limit: int | None
    ) -> PlannedRead:
        return PlannedRead.plan(self._engine, self._snapshot, columns, filter, limit)

    def to_pyarrow_dataset(
        self, partitions: Condition | None = None, filter: Condition | None = None
    ) -> DeltaDataset:
        """Return this version as a `pyarrow.dataset`, for DuckDB, Polars and other engines.

        These engines push column selections and filters into the dataset. The dataset skips files
        and row groups like `to_arrow`, and streams the rows in bounded memory. It supports the same
        tables as `to_arrow`; see `bayou.api.datasets.dataset.DeltaDataset`.

        Args:
            partitions: condition on partition columns, in addition to `filter`.
            filter: condition on rows; the dataset contains only matching rows.

        Raises:
            PredicateError: the filter isn't valid.

        Examples:
            >>> dataset = bayou.table("lake/orders").to_pyarrow_dataset()
            >>> dataset.to_table(columns=["id"])
        """
        from bayou.api.datasets.dataset import to_dataset

        condition = combine_with_and(
            checked_condition(partitions, "partitions"), checked_condition(filter, "filter")
        )
        return to_dataset(self._engine, self._snapshot, condition)

    def diff(
        self,
        after: SnapshotHandle,
        *,
        columns: Sequence[str] | None = None,
        where: Condition | None = None,
        key: Sequence[str] | None = None,
    ) -> pa.RecordBatchReader:
        """Return the rows that differ between this version and another version or table.

        Rows are compared as multisets, by the columns that both versions have. If both are versions
        of one table, files that are in both versions aren't read. Memory is bounded by the number
        of rows that differ.

        Args:
            after: the version to compare with.
            columns: columns to compare; None for all columns that both versions have.
            where: condition on the rows to compare.
            key: columns that identify a row. If set, the result is sorted by the key, so the old
                and the new row of a change are adjacent. The result must fit into memory.

        Returns:
            The rows that differ. The first column is `_change`: `-` for rows of this version, `+`
            for rows of `after`.

        Raises:
            ArgumentError: a column isn't in both schemas.
            PredicateError: `where` isn't valid.
        """
        from bayou.api.diff import differing_rows

        other = (after._engine, after._snapshot)  # another handle of this class
        return differing_rows(
            (self._engine, self._snapshot), other, columns, checked_condition(where, "where"), key
        )

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(self.to_batches())
