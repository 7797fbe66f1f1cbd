"""Maintenance of a table: OPTIMIZE, VACUUM, RESTORE, CLONE, CONVERT, log files and manifests."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from bayou.api.argument_checks import (
    BoundTable,
    checked_number,
    checked_path,
    checked_string,
    checked_strings,
    checked_version,
)
from bayou.api.rows.read import Timestamp, milliseconds
from bayou.errors import ArgumentError
from bayou.kernel import Snapshot
from bayou.kernel.arrow.types import from_arrow_schema
from bayou.version import ENGINE_INFO

if TYPE_CHECKING:
    from bayou.api.commands.optimize import TableOptimizer
    from bayou.kernel.commands.clone import CloneMetrics
    from bayou.kernel.commands.convert import ConvertMetrics
    from bayou.kernel.commands.restore import RestoreMetrics
    from bayou.kernel.commands.vacuum.vacuum import VacuumMetrics


class Maintenance(BoundTable):
    """Methods of `TableHandle` that maintain, restore, clone and convert tables."""

    __slots__ = ()

    @property
    def optimize(self) -> TableOptimizer:
        """OPTIMIZE: call `optimize()`, `optimize.compact()`, `optimize.z_order()` and others.

        Examples:
            >>> bayou.table("lake/orders").optimize(target_size=64_000_000)
        """
        from bayou.api.commands.optimize import TableOptimizer

        return TableOptimizer(self._engine, self._table)

    def vacuum(
        self,
        retention_hours: float | None = None,
        dry_run: bool = True,
        enforce_retention_duration: bool = True,
        *,
        full: bool = True,
    ) -> VacuumMetrics:
        """List or delete the files that no version within the retention period uses.

        By default, the files are only listed. With `dry_run=False`, they are deleted, and time
        travel to versions before the retention period fails.

        Args:
            retention_hours: retention period of unused files; None for the table property
                `delta.deletedFileRetentionDuration` (default: a week).
            dry_run: whether to list the files without deleting them. The list is the attribute
                `inventory` of the result.
            enforce_retention_duration: whether to reject a retention period that is shorter than
                the table property.
            full: whether to search the table's folder for unused files. If False, only the log is
                searched. This is faster, but doesn't find files that no commit refers to.

        Raises:
            ArgumentError: the retention period is negative, or shorter than the table property.
            TableNotFoundError: the table doesn't exist.
            UnsupportedFeatureError: the table has a writer feature that isn't supported.
            VersionNotFoundError: `full=False` needs commits that were deleted from the log.
            CommitConflictError: a restore committed concurrently; nothing was deleted.
            StorageError: the store failed. The history records the failure; repeat the call.

        Examples:
            >>> orders = bayou.table("lake/orders")
            >>> orders.vacuum().inventory["path"].to_pylist()
            >>> orders.vacuum(dry_run=False).num_deleted_files
        """
        from bayou.kernel.commands.vacuum.vacuum import vacuum

        checked_number(retention_hours, "retention_hours", "a number of hours", whole=False)
        return vacuum(
            self._engine,
            self.table_uri,
            retention_hours,
            dry_run=dry_run,
            lite=not full,
            enforce_retention_duration=enforce_retention_duration,
            engine_info=ENGINE_INFO,
            catalog=self._table.catalog,
        )

    def restore(
        self,
        target: int | dt.datetime | str,
        *,
        ignore_missing_files: bool = False,
        dry_run: bool = False,
    ) -> RestoreMetrics:
        """Restore the table to an earlier version: files, schema and properties.

        The restore commits a new version. Versions after `target` can still be read and restored.

        Args:
            target: a version; or a datetime or an ISO 8601 string, which selects the last version
                at or before this time.
            ignore_missing_files: whether to restore even if data files are missing. Reads of these
                files then fail.
            dry_run: whether to return the metrics of the restore without committing it.

        Raises:
            ArgumentError: the version isn't earlier than the latest version.
            VersionNotFoundError: the log doesn't contain the version, or the timestamp is before
                the log's earliest version or after its latest version.
            DataFileError: data files of the version are missing; the message names them.
            CommitConflictError: another writer committed concurrently, or a vacuum of the table may
                still be running.

        Examples:
            >>> bayou.table("lake/orders").restore(0)
        """
        from bayou.kernel.commands.restore import restore

        version = target if isinstance(target, int) else None
        timestamp = None if isinstance(target, int) else target
        latest = self._table.latest_snapshot(self._engine)
        return restore(
            self._engine,
            latest,
            self._snapshot_at(version, timestamp),
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
        shallow: bool = True,
        replace: bool = False,
        configuration: Mapping[str, str] | None = None,
        transaction_identifiers: bool = True,
    ) -> CloneMetrics:
        """Create a new table with this table's schema, properties and rows.

        Writes to the clone don't change this table. A shallow clone refers to this table's data
        files, so a vacuum of this table may delete files that the clone still needs. A deep clone
        copies the files. To update a deep clone, repeat the call with `replace=True`. The call then
        copies the files that this table has added since the last clone. Files that this table has
        removed since then are also removed from the clone.

        Args:
            target: path of the new table, in the same store.
            version, timestamp: version to clone; the latest by default.
            shallow: whether to refer to this table's data files. If False, they are copied.
            replace: whether to replace an existing table at `target`. A shallow clone can't replace
                a table that has data files.
            configuration: table properties of the clone, in addition to this table's properties.
                They can't add CHECK constraints.
            transaction_identifiers: whether to copy the transaction identifiers, which record the
                progress of pipelines and streaming queries.

        Raises:
            TableAlreadyExistsError: a table exists at `target` and can't be replaced.
            VersionNotFoundError: the log doesn't contain the version, or the timestamp is before
                the log's earliest version or after its latest version.
            DataFileError: `version` is an earlier version, and a vacuum has deleted its files.
            SchemaError, TablePropertyError, UnsupportedFeatureError: the clone can't be created.

        Examples:
            >>> bayou.table("lake/orders").clone("lake/orders_test")
            >>> bayou.table("lake/orders").clone("backup/orders", shallow=False, replace=True)
        """
        from bayou.kernel.commands.clone import clone

        location = checked_path(target)
        table_properties = checked_strings(configuration, "configuration")
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
            shallow=shallow,
            properties=table_properties,
            replace=replace,
            transaction_identifiers=transaction_identifiers,
        )

    def convert(
        self,
        partition_schema: pa.Schema | None = None,
        *,
        configuration: Mapping[str, str] | None = None,
        collect_statistics: bool = True,
        name: str | None = None,
        description: str | None = None,
    ) -> ConvertMetrics:
        """Convert the Parquet files at this path to a Delta table without rewriting them.

        Schema and statistics come from the files' footers. If the path already has a Delta table,
        nothing is changed.

        Args:
            partition_schema: the partition columns and their types, in folder order
                (`day=2024-01-05/hour=7`); None if the files aren't partitioned.
            configuration: properties of the new table. They can't enable column mapping or add
                CHECK constraints.
            collect_statistics: whether to collect statistics for data skipping.
            name, description: name and description in the table's metadata.

        Raises:
            ArgumentError: there is no Parquet file at the path. Or a folder below the path is a
                Delta table, or contains the log of a streaming query.
            SchemaError: a column's types differ between files, or a file's folders don't match
                `partition_schema`; the message names the file.
            StorageError: a file isn't Parquet.

        Examples:
            >>> bayou.table("lake/parquet_files").convert()
        """
        from bayou.kernel.commands.convert import convert

        partitions = None
        if partition_schema is not None:
            unchecked: object = partition_schema
            if not isinstance(unchecked, pa.Schema):
                raise ArgumentError(
                    f"partition_schema: {unchecked!r} isn't a schema. Give names and types in "
                    "folder order, such as pyarrow.schema({'day': pyarrow.date32()}).",
                    argument="partition_schema",
                )
            partitions = from_arrow_schema(partition_schema, table=self.table_uri)
        return convert(
            self._engine,
            self.table_uri,
            ENGINE_INFO,
            partition_schema=partitions,
            properties=checked_strings(configuration, "configuration"),
            collect_statistics=collect_statistics,
            name=None if name is None else checked_string(name, "name"),
            description=None if description is None else checked_string(description, "description"),
        )

    def create_checkpoint(self, version: int | None = None) -> int:
        """Write the checkpoint of a version (the latest by default) and return the version.

        The call can be repeated at any time, also while other writers commit.

        Raises:
            TableNotFoundError, VersionNotFoundError: the table or the version doesn't exist.

        Examples:
            >>> bayou.table("lake/orders").create_checkpoint()
        """
        if version is not None:
            checked_version(version, "version")
        return self._table.checkpoint(self._engine, version)

    def cleanup_metadata(self) -> int:
        """Delete commits and checkpoints older than `delta.logRetentionDuration` from the log.

        Time travel to the deleted versions then fails. Writers also clean up the log after each
        checkpoint, if the table property `delta.enableExpiredLogCleanup` is true.

        Returns:
            The number of deleted files.

        Examples:
            >>> bayou.table("lake/orders").cleanup_metadata()
        """
        return len(self._table.clean_up_log(self._engine).deleted)

    def compact_logs(self, starting_version: int, ending_version: int) -> None:
        """Write a log compaction file for a range of versions, both ends included.

        Readers then read this file instead of the commits. The commits stay in the log.

        Raises:
            ArgumentError: the range has fewer than two versions.
            VersionNotFoundError: the log doesn't have all versions of the range.

        Examples:
            >>> bayou.table("lake/orders").compact_logs(0, 1)
        """
        first = checked_version(starting_version, "starting_version")
        last = checked_version(ending_version, "ending_version")
        self._table.compact_log(self._engine, first, last)

    def generate(self) -> int:
        """Write symlink manifests for Presto and Athena, and return the number of manifests.

        Raises:
            UnsupportedFeatureError: the table has deletion vectors or column mapping, which readers
                of manifests don't support.

        Examples:
            >>> bayou.table("lake/orders").generate()
        """
        from bayou.kernel.maintenance.symlink_manifest import write_symlink_manifests

        latest = self._table.latest_snapshot(self._engine)
        return write_symlink_manifests(self._engine, latest)

    def _snapshot_at(self, version: int | None, timestamp: Timestamp | None) -> Snapshot:
        if version is not None:
            checked_version(version, "version")
            return self._table.snapshot_as_of_version(self._engine, version)
        if timestamp is not None:
            return self._table.snapshot_as_of_timestamp(self._engine, milliseconds(timestamp))
        return self._table.latest_snapshot(self._engine)
