"""`TableMerger`, `TableAlterer` and `TableOptimizer`, which methods of `DeltaTable` return."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from bayou import api
from bayou.api import Condition
from bayou.api.argument_checks import engine_and_table
from bayou.deltalake.properties import (
    CommitProperties,
    PostCommitHookProperties,
    TableFeatures,
    WriterProperties,
)
from bayou.deltalake.schema import Field
from bayou.deltalake.sql_dialect import spark_assignments, spark_sql
from bayou.deltalake.table_version import TableVersion, moving
from bayou.errors import ArgumentError
from bayou.protocol import features
from bayou.protocol.sql import quote_identifier

_MERGE = (
    "num_source_rows",
    "num_target_rows_inserted",
    "num_target_rows_updated",
    "num_target_rows_deleted",
    "num_target_rows_copied",
    "num_output_rows",
    "num_target_files_added",
    "num_target_files_removed",
    "execution_time_ms",
    "scan_time_ms",
    "rewrite_time_ms",
)
_OPTIMIZE = (
    "numFilesAdded",
    "numFilesRemoved",
    "partitionsOptimized",
    "numBatches",
    "totalConsideredFiles",
    "totalFilesSkipped",
)


class TableMerger:
    """Builder of a MERGE. Each `when_` method adds a clause; `execute` runs the MERGE."""

    def __init__(
        self,
        table: TableVersion,
        merge: api.TableMerger,
        source_columns: Sequence[str],
        source_alias: str,
        hooks: PostCommitHookProperties | None,
    ) -> None:
        self._deltatable = table
        self._merge = merge
        self._columns = source_columns
        self._alias = quote_identifier(source_alias)
        self._hooks = hooks

    def when_matched_update(
        self, updates: Mapping[str, str], predicate: str | None = None
    ) -> TableMerger:
        """Update the table's rows that match a source row.

        Args:
            updates: for each column to update, the SQL expression of its new value.
        """
        self._merge = self._merge.when_matched_update(
            spark_assignments(updates), spark_sql(predicate)
        )
        return self

    def when_matched_update_all(
        self, predicate: str | None = None, except_cols: Sequence[str] | None = None
    ) -> TableMerger:
        """Update the table's rows that match a source row, with all columns of the source row.

        If `DeltaTable.merge` was called with `merge_schema`, source columns that the table lacks
        are added to the table.

        Args:
            except_cols: source columns to ignore.
        """
        return self.when_matched_update(self._source_columns(except_cols), predicate)

    def when_matched_delete(self, predicate: str | None = None) -> TableMerger:
        """Delete the table's rows that match a source row."""
        self._merge = self._merge.when_matched_delete(spark_sql(predicate))
        return self

    def when_not_matched_insert(
        self, updates: Mapping[str, str], predicate: str | None = None
    ) -> TableMerger:
        """Insert the source rows that match no row of the table.

        Args:
            updates: for each column to set, the SQL expression of its value.
        """
        self._merge = self._merge.when_not_matched_insert(
            spark_assignments(updates), spark_sql(predicate)
        )
        return self

    def when_not_matched_insert_all(
        self, predicate: str | None = None, except_cols: Sequence[str] | None = None
    ) -> TableMerger:
        """Insert the source rows that match no row of the table, with all their columns.

        If `DeltaTable.merge` was called with `merge_schema`, source columns that the table lacks
        are added to the table.

        Args:
            except_cols: source columns to ignore.
        """
        return self.when_not_matched_insert(self._source_columns(except_cols), predicate)

    def when_not_matched_by_source_update(
        self, updates: Mapping[str, str], predicate: str | None = None
    ) -> TableMerger:
        """Update the table's rows that match no source row."""
        self._merge = self._merge.when_not_matched_by_source_update(
            spark_assignments(updates), spark_sql(predicate)
        )
        return self

    def when_not_matched_by_source_delete(self, predicate: str | None = None) -> TableMerger:
        """Delete the table's rows that match no source row."""
        self._merge = self._merge.when_not_matched_by_source_delete(spark_sql(predicate))
        return self

    def execute(self) -> dict[str, Any]:
        """Run the MERGE in one commit, and return its metrics."""
        metrics = self._deltatable.committed(self._merge.execute(), self._hooks)
        return {name: metrics[name] for name in _MERGE}

    def _source_columns(self, except_cols: Sequence[str] | None) -> dict[str, str]:
        return {
            quote_identifier(name): f"{self._alias}.{quote_identifier(name)}"
            for name in self._columns
            if name not in (except_cols or ())
        }


class TableAlterer:
    """Runs ALTER TABLE commands.

    Has all methods of deltalake's `TableAlterer` and of `bayou.api.TableAlterer`.
    """

    def __init__(self, table: TableVersion) -> None:
        self.table = table

    def __getattr__(self, name: str) -> Any:
        return self._method(name, None, None)

    def add_feature(
        self,
        feature: TableFeatures | Sequence[TableFeatures],
        allow_protocol_versions_increase: bool = False,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Add table features to the protocol."""
        added = [feature] if isinstance(feature, TableFeatures) else feature
        names = [TableFeatures(item).value for item in added]
        protocol = self.table.snapshot().protocol
        needed = features.with_features(protocol, names)
        if not allow_protocol_versions_increase and (
            needed.min_reader_version > protocol.min_reader_version
            or needed.min_writer_version > protocol.min_writer_version
        ):
            raise ArgumentError(
                f"{self.table.table_uri}: adding {', '.join(names)} needs reader version "
                f"{needed.min_reader_version} and writer version {needed.min_writer_version}. Set "
                "allow_protocol_versions_increase=True to upgrade the protocol.",
                argument="allow_protocol_versions_increase",
            )
        self._method("add_feature", commit_properties, post_commithook_properties)(names)

    def add_columns(
        self,
        fields: Field | Sequence[Field],
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Add columns."""
        each: Sequence[Any] = [fields] if isinstance(fields, Field) else fields
        columns = [f.kernel() if isinstance(f, Field) else f for f in each]
        self._method("add_columns", commit_properties, post_commithook_properties)(columns)

    def add_constraint(
        self,
        constraints: Mapping[str, str],
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Add CHECK constraints."""
        add = self._method("add_constraint", commit_properties, post_commithook_properties)
        add({name: spark_sql(condition) for name, condition in constraints.items()})

    def drop_constraint(
        self,
        name: str,
        raise_if_not_exists: bool = True,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Drop a CHECK constraint."""
        drop = self._method("drop_constraint", commit_properties, post_commithook_properties)
        drop(name, raise_if_not_exists)

    def drop_column_not_null(
        self,
        column_name: str,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Make a column nullable."""
        drop = self._method("drop_column_not_null", commit_properties, post_commithook_properties)
        drop(column_name)

    def set_table_properties(
        self,
        properties: Mapping[str, str],
        raise_if_not_exists: bool = True,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Set table properties. An unknown property with the prefix `delta.` is an error.

        Args:
            raise_if_not_exists: ignored.
        """
        change = self._method("set_table_properties", commit_properties, post_commithook_properties)
        change(properties)

    def set_table_name(
        self,
        name: str,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Set the table's name."""
        self._method("set_table_name", commit_properties, post_commithook_properties)(name)

    def set_table_description(
        self,
        description: str,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Set the table's description."""
        change = self._method(
            "set_table_description", commit_properties, post_commithook_properties
        )
        change(description)

    def set_column_metadata(
        self,
        column: str,
        metadata: Mapping[str, Any],
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Add or replace entries of a column's metadata."""
        change = self._method("set_column_metadata", commit_properties, post_commithook_properties)
        change(column, metadata)

    def _method(
        self,
        name: str,
        commit: CommitProperties | None,
        hooks: PostCommitHookProperties | None,
    ) -> Callable[..., Any]:
        engine = self.table.engine_with(commit, hooks, operation="alter")
        alterer = api.TableAlterer(engine, self.table.latest_table())  # may commit several times
        return moving(self.table, getattr(alterer, name), hooks)


class TableOptimizer:
    """Runs OPTIMIZE commands.

    Has all methods of deltalake's `TableOptimizer` and of `bayou.api.TableOptimizer`.
    """

    def __init__(self, table: TableVersion) -> None:
        self.table = table

    def __getattr__(self, name: str) -> Any:
        return self._method(name, None, None, None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Compact or cluster the table; see `bayou.api.TableOptimizer`."""
        return self._method("__call__", None, None, None)(*args, **kwargs)

    def compact(  # noqa: PLR0917 - deltalake's order of parameters
        self,
        partition_filters: Condition | None = None,
        target_size: int | None = None,
        max_concurrent_tasks: int | None = None,
        max_spill_size: int | None = None,
        max_temp_directory_size: int | None = None,
        min_commit_interval: int | dt.timedelta | None = None,
        writer_properties: WriterProperties | None = None,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> dict[str, Any]:
        """Compact small files, and return metrics."""
        compact = self._method(
            "compact", commit_properties, post_commithook_properties, writer_properties
        )
        metrics = compact(
            partition_filters_of(partition_filters), target_size, max_concurrent_tasks
        )
        return _optimize_metrics(metrics, preserves_order=True)

    def z_order(  # noqa: PLR0917 - deltalake's order of parameters
        self,
        columns: Iterable[str],
        partition_filters: Condition | None = None,
        target_size: int | None = None,
        max_concurrent_tasks: int | None = None,
        max_spill_size: int | None = None,
        max_temp_directory_size: int | None = None,
        min_commit_interval: int | dt.timedelta | None = None,
        writer_properties: WriterProperties | None = None,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> dict[str, Any]:
        """Rewrite the files in Z-order of some columns, and return metrics."""
        z_order = self._method(
            "z_order", commit_properties, post_commithook_properties, writer_properties
        )
        metrics = z_order(
            columns, partition_filters_of(partition_filters), target_size, max_concurrent_tasks
        )
        return _optimize_metrics(metrics, preserves_order=False)

    def _method(
        self,
        name: str,
        commit: CommitProperties | None,
        hooks: PostCommitHookProperties | None,
        writer: WriterProperties | None,
    ) -> Callable[..., Any]:
        engine = self.table.engine_with(commit, hooks, writer, operation="optimize")
        _, table = engine_and_table(self.table)
        return moving(self.table, getattr(api.TableOptimizer(engine, table), name), hooks)


def partition_filters_of(filters: Any) -> Any:
    """Replace "" in filter tuples by None, because deltalake uses "" for null."""
    if isinstance(filters, tuple) and len(filters) == 3 and filters[2] == "":
        return (*filters[:2], None)
    return [partition_filters_of(f) for f in filters] if isinstance(filters, list) else filters


def _optimize_metrics(metrics: Any, *, preserves_order: bool) -> dict[str, Any]:
    sizes = {"filesAdded": metrics.files_added, "filesRemoved": metrics.files_removed}
    return {
        **{name: metrics[name] for name in _OPTIMIZE},
        **{
            name: json.dumps(
                {
                    "avg": size.avg,
                    "max": size.max or 0,
                    "min": size.min or 0,
                    "totalFiles": size.total_files,
                    "totalSize": size.total_size,
                }
            )
            for name, size in sizes.items()
        },
        "preserveInsertionOrder": preserves_order,
    }
