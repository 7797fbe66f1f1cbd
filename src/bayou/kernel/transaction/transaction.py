"""A transaction: its state for writers, and its commit."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import pyarrow as pa

from bayou.errors import ConstraintViolationError
from bayou.kernel.arrow.closeable import CloseableIterator, closeable
from bayou.kernel.data_writer import data_writer
from bayou.kernel.elapsed_time import Age
from bayou.kernel.engine import DataFileStatus, Engine
from bayou.kernel.expressions.evaluation import resolve
from bayou.kernel.expressions.model import LiteralValue, Predicate
from bayou.kernel.expressions.sql.parser import parse_predicate
from bayou.kernel.scan.scan import ScanBuilder
from bayou.kernel.scan.scan_file import ScanFile
from bayou.kernel.transaction.commit import (
    CommitAttempt,
    TransactionCommitResult,
    commit_with_retries,
)
from bayou.kernel.transaction.commit_contents import CommitContents
from bayou.kernel.transaction.conflict_checker import ReadSet, WriteSet
from bayou.kernel.transaction.metrics import CommitMeasure, measured
from bayou.kernel.transaction.post_commit_hooks import due_hooks
from bayou.kernel.transaction.table_update import (
    CommitLines,
    TableUpdate,
    moved_marks,
    now,
    remove_of,
)
from bayou.kernel.transaction_state import TransactionState, WriteContext
from bayou.protocol.actions import Action, AddFile, Metadata, Protocol, RemoveFile
from bayou.protocol.file_names import canonical_path
from bayou.protocol.schema import StructType

__all__ = ["Transaction"]


class Transaction:
    """Changes to one table that become one version, or nothing. Made by `TransactionBuilder`.

    Write data files with `write_data`, or step by step with `transform_logical_data`,
    `get_write_context`, the engine's Parquet writer and `generate_append_actions`, here or in other
    processes; then `commit` their actions once.
    """

    def __init__(self, update: TableUpdate) -> None:
        self._update = update
        self._identity_counts: dict[str, int] = {}
        self._age = Age()
        state = update.read_state
        self._reads = ReadSet(
            schema=update.schema if state is None else state.schema,
            partition_columns=update.partition_columns,
            app_ids=frozenset(update.transaction_ids) | frozenset(update.copied_transaction_ids),
        )

    @property
    def table(self) -> str:
        """The table's path."""
        return self._update.table

    @property
    def protocol(self) -> Protocol:
        """The table's protocol once the transaction is committed."""
        return self._update.effective_protocol

    @property
    def read_version(self) -> int:
        """The version the transaction was made from, -1 for a new table."""
        return self._update.read_version

    @property
    def schema(self) -> StructType:
        """The table's schema once the transaction is committed."""
        return self._update.schema

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The table's partition columns."""
        return self._update.partition_columns

    @property
    def metadata(self) -> Metadata | None:
        """The metaData action that the commit has, None where it leaves the table's."""
        return self._update.metadata

    @property
    def changes_metadata(self) -> bool:
        """Whether the commit makes the table, or changes its schema or properties."""
        return self._update.metadata is not None or self._update.protocol is not None

    def transaction_state(self, engine: Engine) -> TransactionState:
        """What writers need; serializes."""
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
            says_tight_bounds=self._update.may_have_deletion_vectors,
            identity_counts=self._identity_counts,
        )

    @staticmethod
    def transform_logical_data(
        engine: Engine,
        state: TransactionState,
        batches: Iterable[pa.RecordBatch],
        partition_values: Mapping[str, LiteralValue],
    ) -> CloseableIterator[pa.RecordBatch]:
        """Rows of one partition as they stand in data files; see `data_writer`."""
        data_writer.get_write_context(state, partition_values)  # refuses unknown columns
        return data_writer.transform_logical_data(engine, state, batches, partition_values)

    @staticmethod
    def get_write_context(
        engine: Engine, state: TransactionState, partition_values: Mapping[str, LiteralValue]
    ) -> WriteContext:
        """Where files of a partition go, and which statistics are kept."""
        return data_writer.get_write_context(state, partition_values)

    @staticmethod
    def generate_append_actions(
        engine: Engine,
        state: TransactionState,
        statuses: Iterable[DataFileStatus],
        context: WriteContext,
    ) -> CloseableIterator[AddFile]:
        """The actions that add written files to the table."""
        return data_writer.generate_append_actions(state, statuses, context)

    def check_rows_may_be_removed(self) -> None:
        """Check that the table isn't append-only (PROTOCOL.md, Append-only Tables).

        Raises:
            ConstraintViolationError: it is.
        """
        if self._update.table_properties.append_only:
            raise ConstraintViolationError(
                f"{self.table} is append-only (delta.appendOnly is true): rows can't be removed "
                "(DELTA_CANNOT_MODIFY_APPEND_ONLY). Nothing was changed.",
                table=self.table,
                constraint="delta.appendOnly",
            )

    def record_read(
        self, predicate: Predicate | str | None = None, paths: Iterable[str] = ()
    ) -> None:
        """Note what the outcome rests on, where it was read by other means than `read_files`.

        Args:
            predicate: what was looked for; None: the whole table.
            paths: files that were read, as their adds spell them.

        Raises:
            PredicateError: the predicate can't be understood.
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

    def record_files_read(self, paths: Iterable[str]) -> None:
        """Note files that the outcome rests on, as their adds spell them; nothing besides."""
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
        """Live files of the version read that may hold rows for which a filter is true.

        They, and the filter, count when the commit meets others; None: the whole table.

        Args:
            time_zone: of timestamps of partitions that are written without one.
        """
        self.record_read(filter)
        return self._files_read(engine, filter, time_zone)

    @closeable
    def _files_read(
        self, engine: Engine, filter: Predicate | str | None, time_zone: str = "UTC"
    ) -> Iterator[ScanFile]:
        state = self._update.read_state
        if state is None:
            return
        builder = ScanBuilder(state).with_filter(filter).with_time_zone(time_zone)
        scan = builder.with_statistics().build()
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
        """The actions that remove live files of the version read: all of them, an overwrite.

        The transaction has then read them, which counts when it meets others.

        Args:
            filter: only files that may hold rows for which it is true.
            data_change: whether rows go away with them.
        """
        deleted_at = now()
        with self.read_files(engine, filter) as files:
            for file in files:
                yield remove_of(file.add, deleted_at, data_change=data_change)

    def commit(
        self,
        engine: Engine,
        actions: Iterable[Action],
        *,
        operation_metrics: Mapping[str, object] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> TransactionCommitResult:
        """Make the actions the table's next version.

        A commit that lost against another writer is put behind it where the two don't conflict.
        The caller still owns the data files if this raises. `discard_unless_committed` deletes them
        if the commit certainly did not happen; after any other error they must stay.

        Args:
            actions: of `generate_append_actions`, `write_data`, `generate_remove_actions`.
            operation_metrics: `commitInfo.operationMetrics`; None: those of a write, counted here
                (`numFiles`, `numOutputRows`, ...).
            tags: of delta-spark's, by which a commit says more of itself.

        Raises:
            CommitConflictError: another writer's commit won and doesn't go with this one.
            CommitFailedError: retries used up, or the store failed.
            ConstraintViolationError: removes in an append-only table.
            ArgumentError: an action that isn't one of a file, or a file without its number of
                rows in a table with row tracking.
        """
        return measured(
            engine.metrics_reporter,
            self._update,
            lambda measure: self._commit(engine, actions, operation_metrics, tags, measure),
        )

    def _commit(
        self,
        engine: Engine,
        actions: Iterable[Action],
        operation_metrics: Mapping[str, object] | None,
        tags: Mapping[str, str] | None,
        measure: CommitMeasure,
    ) -> TransactionCommitResult:
        update = self._update
        if update.is_recorded:
            return TransactionCommitResult(version=self.read_version, already_committed=True)
        contents = measure.contents = CommitContents.of(
            actions, keep_adds=update.tracks_rows or bool(update.generated_identity)
        )
        if contents.changes_removed:
            self.check_rows_may_be_removed()
        metadata, identity_tags = moved_marks(update, contents)
        state = update.read_state
        writes = WriteSet(
            removed_paths=contents.removed_paths,
            protocol=update.protocol is not None,
            metadata=metadata is not None,
            domains=frozenset(update.domains),
            isolation_level=update.isolation_level(contents),
            read_protocol=None if state is None else state.protocol,
            read_metadata=None if state is None else state.metadata,
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
        measure.tries = commit.effects
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
        return TransactionCommitResult(version=version, post_commit_hooks=hooks)
