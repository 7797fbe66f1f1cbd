"""Of the clauses of a kind the first counts whose condition is true."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.kernel.commands.merge.plan import PlannedClause
from bayou.kernel.expressions.evaluation import Evaluation
from bayou.protocol.schema import StructType

__all__ = ["first_clauses"]

pc: Any = pyarrow.compute


def first_clauses(
    schema: StructType, clauses: Sequence[PlannedClause], rows: pa.RecordBatch
) -> Any:
    """The number of each row's clause, int8, null for none.

    A condition is only looked at for rows that no clause before it has taken.

    Args:
        schema: of the joined rows.
        rows: joined rows with the columns that the conditions name.

    Raises:
        EvaluationError: a condition that can't be computed for a row.
    """
    result: Any = pa.nulls(rows.num_rows, pa.int8())
    open_rows: Any = pa.repeat(pa.scalar(True), rows.num_rows)
    for number, clause in enumerate(clauses):
        chosen = open_rows
        if clause.condition is not None:
            values = Evaluation(schema, clause.condition).values(rows, open_rows)
            chosen = pc.and_(pc.fill_null(pc.cast(values, pa.bool_()), False), open_rows)
        result = pc.if_else(chosen, pa.scalar(number, pa.int8()), result)
        open_rows = pc.and_not(open_rows, chosen)
    return result
