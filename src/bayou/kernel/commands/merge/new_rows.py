"""The new versions of updated rows, and rows to be inserted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.kernel.commands.merge.assignments import Kept, NewRows, expressions_of
from bayou.kernel.commands.merge.clauses import TARGET
from bayou.kernel.commands.merge.decisions import FileDecisions, first_clauses
from bayou.kernel.commands.merge.join import Pairs, joined_rows
from bayou.kernel.commands.merge.plan import MergePlan, PlannedClause
from bayou.kernel.engine import Engine
from bayou.kernel.scan.scan_state import ROW_INDEX_COLUMN
from bayou.kernel.table_features.constraints import RowRules
from bayou.kernel.transaction_state import TransactionState

__all__ = ["NewVersionsOfRows"]

pc: Any = pyarrow.compute

_BATCH_ROWS = 1 << 16


class NewVersionsOfRows:
    """Computes rows by a plan's clauses. Holds no state.

    Args:
        source: its columns under their joined names.
    """

    def __init__(
        self, engine: Engine, plan: MergePlan, state: TransactionState, source: pa.RecordBatch
    ) -> None:
        self._plan = plan
        self._rules = RowRules(engine, state)
        self._source = source
        self._made = NewRows(plan.table, plan.joined, plan.schema)
        self._clauses = (*plan.matched, *plan.not_matched_by_source)
        self._names = plan.schema.names

    def of_file(self, decisions: FileDecisions, before: pa.RecordBatch) -> pa.RecordBatch:
        """New versions of some updated rows of a file, in their order.

        Args:
            decisions: of the file's updated rows.
            before: the rows, with the table's columns and their index.
        """
        positions: Any = before.column(ROW_INDEX_COLUMN)
        decisions = decisions.from_position(positions[0].as_py(), len(positions))
        assert decisions.positions.equals(positions)  # the algebra asks for these rows
        names = [f"{TARGET}.{name}" for name in self._names]
        target = before.select(self._names).rename_columns(names)
        return self._of(target, decisions.clauses, decisions.sources)

    def of_source(self, decisions: Sequence[FileDecisions]) -> Iterator[pa.RecordBatch]:
        """New versions of updated rows that have nothing of the old ones."""
        for found in decisions:
            for first in range(0, len(found.positions), _BATCH_ROWS):
                part = found.slice(first, _BATCH_ROWS)
                nothing = pa.RecordBatch.from_arrays([pa.nulls(len(part.positions))], ["row"])
                yield self._of(nothing, part.clauses, part.sources)

    def inserted(self, rows: pa.Int64Array) -> Iterator[pa.RecordBatch]:
        """New rows for some of the source's, without what the table makes."""
        clauses = self._plan.not_matched
        for first in range(0, len(rows), _BATCH_ROWS):
            part = rows.slice(first, _BATCH_ROWS)
            conditions = tuple(c.condition for c in clauses if c.condition is not None)
            pairs = Pairs(part, part)
            nothing = pa.RecordBatch.from_arrays([part], ["row"])
            found = first_clauses(
                self._plan.names.schema,
                clauses,
                joined_rows(nothing, self._source, pairs, conditions),
            )
            for number, clause in enumerate(clauses):
                chosen = part.filter(pc.fill_null(pc.equal(found, number), False))
                if len(chosen):
                    yield self._values(clause, nothing, Pairs(chosen, chosen))

    def _of(self, target: pa.RecordBatch, clauses: Any, sources: Any) -> pa.RecordBatch:
        parts: list[pa.RecordBatch] = []
        places: list[Any] = []
        for number, clause in enumerate(self._clauses):
            chosen = pc.equal(clauses, number)
            if not chosen.true_count:
                continue
            place = pc.indices_nonzero(chosen).cast(pa.int64())
            rows = self._values(clause, target, Pairs(place, sources.take(place)))
            kept = [
                name
                for name, value in zip(self._names, clause.values, strict=True)
                if isinstance(value, Kept)
            ]
            parts.append(self._rules.apply(rows, of_table=kept))
            places.append(place)
        if len(parts) == 1:
            return parts[0]
        together = pa.Table.from_batches(parts).combine_chunks()
        order = pc.inverse_permutation(pa.concat_arrays(places))
        return together.take(order).combine_chunks().to_batches()[0]

    def _values(
        self, clause: PlannedClause, target: pa.RecordBatch, pairs: Pairs
    ) -> pa.RecordBatch:
        used = tuple(expressions_of(self._plan.schema, clause.values))
        return self._made.of(clause.values, joined_rows(target, self._source, pairs, used))
