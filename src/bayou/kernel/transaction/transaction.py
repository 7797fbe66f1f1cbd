"""Transactions: state for the writers of data files, recording of reads, and commit."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, replace

import pyarrow as pa

from bayou.errors import ConstraintViolationError
from bayou.kernel.arrow.closeable import CloseableIterator, closeable
from bayou.kernel.catalog import Catalog
from bayou.kernel.data_writer import data_writer
from bayou.kernel.elapsed_time import ElapsedTime
from bayou.kernel.engine import DataFileStatus, Engine
from bayou.kernel.expressions.model import LiteralValue, Predicate
from bayou.kernel.expressions.resolution import resolve
from bayou.kernel.expressions.sql.parser import parse_predicate
from bayou.kernel.metrics import TransactionMetrics, TransactionReport, measured
from bayou.kernel.operation import Operation
from bayou.kernel.scan.scan import ScanBuilder
from bayou.kernel.scan.scan_file import ScanFile
from bayou.kernel.transaction.commit import (
    CommitAttempt,
    TransactionCommitResult,
    commit_with_retries,
)
from bayou.kernel.transaction.commit_file_actions import CommitContents
from bayou.kernel.transaction.commit_table_actions import (
    CommitLines,
    TableUpdate,
    current_time_ms,
    to_remove,
    update_high_water_marks,
)
from bayou.kernel.transaction.conflict_checker import ReadSet, WriteSet
from bayou.kernel.transaction.iceberg_file_checks import checked_actions
from bayou.kernel.transaction.post_commit_hooks import due_hooks
from bayou.kernel.transaction_state import TransactionState, WriteContext
from bayou.protocol.actions import Action, AddFile, Metadata, Protocol, RemoveFile
from bayou.protocol.file_names import canonical_path
from bayou.protocol.schema import StructType


class Transaction:
    """An atomic change of one table. `TransactionBuilder` creates it.

    First, write data files in this process or in other processes. Call `write_data`, or call its
    steps: `transform_logical_data`, `get_write_context`, the engine's Parquet writer and
    `generate_append_actions`. Then call `commit` once with all actions.

    Examples:
        >>> adds = write_data(engine, transaction.transaction_state(engine), rows)
        >>> print(transaction.commit(engine, adds).version)
    """

    def __init__(self, update: TableUpdate) -> None:
        self._update = update
        self._identity_counts: dict[str, int] = {}
        self._age = ElapsedTime()
        state = update.read_state
        self._reads = ReadSet(
            schema=update.schema if state is None else state.schema,
            partition_columns=update.partition_columns,
            app_ids=frozenset(update.transaction_ids) | frozenset(update.copied_transaction_ids),
        )

    @property
    def table(self) -> str:
        """Path of the table."""
        return self._update.table

    @property
    def engine_info(self) -> str:
        """`commitInfo.engineInfo` of the commit."""
        return self._update.engine_info

    @property
    def catalog(self) -> Catalog | None:
        """The catalog that manages the table; None if no catalog does."""
        return self._update.catalog

    @property
    def protocol(self) -> Protocol:
        """The table's protocol after the commit."""
        return self._update.effective_protocol

    @property
    def read_version(self) -> int:
        """The version that the transaction read, -1 for a new table."""
        return self._update.read_version

    @property
    def schema(self) -> StructType:
        """The table's schema after the commit."""
        return self._update.schema

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The table's partition columns."""
        return self._update.partition_columns

    @property
    def metadata(self) -> Metadata | None:
        """The `metaData` action of the commit; None if the commit doesn't change the metadata."""
        return self._update.metadata

    @property
    def changes_metadata(self) -> bool:
        """Whether the commit creates the table or changes its metadata or protocol."""
        return self._update.metadata is not None or self._update.protocol is not None

    def transaction_state(self, engine: Engine) -> TransactionState:
        """Return the serializable state that writers of data files need."""
        return TransactionState(
            table=self._update.table,
            schema=self._update.schema,
            partition_columns=self._update.partition_columns,
            configuration=dict(self._update.configuration),
            generated_identity=self._update.generated_identity,
            clustering_columns=self._update.clustering_columns,
            materializes_partitions=self._update.materializes_partitions,
            conditions=self._update.row_conditions,
            data_change=self._update.data_change,
            max_records_per_file=self._update.max_records_per_file,
            compression=self._update.compression,
            target_file_size=self._update.target_file_size,
            records_tight_bounds=self._update.may_have_deletion_vectors,
            identity_counts=self._identity_counts,
        )

    def with_transaction_ids(self, transaction_ids: Mapping[str, int]) -> Transaction:
        """Return a copy of this transaction that also commits these transaction identifiers.

        Files that were written with the state of this transaction can be committed with the copy.
        For identifiers that are known before the files are written, see
        `TransactionBuilder.with_transaction_id`.
        """
        ids = {**self._update.transaction_ids, **transaction_ids}
        copy = Transaction(replace(self._update, transaction_ids=ids))
        copy._identity_counts, copy._age = self._identity_counts, self._age
        copy._reads = replace(self._reads, app_ids=self._reads.app_ids | ids.keys())
        return copy

    @staticmethod
    def transform_logical_data(
        engine: Engine,
        state: TransactionState,
        batches: Iterable[pa.RecordBatch],
        partition_values: Mapping[str, LiteralValue],
    ) -> CloseableIterator[pa.RecordBatch]:
        """Convert rows of one partition to the columns and types of the partition's data files."""
        data_writer.get_write_context(state, partition_values)  # rejects unknown columns
        return data_writer.transform_logical_data(engine, state, batches, partition_values)

    @staticmethod
    def get_write_context(
        engine: Engine, state: TransactionState, partition_values: Mapping[str, LiteralValue]
    ) -> WriteContext:
        """Return the directory, statistics columns and Parquet options for files of a partition."""
        return data_writer.get_write_context(state, partition_values)

    @staticmethod
    def generate_append_actions(
        engine: Engine,
        state: TransactionState,
        statuses: Iterable[DataFileStatus],
        context: WriteContext,
    ) -> CloseableIterator[AddFile]:
        """Create the actions that add written files to the table."""
        return data_writer.generate_append_actions(state, statuses, context)

    def check_rows_may_be_removed(self) -> None:
        """Check that the table isn't append-only (PROTOCOL.md, Append-only Tables).

        Raises:
            ConstraintViolationError: the table is append-only.
        """
        if self._update.table_properties.append_only:
            raise ConstraintViolationError(
                f"{self.table}: rows can't be removed, because the table is append-only "
                "(DELTA_CANNOT_MODIFY_APPEND_ONLY). Nothing was committed to the table; unset "
                "delta.appendOnly first.",
                table=self.table,
                constraint="delta.appendOnly",
            )

    def record_read(
        self, predicate: Predicate | str | None = None, paths: Iterable[str] = ()
    ) -> None:
        """Record for the conflict checker that the transaction has read rows of the table.

        `read_files` calls this method for the files that it returns.

        Args:
            predicate: condition that is true for all rows that were read. If None, the whole table
                was read.
            paths: paths of the files that contain the rows, as in the files' `add` actions.

        Raises:
            PredicateError: the predicate is invalid.
        """
        if predicate is None:
            self._reads = replace(self._reads, whole_table=True)
            return
        if isinstance(predicate, str):
            predicate = parse_predicate(predicate)
        self._reads = replace(
            self._reads,
            predicates=(*self._reads.predicates, resolve(predicate, self._reads.schema)),
            paths=self._reads.paths.union(map(canonical_path, paths)),
        )

    def record_rows_read(
        self, engine: Engine, predicate: Predicate | None, *, time_zone: str = "UTC"
    ) -> None:
        """Record for the conflict checker that the commit depends on some rows of the table.

        For example, the written rows were computed from these rows. All files that may contain
        these rows are recorded as read.

        Args:
            predicate: condition that all these rows satisfy. If None, the whole table was read.
            time_zone: time zone for `timestamp` partition values whose strings have no time zone.
        """
        if predicate is None:
            self.record_read(None)
            return
        with self.read_files(engine, predicate, time_zone=time_zone) as files:
            for _ in files:
                pass

    def record_files_read(self, paths: Iterable[str]) -> None:
        """Record for the conflict checker that the transaction has read files.

        Args:
            paths: paths of the files, as in their `add` actions.
        """
        self._reads = replace(
            self._reads, paths=self._reads.paths.union(map(canonical_path, paths))
        )

    def read_files(
        self,
        engine: Engine,
        filter: Predicate | str | None = None,
        *,
        time_zone: str = "UTC",
    ) -> CloseableIterator[ScanFile]:
        """List live files that may contain matching rows, and record them as read.

        Args:
            filter: condition that matching rows satisfy. If None, all files are listed.
            time_zone: time zone for `timestamp` partition values whose strings have no time zone.
        """
        self.record_read(filter)
        return self._list_files(engine, filter, time_zone)

    @closeable
    def _list_files(
        self, engine: Engine, filter: Predicate | str | None, time_zone: str = "UTC"
    ) -> Iterator[ScanFile]:
        state = self._update.read_state
        if state is None:
            return
        builder = ScanBuilder(state).with_filter(filter).with_time_zone(time_zone)
        scan = builder.with_whole_adds().build()
        paths: list[str] = []
        try:
            with scan.scan_files(engine).flat_map(lambda batch: batch.rows()) as files:
                for file in files:
                    paths.append(file.path)
                    yield file
        finally:
            self._reads = replace(
                self._reads, paths=self._reads.paths.union(map(canonical_path, paths))
            )

    @closeable
    def generate_remove_actions(
        self,
        engine: Engine,
        filter: Predicate | str | None = None,
        *,
        data_change: bool = True,
    ) -> Iterator[RemoveFile]:
        """Create the actions that remove live files, and record these files as read.

        Args:
            filter: condition on rows; only files that may contain matching rows are removed. If
                None, all files are removed.
            data_change: True if the rows of the files are deleted, False if they are rewritten.
        """
        deleted_at = current_time_ms()
        with self.read_files(engine, filter) as files:
            for file in files:
                yield to_remove(file.add, deleted_at, data_change=data_change)

    def commit(
        self,
        engine: Engine,
        actions: Iterable[Action],
        *,
        operation_metrics: Mapping[str, object] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> TransactionCommitResult:
        """Commit the actions as the next version of the table.

        If another writer commits first, this commit is checked for conflicts. Without a conflict,
        it is rebased onto the winning commit. After an error, the caller may delete the written
        files only if the commit certainly doesn't exist; see `discard_unless_committed`.

        Args:
            actions: results of `generate_append_actions`, `write_data` and
                `generate_remove_actions`.
            operation_metrics: `commitInfo.operationMetrics`. If None, the metrics of a write are
                computed (`numFiles`, `numOutputRows`, ...).
            tags: `commitInfo.tags`.

        Raises:
            CommitConflictError: the commit conflicts with a winning commit.
            CommitFailedError: the retries are exhausted, or the storage failed.
            ConstraintViolationError: actions remove rows of an append-only table.
            IcebergCompatError: a file violates a rule of Iceberg compatibility.
            ArgumentError: an action isn't a file action, or a file of a table with row tracking has
                no `numRecords` in its statistics.
        """
        update, progress = self._update, _CommitProgress()
        version: int | None = None

        def report(duration_ms: float, error: str | None) -> TransactionReport:
            return TransactionReport(
                table=update.table,
                operation=str(update.operation),
                engine_info=update.engine_info,
                read_version=update.read_version,
                version=version,
                metrics=progress.metrics(duration_ms),
                error=error,
            )

        with measured(engine.metrics_reporter, report) as watch:
            result = self._commit(engine, actions, operation_metrics, tags, progress)
            version = None if result.already_committed else result.version
        return replace(result, metrics=progress.metrics(watch.stop()))

    def _commit(
        self,
        engine: Engine,
        actions: Iterable[Action],
        operation_metrics: Mapping[str, object] | None,
        tags: Mapping[str, str] | None,
        progress: _CommitProgress,
    ) -> TransactionCommitResult:
        update = self._update
        if update.is_recorded:
            return TransactionCommitResult(version=self.read_version, already_committed=True)
        contents = progress.contents = CommitContents.of(
            checked_actions(update.table, update.configuration, actions),
            keep_adds=update.tracks_rows or bool(update.generated_identity),
            count_small=update.table_properties.auto_compact
            and update.operation in _COMPACTED_OPERATIONS,
        )
        if contents.changes_removed and update.operation is not Operation.CLONE:
            self.check_rows_may_be_removed()
        metadata, identity_tags = update_high_water_marks(update, contents)
        state = update.read_state
        writes = WriteSet(
            removed_paths=contents.removed_paths,
            protocol=update.protocol is not None,
            metadata=metadata is not None,
            domains=frozenset(update.domains),
            isolation_level=update.isolation_level(contents),
            read_protocol=None if state is None else state.protocol,
            read_metadata=None if state is None else state.metadata,
            operation=update.operation,
        )
        commit = CommitLines(
            update=update,
            contents=contents,
            metadata=metadata,
            txn_id=str(uuid.uuid4()),
            is_blind_append=self._reads.is_empty and not contents.removed_paths,
            isolation_level=writes.isolation_level,
            metrics=contents.metrics() if operation_metrics is None else operation_metrics,
            tags={**(tags or {}), **(identity_tags or {})},
        )
        progress.attempts = commit.effects
        version, _ = commit_with_retries(
            engine,
            CommitAttempt(
                table=update.table,
                read_version=self.read_version,
                txn_id=commit.txn_id,
                lines=commit.lines,
                reads=self._reads,
                writes=writes,
                max_retries=update.max_retries,
                read_seconds_ago=self._age.seconds if state is None else state.age_seconds,
                read_commit=None if state is None else state.log_segment.last_commit,
                committer=update.committer,
            ),
        )
        hooks = due_hooks(
            update.table,
            version,
            update.configuration,
            effect=commit.effects.get(version),
            compaction_interval=update.log_compaction_interval,
            catalog=update.catalog if update.is_catalog_managed else None,
        )
        return TransactionCommitResult(
            version=version, post_commit_hooks=hooks, small_files=contents.small_files
        )


_COMPACTED_OPERATIONS = frozenset(
    {
        Operation.WRITE,
        Operation.STREAMING_UPDATE,
        Operation.DELETE,
        Operation.UPDATE,
        Operation.MERGE,
        Operation.CREATE_TABLE_AS_SELECT,
        Operation.REPLACE_TABLE_AS_SELECT,
        Operation.CREATE_OR_REPLACE_TABLE_AS_SELECT,
    }
)
"""Operations after which small files are compacted automatically."""


@dataclass(slots=True)
class _CommitProgress:
    """Contents and attempts of a running commit, from which the commit's metrics are computed."""

    contents: CommitContents | None = None
    attempts: Sized = ()

    def metrics(self, duration_ms: float) -> TransactionMetrics:
        contents = self.contents
        if contents is None:
            return TransactionMetrics(duration_ms=duration_ms)
        return TransactionMetrics(
            duration_ms=duration_ms,
            attempts=len(self.attempts),
            files_added=contents.num_added,
            files_removed=len(contents.removed_paths),
            change_files=contents.num_changes,
            bytes_added=contents.added_bytes,
            bytes_removed=contents.removed_bytes,
        )
