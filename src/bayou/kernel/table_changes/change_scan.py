"""Scans of the change data feed and their builder."""

from __future__ import annotations

import copy
from collections.abc import Iterator

from bayou.kernel.arrow.closeable import closeable
from bayou.kernel.engine import Engine
from bayou.kernel.expressions.model import And, Predicate, referenced_columns
from bayou.kernel.expressions.resolution import resolve
from bayou.kernel.expressions.sql.parser import parse_predicate
from bayou.kernel.log.table_state import TableState
from bayou.kernel.scan.scan import ScanBuilder
from bayou.kernel.table_changes.change_file import ChangeFile, ChangeState
from bayou.kernel.table_changes.change_plan import ChangePlan
from bayou.kernel.table_changes.commit_range import CommitRange
from bayou.protocol.actions import CHANGE_COLUMNS
from bayou.protocol.schema import StructType


class ChangeScanBuilder:
    """Builds a `ChangeScan`. Each `with_` method returns a new builder.

    Examples:
        >>> changes = table.changes(engine, CommitBoundary.at_version(0))
        >>> scan = changes.scan_builder().with_filter("_change_type = 'insert'").build()
    """

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
        """Set the filter: only files that may contain matching rows are selected.

        Args:
            filter: SQL condition or predicate, which may also reference `_change_type`,
                `_commit_version` and `_commit_timestamp`; None for no filter.
        """
        builder = copy.copy(self)
        builder._filter = filter
        return builder

    def with_read_schema(self, schema: StructType | None) -> ChangeScanBuilder:
        """Set the columns of the table to read, in this order; None for all columns.

        The rows also have the columns that the change data feed adds, such as `_change_type`. These
        columns come last.
        """
        builder = copy.copy(self)
        builder._read_schema = schema
        return builder

    def with_time_zone(self, time_zone: str) -> ChangeScanBuilder:
        """Set the time zone for `timestamp` partition values whose strings have none.

        The default is UTC.
        """
        builder = copy.copy(self)
        builder._time_zone = time_zone
        return builder

    def build(self) -> ChangeScan:
        """Build the scan.

        Raises:
            PredicateError: the filter can't be parsed, or references an unknown column.
            SchemaError: a column of the read schema isn't in the table, or has a different type in
                the table.
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
    """A planned read of the change data feed. Holds no engine and no open file.

    One process lists the files with `change_files`. The files and the result of `change_state` can
    be serialized, and any process can read the files with `read_change_file`.

    Examples:
        >>> changes = table.changes(engine, CommitBoundary.at_version(0))
        >>> scan = changes.scan_builder().with_filter("price > 10").build()
        >>> print(scan.remaining_filter)
    """

    __slots__ = ("_plan", "_predicate")

    def __init__(self, plan: ChangePlan, predicate: Predicate | None) -> None:
        self._plan = plan
        self._predicate = predicate

    @property
    def remaining_filter(self) -> Predicate | None:
        """The whole filter, which the caller must apply to the rows; None if there is no filter."""
        return self._predicate

    def change_state(self, engine: Engine) -> ChangeState:
        """Return the state with which any process can read the rows of a change file."""
        return ChangeState(scan_state=self._plan.scan.scan_state(engine))

    @closeable
    def change_files(self, engine: Engine) -> Iterator[ChangeFile]:
        """List the files to read, commit by commit; the removed files of a commit come first.

        This method keeps in memory only the commits that it reads in advance, and the files that
        the current commit removes or replaces.

        Raises:
            CorruptTableError: a commit can't be read. This error is also raised if a `remove`
                action has no partition values, and the previous version doesn't contain its file.
            ChangeDataFeedError: a column has different physical names in the files that a commit
                removes and in the schema of the changes.
            DataFileError: a removed file is missing, and the log doesn't have the size of the file.
        """
        if self._plan.commits is None:
            return
        with self._plan.commits.commit_actions(engine, ()) as commits:
            for commit in commits:
                yield from self._plan.files_of(engine, commit)


def _split(predicate: Predicate) -> tuple[Predicate | None, tuple[Predicate, ...]]:
    """Split a filter into conjuncts on table columns and conjuncts on change data feed columns.

    A conjunct that references columns of both kinds is left out, because it can't select files.
    """
    table_filters: list[Predicate] = []
    feed_filters: list[Predicate] = []
    for part in predicate.operands if isinstance(predicate, And) else (predicate,):
        in_feed = [path[0] in CHANGE_COLUMNS.names for path in referenced_columns(part)]
        if all(in_feed):
            feed_filters.append(part)
        elif not any(in_feed):
            table_filters.append(part)
    if len(table_filters) < 2:
        return (table_filters[0] if table_filters else None), tuple(feed_filters)
    return And(tuple(table_filters)), tuple(feed_filters)
