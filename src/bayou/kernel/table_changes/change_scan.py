"""Plans a read of changes: which files hold them, commit after commit."""

from __future__ import annotations

import copy
from collections.abc import Iterator

from bayou.kernel.arrow.closeable import closeable
from bayou.kernel.engine import Engine
from bayou.kernel.expressions.evaluation import resolve
from bayou.kernel.expressions.model import And, Predicate, referenced_columns
from bayou.kernel.expressions.sql.parser import parse_predicate
from bayou.kernel.log.table_state import TableState
from bayou.kernel.scan.scan import ScanBuilder
from bayou.kernel.table_changes.change_file import ChangeFile, ChangeState
from bayou.kernel.table_changes.change_plan import ChangePlan
from bayou.kernel.table_changes.commit_range import CommitRange
from bayou.protocol.actions import CHANGE_COLUMNS
from bayou.protocol.schema import StructType

__all__ = ["ChangeScan", "ChangeScanBuilder"]


class ChangeScanBuilder:
    """Builds a `ChangeScan`; each method gives a new builder."""

    __slots__ = (
        "_commits",
        "_filter",
        "_partitioned",
        "_read_schema",
        "_read_state",
        "_time_zone",
    )

    def __init__(
        self, read_state: TableState, commits: CommitRange | None, *, partitioned: bool
    ) -> None:
        self._read_state = read_state
        self._commits = commits
        self._partitioned = partitioned
        self._filter: Predicate | str | None = None
        self._read_schema: StructType | None = None
        self._time_zone = "UTC"

    def with_filter(self, filter: Predicate | str | None) -> ChangeScanBuilder:
        """Only files that may hold a row for which the filter is true; SQL text or a predicate.

        It may speak of `_change_type`, `_commit_version` and `_commit_timestamp` too.
        """
        builder = copy.copy(self)
        builder._filter = filter
        return builder

    def with_read_schema(self, schema: StructType | None) -> ChangeScanBuilder:
        """Only these columns of the table, in this order; the feed's own always come behind."""
        builder = copy.copy(self)
        builder._read_schema = schema
        return builder

    def with_time_zone(self, time_zone: str) -> ChangeScanBuilder:
        """Timestamps of partitions that are written without a zone are in this one, not in UTC."""
        builder = copy.copy(self)
        builder._time_zone = time_zone
        return builder

    def build(self) -> ChangeScan:
        """The scan.

        Raises:
            PredicateError: the filter can't be parsed, or names an unknown column.
            SchemaError: the read schema names an unknown column, or gives it another type.
        """
        predicate = self._filter
        if isinstance(predicate, str):
            predicate = parse_predicate(predicate)
        table_filter: Predicate | None = None
        feed_filters: tuple[Predicate, ...] = ()
        if predicate is not None:
            all_columns = StructType((*self._read_state.schema, *CHANGE_COLUMNS))
            predicate = resolve(predicate, all_columns)
            table_filter, feed_filters = _split(predicate)
        scan = (
            ScanBuilder(self._read_state)
            .with_filter(table_filter)
            .with_read_schema(self._read_schema)
            .with_time_zone(self._time_zone)
            .build()
        )
        plan = ChangePlan(
            commits=self._commits,
            read_state=self._read_state,
            partitioned=self._partitioned,
            scan=scan,
            prunes=table_filter is not None,
            feed_filters=feed_filters,
        )
        return ChangeScan(plan, predicate)


class ChangeScan:
    """A planned read of changes; holds no engine and no open file.

    The driver lists `change_files`; each of them and the `change_state` serialize, and any process
    reads them with `read_change_file`.
    """

    __slots__ = ("_plan", "_predicate")

    def __init__(self, plan: ChangePlan, predicate: Predicate | None) -> None:
        self._plan = plan
        self._predicate = predicate

    @property
    def remaining_filter(self) -> Predicate | None:
        """What the caller must still apply to the rows: the whole filter."""
        return self._predicate

    def change_state(self, engine: Engine) -> ChangeState:
        """What a worker needs to read files of changes, besides the files."""
        return ChangeState(scan_state=self._plan.scan.scan_state(engine))

    @closeable
    def change_files(self, engine: Engine) -> Iterator[ChangeFile]:
        """The files to read, commit after commit.

        Memory is bounded by the bytes of the commits that are read ahead, and the removes of one.
        Inside a commit deletions come before insertions.

        Raises:
            CorruptTableError: a commit can't be read, or a file that it removes was never added.
            DataFileError: a removed file of unknown size is missing.
        """
        if self._plan.commits is None:
            return
        with self._plan.commits.commit_actions(engine, ()) as commits:
            for commit in commits:
                yield from self._plan.files_of(engine, commit)


def _split(predicate: Predicate) -> tuple[Predicate | None, tuple[Predicate, ...]]:
    """The conjuncts that speak of the table's columns only, and those of the feed's only."""
    of_table: list[Predicate] = []
    of_feed: list[Predicate] = []
    for part in predicate.operands if isinstance(predicate, And) else (predicate,):
        inside = [path[0] in CHANGE_COLUMNS.names for path in referenced_columns(part)]
        if all(inside):
            of_feed.append(part)
        elif not any(inside):
            of_table.append(part)
    if len(of_table) < 2:
        return (of_table[0] if of_table else None), tuple(of_feed)
    return And(tuple(of_table)), tuple(of_feed)
