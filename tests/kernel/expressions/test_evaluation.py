from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import pyarrow as pa
import pytest

from bayou.errors import EvaluationError, PredicateError
from bayou.kernel.arrow.types import from_arrow_schema
from bayou.kernel.expressions.evaluation import Evaluator, evaluate
from bayou.kernel.expressions.model import Literal, col, lit
from bayou.kernel.expressions.resolution import resolve
from bayou.kernel.expressions.sql.parser import parse_predicate

NAN = math.nan


def batch(**columns):
    return pa.RecordBatch.from_pydict(columns)


def truths(predicate, **columns):
    if isinstance(predicate, str):
        predicate = parse_predicate(predicate)
    return evaluate(predicate, batch(**columns)).to_pylist()


def test_logic_has_three_values():
    a = pa.array([True, True, True, False, False, False, None, None, None])
    b = pa.array([True, False, None] * 3)
    assert truths("a AND b", a=a, b=b) == [
        True,
        False,
        None,
        False,
        False,
        False,
        None,
        False,
        None,
    ]
    assert truths("a OR b", a=a, b=b) == [True, True, True, True, False, None, True, None, None]
    assert truths("NOT a", a=a, b=b) == [False] * 3 + [True] * 3 + [None] * 3


def test_a_comparison_with_null_is_null_but_the_null_safe_one():
    a = pa.array([1, None])
    assert truths("a = 1", a=a) == [True, None]
    assert truths("a = NULL", a=a) == [None, None]
    assert truths("a <=> NULL", a=a) == [False, True]
    assert truths("a <=> 1", a=a) == [True, False]
    assert truths("(a = 1) IS NULL", a=a) == [False, True]
    assert truths("NULL <=> NULL", a=a) == [True, True]
    assert truths("NULL = NULL", a=a) == [None, None]


@pytest.mark.parametrize("arrow_type", [pa.float32(), pa.float64()])
def test_nan_equals_itself_and_is_above_all(arrow_type):
    f = pa.array([1.0, math.inf, NAN, None], arrow_type)
    nan = Literal(NAN)
    assert truths(col("f") == nan, f=f) == [False, False, True, None]
    assert truths(col("f") != nan, f=f) == [True, True, False, None]
    assert truths(col("f") < nan, f=f) == [True, True, False, None]
    assert truths(col("f") <= nan, f=f) == [True, True, True, None]
    assert truths(col("f") > math.inf, f=f) == [False, False, True, None]
    assert truths(col("f") >= math.inf, f=f) == [False, True, True, None]
    assert truths(col("f") > nan, f=f) == [False, False, False, None]
    assert truths(col("f").is_in(NAN, 1.0), f=f) == [True, False, True, None]
    assert truths(col("f").eq_null_safe(nan), f=f) == [False, False, True, False]


def test_isnan_of_null_is_false():
    f = pa.array([1.0, NAN, None])
    assert truths("isnan(f)", f=f) == [False, True, False]
    assert truths("NOT isnan(f)", f=f) == [True, False, True]


def test_zeros_of_both_signs_are_equal():
    f = pa.array([0.0, -0.0])
    assert truths("f = 0", f=f) == [True, True]
    assert truths("f < 0", f=f) == [False, False]
    assert truths("f IN (0)", f=f) == [True, True]
    assert truths(col("f").is_in(-0.0, 5.0), f=f) == [True, True]
    assert truths("f IN (CAST(0 AS FLOAT))", f=f.cast(pa.float32())) == [True, True]


def test_a_list_with_null_is_never_false():
    a = pa.array([1, 2, None])
    assert truths("a IN (1, NULL)", a=a) == [True, None, None]
    assert truths("a NOT IN (1, NULL)", a=a) == [False, None, None]
    assert truths("a IN (1)", a=a) == [True, False, None]
    assert truths("a IN (NULL)", a=a) == [None, None, None]


def test_a_list_may_mix_kinds_of_numbers():
    a = pa.array([1, 2, 3])
    assert truths("a IN (1, 2.0, 3e0, 99999999999999999999)", a=a) == [True, True, True]
    assert truths("a IN (1.5)", a=a) == [False, False, False]


def test_a_number_out_of_a_columns_range_is_compared_all_the_same():
    a = pa.array([-128, 127], pa.int8())
    assert truths("a < 128", a=a) == [True, True]
    assert truths("a > -99999999999999999999", a=a) == [True, True]
    assert truths("a = 1e300", a=a) == [False, False]
    assert truths("a < 126.5", a=a) == [True, False]


def test_decimals_are_compared_exactly():
    d = pa.array([Decimal("1.25"), Decimal("99999999.99"), None], pa.decimal128(10, 2))
    assert truths("d = 1.250", d=d) == [True, False, None]
    assert truths("d = 1.255", d=d) == [False, False, None]
    assert truths("d < 1.2500001", d=d) == [True, False, None]
    assert truths("d > 99999999999999999999.5", d=d) == [False, False, None]
    assert truths("d < 99999999999999999999999999999999999999", d=d) == [True, True, None]
    assert truths("d > 1e1", d=d) == [False, True, None]
    assert truths("d IN (1.25, 7)", d=d) == [True, False, None]


def test_a_positive_remainder_of_decimals_keeps_all_digits():
    d = pa.array([Decimal(-1)], pa.decimal128(38, 0))
    divisor, expected = "1" * 37 + "3", "1" * 37 + "2"
    assert truths(f"pmod(d, {divisor}) = {expected}", d=d) == [True]


@pytest.mark.parametrize(("type", "arrow"), [("TINYINT", pa.int8()), ("SMALLINT", pa.int16())])
def test_a_positive_remainder_of_small_integers_does_not_overflow(type, arrow):
    lowest = -(2 ** (arrow.bit_width - 1))
    n = pa.array([-100, 100, -1, lowest, None], arrow)
    text = f"pmod(n, CAST({lowest} AS {type})) = CAST(expected AS INT)"
    assert truths(text, n=n, expected=pa.array([-100, 100, -1, 0, 0])) == [True] * 4 + [None]


def test_a_float_beside_a_double_is_compared_as_double():
    f = pa.array([0.1], pa.float32())
    assert truths("f > 0.1D", f=f) == [True]
    assert truths("f = 0.1D", f=f) == [False]


def test_a_float_is_rounded_as_the_double_of_its_value():
    f = pa.array([0.35, 0.15, 0.25], pa.float32())  # 0.35 as a float is 0.3499999940395355
    assert truths("round(f, 1) = CAST(0.3 AS FLOAT)", f=f) == [True, False, True]
    assert truths("round(f, 1) = CAST(0.2 AS FLOAT)", f=f) == [False, True, False]


def test_strings_are_ordered_by_their_bytes():
    s = pa.array(["Z", "a", "ü", "\U0001f600", "\uffff"])
    assert truths("s > 'a'", s=s) == [False, False, True, True, True]
    assert truths("s > '\uffff'", s=s) == [False, False, False, True, False]
    assert truths("s LIKE 'ü%'", s=s) == [False, False, True, False, False]


def test_timestamps_without_zone_in_the_text_are_utc():
    ts = pa.array([dt.datetime(2024, 1, 1, tzinfo=dt.UTC)], pa.timestamp("us", "UTC"))
    assert truths("ts = '2024-01-01'", ts=ts) == [True]
    assert truths("ts = TIMESTAMP'2024-01-01 02:00:00+02:00'", ts=ts) == [True]
    assert truths("ts > DATE'2023-12-31'", ts=ts) == [True]
    assert truths("ts = TIMESTAMP_NTZ'2024-01-01 00:00:00'", ts=ts) == [True]
    berlin = ts.cast(pa.timestamp("us", "Europe/Berlin"))
    assert truths("ts = '2024-01-01'", ts=berlin) == [True]


def test_a_date_beside_a_timestamp_is_its_midnight():
    d = pa.array([dt.date(2024, 1, 1), None])
    assert truths("d < TIMESTAMP'2024-01-01 00:00:01'", d=d) == [True, None]
    assert truths("d = TIMESTAMP_NTZ'2024-01-01 00:00:00'", d=d) == [True, None]


def test_a_field_of_a_null_struct_is_null():
    s = pa.array([{"x": 1, "y": {"z": "a"}}, {"x": None, "y": None}, None])
    assert truths("s.x = 1", s=s) == [True, None, None]
    assert truths("s.y.z IS NULL", s=s) == [False, True, True]
    assert truths("s IS NULL", s=s) == [False, False, True]


def test_names_match_in_any_case():
    assert truths("ID = 1", Id=pa.array([1])) == [True]


def test_columns_are_compared_with_columns():
    a, b = pa.array([1, 2, None]), pa.array([Decimal("1.5"), Decimal("2.0"), Decimal(0)])
    assert truths("a < b", a=a, b=b) == [True, False, None]
    assert truths("a = b", a=a, b=b) == [False, True, None]


def test_constants_alone_give_one_value_a_row():
    assert truths("true", a=pa.array([1, 2])) == [True, True]
    assert truths("1 > 2", a=pa.array([1, 2])) == [False, False]
    assert truths("1 IN (1, 2)", a=pa.array([1, 2])) == [True, True]
    assert truths("'abc' LIKE 'a%'", a=pa.array([1, 2])) == [True, True]


@pytest.mark.parametrize(
    "array",
    [
        pa.array(["x", "y", None]).dictionary_encode(),
        pa.array(["x", "y", None], pa.large_string()),
        pa.array(["x", "y", None], pa.string_view()),
    ],
)
def test_other_layouts_of_strings_are_read(array):
    assert truths("a = 'x'", a=array) == [True, False, None]
    assert truths("a LIKE 'x%'", a=array) == [True, False, None]
    assert truths("a IN ('x')", a=array) == [True, False, None]


def test_a_column_of_nulls_only_has_no_type():
    a = pa.nulls(2)
    assert truths("a IS NULL", a=a) == [True, True]
    assert truths("a = 5", a=a) == [None, None]
    assert truths("a <=> NULL", a=a) == [True, True]
    assert truths("a IN (1, 2)", a=a) == [None, None]


def test_a_column_is_an_expression():
    rows = batch(a=pa.array([1, 2]))
    assert evaluate(col("A"), rows).to_pylist() == [1, 2]
    assert evaluate(lit(5), rows).to_pylist() == [5, 5]


def test_no_rows_give_no_values():
    assert truths("a = 1 OR a IN (2) OR true", a=pa.array([], pa.int64())) == []


def test_an_unknown_column_is_an_error():
    with pytest.raises(PredicateError, match="Did you mean 'day'"):
        truths("dya = 1", day=pa.array([1]))
    with pytest.raises(PredicateError, match="Column .* doesn't exist"):
        evaluate(col("x"), batch(a=pa.array([1])))


def test_a_type_that_delta_lacks_is_an_error():
    with pytest.raises(PredicateError, match="time"):
        truths("t IS NULL", t=pa.array([dt.time(1)]))


ZEROS = {"x": pa.array([2, 0, None, 5]), "s": pa.array(["1", "a", "3", None])}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x <> 0 AND 10 / x > 3", [True, False, None, False]),
        ("x = 0 OR 10 / x > 3", [True, True, None, False]),
        ("CASE WHEN x = 0 THEN false ELSE 10 / x > 3 END", [True, False, None, False]),
        ("if(s = 'a', false, CAST(s AS INT) > 1)", [False, False, True, None]),
        ("coalesce(x = 0, CAST(s AS INT) = 3)", [False, True, True, False]),
        ("CASE WHEN s = 'a' THEN NULL WHEN CAST(s AS INT) = 1 THEN true END",
         [True, None, None, None]),
    ],
)  # fmt: skip
def test_what_spark_does_not_evaluate_does_not_fail(text, expected):
    assert truths(text, **ZEROS) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("10 / x > 3", "is a division by zero"),
        ("10 / x > 3 AND x <> 0", "is a division by zero"),
        ("CAST(s AS INT) = 1", "'a' can't be cast to integer"),
        ("9223372036854775807 + x > 0", "out of range for long"),
    ],
)
def test_a_value_that_does_not_go_is_an_error_that_names_it(text, message):
    with pytest.raises(EvaluationError, match=message):
        truths(text, **ZEROS)


def test_a_column_is_looked_at_in_the_rows_that_count_only():
    schema = from_arrow_schema(batch(**ZEROS).schema)
    evaluation = Evaluator(schema, resolve(parse_predicate("10 / x > 3"), schema))
    found = evaluation.values(batch(**ZEROS), pa.array([True, False, True, True]))
    assert found.to_pylist() == [True, None, None, False]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (r"a(?=b)", "(?=b"),
        (r"(a)\1", r"\1"),
        (r"a++", "++"),
        (r"\bword", r"\bword"),
        (r"[a-z&&[^b]]", "[a-z&&[^"),
        (r"\p{L}", r"\p{L}"),
        ("(?i)a", "(?i)a"),
    ],
)
def test_a_regular_expression_that_re2_reads_otherwise_is_refused(text, part):
    with pytest.raises(PredicateError) as caught:
        truths(f"s RLIKE r'{text}'", **ZEROS)
    assert caught.value.expression.startswith(part[:3])


COMMON = {
    "d": pa.array([dt.date(2024, 1, 5), dt.date(2024, 1, 6), None]),
    "ts": pa.array([dt.datetime(2024, 1, 5), dt.datetime(2024, 1, 5), None]),
    "n": pa.array([Decimal("0.100000000000000001"), Decimal("0.1"), None], pa.decimal128(38, 18)),
    "s": pa.array(["01", "2", None]),
    "x": pa.array([0.1, 0.5, None]),
    "i": pa.array([2**53, 2, None]),
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("d IN (ts, '2024-01-05 10:00:00')", [True, False, None]),
        ("d IN (TIMESTAMP_NTZ'2024-01-07', '2024-01-05 10:00:00')", [False, False, None]),
        ("d NOT IN (TIMESTAMP_NTZ'2024-01-07', '2024-01-05 10:00:00')", [True, True, None]),
        ("d IN ('2024-01-05 10:00:00', '2024-01-06')", [True, True, None]),
        ("n IN (x, 3)", [True, False, None]),
        ("n IN ('0.1')", [True, True, None]),
        ("n = '0.1'", [True, True, None]),
        ("s IN (1, '02')", [True, True, None]),
        ("s IN ('1', '2')", [False, True, None]),
        ("i IN (9007199254740993, 1e0)", [True, False, None]),
        ("i IN (9007199254740993, 1)", [False, False, None]),
        ("i IN (x, NULL)", [None, None, None]),
        ("2 IN (s, 3.5D)", [False, True, None]),
    ],
)
def test_in_compares_all_values_in_one_type_as_spark_does(text, expected):
    assert truths(text, **COMMON) == expected


def test_a_string_plus_an_interval_is_left_to_spark():
    with pytest.raises(PredicateError, match="interval"):
        truths("'2024-01-05' + INTERVAL 2 HOURS <= d", **COMMON)


@pytest.mark.parametrize(
    "sql", ["left(b, 1)", "substring(b, 1, 1)", "lpad(b, 3)", "rpad(b, 3)", "rpad(b, 3, X'00')"]
)
def test_functions_that_cut_or_pad_bytes_in_spark_do_not_take_binaries_as_strings(sql):
    with pytest.raises(PredicateError, match="the function takes a string, not a binary"):
        truths(f"{sql} = X'ff'", b=pa.array([b"\xff\x00"]))


def test_text_after_a_date_is_ignored_after_a_day_only():
    texts = ["2024-02-03 x", "2024-02-03T", " 2024 ", "2024-2\n", "2024 x", "2024-02T", "2024 0"]
    s = pa.array(texts)
    dates = "DATE'2024-02-03', DATE'2024-01-01', DATE'2024-02-01'"
    expected = [True, True, True, True, None, None, None]
    assert truths(f"TRY_CAST(s AS DATE) IN ({dates})", s=s) == expected


def test_a_date_out_of_range_of_timestamps_is_an_evaluation_error():
    d = pa.array([2**31 - 1, 0, None], pa.int32()).cast(pa.date32())
    zero = "TIMESTAMP'1970-01-01 00:00:00Z'"
    with pytest.raises(EvaluationError, match="out of bounds timestamp"):
        truths(f"d = {zero}", d=d)
    assert truths(f"d < DATE'9999-01-01' AND d = {zero}", d=d) == [False, True, None]


@pytest.mark.parametrize("type", ["TIMESTAMP", "TIMESTAMP_NTZ"])
def test_a_zone_follows_seconds_only(type):
    texts = ["2024-02-03-04", "2024-02-03 10-20", "2024-02 UTC", "2024Z", "2024+01:00"]
    texts += ["2024-02-03Z", "2024-02-03 10 UTC", "2024-02-03 10:20-04", "2024-02-03T10:20Z"]
    assert truths(f"TRY_CAST(s AS {type}) IS NULL", s=pa.array(texts)) == [True] * 9
    texts = ["2024-02-03 10:20:30-04", "2024-02-03 10:20:30.5 UTC", "2024-02-03T10:20:30+01:00"]
    assert truths(f"TRY_CAST(s AS {type}) IS NULL", s=pa.array(texts)) == [False] * 3


def test_a_constant_can_have_a_zone_behind_a_day():
    ts = pa.array([0, 1], pa.timestamp("us", "UTC"))
    assert truths("ts = TIMESTAMP'1970-01-01Z'", ts=ts) == [True, False]


@pytest.mark.parametrize("pattern", ["''", "'x'", "-", ""])
def test_a_format_of_text_only_is_null_for_null(pattern):
    ts = pa.array([0, None], pa.timestamp("us", "UTC"))
    assert truths(f'date_format(ts, "{pattern}") IS NULL', ts=ts) == [False, True]


@pytest.mark.parametrize("column", ["m", "d", "l"])
@pytest.mark.parametrize("decimals", [2147483647, 320, -320, -2147483648])
def test_numbers_are_rounded_to_any_number_of_digits(column, decimals):
    columns = {
        "m": pa.array([Decimal("1.5"), Decimal(9), None], pa.decimal128(38, 2)),
        "d": pa.array([1.5, 1e-300, None]),
        "l": pa.array([15, 9, None]),
    }
    expected = column if decimals > 0 else "0"
    same = truths(f"round({column}, {decimals}) = {expected}", **columns)
    assert same == [True, True, None]
