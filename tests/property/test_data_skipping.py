"""Evaluation and data skipping against a row-by-row reference, on random files and predicates.

The reference knows nothing of Arrow: Python values, three-valued logic, Spark's order of values.
The statistics are those that delta-spark would write, with its quirks, or less.
"""

from __future__ import annotations

import datetime as dt
import functools
import json
import math
import operator
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from bayou.engines.memory.json import MemoryJsonHandler
from bayou.errors import EvaluationError, PredicateError
from bayou.kernel.arrow.types import to_arrow_schema, to_arrow_type
from bayou.kernel.expressions.evaluation import evaluate
from bayou.kernel.expressions.model import (
    And,
    Cast,
    Column,
    Comparison,
    In,
    IsNull,
    Literal,
    Not,
    Or,
    StartsWith,
)
from bayou.kernel.expressions.resolution import resolve
from bayou.kernel.expressions.sql.parser import parse_expression, parse_predicate
from bayou.kernel.scan.data_skipping.skipping import SkippingPlan, parse_partition_values
from bayou.protocol import partition_values
from bayou.protocol.schema import (
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DecimalType,
    StructField,
    StructType,
)
from support.examples import examples

MONEY = DecimalType(10, 2)
INNER = StructType(
    (StructField(name="i", data_type=INTEGER), StructField(name="t", data_type=STRING))
)
SCHEMA = StructType(
    tuple(
        StructField(name=name, data_type=data_type)
        for name, data_type in {
            "p": STRING,
            "q": INTEGER,
            "l": LONG,
            "f": FLOAT,
            "d": DOUBLE,
            "m": MONEY,
            "s": STRING,
            "b": BOOLEAN,
            "da": DATE,
            "ts": TIMESTAMP,
            "ntz": TIMESTAMP_NTZ,
            "n": INNER,
        }.items()
    )
)
PARTITIONS = ("p", "q")

# Few and near values, so that bounds, files and predicates meet.
LETTERS = st.text("aáb\U0001f600", max_size=3) | st.integers(0, 9).map(lambda i: "a" * 33 + str(i))
EPOCH = dt.datetime(1970, 1, 1)
MOMENTS = st.integers(-3000, 3000).map(lambda us: EPOCH + dt.timedelta(microseconds=us))
SINGLES = st.sampled_from([0.0, -0.0, 1.0, 0.10000000149011612, -1.5, math.inf, math.nan])
DOUBLES = st.sampled_from([0.0, -0.0, 1.0, 0.1, -1.5, math.inf, -math.inf, math.nan])
CENTS = st.integers(-300, 300).map(lambda i: Decimal(i).scaleb(-2))
VALUES = {
    "p": st.sampled_from(["a", "b", "ü/=", "a%20"]),
    "q": st.integers(-2, 2),
    "l": st.integers(-5, 5),
    "f": SINGLES,
    "d": DOUBLES,
    "m": CENTS,
    "s": LETTERS,
    "b": st.booleans(),
    "da": MOMENTS.map(lambda t: (EPOCH + (t - EPOCH) * 100_000_000).date()),
    "ts": MOMENTS.map(lambda t: t.replace(tzinfo=dt.UTC)),
    "ntz": MOMENTS,
}
NUMBERS = (
    st.integers(-5, 5)
    | CENTS
    | DOUBLES
    | st.sampled_from([2**40, -(2**70), Decimal("0.125"), Decimal("1E+30")])
)
LITERALS = {
    **VALUES,
    "q": NUMBERS,
    "l": NUMBERS,
    "f": NUMBERS,
    "d": NUMBERS,
    "m": NUMBERS,
    "i": NUMBERS,
    "t": LETTERS,
    "da": VALUES["da"] | VALUES["ntz"],
    "ts": VALUES["ts"] | VALUES["da"] | VALUES["ntz"],
    "ntz": VALUES["ntz"] | VALUES["da"],
}
FAMILIES = [("q", "l", "f", "d", "m", "i"), ("p", "s", "t"), ("da", "ntz"), ("da", "ts"), ("b",)]
OPERATORS = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"])
PATHS = {name: (name,) for name in VALUES} | {"i": ("n", "i"), "t": ("n", "t")}


@st.composite
def literals(draw, name):
    return Literal(draw(st.none() | LITERALS[name]))


@st.composite
def leaves(draw):
    name = draw(st.sampled_from(sorted(PATHS)))
    column = Column(PATHS[name])
    kinds = ["compare", "in", "null", "column"]
    kinds += ["prefix"] if name in ("p", "s", "t") else []
    kinds += ["boolean"] if name == "b" else []
    match draw(st.sampled_from(kinds)):
        case "compare":
            literal = draw(literals(name))
            sides = draw(st.sampled_from([(column, literal), (literal, column)]))
            return Comparison(draw(OPERATORS), *sides)
        case "in":
            values = draw(st.lists(literals(name), min_size=1, max_size=4))
            return In(column, tuple(values))
        case "null":
            target = draw(st.sampled_from([column, Column(("n",))]))
            return IsNull(target)
        case "prefix":
            return StartsWith(column, draw(LETTERS))
        case "boolean":
            return column
        case _:
            family = draw(st.sampled_from([f for f in FAMILIES if name in f]))
            other = draw(st.sampled_from(family))
            return Comparison(draw(OPERATORS), column, Column(PATHS[other]))


LITERALS_OF_INNER = {"i": st.integers(-5, 5), "t": LETTERS}

PREDICATES = st.recursive(
    leaves(),
    lambda inner: (
        st.lists(inner, min_size=2, max_size=3).map(lambda ps: And(tuple(ps)))
        | st.lists(inner, min_size=2, max_size=3).map(lambda ps: Or(tuple(ps)))
        | inner.map(Not)
        | inner.map(IsNull)
        | st.tuples(OPERATORS, inner).map(
            lambda t: Comparison("<=>", t[1], Literal(None if t[0] == "=" else t[0] == "<>"))
        )
    ),
    max_leaves=5,
)


@st.composite
def files(draw):
    partition = {name: draw(st.none() | VALUES[name]) for name in PARTITIONS}
    data = {name: st.none() | values for name, values in VALUES.items() if name not in PARTITIONS}
    row = st.fixed_dictionaries(
        {
            **data,
            "n": st.none()
            | st.fixed_dictionaries(
                {"i": st.none() | st.integers(-5, 5), "t": st.none() | LETTERS}
            ),
        }
    )
    rows = [partition | r for r in draw(st.lists(row, min_size=1, max_size=4))]
    wide = draw(st.booleans())
    counted = rows + [partition | r for r in draw(st.lists(row, max_size=2))] if wide else rows
    statistics = delta_spark_statistics(counted, wide=wide)
    for part in draw(
        st.sets(st.sampled_from(["minValues", "maxValues", "nullCount", "numRecords"]))
    ):
        if draw(st.booleans()):
            del statistics[part]
    return partition, rows, draw(st.sampled_from([json.dumps(statistics)] * 4 + [None]))


@settings(max_examples=examples(150))
@given(st.lists(files(), min_size=1, max_size=4), PREDICATES)
def test_no_file_with_a_matching_row_is_dropped(table, predicate):
    check(table, predicate)


@pytest.mark.parametrize("name", sorted(PATHS))
@settings(max_examples=examples(80))
@given(st.data())
def test_no_row_is_lost_at_the_edge_of_a_file(name, data):
    """One column, one condition, and the file's own values in it."""
    element = VALUES[name] if name in VALUES else LITERALS_OF_INNER[name]
    values = data.draw(st.lists(st.none() | element, min_size=1, max_size=3))
    if name in PARTITIONS:
        values = values[:1]
    rows = [row_with(name, value) for value in values]
    partition = {column: rows[0][column] for column in PARTITIONS}
    text = json.dumps(delta_spark_statistics(rows, wide=False))
    column = Column(PATHS[name])
    edges = st.sampled_from(values).map(Literal) | literals(name)
    condition = data.draw(
        st.builds(Comparison, OPERATORS, st.just(column), edges)
        | st.builds(Comparison, OPERATORS, edges, st.just(column))
        | st.lists(edges, min_size=1, max_size=3).map(lambda found: In(column, tuple(found)))
        | st.just(IsNull(column))
        | st.just(IsNull(Column(("n",))))
        | (
            st.builds(StartsWith, st.just(column), LETTERS)
            if name in ("p", "s", "t")
            else st.nothing()
        )
    )
    wrap = data.draw(st.sampled_from([lambda c: c, Not, IsNull, lambda c: Not(IsNull(c))]))
    check([(partition, rows, text)], wrap(condition))


def row_with(name, value):
    row = dict.fromkeys(SCHEMA.names)
    if len(PATHS[name]) == 1:
        return row | {name: value}
    return row | {"n": {"i": None, "t": None} | {name: value}}


def check(table, predicate):
    """A table is a list of files: partition values, rows, text of the statistics."""
    resolved = resolve(predicate, SCHEMA)
    plan = SkippingPlan.build(resolved, SCHEMA, PARTITIONS)
    partitions, stats = log_of(plan, table)
    kept = plan.select(partitions, stats, num_rows=len(table)).to_pylist()
    kept_by_partitions = plan.select(partitions, num_rows=len(table)).to_pylist()

    for (_, rows, text), keep, select_by_partitions in zip(
        table, kept, kept_by_partitions, strict=True
    ):
        expected = [truth(predicate, row) for row in rows]
        assert evaluate(predicate, batch_of(rows)).to_pylist() == expected
        assert evaluate(resolved, batch_of(rows)).to_pylist() == expected
        assert keep or True not in expected, text
        assert select_by_partitions or not keep
        if plan.residual is None:
            assert keep == all(value is True for value in expected)
        elif keep:
            remaining = [truth(plan.residual, row) for row in rows]
            assert [value is True for value in remaining] == [value is True for value in expected]


def log_of(plan, table):
    """What the log says that the plan asks for: partition values and statistics."""
    partitions = {
        name: parse_partition_values(
            pa.array(
                [
                    partition_values.serialize(partition[name], SCHEMA.get(name).data_type)
                    for partition, _, _ in table
                ],
                pa.string(),
            ),
            SCHEMA.get(name).data_type,
        )
        for name in plan.partition_columns
    }
    stats = None
    if plan.stats_schema is not None:
        texts = pa.array([text for _, _, text in table], pa.string())
        stats = MemoryJsonHandler(None).parse_json(texts, plan.stats_schema)
    return partitions, stats


def batch_of(rows):
    arrays = [pa.array([row[f.name] for row in rows], to_arrow_type(f.data_type)) for f in SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=to_arrow_schema(SCHEMA))


# The reference.


def truth(predicate, row):
    match predicate:
        case And(operands):
            values = [truth(o, row) for o in operands]
            return False if False in values else None if None in values else True
        case Or(operands):
            values = [truth(o, row) for o in operands]
            return True if True in values else None if None in values else False
        case Not(operand):
            value = truth(operand, row)
            return None if value is None else not value
        case IsNull(operand):
            return value_of(operand, row) is None
        case Comparison("<=>", left, right):
            one, other = value_of(left, row), value_of(right, row)
            return one is other if one is None or other is None else order(one, other) == 0
        case Comparison(op, left, right):
            one, other = value_of(left, row), value_of(right, row)
            if one is None or other is None:
                return None
            return HOLDS[op](order(one, other), 0)
        case In(operand, values):
            return truth(Or(tuple(Comparison("=", operand, v) for v in values)), row)
        case StartsWith(operand, prefix):
            value = value_of(operand, row)
            return None if value is None else value.startswith(prefix)
        case _:
            return value_of(predicate, row)


def value_of(expression, row):
    match expression:
        case Column(path):
            return functools.reduce(
                lambda value, name: value and value[name], path[1:], row[path[0]]
            )
        case Literal(value, _):
            return value
        case Cast(operand, _, _):  # `order` compares values of different types
            return value_of(operand, row)
        case _:
            return truth(expression, row)


HOLDS = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def order(one, other):
    one, other = key(one), key(other)
    if isinstance(one, float) or isinstance(other, float):
        # A decimal or integer beside a float is taken as double; NaN is above all.
        one, other = float(one), float(other)
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) - math.isnan(other)
    return (one > other) - (one < other)


def key(value):
    match value:
        case str():
            return value.encode()
        case dt.datetime():
            return value.replace(tzinfo=None)
        case dt.date():
            return dt.datetime.combine(value, dt.time())
        case _:
            return value


def delta_spark_statistics(rows, *, wide):
    statistics = {"numRecords": len(rows), "minValues": {}, "maxValues": {}, "nullCount": {}}
    for name, path in PATHS.items():
        if name in PARTITIONS:
            continue
        values = [value_of(Column(path), row) for row in rows]
        put(statistics["nullCount"], path, values.count(None))
        present = [value for value in values if value is not None]
        if present and name != "b":
            least = min(present, key=functools.cmp_to_key(order))
            greatest = max(present, key=functools.cmp_to_key(order))
            put(statistics["minValues"], path, written(least, name, upper=False))
            put(statistics["maxValues"], path, written(greatest, name, upper=True))
    return statistics | ({"tightBounds": False} if wide else {})


def put(tree, path, value):
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value


def written(value, name, *, upper):
    match value:
        case float():
            if not math.isfinite(value):
                return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
            # The shortest text of a float isn't that of the double it equals.
            return 0.1 if name == "f" and value == 0.10000000149011612 else value
        case str():
            if len(value) <= 32:
                return value
            return value[:32] + ("\U0010ffff" if upper else "")
        case dt.datetime():
            text = value.replace(tzinfo=None).isoformat(timespec="milliseconds")
            return text if value.tzinfo is None else text + "Z"
        case dt.date():
            return value.isoformat()
        case Decimal():
            return float(value)
        case _:
            return value


# Functions and casts, whose values the evaluator itself gives: it is held to Spark elsewhere.

FUNCTIONS = {
    "q": ["q + 1", "q * -2", "CAST(q AS STRING)", "q / 2", "nullif(q, 0)", "TRY_CAST(s AS INT)"],
    "l": ["l + 1", "3 - l", "l * 2", "l * -2", "-l", "l / 2", "l % 3", "abs(l)", "l + q", "l - q",
          "CAST(l AS DECIMAL(12,2))", "CAST(l AS INT)", "round(l, -1)", "coalesce(l, q)", "10 / l",
          "CASE WHEN l > 0 THEN l ELSE q END", "if(b, l, q + 1)", "n.i + l",
          "TRY_CAST(l AS TINYINT)"],
    "d": ["d + 1", "d - 1", "d * 2", "d * -1", "1 - d", "-d", "d / 4", "floor(d)", "ceil(d)",
          "round(d, 1)", "CAST(f AS DOUBLE)", "CAST(d AS INT)", "d + f", "sign(d)",
          "coalesce(d, f)",
          "nanvl(d, 0)", "TRY_CAST(d AS INT)", "CAST(d AS FLOAT)"],
    "m": ["m + 1", "m * -2", "CAST(m AS INT)", "CAST(m AS DOUBLE)", "round(m)", "floor(m)", "m / 3",
          "CAST(m AS DECIMAL(10,1))", "m - 0.5", "abs(m)", "m % 1"],
    "s": ["substring(s, 1, 1)", "left(s, 2)", "upper(s)", "concat(p, s)", "substring(s, 2)",
          "coalesce(s, p)", "trim(s)", "CAST(b AS STRING)", "n.t || 'x'", "replace(s, 'a')"],
    "da": ["CAST(ts AS DATE)", "date_trunc('DAY', ts)", "trunc(da, 'MONTH')", "date_add(da, 3)",
           "da - 2", "last_day(da)", "add_months(da, 1)", "CAST(ntz AS DATE)",
           "da + INTERVAL 1 DAY"],
    "ts": ["ts + INTERVAL 1 HOUR", "date_trunc('SECOND', ts)", "CAST(da AS TIMESTAMP)",
           "date_trunc('MILLISECOND', ts)", "CAST(ntz AS TIMESTAMP)"],
}  # fmt: skip
OTHER_FUNCTIONS = {
    "l": ["length(s)", "year(da)", "month(da)", "hour(ts)", "unix_micros(ts)", "datediff(da, ts)",
          "CAST(ts AS BIGINT)", "unix_date(da)"],
    "s": ["CAST(da AS STRING)", "date_format(ts, 'yyyy-MM-dd')", "CAST(ts AS STRING)",
          "date_format(ts, 'ss.SSS')", "CAST(l AS STRING)", "date_format(da, 'dd MM yyyy')"],
}  # fmt: skip
PARSED = {
    name: [parse_expression(text) for text in (*texts, *OTHER_FUNCTIONS.get(name, ()))]
    for name, texts in FUNCTIONS.items()
}
CONDITIONS = [
    parse_predicate(text)
    for text in (
        "s LIKE '%a%'", "s LIKE 'a_'", "s LIKE 'a%b'", "p LIKE '_'", "contains(s, 'a')",
        "s RLIKE '^a'", "endswith(p, 'b')", "b = (l > 0)", "if(b, l > 0, d > 0)",
        "coalesce(b, l > 0)", "p || q = 'a1'", "CAST(da AS STRING) LIKE '19%'",
        "upper(p) IN ('A', 'Ü/=')", "startswith(s, p)", "isnan(d + 1)",
    )
]  # fmt: skip


@st.composite
def function_conditions(draw):
    name = draw(st.sampled_from(sorted(PARSED)))
    kinds = ["compare", "in", "null", "condition"] + (["prefix"] if name == "s" else [])
    match draw(st.sampled_from(kinds)):
        case "condition":
            condition = draw(st.sampled_from(CONDITIONS))
        case "null":
            condition = IsNull(draw(st.sampled_from(PARSED[name])))
        case "prefix":
            condition = StartsWith(draw(st.sampled_from(PARSED[name])), draw(LETTERS))
        case "in":
            values = draw(st.lists(literals(name), min_size=1, max_size=4))
            condition = In(draw(st.sampled_from(PARSED[name])), tuple(values))
        case _:
            one = draw(st.sampled_from(PARSED[name]))
            other = draw(literals(name) | st.sampled_from(PARSED[name]))
            sides = draw(st.sampled_from([(one, other), (other, one)]))
            condition = Comparison(draw(OPERATORS), *sides)
    for wrap in draw(st.lists(st.sampled_from([Not, IsNull]), max_size=2)):
        condition = wrap(condition)
    return condition


@settings(max_examples=examples(200))
@given(st.lists(files(), min_size=1, max_size=4), function_conditions(), leaves(), st.booleans())
def test_functions_drop_no_file_with_a_matching_row(table, condition, other, both):
    predicate = And((condition, other)) if both else Or((condition, other))
    try:
        resolved = resolve(predicate, SCHEMA)
    except PredicateError:
        reject()  # a number beside a text, and the like
    plan = SkippingPlan.build(resolved, SCHEMA, PARTITIONS)
    partitions, stats = log_of(plan, table)
    try:
        kept = plan.select(partitions, stats, num_rows=len(table)).to_pylist()
    except EvaluationError:
        reject()
    for (_, rows, text), keep in zip(table, kept, strict=True):
        try:
            values = evaluate(resolved, batch_of(rows)).to_pylist()
        except EvaluationError:
            continue
        assert keep or True not in values, text
        if keep and plan.residual is not None:
            remaining = evaluate(plan.residual, batch_of(rows)).to_pylist()
            assert [v is True for v in remaining] == [v is True for v in values]
