from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import pytest

from bayou.errors import ArgumentError, PredicateError
from bayou.kernel.expressions.model import (
    And,
    Cast,
    Column,
    Comparison,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    StartsWith,
    call,
)
from bayou.kernel.expressions.resolution import resolve
from bayou.kernel.expressions.sql.parser import parse_expression, parse_predicate
from bayou.protocol.schema import (
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DecimalType,
    StructField,
    StructType,
)

A = Column(("a",))


def days(number):
    return Literal(round(number * 86_400_000_000), LONG)


def same(one, other):
    return repr(one) == repr(other)


def literal(text):
    found = parse_predicate(f"a = {text}")
    assert isinstance(found, Comparison)
    assert isinstance(found.right, Literal)
    return found.right


@pytest.mark.parametrize("op", ["=", "<>", "<", "<=", ">", ">=", "<=>"])
def test_comparisons(op):
    assert same(parse_predicate(f"a {op} 1"), Comparison(op, A, Literal(1)))
    assert same(parse_predicate(f"1 {op} a"), Comparison(op, Literal(1), A))


def test_other_spellings_of_a_comparison():
    assert same(parse_predicate("a == 1"), Comparison("=", A, Literal(1)))
    assert same(parse_predicate("a != 1"), Comparison("<>", A, Literal(1)))
    assert same(parse_predicate("a IS DISTINCT FROM 1"), Not(Comparison("<=>", A, Literal(1))))


@pytest.mark.parametrize(
    ("text", "predicate"),
    [
        ("a IS NULL", IsNull(A)),
        ("a IS NOT NULL", Not(IsNull(A))),
        ("isnull(a)", IsNull(A)),
        ("isnotnull(a)", Not(IsNull(A))),
        ("(a < 1) IS NULL", IsNull(Comparison("<", A, Literal(1)))),
        ("a", A),
        ("NOT a", Not(A)),
        ("a IS TRUE", Comparison("<=>", A, Literal(True, BOOLEAN))),
        ("a IS NOT FALSE", Not(Comparison("<=>", A, Literal(False, BOOLEAN)))),
        ("true", Literal(True, BOOLEAN)),
        ("CAST(NULL AS BOOLEAN)", Literal(None, BOOLEAN)),
        ("a IN (1, NULL)", In(A, (Literal(1), Literal(None)))),
        ("a NOT IN (1)", Not(In(A, (Literal(1),)))),
        (
            "a BETWEEN 1 AND 2",
            And((Comparison(">=", A, Literal(1)), Comparison("<=", A, Literal(2)))),
        ),
        (
            "a NOT BETWEEN 1 AND 2",
            Not(And((Comparison(">=", A, Literal(1)), Comparison("<=", A, Literal(2))))),
        ),
        ("a LIKE 'x%'", StartsWith(A, "x")),
        ("a NOT LIKE 'x%%'", Not(StartsWith(A, "x"))),
        ("startswith(a, 'x')", StartsWith(A, "x")),
        ("a = NULL", Comparison("=", A, Literal(None))),
    ],
)
def test_other_conditions(text, predicate):
    assert same(parse_predicate(text), predicate)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a LIKE 'x'", "x"), (r"a LIKE 'x\\_y\%'", "x_y%"), ("a LIKE 'x!%' ESCAPE '!'", "x%")],
)
def test_a_pattern_without_wildcards_is_an_equality(text, expected):
    schema = StructType((StructField(name="a", data_type=STRING),))
    found = resolve(parse_predicate(text), schema)
    assert same(found, Comparison("=", A, Literal(expected, STRING)))
    assert same(resolve(found, schema), found)


@pytest.mark.parametrize("data_type", [LONG, DecimalType(4, 1), TIMESTAMP])
def test_a_pattern_without_wildcards_isnt_compared_with_other_types(data_type):
    schema = StructType((StructField(name="a", data_type=data_type),))
    with pytest.raises(PredicateError, match="Cast it to string"):
        resolve(parse_predicate("a LIKE '01'"), schema)


def test_an_escaped_wildcard_is_a_character():
    assert same(parse_predicate(r"a LIKE 'x\\_y\\%%'"), StartsWith(A, "x_y%"))
    assert same(parse_predicate(r"a LIKE '50\%%'"), StartsWith(A, "50%"))


def test_a_list_with_columns_becomes_a_chain_of_equalities():
    schema = StructType(tuple(StructField(name=n, data_type=LONG) for n in "ab"))
    assert same(
        resolve(parse_predicate("a IN (1, b)"), schema),
        Or((Comparison("=", A, Literal(1, LONG)), Comparison("=", A, Column(("b",))))),
    )


@pytest.mark.parametrize("name", ["all", "ALL", "as"])
def test_a_column_named_like_a_keyword_stays_an_argument(name):
    column = Column((name,))
    for text, expected in (
        (f"coalesce({name}, 0)", call("coalesce", column, Literal(0))),
        (f"coalesce(0 , {name} )", call("coalesce", Literal(0), column)),
        (f"upper(\n{name})", call("upper", column)),
    ):
        assert repr(parse_expression(text)) == repr(expected)
    assert repr(parse_expression("coalesce(ALL a, 0)")) == repr(call("coalesce", A, Literal(0)))


def test_a_long_chain_is_flat():
    found = parse_predicate(" OR ".join(f"a = {i}" for i in range(2_000)))
    assert isinstance(found, Or)
    assert len(found.operands) == 2_000


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a.b.c", ("a", "b", "c")),
        ("a.b.c.d.e.f", ("a", "b", "c", "d", "e", "f")),
        ("`a.b`.`x``y`", ("a.b", "x`y")),
        ("`データ`", ("データ",)),
        ("`it's`", ("it's",)),
    ],
)
def test_names(text, path):
    assert same(parse_predicate(f"{text} IS NULL"), IsNull(Column(path)))


@pytest.mark.parametrize(
    ("text", "value", "data_type"),
    [
        ("5", 5, None),
        ("-9223372036854775808", -(2**63), None),
        ("5L", 5, LONG),
        ("5S", 5, SHORT),
        ("5Y", 5, BYTE),
        ("1.50", Decimal("1.50"), DecimalType(3, 2)),
        ("-0.5BD", Decimal("-0.5"), DecimalType(1, 1)),
        ("1e3", 1000.0, DOUBLE),
        ("2.5D", 2.5, DOUBLE),
        ("2.5F", 2.5, FLOAT),
        ("true", True, BOOLEAN),
        ("X'00ff'", b"\x00\xff", None),
        ("X''", b"", None),
        ("DATE'2024-1-5'", dt.date(2024, 1, 5), DATE),
        ("DATE('2024-01-05')", dt.date(2024, 1, 5), DATE),
        ("TIMESTAMP'2024-01-05 10:00:00.5'", dt.datetime(2024, 1, 5, 10, 0, 0, 500_000, dt.UTC),
         TIMESTAMP),
        ("TIMESTAMP'2024-01-05T10:00:00+02:00'", dt.datetime(2024, 1, 5, 8, tzinfo=dt.UTC),
         TIMESTAMP),
        ("TIMESTAMP'2024-01-05 10:00:00 Europe/Berlin'", dt.datetime(2024, 1, 5, 9, tzinfo=dt.UTC),
         TIMESTAMP),
        ("TIMESTAMP_NTZ'2024-01-05 10:00:00'", dt.datetime(2024, 1, 5, 10), TIMESTAMP_NTZ),
        ("CAST('2.505' AS DECIMAL(5,2))", Decimal("2.51"), DecimalType(5, 2)),
        ("CAST('Infinity' AS FLOAT)", math.inf, FLOAT),
        ("INT('7')", 7, INTEGER),
        ("NULL", None, None),
        ("99999999999999999999.999999999999999999",
         Decimal("99999999999999999999.999999999999999999"), DecimalType(38, 18)),
        ("-99999999999999999999.999999999999999999",
         Decimal("-99999999999999999999.999999999999999999"), DecimalType(38, 18)),
    ],
)  # fmt: skip
def test_constants(text, value, data_type):
    found = literal(text)
    assert (found.value, found.data_type) == (value, data_type)
    assert type(found.value) is type(value)


def test_nan_is_a_constant():
    found = literal("DOUBLE('NaN')")
    assert isinstance(found.value, float)
    assert math.isnan(found.value)


# As Spark 4 unescapes them.
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'it''s'", "it's"),
        (r"'it\'s'", "it's"),
        ('"it\'s"', "it's"),
        ('"a""b"', 'a"b'),
        (r"'\u00fc\U0001f600'", "ü😀"),
        (r"'\ud83d\ude00'", "😀"),
        (r"'a\\b\n\t\0\101'", "a\\b\n\t\0A"),
        (r"'100\%'", r"100\%"),
        (r"'\q'", "q"),
        (r"r'a\n'", r"a\n"),
        ("'-- no comment /* either */'", "-- no comment /* either */"),
        ("'`'", "`"),
        ("''", ""),
        ("'bayou string 0'", "bayou string 0"),
        (r"r'a\'", "a\\"),
        ("'a' /* and */ \"b\" r'c'", "abc"),
        (r"'\UFFFFFFFF'", "\U0010ffff"),
    ],
)
def test_strings_are_unescaped_as_spark_does(text, value):
    assert literal(text).value == value


def test_comments_are_passed_over():
    assert same(parse_predicate("a -- it's\n = /* \"x */ 1"), Comparison("=", A, Literal(1)))
    assert same(parse_predicate("a /* b /* c */ */ = 1"), Comparison("=", A, Literal(1)))


B = Column(("b",))


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("a + 1", call("+", A, 1)),
        ("a - -1", call("-", A, -1)),
        ("a * 2 / b % 3", call("%", call("/", call("*", A, 2), B), 3)),
        ("a div 2", call("div", A, 2)),
        ("-a", call("negative", A)),
        ("a || b || 'x'", call("concat", A, B, "x")),
        ("upper(a)", call("upper", A)),
        ("UCASE(a)", call("upper", A)),
        ("mod(a, 2)", call("%", A, 2)),
        ("CAST(a AS INT)", Cast(A, INTEGER)),
        ("a::bigint", Cast(A, LONG)),
        ("int(a)", Cast(A, INTEGER)),
        ("to_date(a)", Cast(A, DATE)),
        ("TRY_CAST(a AS DECIMAL(5,2))", Cast(A, DecimalType(5, 2), True)),
        ("TRY_CAST('x' AS INT)", Cast(Literal("x"), INTEGER, True)),
        ("CAST(5 AS STRING)", Cast(Literal(5, INTEGER), STRING)),
        ("a['x']", call("[]", A, "x")),
        ("a[0].x", call(".", call("[]", A, 0), Literal("x", STRING))),
        ("CASE WHEN a THEN 1 ELSE 2 END", call("case", A, 1, 2)),
        ("CASE a WHEN 1 THEN 'x' END", call("case", A == 1, "x")),
        ("if(a, 1, 2)", call("case", A, 1, 2)),
        ("nullif(a, 1)", call("case", A == 1, None, A)),
        ("ifnull(a, 1)", call("coalesce", A, 1)),
        ("substring(a FROM 2 FOR 3)", call("substring", A, 2, 3)),
        ("substr(a, 2)", call("substring", A, 2)),
        ("left(a, 2)", call("substring", A, Literal(1, INTEGER), 2)),
        ("trim(BOTH 'x' FROM a)", call("trim", "x", A)),
        ("trim(LEADING FROM a)", call("ltrim", A)),
        ("extract(YEAR FROM a)", call("year", A)),
        ("date_trunc('DAY', a)", call("date_trunc", "DAY", A)),
        ("a RLIKE 'x+'", call("rlike", A, "x+")),
        ("startswith(a, b)", call("startswith", A, B)),
        ("a LIKE '%x'", Like(A, "%x")),
        ("a LIKE 'x_'", Like(A, "x_")),
        ("a NOT LIKE '%x'", Not(Like(A, "%x"))),
        ("a ILIKE 'X%'", Like(call("lower", A), "x%")),
        ("a LIKE 'x!%%' ESCAPE '!'", Like(A, "x!%%", "!")),
        ("a NOT LIKE 'x!%%' ESCAPE '!'", Not(Like(A, "x!%%", "!"))),
        ("NOT a LIKE 'x!%%' ESCAPE '!'", Not(Like(A, "x!%%", "!"))),
        ("a NOT ILIKE 'X!%%' ESCAPE '!'", Not(Like(call("lower", A), "x!%%", "!"))),
        ("a LIKE ANY ('x%', '%y')", Or((StartsWith(A, "x"), Like(A, "%y")))),
        ("a LIKE ANY ('%x')", Like(A, "%x")),
        ("a LIKE ALL ('%x')", Like(A, "%x")),
        ("a NOT LIKE ALL ('%x')", Not(Like(A, "%x"))),
        ("a NOT LIKE ALL ('%x', '%y')", And((Not(Like(A, "%x")), Not(Like(A, "%y"))))),
        ("a NOT LIKE ANY ('%x', '%y')", Or((Not(Like(A, "%x")), Not(Like(A, "%y"))))),
        ("NOT a LIKE ALL ('%x', '%y')", Not(And((Like(A, "%x"), Like(A, "%y"))))),
        ("a + b || 'x'", call("concat", call("+", A, B), "x")),
        ("a + INTERVAL 1 DAY", call("add_interval", A, Literal(0, LONG), days(1))),
        ("a - INTERVAL '2' HOURS", call("add_interval", A, Literal(0, LONG), days(-1 / 12))),
        ("INTERVAL 1 YEAR + a", call("add_interval", A, Literal(12, LONG), days(0))),
        ("a + INTERVAL '1-2' YEAR TO MONTH", call("add_interval", A, Literal(14, LONG), days(0))),
        ("a + INTERVAL '1 12:00:00' DAY TO SECOND",
         call("add_interval", A, Literal(0, LONG), days(1.5))),
        ("a + INTERVAL '1 day 12 hours'", call("add_interval", A, Literal(0, LONG), days(1.5))),
    ],
)  # fmt: skip
def test_other_expressions(text, expression):
    assert same(parse_expression(text), expression)
    assert same(parse_predicate(text), expression)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a LIKE b", "a LIKE b"),
        ("a LIKE ALL (b)", "a LIKE ALL (b)"),
        ("a LIKE ALL ()", "a LIKE ALL ()"),
        ("a LIKE ANY 'x'", "a LIKE ANY 'x'"),
        # In Spark, these are (a || b) + 1, (a = b) > TRUE, (a = b) IN (TRUE) and so on.
        ("a || b + 1", "a || b + 1"),
        ("a || b - 1", "a || b - 1"),
        ("a = b > TRUE", "a = b > TRUE"),
        ("a = b IN (TRUE)", "a = b IN (TRUE)"),
        ("a <> b NOT IN (TRUE)", "NOT"),
        ("a = b LIKE 'x'", "a = b LIKE 'x'"),
        ("a BETWEEN b AND TRUE = FALSE", "a BETWEEN b AND TRUE = FALSE"),
        ("a IN (SELECT 1)", "SELECT 1"),
        ("a = INTERVAL '1' DAY", "INTERVAL"),
        ("a + INTERVAL b DAY", "INTERVAL"),
        ("a + INTERVAL '1_0' DAY", "INTERVAL"),
        ("a + INTERVAL 'NaN' DAY", "INTERVAL"),
        ("EXISTS (SELECT 1)", "EXISTS"),
        ("a = 'x' COLLATE UTF8_LCASE", "COLLATE"),
        ("CAST(a AS STRUCT<x INT>) IS NULL", "STRUCT"),
        ("CAST(a AS DECIMAL(50,2)) = 1", "DECIMAL"),
        ("current_date > a", "CURRENT_DATE"),
        ("SELECT 1", "SELECT"),
    ],
)
def test_what_isnt_supported_is_named(text, part):
    with pytest.raises(PredicateError, match=r"isn't supported\. The page Expressions") as caught:
        parse_predicate(text)
    assert part.lower() in caught.value.expression.lower()


@pytest.mark.parametrize("name", ["foo", "count", "rand", "current_timestamp", "from_json"])
def test_a_function_that_isnt_on_the_list_is_named_with_where_the_list_is(name):
    with pytest.raises(PredicateError, match="page Expressions") as caught:
        parse_predicate(f"{name}(a) = 1")
    assert caught.value.expression == name


@pytest.mark.parametrize("text", ["", "a =", "a = 1 b", "SELECT", "a = 'x", "((a = 1)", "a /* b"])
def test_what_isnt_sql_is_an_error(text):
    with pytest.raises(PredicateError) as caught:
        parse_predicate(text)
    assert repr(text) in caught.value.message


@pytest.mark.parametrize(
    "text", ["DATE'soon'", "TIMESTAMP'2024-13-01'", "CAST(300 AS TINYINT)",
             "CAST('x' AS INT)", "CAST(12345 AS DECIMAL(3,1))", "CAST(true AS DATE)",
             "CAST('1_0' AS INT)", "CAST('1_0' AS DOUBLE)", "CAST('1_0' AS DECIMAL(4,1))"]
)  # fmt: skip
def test_a_constant_that_isnt_of_its_type_is_an_error(text):
    with pytest.raises(PredicateError, match="isn't a"):
        literal(text)


@pytest.mark.parametrize("text", ["(" * 3000 + "1" + ")" * 3000, "id > " + "-" * 5000 + "1"])
def test_an_expression_nested_too_deeply_is_an_error(text):
    with pytest.raises(PredicateError):
        parse_predicate(text)


@pytest.mark.parametrize("junction", [And, Or])
def test_a_junction_of_nothing_is_refused(junction):
    """An empty conjunction would be true for every row."""
    with pytest.raises(ArgumentError, match="no operands"):
        junction(())


def test_a_number_without_its_exponent_is_refused():
    with pytest.raises(PredicateError, match="1e isn't a number"):
        parse_predicate("a = 1e")
