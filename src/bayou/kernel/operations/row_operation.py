"""What DELETE and UPDATE have in common: a transaction, a condition, rows found, a commit."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
from pyroaring import BitMap64

from bayou.errors import BayouError, CommitFailedError
from bayou.kernel.closeable import closeable
from bayou.kernel.engine import Engine
from bayou.kernel.operations.matching import Matching
from bayou.kernel.operations.row_change_state import RowChangeState
from bayou.kernel.operations.row_changes import RowChanges
from bayou.kernel.predicates.model import Predicate
from bayou.kernel.predicates.sql import parse_predicate
from bayou.kernel.row_positions import num_rows
from bayou.kernel.scan_file import ScanFile
from bayou.kernel.table_state import TableState
from bayou.kernel.writes.builder import TransactionBuilder
from bayou.kernel.writes.operation import Operation
from bayou.kernel.writes.transaction import Transaction

__all__ = ["FoundFile", "RowOperation", "commit_row_changes", "history_metrics"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A file with matching rows.

    Attributes:
        positions: of the matching rows; None where all of its rows match, which was found without
            reading it.
    """

    file: ScanFile
    positions: BitMap64 | None

    def all_positions(self, engine: Engine) -> BitMap64:
        """`positions`, also where all rows match: then deleted ones are among them."""
        if self.positions is not None:
            return self.positions
        return BitMap64(range(num_rows(engine, self.file)))


@dataclass(slots=True, kw_only=True)
class RowOperation:
    """A row operation under way, in one process.

    Attributes:
        predicate: which rows it is about, None for all.
        state: how rows change.
        scan_seconds: spent on finding rows.
    """

    transaction: Transaction
    predicate: Predicate | None
    matching: Matching
    state: RowChangeState
    scan_seconds: float = 0.0
    _started: float = field(default_factory=time.perf_counter)

    @classmethod
    def begin(
        cls,
        engine: Engine,
        table: TableState,
        operation: Operation,
        where: Predicate | str | None,
        *,
        without_condition: Sequence[str],
        engine_info: str,
        user_metadata: str | None,
    ) -> RowOperation:
        """Begin a transaction on a version.

        Args:
            without_condition: what the history shows where there is no condition.

        Raises:
            PredicateError: the condition can't be understood.
            ConstraintViolationError: the table is append-only.
            UnsupportedFeatureError: the table can't be written.
        """
        started = time.perf_counter()
        predicate = parse_predicate(where) if isinstance(where, str) else where
        shown = list(without_condition) if where is None else [str(where)]
        transaction = (
            TransactionBuilder(
                table=table.path, read_state=table, engine_info=engine_info, operation=operation
            )
            .with_operation_parameters({"predicate": msgspec.json.encode(shown).decode()})
            .with_user_metadata(user_metadata)
            .build(engine)
        )
        transaction.check_rows_may_be_removed()
        return cls(
            transaction=transaction,
            predicate=predicate,
            matching=Matching(engine, table, predicate),
            state=RowChangeState.of(engine, transaction),
            _started=started,
        )

    @closeable
    def files(self, engine: Engine) -> Iterator[FoundFile]:
        """Files with matching rows, one after another; what is read is noted for the commit."""
        paths: list[str] = []
        since = time.perf_counter()
        try:
            with self.matching.candidates(engine) as candidates:
                for candidate in candidates:
                    paths.append(candidate.file.path)
                    positions: BitMap64 | None = None
                    if not candidate.certain:
                        positions = self.matching.positions(engine, candidate.file)
                        if not positions:
                            continue
                    self.scan_seconds += time.perf_counter() - since
                    yield FoundFile(file=candidate.file, positions=positions)
                    since = time.perf_counter()
        finally:
            self.scan_seconds += time.perf_counter() - since
            self.transaction.record_read(self.predicate, paths)

    def times(self) -> dict[str, int]:
        """`execution_time_ms`, `scan_time_ms` and `rewrite_time_ms` so far."""
        elapsed = time.perf_counter() - self._started
        return {
            "execution_time_ms": round(elapsed * 1000),
            "scan_time_ms": round(self.scan_seconds * 1000),
            "rewrite_time_ms": round((elapsed - self.scan_seconds) * 1000),
        }


def commit_row_changes(
    engine: Engine,
    transaction: Transaction,
    changes: RowChanges,
    metrics: Mapping[str, object],
) -> int:
    """Commit, and run what the commit makes due; nothing is committed where nothing changes.

    Where the commit surely didn't happen, what was written is deleted.

    Args:
        metrics: for the history.

    Returns:
        The version afterwards.

    Raises:
        CommitConflictError, CommitFailedError: see `Transaction.commit`.
    """
    actions = changes.actions
    if not actions:
        return transaction.read_version
    try:
        result = transaction.commit(engine, actions, operation_metrics=metrics)
    except CommitFailedError:
        raise  # the outcome may be unknown: the files must stay
    except BayouError:
        changes.discard(engine, transaction.table)
        raise
    result.run_post_commit_hooks(engine)
    return result.version


def history_metrics(counts: Mapping[str, int | None]) -> dict[str, object]:
    """Counts under the names that they have in the history; those that aren't known left out."""
    return {_camel(name): value for name, value in counts.items() if value is not None}


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)
