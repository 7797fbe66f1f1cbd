"""A transaction: its state for writers, and its commit."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
import pyarrow as pa

from bayou.errors import BayouError, ConcurrentTransactionError, ConstraintViolationError
from bayou.kernel.closeable import CloseableIterator, closeable
from bayou.kernel.engine import DataFileStatus, Engine
from bayou.kernel.predicates.evaluation import resolve
from bayou.kernel.predicates.model import LiteralValue, Predicate
from bayou.kernel.predicates.sql import parse_predicate
from bayou.kernel.replay import CommitActions
from bayou.kernel.scan import ScanBuilder
from bayou.kernel.scan_file import ScanFile
from bayou.kernel.table_state import TableState
from bayou.kernel.upkeep.checkpoint import checkpoint
from bayou.kernel.writes import data_writer, rebase
from bayou.kernel.writes.commit import CommitAttempt, commit_with_retries
from bayou.kernel.writes.commit_contents import CommitContents
from bayou.kernel.writes.conflicts import ReadSet, WriteSet
from bayou.kernel.writes.identity import with_high_water_marks
from bayou.kernel.writes.isolation import isolation_level
from bayou.kernel.writes.operation import Operation
from bayou.kernel.writes.state import TransactionState, WriteContext
from bayou.protocol import features
from bayou.protocol.actions import (
    Action,
    AddFile,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    encode_action,
)
from bayou.protocol.actions import Transaction as TransactionIdentifier
from bayou.protocol.commit_info import commit_info
from bayou.protocol.properties import TableProperties
from bayou.protocol.schema import StructType

__all__ = ["PostCommitHook", "Transaction", "TransactionCommitResult", "remove_of"]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PostCommitHook:
    """Work that a commit makes due; the commit stands whether or not it is done.

    Attributes:
        name: `checkpoint`.
    """

    name: str
    table: str
    version: int

    def run(self, engine: Engine) -> None:
        """Do it; repeatable, safe beside other writers."""
        checkpoint(engine, self.table, self.version)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionCommitResult:
    """How a commit went.

    Attributes:
        version: the version it has become; where `already_committed`, the version that was read.
        already_committed: the table had recorded the transaction's identifiers before, so
            nothing was written.
        post_commit_hooks: what is due now.
    """

    version: int
    already_committed: bool = False
    post_commit_hooks: tuple[PostCommitHook, ...] = ()

    @property
    def is_ready_for_checkpoint(self) -> bool:
        """Whether a checkpoint is due (`delta.checkpointInterval`)."""
        return any(hook.name == "checkpoint" for hook in self.post_commit_hooks)

    def run_post_commit_hooks(self, engine: Engine) -> None:
        """Run what is due. A hook that fails is logged: the commit stands all the same."""
        for hook in self.post_commit_hooks:
            try:
                hook.run(engine)
            except BayouError as error:
                _LOG.warning(
                    "The %s of %s at version %d failed; the commit stands, and the next one tries "
                    "again. %s",
                    hook.name,
                    hook.table,
                    hook.version,
                    error,
                )


class Transaction:
    """Changes to one table that become one version, or nothing. Made by `TransactionBuilder`.

    Write data files with `write_data`, or step by step with `transform_logical_data`,
    `get_write_context`, the engine's Parquet writer and `generate_append_actions`, here or in other
    processes; then `commit` their actions once.
    """

    def __init__(
        self,
        *,
        table: str,
        read_state: TableState | None,
        protocol: Protocol | None,
        metadata: Metadata | None,
        schema: StructType,
        partition_columns: tuple[str, ...],
        configuration: Mapping[str, str],
        transaction_ids: Mapping[str, int],
        operation: Operation,
        operation_parameters: Mapping[str, object],
        engine_info: str,
        user_metadata: str | None,
        max_retries: int,
        domains: Mapping[str, DomainMetadata] | None = None,
        generated_identity: tuple[str, ...] = (),
    ) -> None:
        self._table = table
        self._read_state = read_state
        self._protocol = protocol
        self._metadata = metadata
        self._schema = schema
        self._partition_columns = partition_columns
        self._configuration = configuration
        self._transaction_ids = transaction_ids
        self._operation = operation
        self._operation_parameters = operation_parameters
        self._engine_info = engine_info
        self._user_metadata = user_metadata
        self._max_retries = max_retries
        self._domains = dict(domains or {})
        self._generated_identity = generated_identity
        self._identity_counts: dict[str, int] = {}
        self._reads = ReadSet(
            schema=schema if read_state is None else read_state.schema,
            partition_columns=partition_columns,
            app_ids=frozenset(transaction_ids),
        )

    @property
    def read_version(self) -> int:
        """The version the transaction was made from, -1 for a new table."""
        return -1 if self._read_state is None else self._read_state.version

    @property
    def schema(self) -> StructType:
        """The table's schema once the transaction is committed."""
        return self._schema

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The table's partition columns."""
        return self._partition_columns

    @property
    def changes_metadata(self) -> bool:
        """Whether the commit makes the table, or changes its schema or properties."""
        return self._metadata is not None or self._protocol is not None

    def transaction_state(self, engine: Engine) -> TransactionState:
        """What writers need; serializes."""
        return TransactionState(
            table=self._table,
            schema=self._schema,
            partition_columns=self._partition_columns,
            configuration=dict(self._configuration),
            generated_identity=self._generated_identity,
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
            paths=self._reads.paths | frozenset(paths),
        )

    def read_files(
        self, engine: Engine, filter: Predicate | str | None = None
    ) -> CloseableIterator[ScanFile]:
        """Live files of the version read that may hold rows for which a filter is true.

        They, and the filter, count when the commit meets others; None: the whole table.
        """
        self.record_read(filter)
        return self._files_read(engine, filter)

    @closeable
    def _files_read(self, engine: Engine, filter: Predicate | str | None) -> Iterator[ScanFile]:
        if self._read_state is None:
            return
        scan = ScanBuilder(self._read_state).with_filter(filter).with_statistics().build()
        paths: list[str] = []
        try:
            with scan.scan_files(engine).flat_map(lambda batch: batch.rows()) as files:
                for file in files:
                    paths.append(file.path)
                    yield file
        finally:
            self._reads = replace(self._reads, paths=self._reads.paths | frozenset(paths))

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
        now = _now()
        with self.read_files(engine, filter) as files:
            for file in files:
                yield remove_of(file.add, now, data_change=data_change)

    def commit(
        self,
        engine: Engine,
        actions: Iterable[Action],
        *,
        operation_metrics: Mapping[str, object] | None = None,
    ) -> TransactionCommitResult:
        """Make the actions the table's next version.

        A commit that lost against another writer is put behind it where the two don't conflict.
        The caller still owns the data files where this raises; `delete_data_files` removes them.
        After a CommitFailedError whose text says that the outcome isn't known they must stay.

        Args:
            actions: of `generate_append_actions`, `write_data`, `generate_remove_actions`.
            operation_metrics: added to those counted here (`numFiles`, `numOutputRows`, ...).

        Raises:
            CommitConflictError: another writer's commit won and doesn't go with this one.
            CommitFailedError: retries used up, or the store failed.
            ConstraintViolationError: removes in an append-only table.
            ArgumentError: an action that isn't one of a file, or a file without its number of
                rows in a table with row tracking.
        """
        if self._is_recorded():
            return TransactionCommitResult(version=self.read_version, already_committed=True)
        contents = CommitContents.of(
            actions, keep_adds=self._tracks_rows or bool(self._generated_identity)
        )
        self._refuse_removes_where_append_only(contents)
        metadata, tags = self._moved_marks(contents)
        txn_id = str(uuid.uuid4())
        metrics = {**contents.metrics(), **(operation_metrics or {})}
        writes = WriteSet(
            removed_paths=contents.removed_paths,
            protocol=self._protocol is not None,
            metadata=metadata is not None,
            domains=frozenset(self._domains),
            isolation_level=self._isolation_level(contents),
            read_protocol=None if self._read_state is None else self._read_state.protocol,
        )
        blind = self._reads.is_empty and not contents.removed_paths

        def lines(version: int, winners: Sequence[CommitActions]) -> list[bytes]:
            now = _now()
            stamp = None
            if TableProperties(self._configuration).in_commit_timestamps:
                stamp = rebase.in_commit_timestamp(now, self._read_state, winners)
            info = commit_info(
                timestamp=now if stamp is None else stamp,
                operation=self._operation,
                operation_parameters=self._operation_parameters,
                engine_info=self._engine_info,
                txn_id=txn_id,
                is_blind_append=blind,
                read_version=None if self._read_state is None else version - 1,
                isolation_level=writes.isolation_level,
                operation_metrics=metrics,
                user_metadata=self._user_metadata,
                in_commit_timestamp=stamp,
                tags=tags,
            )
            head = self._head(metadata, version, stamp)
            tracked = self._tracked(contents, version, winners)
            return [encode_action(a) for a in (info, *head, *tracked)] + contents.lines

        version, _ = commit_with_retries(
            engine,
            CommitAttempt(
                table=self._table,
                read_version=self.read_version,
                txn_id=txn_id,
                lines=lines,
                reads=self._reads,
                writes=writes,
                max_retries=self._max_retries,
            ),
        )
        return TransactionCommitResult(version=version, post_commit_hooks=self._hooks(version))

    def _moved_marks(
        self, contents: CommitContents
    ) -> tuple[Metadata | None, Mapping[str, str] | None]:
        """The metadata with what identity columns have given out, and the tag that says so."""
        schema = with_high_water_marks(self._schema, self._generated_identity, contents.adds)
        if schema == self._schema:
            return self._metadata, None
        metadata = self._metadata
        if metadata is None:
            assert self._read_state is not None  # a new table has metadata
            metadata = self._read_state.metadata
        tags = {"delta.identity.schemaUpdate": "true"} if self._metadata is None else None
        return msgspec.structs.replace(metadata, schema_string=schema.to_json()), tags

    @property
    def _tracks_rows(self) -> bool:
        protocol = self._protocol
        if protocol is None:
            assert self._read_state is not None  # a new table has a protocol
            protocol = self._read_state.protocol
        return features.ROW_TRACKING in features.writer_features(protocol)

    def _isolation_level(self, contents: CommitContents) -> str:
        only_files = not (
            self._protocol or self._metadata or self._transaction_ids or self._domains
        )
        return isolation_level(
            TableProperties(self._configuration).isolation_level,
            self._operation,
            rearranges=only_files and not contents.changes_data,
        )

    def _tracked(
        self, contents: CommitContents, version: int, winners: Sequence[CommitActions]
    ) -> list[Action]:
        """Files with their row ids, and the new high-water mark."""
        if not self._tracks_rows or not contents.adds:
            return list(contents.adds)
        mark = rebase.high_water_mark(self._read_state, winners)
        adds, domain = rebase.with_row_ids(self._table, contents.adds, mark, version)
        return [domain, *adds]

    def _is_recorded(self) -> bool:
        """Whether the table has recorded all of the transaction's identifiers already."""
        if self._read_state is None or not self._transaction_ids:
            return False
        stored = self._read_state.transactions
        done = [a for a, v in self._transaction_ids.items() if stored.get(a, v - 1) >= v]
        if done and len(done) < len(self._transaction_ids):
            raise ConcurrentTransactionError(
                f"{self._table} has recorded {done[0]!r} up to version {stored[done[0]]} already, "
                "but not the other transaction identifiers of this commit. Nothing was changed; "
                "read the table's transactions again and leave out what it has.",
                table=self._table,
                winning_version=self.read_version,
            )
        return bool(done)

    def _refuse_removes_where_append_only(self, contents: CommitContents) -> None:
        if contents.changes_removed and TableProperties(self._configuration).append_only:
            raise ConstraintViolationError(
                f"{self._table} is append-only (delta.appendOnly is true): rows can't be removed. "
                "Nothing was changed.",
                table=self._table,
                constraint="delta.appendOnly",
            )

    def _head(self, metadata: Metadata | None, version: int, stamp: int | None) -> list[Action]:
        """Actions between commitInfo and the files."""
        actions: list[Action] = []
        if self._protocol is not None:
            actions.append(self._protocol)
        if metadata is not None:
            if stamp is not None and self._enables_timestamps:
                metadata = rebase.with_enablement(metadata, version, stamp)
            actions.append(metadata)
        actions += [
            TransactionIdentifier(app_id=app_id, version=version, last_updated=_now())
            for app_id, version in self._transaction_ids.items()
        ]
        return [*actions, *self._domains.values()]

    @property
    def _enables_timestamps(self) -> bool:
        """Whether in-commit timestamps begin with this commit, in a table that had none."""
        return (
            self._read_state is not None
            and not self._read_state.table_properties.in_commit_timestamps
        )

    def _hooks(self, version: int) -> tuple[PostCommitHook, ...]:
        interval = TableProperties(self._configuration).checkpoint_interval
        if version == 0 or version % interval:
            return ()
        return (PostCommitHook(name="checkpoint", table=self._table, version=version),)


def remove_of(add: AddFile, now: int, *, data_change: bool = True) -> RemoveFile:
    """The action that removes a live file; it carries the add's very path and vector."""
    return RemoveFile(
        path=add.path,
        deletion_timestamp=now,
        data_change=data_change,
        extended_file_metadata=True,
        partition_values=dict(add.partition_values),
        size=add.size,
        stats=add.stats,
        tags=add.tags,
        deletion_vector=add.deletion_vector,
        base_row_id=add.base_row_id,
        default_row_commit_version=add.default_row_commit_version,
    )


def _now() -> int:
    return time.time_ns() // 1_000_000
