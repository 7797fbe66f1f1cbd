from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayou.kernel.arrow.types import to_arrow_type
from bayou.kernel.expressions.evaluation import evaluate
from bayou.kernel.expressions.resolution import resolve
from bayou.kernel.expressions.sql.parser import parse_expression, parse_predicate
from bayou.kernel.scan.data_skipping.skipping import SkippingPlan
from bayou.protocol.schema import (
    BINARY,
    DATE,
    DOUBLE,
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

SOURCES = {
    "ts": TIMESTAMP, "ntz": TIMESTAMP_NTZ, "d": DATE, "s": STRING, "i": INTEGER, "l": LONG,
    "x": DOUBLE,
}  # fmt: skip
INNER = StructType((StructField(name="at", data_type=TIMESTAMP_NTZ),))


def schema_with(**generated):
    """A table whose partition columns are generated: name to type and expression."""
    fields = [StructField(name=name, data_type=kind) for name, kind in SOURCES.items()]
    fields.append(StructField(name="n", data_type=INNER))
    for name, (kind, text) in generated.items():
        metadata = {"delta.generationExpression": text}
        fields.append(StructField(name=name, data_type=kind, metadata=metadata))
    return StructType(tuple(fields))


def kept(text, schema, partitions, **values):
    """Whether each file is kept, by its partition values alone."""
    plan = SkippingPlan.build(resolve(parse_predicate(text), schema), schema, partitions)
    arrays = {
        name: pa.array(found, to_arrow_type(schema.get(name).data_type))
        for name, found in values.items()
    }
    assert set(plan.partition_columns) <= set(arrays)
    named = {name: arrays[name] for name in plan.partition_columns}
    return plan.select(named, num_rows=len(next(iter(arrays.values())))).to_pylist()


DAYS = [dt.date(2024, 1, d) for d in (3, 4, 5, 6, 7)] + [None]


@pytest.mark.parametrize("source", ["ntz", "d"])
def test_a_day_of_a_local_time_is_exact(source):
    schema = schema_with(day=(DATE, f"CAST({source} AS DATE)"))
    literal = "TIMESTAMP_NTZ'2024-01-05 10:00:00'" if source == "ntz" else "DATE'2024-01-05'"

    def found(op):
        return kept(f"{source} {op} {literal}", schema, ("day",), day=DAYS)

    assert found("=") == [False, False, True, False, False, False]
    assert found("<") == found("<=") == [True, True, True, False, False, False]
    assert found(">") == found(">=") == [False, False, True, True, True, False]
    assert found("<>") == [True] * 6
    assert found("<=>") == found("=")
    assert kept(f"{source} IS NULL", schema, ("day",), day=DAYS) == [False] * 5 + [True]
    assert kept(f"NOT ({source} > {literal})", schema, ("day",), day=DAYS) == found("<=")
    assert kept(f"{source} IN ({literal}, NULL)", schema, ("day",), day=DAYS) == found("=")


def test_a_day_of_an_instant_leaves_room_for_the_writers_time_zone():
    schema = schema_with(day=(DATE, "CAST(ts AS DATE)"))
    text = "ts = TIMESTAMP'2024-01-05 12:00:00'"
    found = kept(text, schema, ("day",), day=DAYS)
    assert found == [False, True, True, True, False, False]
    early = "ts < TIMESTAMP'2024-01-05 02:00:00'"
    assert kept(early, schema, ("day",), day=DAYS) == [True, True, True, False, False, False]


def test_year_month_day_and_hour_are_compared_together():
    schema = schema_with(
        y=(INTEGER, "YEAR(ntz)"),
        m=(INTEGER, "MONTH(ntz)"),
        dd=(INTEGER, "DAY(ntz)"),
        h=(INTEGER, "HOUR(ntz)"),
    )
    rows = {"y": [2023, 2024, 2024, 2024], "m": [12, 1, 2, 2], "dd": [31, 9, 3, 3]}
    rows["h"] = [23, 0, 4, 5]
    names = ("y", "m", "dd", "h")
    text = "ntz {} TIMESTAMP_NTZ'2024-02-03 04:30:00'"
    assert kept(text.format("<"), schema, names, **rows) == [True, True, True, False]
    assert kept(text.format(">="), schema, names, **rows) == [False, False, True, True]
    assert kept(text.format("="), schema, names, **rows) == [False, False, True, False]


def test_a_beginning_of_a_text_is_in_order_and_its_null_may_be_an_empty_text():
    schema = schema_with(p=(STRING, "SUBSTRING(s, 1, 2)"))
    values = {"p": ["aa", "ab", "b", None]}
    assert kept("s = 'abc'", schema, ("p",), **values) == [False, True, False, True]
    assert kept("s < 'abc'", schema, ("p",), **values) == [True, True, False, True]
    assert kept("s >= 'abc'", schema, ("p",), **values) == [False, True, True, True]


def test_any_function_of_a_column_prunes_an_equality():
    schema = schema_with(p=(INTEGER, "i % 4"), q=(STRING, "upper(s)"))
    values = {"p": [0, 1, 2, 3, None]}
    assert kept("i = 6", schema, ("p", "q"), **values) == [False, False, True, False, False]
    assert kept("i > 6", schema, ("p", "q"), **values) == [True] * 5
    assert kept("s IN ('a', 'b')", schema, ("p", "q"), q=["A", "C", "B"]) == [True, False, True]


def test_an_inexact_function_of_a_column_prunes_no_equality():
    schema = schema_with(p=(DOUBLE, "exp(i)"))
    by_java, by_c = 2.7182818284590455, 2.718281828459045
    assert kept("i = 1", schema, ("p",), p=[by_java, by_c]) == [True, True]


def test_a_field_of_a_struct_can_be_the_source():
    schema = schema_with(day=(DATE, "CAST(n.at AS DATE)"))
    text = "n.at = TIMESTAMP_NTZ'2024-01-05 10:00:00'"
    assert kept(text, schema, ("day",), day=DAYS) == [False, False, True, False, False, False]


def test_years_beyond_9999_do_not_break_the_order_of_texts():
    schema = schema_with(p=(STRING, "date_format(ntz, 'yyyy-MM')"))
    values = {"p": ["2023-12", "2024-01", "+10000-01"]}
    text = "ntz >= TIMESTAMP_NTZ'2024-01-05 10:00:00'"
    assert kept(text, schema, ("p",), **values) == [False, True, True]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (INTEGER, "frobnicate(ntz)"),
        (INTEGER, "year(ntz"),
        (STRING, "CAST(ntz AS DATE)"),
        (INTEGER, "i + length(s)"),
        (INTEGER, "5"),
    ],
)
def test_an_expression_that_says_nothing_keeps_all_files(kind, text):
    schema = schema_with(p=(kind, text))
    plan = SkippingPlan.build(resolve(parse_predicate("i = 5"), schema), schema, ("p",))
    assert plan.partition_columns == ()


ZONES = st.integers(-12 * 4, 14 * 4).map(lambda quarters: dt.timedelta(minutes=15 * quarters))
MOMENTS = st.datetimes(dt.datetime(1890, 1, 1), dt.datetime(2050, 1, 1))
GENERATED = {
    "CAST({} AS DATE)": DATE,
    "year({})": INTEGER,
    "month({})": INTEGER,
    "hour({})": INTEGER,
    "date_format({}, 'yyyy-MM')": STRING,
    "date_format({}, 'yyyy-MM-dd-HH')": STRING,
    "date_trunc('HOUR', {})": TIMESTAMP,
    "date_trunc('MONTH', {})": TIMESTAMP,
    "trunc({}, 'MONTH')": DATE,
    "unix_timestamp({}) div 3600": None,
}


@settings(max_examples=examples(300))
@given(st.data())
def test_no_row_is_lost_whatever_the_writers_time_zone(data):
    source = data.draw(st.sampled_from(["ts", "ntz"]))
    texts = data.draw(
        st.sampled_from([[t] for t, kind in GENERATED.items() if kind is not None])
        | st.just(["year({})", "month({})", "day({})", "hour({})"])
    )
    zone = data.draw(ZONES) if source == "ts" else dt.timedelta()
    moment = data.draw(MOMENTS)
    near = data.draw(st.timedeltas(dt.timedelta(days=-3), dt.timedelta(days=3)))
    op = data.draw(st.sampled_from(["=", "<", "<=", ">", ">=", "<=>"]))
    other = moment if op == "=" else moment + near

    names = tuple(f"p{i}" for i in range(len(texts)))
    kinds = [GENERATED.get(text, INTEGER) for text in texts]
    schema = schema_with(
        **{n: (k, t.format(source)) for n, k, t in zip(names, kinds, texts, strict=True)}
    )
    # The writer computes with its local time; a timestamp that it gets is local too.
    local = pa.RecordBatch.from_pydict({source: pa.array([moment + zone], pa.timestamp("us"))})
    values = {}
    for name, kind, text in zip(names, kinds, texts, strict=True):
        found = evaluate(parse_expression(text.format(source)), local)[0].as_py()
        if kind == TIMESTAMP:
            found = found - zone
        values[name] = [found]
    literal = f"TIMESTAMP'{other.isoformat(' ')}Z'"
    if source == "ntz":
        literal = f"TIMESTAMP_NTZ'{other.isoformat(' ')}'"
    text = f"{source} {op} {literal}"
    rows = pa.RecordBatch.from_pydict({source: pa.array([moment], to_arrow_type(SOURCES[source]))})
    matches = evaluate(parse_predicate(text), rows).to_pylist() == [True]
    assert kept(text, schema, names, **values) == [True] or not matches


@pytest.mark.parametrize(
    ("text", "kind", "expression", "value"),
    [
        # Outside ANSI mode numbers wrap around, decimals that don't fit are NULL, NaN becomes 0.
        ("l > 10", INTEGER, "CAST(l AS INT)", 5),  # of 2^32 + 5
        ("l > 10000000", INTEGER, "CAST(l / 1000 AS INT)", 5),
        ("l > 10", LONG, "l + 1", -(2**63)),
        ("l > 10", DecimalType(5, 0), "CAST(l AS DECIMAL(5,0))", None),
        ("x > 10", LONG, "floor(x)", 0),
        ("x > 10", INTEGER, "CAST(x AS INT)", 0),
        # 0.0 equals -0.0.
        ("x = 0.0D", STRING, "CAST(x AS STRING)", "-0.0"),
        # No bytes are NULL as a partition value.
        ("s = ''", BINARY, "CAST(s AS BINARY)", None),
        # The order of texts isn't that of their dates.
        ("s > '2024-01-10'", INTEGER, "year(s)", 2023),  # of 2024-1-9
    ],
)
def test_what_another_writer_may_have_computed_is_kept(text, kind, expression, value):
    assert kept(text, schema_with(p=(kind, expression)), ("p",), p=[value]) == [True]


def test_the_parts_of_a_text_do_not_follow_its_order():
    schema = schema_with(y=(INTEGER, "year(s)"), m=(INTEGER, "month(s)"), dd=(INTEGER, "day(s)"))
    of_a_short_text = {"y": [2024], "m": [1], "dd": [9]}  # of '2024-1-9', which is above
    assert kept("s > '2024-01-10'", schema, ("y", "m", "dd"), **of_a_short_text) == [True]


UTC_TIME = dt.datetime(2024, 1, 1, 5, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("text", "kind", "expression", "value"),
    [
        ("d = DATE'2024-01-01'", TIMESTAMP, "CAST(d AS TIMESTAMP)", UTC_TIME),
        ("d = DATE'2024-01-01'", LONG, "unix_timestamp(d)", int(UTC_TIME.timestamp())),
        ("ntz = TIMESTAMP_NTZ'2024-01-01'", TIMESTAMP, "CAST(ntz AS TIMESTAMP)", UTC_TIME),
        ("l = 1704153600", DATE, "CAST(CAST(l AS TIMESTAMP) AS DATE)", dt.date(2024, 1, 1)),
        ("l >= 1704153600000", DATE, "CAST(timestamp_millis(l) AS DATE)", dt.date(2024, 1, 1)),
        ("s = '2024-01-02T00:00:00Z'", INTEGER, "hour(s)", 5),
        # Of 23:59:59 in Bangkok, whose day began 17 hours before UTC's.
        (
            "ts = TIMESTAMP'2024-01-01 16:59:59Z'",
            LONG,
            "CAST(date_trunc('DAY', ts) AS BIGINT)",
            int(dt.datetime(2023, 12, 31, 17, tzinfo=dt.UTC).timestamp()),
        ),
        # Clocks went from 2 to 3 there: Spark moves the local time before it formats it.
        (
            "ntz = TIMESTAMP_NTZ'2024-03-10 02:30:00'",
            STRING,
            "date_format(ntz, 'yyyy-MM-dd-HH')",
            "2024-03-10-03",
        ),
    ],
)
def test_what_a_writer_in_another_time_zone_computed_is_kept(text, kind, expression, value):
    assert kept(text, schema_with(p=(kind, expression)), ("p",), p=[value]) == [True]


def test_whole_numbers_that_always_fit_are_compared_in_order():
    schema = schema_with(p=(LONG, "i div 1000"), q=(LONG, "CAST(i AS BIGINT)"))
    values = {"p": [1, 2, 3], "q": [1500, 2500, 3500]}
    assert kept("i >= 2500", schema, ("p", "q"), **values) == [False, True, True]
