"""How a table's rows are laid out in files, and which version's files those are.

A table kept in shape.
"""

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
    checked_texts,
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
from bayou.kernel.commands.optimize.rewrite_plan import RewriteLimits, RewritePlan, run_plan
from bayou.kernel.commands.restore import RestoreMetrics, restore
from bayou.kernel.commands.vacuum.vacuum import VacuumMetrics, vacuum
from bayou.version import ENGINE_INFO

__all__ = ["Layout", "Maintenance"]


_MEMORY_BYTES = 512 << 20
"""For rows that wait to be ordered."""


class Layout(BoundTable):
    """Files rearranged, versions brought back, tables cloned."""

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
    ) -> OptimizeMetrics:
        """Pack small files into larger ones; rows stay what they are.

        A clustered table is clustered instead: its new files and small cubes along the Hilbert
        curve of its clustering columns. Safe beside other writers: appends never stand in the way.

        Args:
            where: over partition columns; only these partitions.
            target_size: bytes of files that become one at most; None: `delta.targetFileSize`, or
                128 MB.
            min_size: bytes from which a file stays as it is; None: `target_size`.
            max_deleted_rows_ratio: a file with a deletion vector is rewritten where more than this
                share of its rows is deleted.
            full: of a clustered table also what was clustered by other columns before.
            batch_size: bytes of files that one commit replaces, about; None: 16 GB. What was
                committed stands if a later batch fails.
            parallelism: files that are written at the same time; None: one a core.

        Returns:
            What was done; `version` is None where there was nothing to do, and no commit.

        Raises:
            PredicateError: `where` can't be understood, or isn't over partition columns only.
            CommitConflictError: another writer removed or changed a file that was rewritten.
            DataFileError: a file is missing or damaged.
        """
        limits = _limits(batch_size, parallelism)
        state = self._table.latest_snapshot(self._engine)
        if state.clustering_columns:
            if where is not None:
                raise ArgumentError(
                    f"{state.path} is a clustered table, which has no partitions to choose by "
                    "where.",
                    argument="where",
                )
            return self._run(
                plan_clustering(
                    self._engine,
                    state,
                    ENGINE_INFO,
                    full=full,
                    target_bytes=_size(target_size, "target_size"),
                ),
                limits,
            )
        if full:
            raise ArgumentError(
                f"full is for clustered tables, and {state.path} isn't one.", argument="full"
            )
        checked_number(
            max_deleted_rows_ratio, "max_deleted_rows_ratio", "a share of rows", whole=False
        )
        plan = plan_optimize(
            self._engine,
            state,
            ENGINE_INFO,
            where=checked_condition(where, "where"),
            target_bytes=_size(target_size, "target_size"),
            min_bytes=_size(min_size, "min_size"),
            max_deleted_rows_ratio=max_deleted_rows_ratio,
        )
        return self._run(plan, limits)

    def zorder(
        self,
        columns: Sequence[str],
        where: Predicate | str | None = None,
        target_size: int | None = None,
        *,
        batch_size: int | None = None,
        parallelism: int | None = None,
    ) -> OptimizeMetrics:
        """Put each partition's rows along the Z-order of some columns, in files of one size.

        A filter on any of the columns then reads few files. Memory is bounded: rows that don't fit
        wait on the local disk.

        Args:
            columns: names, dotted for nested ones; they need statistics, and aren't partition
                columns.
            where, target_size, batch_size, parallelism: see `optimize`.

        Raises:
            SchemaError: a column that isn't there, has no statistics, or partitions the table.
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
            target_bytes=_size(target_size, "target_size"),
        )
        return self._run(plan, limits)

    def purge(
        self,
        where: Predicate | str | None = None,
        *,
        target_size: int | None = None,
        batch_size: int | None = None,
        parallelism: int | None = None,
    ) -> OptimizeMetrics:
        """Rewrite files that hold deleted rows, or columns that the table has dropped.

        The old files go with the next vacuum. Arguments, result and errors as of `optimize`.
        """
        limits = _limits(batch_size, parallelism)
        state = self._table.latest_snapshot(self._engine)
        plan = plan_purge(
            self._engine,
            state,
            ENGINE_INFO,
            where=checked_condition(where, "where"),
            target_bytes=_size(target_size, "target_size"),
        )
        return self._run(plan, limits)

    def restore(
        self,
        version: int | None = None,
        timestamp: Timestamp | None = None,
        *,
        ignore_missing_files: bool = False,
    ) -> RestoreMetrics:
        """Make the next version what an earlier one was: files, schema, properties.

        Nothing between is lost: those versions can be read, and restored, as before.

        Args:
            version, timestamp: one of them; the last version at or before a time.
            ignore_missing_files: restore although files are gone; reading those will fail.

        Raises:
            ArgumentError: none or both given, or the version isn't an earlier one.
            VersionNotFoundError: a version or time that the log can't rebuild.
            DataFileError: files of the version are gone; names them.
            CommitConflictError: another writer committed meanwhile.
        """
        if (version is None) == (timestamp is None):
            raise ArgumentError("Give a version or a timestamp to restore.", argument="version")
        latest = self._table.latest_snapshot(self._engine)
        wanted = self._at(version, timestamp)
        return restore(
            self._engine,
            latest,
            wanted,
            ENGINE_INFO,
            timestamp=None if timestamp is None else str(timestamp),
            ignore_missing_files=ignore_missing_files,
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
        """Make a table of its own out of a version, without copying a file (a shallow clone).

        It can be written and vacuumed like any other, and doesn't change this table. It needs this
        table's files: a vacuum here may delete what only the clone still uses.

        Args:
            target: path of the new table, in the same store.
            version, timestamp: which version; None: the latest.
            replace: there may be a table without files at `target` already.
            properties: table properties on top of this table's.
            transaction_identifiers: copy the version's transaction identifiers, by which pipelines
                and streaming queries know what the rows cover; False omits them.

        Raises:
            TableAlreadyExistsError: there is a table, and it may not be replaced.
            VersionNotFoundError: a version or time that the log can't rebuild.
            SchemaError, TablePropertyError, UnsupportedFeatureError: it can't be made so.
        """
        location = checked_path(target)
        table_properties = checked_texts(properties, "properties")
        if version is not None and timestamp is not None:
            raise ArgumentError("Give a version or a timestamp, not both.", argument="version")
        return clone(
            self._engine,
            self._at(version, timestamp),
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
        """Make a table of the Parquet files that are at this path; none of them is touched.

        Schema and statistics come from the files' footers. What is a table already stays as it is.

        Args:
            partition_schema: the partition columns and their types, as the folders are nested
                (`day=2024-01-05/hour=7`); None: the files aren't partitioned.
            properties: table properties; not column mapping.
            collect_statistics: whether files get statistics, which filters skip files by.

        Raises:
            ArgumentError: no Parquet file at the path.
            SchemaError: files of different types, or in folders of other partition columns; names
                the file.
            StorageError: a file that isn't Parquet.
        """
        partitions = None
        if partition_schema is not None:
            given: object = partition_schema
            if not isinstance(given, pa.Schema):
                raise ArgumentError(
                    f"partition_schema is {given!r}; give names and types as the folders are "
                    "nested, pyarrow.schema({'day': pyarrow.date32()}).",
                    argument="partition_schema",
                )
            partitions = from_arrow_schema(partition_schema, table=self.path)
        return convert(
            self._engine,
            self.path,
            ENGINE_INFO,
            partition_schema=partitions,
            properties=checked_texts(properties, "properties"),
            collect_statistics=collect_statistics,
        )

    def _at(self, version: int | None, timestamp: Timestamp | None) -> Snapshot:
        if version is not None:
            if type(version) is not int or version < 0:
                raise ArgumentError(
                    f"A version is a number from 0 on, not {version!r}.", argument="version"
                )
            return self._table.snapshot_as_of_version(self._engine, version)
        if timestamp is not None:
            return self._table.snapshot_as_of_timestamp(self._engine, milliseconds(timestamp))
        return self._table.latest_snapshot(self._engine)

    def _run(self, plan: RewritePlan, limits: RewriteLimits) -> OptimizeMetrics:
        return run_plan(self._engine, plan, ENGINE_INFO, limits)


def _size(value: int | None, argument: str) -> int | None:
    return checked_number(value, argument, "a number of bytes", least=1)


def _limits(batch_size: int | None, parallelism: int | None) -> RewriteLimits:
    checked_number(batch_size, "batch_size", "a number of bytes", least=1)
    checked_number(parallelism, "parallelism", "a number of files", least=1)
    return RewriteLimits(
        batch_bytes=batch_size or RewriteLimits().batch_bytes,
        parallelism=parallelism or available_cores(),
        memory_bytes=_MEMORY_BYTES,
    )


class Maintenance(BoundTable):
    """What keeps a table in shape, its rows as they are."""

    __slots__ = ()

    def checkpoint(self, version: int | None = None) -> int:
        """Write the checkpoint of a version, the latest where it is None; gives the version.

        Repeatable, and safe beside other writers.

        Raises:
            TableNotFoundError, VersionNotFoundError: there is no table, or no such version.
        """
        if version is not None and (type(version) is not int or version < 0):
            raise ArgumentError(
                f"A version is a number from 0 on, not {version!r}.", argument="version"
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
        """Delete files that no version within the retention needs; time travel beyond it ends.

        Args:
            retention_hours: how long files stay once nothing needs them; None: as the table says
                (`delta.deletedFileRetentionDuration`, a week unless set).
            dry_run: delete nothing; `inventory` of the result tells what would be.
            lite: look at the log only, not at the folder: quicker, and leaves what no commit ever
                named.
            enforce_retention_duration: refuse a retention shorter than the table's.

        Raises:
            ArgumentError: a retention that is negative, or shorter than the table's.
            TableNotFoundError: there is no table.
            UnsupportedFeatureError: the table needs of a writer what isn't supported.
            VersionNotFoundError: lite, where the log is gone that it needs.
            StorageError: the store failed; the history says so, and it can be repeated.
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
