"""An expression's value for each row, and an error for each row for which it fails."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayou.errors import EvaluationError
from bayou.ingest.batch.failing_rows import FailingRows
from bayou.kernel.arrow.types import to_arrow_type
from bayou.kernel.expressions.evaluation import Evaluator
from bayou.kernel.expressions.resolution import resolve_expression, type_of
from bayou.kernel.expressions.sql.parser import parse_expression
from bayou.protocol.schema import LONG, STRING, StructField, StructType

SCHEMA = StructType(
    (StructField(name="s", data_type=STRING), StructField(name="n", data_type=LONG))
)
EXPRESSIONS = [
    "CAST(s AS INT)",
    "10 / n",
    "CAST(s AS INT) / n",
    "CASE WHEN n > 1 THEN CAST(s AS INT) ELSE -1 END",
    "CAST(CAST(s AS INT) AS TINYINT)",
    "coalesce(s, CAST(10 / n AS STRING))",
    "n > 1 AND CAST(s AS INT) > 2",
    "upper(s)",
    "1 / 0",
]
ROWS = st.lists(
    st.tuples(st.sampled_from(["1", "300", "x", "y", None]), st.sampled_from([0, 1, 2, None])),
    max_size=60,
)


@given(rows=ROWS, sql=st.sampled_from(EXPRESSIONS))
def test_a_batch_has_the_values_and_errors_of_its_rows_alone(rows, sql):
    expression = resolve_expression(parse_expression(sql), SCHEMA)
    kind = to_arrow_type(type_of(expression, SCHEMA))
    batch = pa.RecordBatch.from_arrays(
        [pa.array([s for s, _ in rows], pa.string()), pa.array([n for _, n in rows], pa.int64())],
        names=["s", "n"],
    )
    found = FailingRows(SCHEMA, expression, kind)
    values = found.values(batch).to_pylist()
    alone = [evaluated(expression, batch.slice(row, 1)) for row in range(len(rows))]
    assert values == [value for value, _ in alone]
    errors = {row: error for row, (_, error) in enumerate(alone) if error is not None}
    assert found.failures == errors


def evaluated(expression, row):
    """The value or the error of one row."""
    try:
        return Evaluator(SCHEMA, expression).values(row).to_pylist()[0], None
    except EvaluationError as error:
        return None, error.message


def test_an_error_of_the_expression_itself_is_raised():
    class Failing:
        def values(self, batch):
            raise TypeError

    found = FailingRows(SCHEMA, resolve_expression(parse_expression("n"), SCHEMA), pa.int64())
    found._evaluator = Failing()
    with pytest.raises(TypeError):
        found.values(pa.RecordBatch.from_pydict({"s": ["a"], "n": [1]}))
