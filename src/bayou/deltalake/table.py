"""`DeltaTable`: the class of the package `deltalake`, implemented by Bayou."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import pyarrow as pa

from bayou import api
from bayou.api import Condition, TableHandle
from bayou.api.argument_checks import checked_path, engine_and_table
from bayou.api.conditions import checked_condition, combine_with_and
from bayou.api.rows.arrow_stream import RowSource, record_batches
from bayou.deltalake.commands import (
    TableAlterer,
    TableMerger,
    TableOptimizer,
    partition_filters_of,
)
from bayou.deltalake.properties import (
    CommitProperties,
    PostCommitHookProperties,
    WriterProperties,
    with_properties,
)
from bayou.deltalake.schema import Schema, check_no_large_types, schema_of
from bayou.deltalake.sql_dialect import spark_assignments, spark_sql
from bayou.deltalake.table_version import TableVersion
from bayou.engines import for_path
from bayou.errors import ArgumentError, ArgumentTypeError

_CHANGED = ("num_added_files", "num_removed_files", "num_copied_rows", "execution_time_ms")
_DELETE = ("num_deleted_rows", *_CHANGED, "scan_time_ms", "rewrite_time_ms")
_UPDATE = ("num_updated_rows", *_CHANGED, "scan_time_ms")


class ProtocolVersions(NamedTuple):
    """A table's protocol.

    Attributes:
        writer_features: table features that a writer must support; None if the writer version is
            below 7.
        reader_features: table features that a reader must support; None if the reader version is
            below 3.
    """

    min_reader_version: int
    min_writer_version: int
    writer_features: list[str] | None
    reader_features: list[str] | None


class DeltaTable(TableVersion):
    """A table at one version. Commits by this object move the object to the new version.

    The class has all methods of deltalake's `DeltaTable` and of `TableHandle`.

    Args:
        version: the version to read; by default, the latest version.
        without_files, log_buffer_size, skip_stats: ignored.

    Raises:
        TableNotFoundError: there is no table.

    Examples:
        >>> table = DeltaTable("lake/orders")
        >>> table.delete("id > 2")["num_deleted_rows"]
    """

    __slots__ = ()

    def __init__(  # noqa: PLR0917 - deltalake's order of parameters
        self,
        table_uri: str | os.PathLike[str],
        version: int | None = None,
        storage_options: Mapping[str, str] | None = None,
        without_files: bool = False,
        log_buffer_size: int | None = None,
        skip_stats: bool = False,
    ) -> None:
        super().__init__(*engine_and_table(api.table(table_uri, storage_options)))
        self.load(self.snapshot(version))

    @staticmethod
    def is_deltatable(
        table_uri: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None
    ) -> bool:
        """Whether there is a Delta table at a path."""
        return api.exists(table_uri, storage_options)

    @classmethod
    def create(  # noqa: PLR0917 - deltalake's order of parameters
        cls,
        table_uri: str | os.PathLike[str],
        schema: Any,
        mode: str = "error",
        partition_by: str | Sequence[str] | None = None,
        name: str | None = None,
        description: str | None = None,
        configuration: Mapping[str, str | None] | None = None,
        storage_options: Mapping[str, str] | None = None,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
        raise_if_key_not_exists: bool = True,  # noqa: ARG003 - deltalake's parameter
    ) -> DeltaTable:
        """Create a table; see `bayou.create`. Mode `append` fails if the table exists."""
        engine = None
        if commit_properties is not None or post_commithook_properties is not None:
            engine = for_path(checked_path(table_uri), storage_options)
            engine = with_properties(engine, commit_properties, post_commithook_properties)
        api.create(
            table_uri,
            schema.kernel() if isinstance(schema, Schema) else schema,
            "error" if mode == "append" else mode,  # type: ignore[arg-type]  # checked there
            partition_by,
            name,
            description,
            without_nulls(configuration),
            storage_options if engine is None else None,
            engine=engine,
        )
        return cls(table_uri, storage_options=storage_options)

    def schema(self) -> Schema:
        """Return the schema."""
        return schema_of(self.snapshot().schema)

    def protocol(self) -> ProtocolVersions:
        """Return the reader and writer versions and features."""
        protocol = self.snapshot().protocol
        reader, writer = protocol.reader_features, protocol.writer_features
        return ProtocolVersions(
            protocol.min_reader_version,
            protocol.min_writer_version,
            None if writer is None else list(writer),
            None if reader is None else list(reader),
        )

    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Return the commits, newest first.

        The keys of `operationMetrics` are the names of metrics in Delta. The names of deltalake,
        such as `num_deleted_rows`, are also valid for look-ups: `metrics["num_deleted_rows"]`.
        """
        commits = super().history(limit)
        for commit in commits:
            if "operationMetrics" in commit:
                commit["operationMetrics"] = _Metrics(commit["operationMetrics"])
        return commits

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
        """Stream the rows of the change data feed. `columns` selects some of the columns."""
        return super().load_cdf(
            starting_version,
            ending_version,
            starting_timestamp,
            ending_timestamp,
            columns,
            spark_sql(predicate),
            allow_out_of_range,
        )

    def file_uris(
        self,
        partition_filters: Condition | None = None,
        *,
        file_pruning_predicate: Condition | None = None,
    ) -> list[str]:
        """Return the paths or URIs of the files that may have rows that match both arguments."""
        return super().file_uris(_both(partition_filters, file_pruning_predicate))

    def partitions(
        self,
        partition_filters: Condition | None = None,
        *,
        file_pruning_predicate: Condition | None = None,
    ) -> list[dict[str, str | None]]:
        """Return the partitions that have files.

        Each partition is a dictionary of column names to serialized values.
        """
        return super().partitions(_both(partition_filters, file_pruning_predicate))

    def to_pyarrow_dataset(  # noqa: PLR0917 - deltalake's order of parameters
        self,
        partitions: Condition | None = None,
        filesystem: Any = None,
        parquet_read_options: Any = None,
        schema: pa.Schema | None = None,
        as_large_types: bool = False,
        file_pruning_predicate: Condition | None = None,
    ) -> Any:
        """Return the rows as a `pyarrow.dataset`; see `SnapshotHandle.to_pyarrow_dataset`."""
        check_no_large_types(as_large_types)
        _refuse("filesystem", filesystem, "Give storage_options to DeltaTable.")
        _refuse("parquet_read_options", parquet_read_options, "Cast the columns that are read.")
        _refuse("schema", schema, "Cast the columns that are read.")
        return super().to_pyarrow_dataset(partition_filters_of(partitions), file_pruning_predicate)

    def to_pyarrow_table(
        self,
        partitions: Condition | None = None,
        columns: Sequence[str] | None = None,
        filesystem: Any = None,
        filters: Any = None,
    ) -> pa.Table:
        """Read rows into an Arrow table."""
        _refuse("filesystem", filesystem, "Give storage_options to DeltaTable.")
        return super().to_pyarrow_table(partition_filters_of(partitions), columns, filters)

    def to_pandas(
        self,
        partitions: Condition | None = None,
        columns: Sequence[str] | None = None,
        filesystem: Any = None,
        filters: Any = None,
        types_mapper: Callable[[pa.DataType], Any] | None = None,
    ) -> Any:
        """Read rows into a pandas DataFrame."""
        rows = self.to_pyarrow_table(partitions, columns, filesystem, filters)
        return rows.to_pandas(types_mapper=types_mapper)

    def scan(
        self, columns: Sequence[str] | None = None, predicate: str | None = None
    ) -> pa.RecordBatchReader:
        """Stream the rows that match a condition. `columns` selects some of the columns."""
        return self.to_batches(columns, spark_sql(predicate))

    def delete(
        self,
        predicate: str | None = None,
        writer_properties: WriterProperties | None = None,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> dict[str, Any]:
        """Delete the rows that match a condition."""
        engine = self.engine_with(commit_properties, post_commithook_properties, writer_properties)
        metrics = self.committed(
            TableHandle(engine, self._table).delete(spark_sql(predicate)),
            post_commithook_properties,
        )
        return {name: metrics[name] for name in _DELETE}

    def update(
        self,
        updates: Mapping[str, str] | None = None,
        new_values: Mapping[str, Any] | None = None,
        predicate: str | None = None,
        writer_properties: WriterProperties | None = None,
        error_on_type_mismatch: bool = True,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> dict[str, Any]:
        """Update the rows that match a condition.

        `updates` contains the new values as SQL, `new_values` contains them as Python values.
        """
        _refuse_casts(error_on_type_mismatch)
        if isinstance(updates, Mapping) and new_values is None:
            values: list[Any] = list(updates.values())
            wrong = next((value for value in values if not isinstance(value, str)), None)
            if wrong is not None:
                raise ArgumentTypeError(
                    f"updates: {wrong!r} isn't an SQL string. Give Python values in new_values.",
                    argument="updates",
                )
        engine = self.engine_with(commit_properties, post_commithook_properties, writer_properties)
        handle = TableHandle(engine, self._table)
        metrics = self.committed(
            handle.update(spark_assignments(updates), new_values, spark_sql(predicate)),
            post_commithook_properties,
        )
        return {name: metrics[name] for name in _UPDATE}

    def merge(  # noqa: PLR0917 - deltalake's order of parameters
        self,
        source: RowSource,
        predicate: str,
        source_alias: str | None = None,
        target_alias: str | None = None,
        merge_schema: bool = False,
        error_on_type_mismatch: bool = True,
        writer_properties: WriterProperties | None = None,
        streamed_exec: bool = True,
        max_spill_size: int | None = None,
        max_temp_directory_size: int | None = None,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> TableMerger:
        """Start a MERGE; the aliases default to `source` and `target`."""
        _refuse_casts(error_on_type_mismatch)
        engine = self.engine_with(commit_properties, post_commithook_properties, writer_properties)
        rows = record_batches(source, "source")
        merge = TableHandle(engine, self._table).merge(
            rows,
            spark_sql(predicate),
            source_alias or "source",
            target_alias or "target",
            merge_schema,
        )
        names = {name.lower() for name in self.snapshot().schema.names}
        columns = [name for name in rows.schema.names if merge_schema or name.lower() in names]
        return TableMerger(
            self, merge, columns, source_alias or "source", post_commithook_properties
        )

    def vacuum(
        self,
        retention_hours: float | None = None,
        dry_run: bool = True,
        enforce_retention_duration: bool = True,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
        full: bool = False,
        keep_versions: list[int] | None = None,
    ) -> list[str]:
        """Delete unused files, and return their paths relative to the table's folder.

        A dry run deletes nothing, and returns the same paths. `keep_versions` isn't supported.
        """
        _refuse("keep_versions", keep_versions, "Raise retention_hours, or clone the versions.")
        engine = self.engine_with(commit_properties, post_commithook_properties, operation="vacuum")
        files = TableHandle(engine, self.latest_table()).vacuum(
            retention_hours, dry_run, enforce_retention_duration, full=full
        )
        if not dry_run:
            self.committed(None, post_commithook_properties)
        return [path.removeprefix(self.table_uri).lstrip("/") for path in files]

    def restore(
        self,
        target: int | dt.datetime | str,
        *,
        ignore_missing_files: bool = False,
        protocol_downgrade_allowed: bool = False,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> dict[str, Any]:
        """Restore the table to an earlier version, and return metrics.

        The protocol is never downgraded: `protocol_downgrade_allowed` is ignored.
        """
        engine = self.engine_with(commit_properties, post_commithook_properties)
        metrics = self.committed(
            TableHandle(engine, self.latest_table()).restore(
                target, ignore_missing_files=ignore_missing_files
            ),
            post_commithook_properties,
        )
        return {
            "numRemovedFile": metrics.num_removed_files,
            "numRestoredFile": metrics.num_restored_files,
        }

    @property
    def alter(self) -> TableAlterer:
        """ALTER TABLE."""
        return TableAlterer(self)

    @property
    def optimize(self) -> TableOptimizer:
        """OPTIMIZE: `compact` and `z_order`."""
        return TableOptimizer(self)

    def repair(self, *_: Any, **__: Any) -> NoReturn:
        """Not supported: Bayou doesn't remove missing files from the log."""
        raise _unsupported("repair", "restore a version whose files exist, with restore(version)")

    def deletion_vectors(self) -> NoReturn:
        """Not supported: Bayou applies deletion vectors when it reads rows."""
        raise _unsupported("deletion_vectors", "read the table; the result has no deleted rows")

    def create_write_transaction(self, *_: Any, **__: Any) -> NoReturn:
        """Not supported: use the transactions of `bayou.kernel` instead."""
        raise _unsupported("create_write_transaction", "use TransactionBuilder of bayou.kernel")


class _Metrics(dict[str, Any]):
    """The metrics of a commit in the history.

    A look-up with a name of Delta, such as `metrics["numDeletedRows"]`, returns a string. A look-up
    with a name of deltalake, such as `metrics["num_deleted_rows"]`, returns an integer.
    """

    def __missing__(self, name: str) -> int:
        first, *others = name.split("_")
        value = self.get(first + "".join(word.capitalize() for word in others))
        if value is None:
            raise KeyError(name)
        return int(value)


def without_nulls(configuration: Mapping[str, str | None] | None) -> dict[str, str]:
    """Return the properties whose value isn't None."""
    return {key: value for key, value in (configuration or {}).items() if value is not None}


def _both(one: Condition | None, other: Condition | None) -> Condition | None:
    return combine_with_and(
        checked_condition(partition_filters_of(one), "partition_filters"),
        checked_condition(other, "file_pruning_predicate"),
    )


def _refuse(argument: str, value: object, advice: str) -> None:
    if value is not None:
        raise ArgumentError(
            f"{argument}: Bayou doesn't support this argument. {advice}", argument=argument
        )


def _refuse_casts(error_on_type_mismatch: bool) -> None:
    if not error_on_type_mismatch:
        raise ArgumentError(
            "error_on_type_mismatch: False isn't supported. To write NULL for a value that can't "
            "be cast, use try_cast in SQL.",
            argument="error_on_type_mismatch",
        )


def _unsupported(method: str, advice: str) -> ArgumentError:
    return ArgumentError(
        f"{method}: Bayou doesn't have this method. Instead, {advice}.", argument=method
    )
