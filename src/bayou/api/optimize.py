"""OPTIMIZE, RESTORE, CLONE, CONVERT, checkpoints and VACUUM in the short API."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import pyarrow as pa

from bayou.api.argument_checks import (
    BoundTable,
    checked_condition,
    checked_names,
    checked_number,
    checked_path,
    checked_strings,
)
from bayou.api.parallel_iteration import available_cores
from bayou.api.read import Timestamp, milliseconds
from bayou.errors import ArgumentError
from bayou.kernel import Predicate, Snapshot
from bayou.kernel.arrow.types import from_arrow_schema
from bayou.kernel.commands.clone import CloneMetrics, clone
from bayou.kernel.commands.convert import ConvertMetrics, convert
from bayou.kernel.commands.optimize.clustering import plan_clustering
from bayou.kernel.commands.optimize.metrics import OptimizeMetrics
from bayou.kernel.commands.optimize.optimize import (
    plan_optimize,
    plan_zorder,
)
from bayou.kernel.commands.optimize.purge import plan_purge
from bayou.kernel.commands.optimize.rewrite_plan import (
    RewriteLimits,
    RewritePlan,
    planned_metrics,
    run_plan,
)
from bayou.kernel.commands.restore import RestoreMetrics, restore
from bayou.kernel.commands.vacuum.vacuum import VacuumMetrics, vacuum
from bayou.version import ENGINE_INFO

_MEMORY_BYTES = 512 << 20
"""Memory for rows being sorted."""


class TableRewrites(BoundTable):
    """Methods of `TableHandle` that rewrite files, and that restore, clone and convert tables."""

    __slots__ = ()

    def optimize(
        self,
        where: Predicate | str | None = None,
        target_size: int | None = None,
        *,
        min_size: int | None = None,
        max_deleted_rows_ratio: float = 0.05,
        full: bool = False,
        batch_size: int | None = None,
        parallelism: int | None = None,
        dry_run: bool = False,
    ) -> OptimizeMetrics:
        """Compact small files into larger ones; rows stay unchanged.

        A clustered table is clustered instead: new files, and groups of clustered files (ZCubes)
        below 100 GiB, are rewritten along the Hilbert curve of the clustering columns.
        Concurrent appends don't conflict.

        Args:
            where: condition over partition columns; only matching partitions are compacted.
            target_size: maximum total size in bytes of the input files that are combined into one
                output file. If None, it is `delta.targetFileSize`, or 128 MB without this property.
            min_size: files of this many bytes or more aren't compacted; None for `target_size`.
            max_deleted_rows_ratio: files whose deletion vector marks more than this fraction of
                their rows are also rewritten.
            full: also recluster files that were clustered by other columns.
            batch_size: approximate bytes of files that one commit replaces; None for 16 GB.
                Committed batches remain if a later batch fails.
            parallelism: number of files written concurrently; None for one per core.
            dry_run: rewrite nothing; the metrics have the files that would be removed.

        Returns:
            Metrics; `version` is None if there was nothing to commit.

        Raises:
            PredicateError: `where` isn't valid, or uses other columns than partition columns.
            CommitConflictError: another writer removed or changed a rewritten file.
            DataFileError: a file is missing or damaged.
        """
        limits = _limits(batch_size, parallelism)
        state = self._table.latest_snapshot(self._engine)
        if state.clustering_columns:
            if where is not None:
                raise ArgumentError(
                    f"{state.path}: a clustered table has no partitions to select by where. Leave "
                    "where out.",
                    argument="where",
                )
            return self._run(
                plan_clustering(
                    self._engine,
                    state,
                    ENGINE_INFO,
                    full=full,
                    target_bytes=_checked_size(target_size, "target_size"),
                ),
                limits,
                dry_run=dry_run,
            )
        if full:
            raise ArgumentError(
                f"{state.path}: the table isn't clustered. Leave full out.", argument="full"
            )
        checked_number(
            max_deleted_rows_ratio, "max_deleted_rows_ratio", "a fraction of rows", whole=False
        )
        plan = plan_optimize(
            self._engine,
            state,
            ENGINE_INFO,
            where=checked_condition(where, "where"),
            target_bytes=_checked_size(target_size, "target_size"),
            min_bytes=_checked_size(min_size, "min_size"),
            max_deleted_rows_ratio=max_deleted_rows_ratio,
        )
        return self._run(plan, limits, dry_run=dry_run)

    def zorder(
        self,
        columns: Sequence[str],
        where: Predicate | str | None = None,
        target_size: int | None = None,
        *,
        batch_size: int | None = None,
        parallelism: int | None = None,
        dry_run: bool = False,
    ) -> OptimizeMetrics:
        """Rewrite each partition in Z-order of some columns, in files of similar size.

        Filters on these columns then read fewer files. Memory is bounded: rows that don't fit spill
        to the local disk.

        Args:
            columns: column names, dotted for nested fields. The columns need statistics, and can't
                be partition columns.
            where, target_size, batch_size, parallelism, dry_run: see `optimize`.

        Raises:
            SchemaError: a column doesn't exist, has no statistics, or partitions the table.
            PredicateError, CommitConflictError, DataFileError: see `optimize`.
        """
        names = checked_names(columns, "columns") or ()
        limits = _limits(batch_size, parallelism)
        state = self._table.latest_snapshot(self._engine)
        plan = plan_zorder(
            self._engine,
            state,
            ENGINE_INFO,
            names,
            where=checked_condition(where, "where"),
            target_bytes=_checked_size(target_size, "target_size"),
        )
        return self._run(plan, limits, dry_run=dry_run)

    def purge(
        self,
        where: Predicate | str | None = None,
        *,
        target_size: int | None = None,
        batch_size: int | None = None,
        parallelism: int | None = None,
    ) -> OptimizeMetrics:
        """Rewrite files that contain deleted rows or dropped columns (REORG TABLE APPLY (PURGE)).

        A later vacuum deletes the old files. See `optimize` for arguments, result and errors.
        """
        limits = _limits(batch_size, parallelism)
        state = self._table.latest_snapshot(self._engine)
        plan = plan_purge(
            self._engine,
            state,
            ENGINE_INFO,
            where=checked_condition(where, "where"),
            target_bytes=_checked_size(target_size, "target_size"),
        )
        return self._run(plan, limits)

    def restore(
        self,
        version: int | None = None,
        timestamp: Timestamp | None = None,
        *,
        ignore_missing_files: bool = False,
        dry_run: bool = False,
    ) -> RestoreMetrics:
        """Restore the table to an earlier version: files, schema and properties.

        The restore is a new version. The versions in between can still be read and restored.

        Args:
            version, timestamp: the version, or the last version at or before the timestamp; give
                one of them.
            ignore_missing_files: restore even if data files are missing. Later reads of these files
                fail.
            dry_run: commit nothing; the metrics are those of the restore, at the current version.

        Raises:
            ArgumentError: neither or both of version and timestamp are set, or the version isn't
                earlier than the latest version.
            VersionNotFoundError: the log can't reconstruct the version or timestamp.
            DataFileError: data files of the version are missing; the message names them.
            CommitConflictError: another writer committed concurrently, or a vacuum hasn't ended.
        """
        if (version is None) == (timestamp is None):
            raise ArgumentError(
                f"version: {'neither' if version is None else 'both'} of version and timestamp "
                f"{'is' if version is None else 'are'} set. Set one of them.",
                argument="version",
            )
        latest = self._table.latest_snapshot(self._engine)
        restored = self._snapshot_at(version, timestamp)
        return restore(
            self._engine,
            latest,
            restored,
            ENGINE_INFO,
            timestamp=None if timestamp is None else str(timestamp),
            ignore_missing_files=ignore_missing_files,
            dry_run=dry_run,
        )

    def clone(
        self,
        target: str | os.PathLike[str],
        version: int | None = None,
        timestamp: Timestamp | None = None,
        *,
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
        transaction_identifiers: bool = True,
    ) -> CloneMetrics:
        """Create a shallow clone: a new table that refers to this table's data files.

        Writes to the clone don't change this table. The clone depends on this table's files: a
        vacuum of this table may delete files that only the clone still uses.

        Args:
            target: path of the new table, in the same store.
            version, timestamp: version to clone; the latest by default.
            replace: if True, an existing table at `target` is replaced; that table must have no
                data files.
            properties: table properties that override this table's.
            transaction_identifiers: whether to copy the transaction identifiers, which record the
                progress of pipelines and streaming queries.

        Raises:
            TableAlreadyExistsError: a table exists at `target` and can't be replaced.
            VersionNotFoundError: the log can't reconstruct the version or timestamp.
            SchemaError, TablePropertyError, UnsupportedFeatureError: the clone can't be created.
        """
        location = checked_path(target)
        table_properties = checked_strings(properties, "properties")
        if version is not None and timestamp is not None:
            raise ArgumentError(
                "version: version and timestamp are both set. Give one of them.",
                argument="version",
            )
        return clone(
            self._engine,
            self._snapshot_at(version, timestamp),
            location,
            ENGINE_INFO,
            properties=table_properties,
            replace=replace,
            transaction_identifiers=transaction_identifiers,
        )

    def convert(
        self,
        partition_schema: pa.Schema | None = None,
        *,
        properties: Mapping[str, str] | None = None,
        collect_statistics: bool = True,
    ) -> ConvertMetrics:
        """Convert the Parquet files at this path to a Delta table without rewriting them.

        Schema and statistics come from the files' footers. If the path already has a Delta table,
        nothing is changed.

        Args:
            partition_schema: the partition columns and their types, in folder order
                (`day=2024-01-05/hour=7`); None if the files aren't partitioned.
            properties: properties of the new table; column mapping can't be enabled.
            collect_statistics: whether to collect statistics for data skipping.

        Raises:
            ArgumentError: there is no Parquet file at the path, or a folder below it is a Delta
                table or has the log of a streaming query.
            SchemaError: a column's types differ between files, or a file's folders don't match
                `partition_schema`; the message names the file.
            StorageError: a file isn't Parquet.
        """
        partitions = None
        if partition_schema is not None:
            unchecked: object = partition_schema
            if not isinstance(unchecked, pa.Schema):
                raise ArgumentError(
                    f"partition_schema: {unchecked!r} isn't a schema. Give names and types in "
                    "folder order, such as pyarrow.schema({'day': pyarrow.date32()}).",
                    argument="partition_schema",
                )
            partitions = from_arrow_schema(partition_schema, table=self.path)
        return convert(
            self._engine,
            self.path,
            ENGINE_INFO,
            partition_schema=partitions,
            properties=checked_strings(properties, "properties"),
            collect_statistics=collect_statistics,
        )

    def _snapshot_at(self, version: int | None, timestamp: Timestamp | None) -> Snapshot:
        if version is not None:
            if type(version) is not int or version < 0:
                raise ArgumentError(
                    f"version: {version!r} isn't a table version. Give 0 or more.",
                    argument="version",
                )
            return self._table.snapshot_as_of_version(self._engine, version)
        if timestamp is not None:
            return self._table.snapshot_as_of_timestamp(self._engine, milliseconds(timestamp))
        return self._table.latest_snapshot(self._engine)

    def _run(
        self, plan: RewritePlan, limits: RewriteLimits, *, dry_run: bool = False
    ) -> OptimizeMetrics:
        if dry_run:
            return planned_metrics(plan, limits)
        return run_plan(self._engine, plan, ENGINE_INFO, limits)


def _checked_size(value: int | None, argument: str) -> int | None:
    return checked_number(value, argument, "a number of bytes", minimum=1)


def _limits(batch_size: int | None, parallelism: int | None) -> RewriteLimits:
    checked_number(batch_size, "batch_size", "a number of bytes", minimum=1)
    checked_number(parallelism, "parallelism", "a number of files", minimum=1)
    return RewriteLimits(
        batch_bytes=batch_size or RewriteLimits().batch_bytes,
        parallelism=parallelism or available_cores(),
        memory_bytes=_MEMORY_BYTES,
    )


class Maintenance(BoundTable):
    """Methods of `TableHandle` for maintenance that changes no rows: checkpoints and VACUUM."""

    __slots__ = ()

    def checkpoint(self, version: int | None = None) -> int:
        """Write the checkpoint of a version (the latest by default) and return the version.

        The call can be repeated, and is safe with concurrent writers.

        Raises:
            TableNotFoundError, VersionNotFoundError: the table or the version doesn't exist.
        """
        if version is not None and (type(version) is not int or version < 0):
            raise ArgumentError(
                f"version: {version!r} isn't a table version. Give 0 or more.", argument="version"
            )
        return self._table.checkpoint(self._engine, version)

    def vacuum(
        self,
        retention_hours: float | None = None,
        *,
        dry_run: bool = False,
        lite: bool = False,
        enforce_retention_duration: bool = True,
    ) -> VacuumMetrics:
        """Delete files that no version within the retention period uses.

        Time travel to versions before the retention period then fails.

        Args:
            retention_hours: hours to retain unused files; None for the table property
                `delta.deletedFileRetentionDuration` (default: a week).
            dry_run: delete nothing; `inventory` of the result lists the files.
            lite: find files from the log instead of listing the folder. Faster, but leaves files
                that no commit refers to.
            enforce_retention_duration: reject a retention shorter than the table's.

        Raises:
            ArgumentError: the retention is negative, or shorter than the table's.
            TableNotFoundError: the table doesn't exist.
            UnsupportedFeatureError: the table has a writer feature that isn't supported.
            VersionNotFoundError: `lite` needs commits that were deleted from the log.
            CommitConflictError: a restore committed concurrently; nothing was deleted.
            StorageError: the store failed. The history records the failure; repeat the call.
        """
        checked_number(retention_hours, "retention_hours", "a number of hours", whole=False)
        return vacuum(
            self._engine,
            self.path,
            retention_hours,
            dry_run=dry_run,
            lite=lite,
            enforce_retention_duration=enforce_retention_duration,
            engine_info=ENGINE_INFO,
            catalog=self._table.catalog,
        )
