"""Common steps of DELETE and UPDATE: transaction, condition, candidate files, commit.

The process that commits holds a `RowOperation`. Its `task` runs on the candidate files, also in
other processes (`RowChangeTask.run`). `RowChanges.combined` combines the results of these
processes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from bayou.kernel.arrow.closeable import closeable
from bayou.kernel.commands.optimize.auto_compaction import compact_after
from bayou.kernel.commands.row_changes.result import RowChanges
from bayou.kernel.commands.row_changes.row_search import Candidate, CandidateFiles
from bayou.kernel.commands.row_changes.task import RowChangeTask
from bayou.kernel.commands.row_changes.worker_state import RowChangeState
from bayou.kernel.engine import Engine
from bayou.kernel.expressions.model import Expression, Predicate
from bayou.kernel.expressions.sql.parser import parse_predicate
from bayou.kernel.log.table_state import TableState
from bayou.kernel.operation import Operation
from bayou.kernel.transaction.builder import TransactionBuilder
from bayou.kernel.transaction.commit import discard_unless_committed, discard_unneeded
from bayou.kernel.transaction.transaction import Transaction
from bayou.protocol.actions import UserMetadata


@dataclass(slots=True, kw_only=True)
class RowOperation:
    """A started DELETE or UPDATE, in the process that commits.

    Attributes:
        predicate: condition on the rows. If None, all rows match.
        task: the task to run on the candidate files, in any process.
        commits_without_changes: whether to commit even if no row matches, to record the
            transaction identifier.
    """

    transaction: Transaction
    predicate: Predicate | None
    matching: CandidateFiles
    task: RowChangeTask
    commits_without_changes: bool = False
    _started: float = field(default_factory=time.perf_counter)

    @classmethod
    def begin(
        cls,
        engine: Engine,
        table: TableState,
        operation: Operation,
        where: Predicate | str | None,
        *,
        default_predicate: Sequence[str],
        assigned: Mapping[str, Expression | str] | None = None,
        history_predicate: str | None = None,
        engine_info: str,
        user_metadata: UserMetadata | None,
        transaction_id: tuple[str, int] | None = None,
        time_zone: str = "UTC",
    ) -> RowOperation:
        """Start the operation on a version of a table.

        Args:
            where: condition on the rows to change. If None, all rows are changed.
            default_predicate: operation parameter `predicate` in the history if neither `where` nor
                `history_predicate` is set.
            assigned: new values by column name, for an UPDATE; None for a DELETE.
            history_predicate: the condition to record in the history. If None, `where` is recorded.
            transaction_id: transaction identifier (application id, version) of the commit.
            time_zone: time zone of timestamp partition values that are stored without a time zone.
        """
        started = time.perf_counter()
        predicate = parse_predicate(where) if isinstance(where, str) else where
        conditions = list(default_predicate)
        if history_predicate is not None or where is not None:
            conditions = [str(where) if history_predicate is None else history_predicate]
        builder = (
            TransactionBuilder(
                table=table.path, read_state=table, engine_info=engine_info, operation=operation
            )
            .with_operation_parameters({"predicate": msgspec.json.encode(conditions).decode()})
            .with_user_metadata(user_metadata)
        )
        if transaction_id is not None:
            builder = builder.with_transaction_id(*transaction_id)
        transaction = builder.build(engine)
        transaction.check_rows_may_be_removed()
        matching = CandidateFiles(engine, table, predicate, time_zone=time_zone)
        return cls(
            transaction=transaction,
            predicate=predicate,
            matching=matching,
            task=RowChangeTask(
                state=RowChangeState.of(engine, transaction, time_zone=time_zone),
                search=matching.search,
                assigned=assigned,
            ),
            commits_without_changes=transaction_id is not None
            and operation is not Operation.DELETE,
            _started=started,
        )

    @closeable
    def candidates(self, engine: Engine) -> Iterator[Candidate]:
        """Yield the files that may have matching rows, and record them for conflict detection."""
        paths: list[str] = []
        try:
            with self.matching.candidates(engine) as candidates:
                for candidate in candidates:
                    paths.append(candidate.file.path)
                    yield candidate
        finally:
            self.transaction.record_read(self.predicate, paths)

    def run(self, engine: Engine, *, data_change: bool = True) -> RowChanges:
        with self.candidates(engine) as files:
            return self.task.run(engine, files, data_change=data_change)

    def counts(self, changes: RowChanges) -> dict[str, Any]:
        """Return the metrics that DELETE and UPDATE have in common; times in milliseconds."""
        elapsed = time.perf_counter() - self._started
        return {
            "num_removed_files": changes.num_removed_files,
            "num_added_files": len(changes.added),
            "num_copied_rows": changes.num_copied_rows,
            **changes.vector_counts(),
            "num_added_change_files": len(changes.change_files),
            "num_removed_bytes": changes.num_removed_bytes,
            "num_added_bytes": sum(add.size for add in changes.added),
            "execution_time_ms": round(elapsed * 1000),
            "scan_time_ms": round(changes.scan_seconds * 1000),
            "rewrite_time_ms": round(max(0.0, elapsed - changes.scan_seconds) * 1000),
        }

    def commit(self, engine: Engine, changes: RowChanges, counts: Mapping[str, int | None]) -> int:
        return commit_row_changes(
            engine,
            self.transaction,
            changes,
            history_metrics(counts),
            commits_without_changes=self.commits_without_changes,
        )


def commit_row_changes(
    engine: Engine,
    transaction: Transaction,
    changes: RowChanges,
    metrics: Mapping[str, object],
    *,
    commits_without_changes: bool = False,
) -> int:
    """Commit row changes and run the post-commit hooks; return the table's version.

    The written files are deleted if the commit failed, or if the table already contains the
    transaction identifier. They aren't deleted if the result of the commit is unknown.

    Args:
        metrics: `operationMetrics` of the commit.
        commits_without_changes: whether to commit even if nothing changes, to record a transaction
            identifier.
    """
    actions = changes.actions
    if not actions and not commits_without_changes:
        return transaction.read_version
    with discard_unless_committed(lambda: changes.discard(engine, transaction.table)):
        result = transaction.commit(engine, actions, operation_metrics=metrics)
    if result.already_committed:
        discard_unneeded(transaction.table, lambda: changes.discard(engine, transaction.table))
    result.run_post_commit_hooks(engine)
    compact_after(engine, transaction, result)
    return result.version


def history_metrics(counts: Mapping[str, int | None]) -> dict[str, object]:
    """Return the counts that aren't None, with camel case names as in the history."""
    return {_camel(name): value for name, value in counts.items() if value is not None}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
