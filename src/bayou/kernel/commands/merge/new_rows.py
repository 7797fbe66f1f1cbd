"""Computation of updated and inserted rows of a merge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from bayou.kernel.arrow.arrays import arange
from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.large_rows import computed_in_slices
from bayou.kernel.commands.merge.assignments import NewRows, Unchanged, expressions_of
from bayou.kernel.commands.merge.clauses import TARGET
from bayou.kernel.commands.merge.decisions import FileDecisions, clauses_of_pairs
from bayou.kernel.commands.merge.join import Pairs, joined_rows, joined_slices
from bayou.kernel.commands.merge.plan import MergePlan, PlannedClause
from bayou.kernel.engine import Engine
from bayou.kernel.expressions.model import Expression
from bayou.kernel.scan.scan_state import ROW_INDEX_COLUMN
from bayou.kernel.table_features.generated_columns_and_constraints import RowConstraints
from bayou.kernel.transaction_state import TransactionState

_concat: Any = pa.concat_batches  # type: ignore[attr-defined]  # the stubs lack it

_BATCH_ROWS = 1 << 16


class RowBuilder:
    """Computes the rows that a merge's clauses update or insert; stateless."""

    def __init__(
        self, engine: Engine, plan: MergePlan, state: TransactionState, source: pa.RecordBatch
    ) -> None:
        self._plan = plan
        self._rules = RowConstraints(engine, state)
        self._source = source
        self._new_rows = NewRows(plan.table, plan.joined, plan.schema)
        self._clauses = plan.target_clauses
        self._names = plan.schema.names

    def updated_from_file(
        self, decisions: FileDecisions, before: pa.RecordBatch
    ) -> Iterator[pa.RecordBatch]:
        """Yield the new versions of updated rows of a file, in the order of `before`.

        Args:
            decisions: decisions for all updated rows of the file.
            before: old versions of the rows, with the table's columns and the row index.
        """
        positions: Any = before.column(ROW_INDEX_COLUMN)
        decisions = decisions.from_position(positions[0].as_py(), len(positions))
        assert decisions.positions.equals(positions)  # `apply_row_changes` passes updated rows
        names = [f"{TARGET}.{name}" for name in self._names]
        target = before.select(self._names).rename_columns(names)
        yield from self._updated(target, decisions.clauses, decisions.sources)

    def updated_from_source(self, decisions: FileDecisions) -> Iterator[pa.RecordBatch]:
        """Yield the new versions of updated rows, computed from source rows only.

        Call this method only if no new value depends on a target row.
        """
        for first in range(0, len(decisions.positions), _BATCH_ROWS):
            part = decisions.slice(first, _BATCH_ROWS)
            no_columns = pa.RecordBatch.from_arrays([pa.nulls(len(part.positions))], ["row"])
            yield from self._updated(no_columns, part.clauses, part.sources)

    def inserted(self, rows: pa.Int64Array) -> Iterator[pa.RecordBatch]:
        """Yield the rows to insert for some source rows.

        The yielded rows lack the columns that the table generates.

        Args:
            rows: row numbers of the source rows.
        """
        clauses = self._plan.not_matched
        for first in range(0, len(rows), _BATCH_ROWS):
            part = rows.slice(first, _BATCH_ROWS)
            no_columns = pa.RecordBatch.from_arrays([part], ["row"])
            numbers = clauses_of_pairs(
                self._plan.names.schema, clauses, no_columns, self._source, Pairs(part, part)
            )
            for number, clause in enumerate(clauses):
                chosen = part.filter(pc.fill_null(pc.equal(numbers, number), False))
                if len(chosen):
                    yield from self._inserted(clause, no_columns, Pairs(chosen, chosen))

    def _inserted(
        self, clause: PlannedClause, target: pa.RecordBatch, pairs: Pairs
    ) -> Iterator[pa.RecordBatch]:
        used = self._expressions([clause])
        for part in joined_slices(target, self._source, pairs, used):
            yield from computed_in_slices(
                0, len(part), partial(self._inserted_slice, clause, target, part)
            )

    def _inserted_slice(
        self, clause: PlannedClause, target: pa.RecordBatch, pairs: Pairs, offset: int, length: int
    ) -> pa.RecordBatch:
        return self._values(clause, target, pairs.slice(offset, length))

    def _updated(
        self, target: pa.RecordBatch, clauses: Any, sources: Any
    ) -> Iterator[pa.RecordBatch]:
        """Yield updated rows, in the order of `target`.

        Args:
            clauses, sources: as in `FileDecisions`, for each row of `target`.
        """

        def updated(offset: int, length: int) -> pa.RecordBatch:
            return self._updated_slice(
                target.slice(offset, length),
                clauses.slice(offset, length),
                sources.slice(offset, length),
            )

        used = self._expressions([c for c in self._clauses if c.action == "update"])
        pairs = Pairs(arange(0, len(clauses)), sources)
        first = 0
        for part in joined_slices(target, self._source, pairs, used):
            yield from computed_in_slices(first, len(part), updated)
            first += len(part)

    def _updated_slice(self, target: pa.RecordBatch, clauses: Any, sources: Any) -> pa.RecordBatch:
        parts: list[pa.RecordBatch] = []
        indices: list[Any] = []
        for number, clause in enumerate(self._clauses):
            chosen = pc.equal(clauses, number)
            if not chosen.true_count:
                continue
            index = pc.indices_nonzero(chosen).cast(pa.int64())
            rows = self._values(clause, target, Pairs(index, sources.take(index)))
            unchanged = [
                name
                for name, value in zip(self._names, clause.values, strict=True)
                if isinstance(value, Unchanged)
            ]
            parts.append(self._rules.apply(rows, unchanged_columns=unchanged))
            indices.append(index)
        if len(parts) == 1:
            return parts[0]
        combined: pa.RecordBatch = _concat(parts)
        return combined.take(pc.inverse_permutation(pa.concat_arrays(indices)))

    def _values(
        self, clause: PlannedClause, target: pa.RecordBatch, pairs: Pairs
    ) -> pa.RecordBatch:
        used = self._expressions([clause])
        return self._new_rows.of(clause.values, joined_rows(target, self._source, pairs, used))

    def _expressions(self, clauses: Iterable[PlannedClause]) -> tuple[Expression, ...]:
        """Return the expressions from which the new values of some clauses are computed."""
        schema = self._plan.schema
        return tuple(e for clause in clauses for e in expressions_of(schema, clause.values))
