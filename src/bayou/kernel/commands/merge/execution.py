"""MERGE with the kernel's own join, in this process or in worker processes."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Unpack

from pyroaring import BitMap64

from bayou.kernel.arrow.closeable import CloseableIterator
from bayou.kernel.commands.merge.plan import MergeDefinition
from bayou.kernel.commands.merge.result import MergeMetrics, MergeResult
from bayou.kernel.commands.merge.source import MergeSource
from bayou.kernel.commands.merge.target_rows import may_change, may_match
from bayou.kernel.commands.merge.task import MergeTask
from bayou.kernel.commands.merge.transaction import MergeOptions, MergeTransaction, check_merge
from bayou.kernel.engine import Engine
from bayou.kernel.expressions.model import Predicate
from bayou.kernel.log.table_state import TableState
from bayou.kernel.scan.scan import ScanBuilder
from bayou.kernel.scan.scan_file import ScanFile
from bayou.kernel.scan.scan_state import ROW_INDEX_COLUMN


def merge(
    engine: Engine,
    table: TableState,
    source: MergeSource,
    definition: MergeDefinition,
    **options: Unpack[MergeOptions],
) -> MergeMetrics:
    """Merge rows into a table and commit; if nothing changes, nothing is committed.

    A file is skipped if partition values or statistics show that none of its rows match or change.
    To find the changed rows of other files, only the columns of the conditions are read. If
    `delta.enableDeletionVectors` is set, a deletion vector marks the changed rows of a file. If it
    isn't set, the unchanged rows are copied to a new file.

    Args:
        options: the fields of `MergeOptions`, such as `transaction_ids`, as keyword arguments.
    """
    operation = MergeOperation(engine, table, source, definition, **options)
    with operation.files(engine) as files:
        result = operation.task.run(engine, operation.source, files, inserting=True)
    return operation.commit(engine, result)


class MergeOperation:
    """A running MERGE with the kernel's own join, in the process that commits.

    1. Any number of workers call `task.run`, each with some of the files that `files` returns.
    2. `MergeResult.combined` combines the results of the workers.
    3. This process or the workers call `task.insert` for the source rows that `unmatched` returns.
    4. `commit` commits the combined result of all calls.

    Args:
        options: the fields of `MergeOptions`, such as `transaction_ids`, as keyword arguments.
    """

    def __init__(
        self,
        engine: Engine,
        table: TableState,
        source: MergeSource,
        definition: MergeDefinition,
        **options: Unpack[MergeOptions],
    ) -> None:
        self._plan = check_merge(table, source.schema, definition)
        self._transaction = MergeTransaction(engine, table, self._plan, definition, **options)
        builder = (
            ScanBuilder(table)
            .with_read_schema(table.schema.select(list(self._plan.condition_columns)))
            .with_metadata_columns([ROW_INDEX_COLUMN])
            .with_time_zone(self._transaction.time_zone)
        )
        task = MergeTask(
            plan=self._plan,
            state=self._transaction.state,
            scan_state=builder.build().scan_state(engine),
        )
        self.source = task.prepare(source)
        self._matching = may_match(
            self._plan.condition, self.source.matcher, table.partition_columns
        )
        if not self._plan.not_matched_by_source:
            # Rows without a match don't change, so row groups without a match can be skipped.
            builder = builder.with_filter(self._matching)
            task = replace(task, scan_state=builder.build().scan_state(engine))
        self.task = task
        self._source_seconds = time.perf_counter() - self._transaction.started

    def files(self, engine: Engine) -> CloseableIterator[ScanFile]:
        """Return the files with rows that may change, and record them for conflict detection."""
        return self._transaction.files(engine, may_change(self._plan, self._matching))

    def record_read(self, engine: Engine, predicate: Predicate | None) -> None:
        """Record target rows that the source was computed from, for conflict detection.

        A concurrent change of these rows is a conflict. Call this method before `commit`.

        Args:
            predicate: condition that is true for these rows; None for all rows of the target.
        """
        self._transaction.record_read(engine, predicate)

    def unmatched(self, result: MergeResult) -> BitMap64:
        """Return the row numbers of the source rows without a match.

        If no clause inserts rows, an empty set is returned.

        Args:
            result: combined result of all files.
        """
        if not self._plan.not_matched:
            return BitMap64()
        return BitMap64(range(self.source.rows.num_rows)) - result.matched

    def records_changes(self, result: MergeResult) -> bool:
        """Whether inserted rows must also be written to change data files.

        This is the case if the change data feed is enabled, and the merge updates or deletes rows.

        Args:
            result: combined result of all files.
        """
        return self.task.state.change_data_feed and bool(result.changes.removed)

    def commit(self, engine: Engine, result: MergeResult) -> MergeMetrics:
        """Commit the merge if it changes anything; after a conflict, delete the written files.

        Args:
            result: combined result of all files and inserts.
        """
        return self._transaction.commit(
            engine,
            result.changes,
            list(zip(self._plan.target_clauses, result.clause_counts, strict=False)),
            source_rows=self.source.rows.num_rows,
            source_seconds=self._source_seconds,
        )
