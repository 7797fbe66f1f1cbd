"""The evaluator against what Spark made of the same expressions over the same rows.

`tools/record_spark_expressions.py` recorded them, with its table.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from bayou.errors import PredicateError
from bayou.kernel.arrow.types import to_arrow_schema
from bayou.kernel.expressions.evaluation import Evaluator
from bayou.kernel.expressions.functions import inexact_function
from bayou.kernel.expressions.resolution import resolve_expression, type_of
from bayou.kernel.expressions.sql.parser import parse_expression
from bayou.protocol.schema import (
    BINARY,
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
    ArrayType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)

RECORDED = json.loads((Path(__file__).parent / "recorded" / "spark.json").read_text())

_F = StructType((StructField(name="f", data_type=INTEGER),))
_XY = StructType(
    (StructField(name="x", data_type=INTEGER), StructField(name="y", data_type=STRING))
)
SCHEMA = StructType(
    tuple(
        StructField(name=name, data_type=data_type)
        for name, data_type in {
            "by": BYTE,
            "sh": SHORT,
            "i": INTEGER,
            "l": LONG,
            "f": FLOAT,
            "d": DOUBLE,
            "m": DecimalType(4, 2),
            "big": DecimalType(38, 0),
            "s": STRING,
            "b": BOOLEAN,
            "bin": BINARY,
            "da": DATE,
            "ts": TIMESTAMP,
            "ntz": TIMESTAMP_NTZ,
            "a": ArrayType(element_type=INTEGER),
            "mp": MapType(key_type=STRING, value_type=INTEGER),
            "st": _XY,
            "ast": ArrayType(element_type=_F),
        }.items()
    )
)


def _moments(*values):
    return [(None if v is None else v.replace(tzinfo=dt.UTC)) for v in values], list(values)


_NAN = math.nan
_TS, _ = _moments(
    dt.datetime(2024, 2, 29, 13, 45, 59, 123456),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
    dt.datetime(1, 1, 1),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999999),
    None,
    dt.datetime(1900, 1, 1, 0, 0, 0, 500000),
)
COLUMNS = {
    "by": [1, -1, 0, 7, None, 5],
    "sh": [2, -2, 0, 11, None, 5],
    "i": [3, -3, 100, -46, None, 5],
    "l": [4, -4, 10000000000, 13, None, 5],
    "f": [1.5, -0.0, _NAN, 3.4e38, None, 0.1],
    "d": [2.5, -0.0, _NAN, 1.0e300, None, 0.285],
    "m": [Decimal(t) if t else None for t in ("12.34", "-0.05", "99.99", "0.01", "", "2.50")],
    "big": [Decimal(t) if t else None for t in ("5", "-7", "0", "99", "", "12")],
    "s": ["Hello World", "  ÄÖü ß  ", "12", "日本語😀x", None, "a%b_c\\d"],
    "b": [True, False, True, False, None, True],
    "bin": [b"ab", b"", b"\x00", b"\xe6\x97\xa5", None, b"\xff"],
    "da": [
        dt.date(2024, 2, 29),
        dt.date(1969, 12, 31),
        dt.date(1, 1, 1),
        dt.date(9999, 12, 31),
        None,
        dt.date(1582, 10, 15),
    ],
    "ts": _TS,
    "ntz": [
        dt.datetime(2024, 2, 29, 13, 45, 59, 123456),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
        dt.datetime(1, 1, 1),
        dt.datetime(9999, 12, 31),
        None,
        dt.datetime(1582, 10, 14, 12),
    ],
    "a": [[1, 2, None], [3], [7, 8, 9, 10], [5], None, [2, 2]],
    "mp": [[("k", 9)], [("a", 1), ("k", None)], [], [("k", 3)], None, [("z", 0)]],
    "st": [
        {"x": 7, "y": "z"},
        {"x": None, "y": None},
        {"x": 0, "y": ""},
        {"x": 1, "y": "q"},
        None,
        {"x": 2, "y": "Y"},
    ],
    "ast": [[{"f": 5}], [{"f": None}], [{"f": 1}, {"f": 2}], [{"f": 3}], None, [{"f": 4}]],
}
ARROW = to_arrow_schema(SCHEMA)
BATCH = pa.RecordBatch.from_arrays(
    [pa.array(COLUMNS[field.name], field.type) for field in ARROW], schema=ARROW
)

_NAMES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}

_YEARS = "times are read in the years 1 to 9999"
_EMPTY = "Java finds the empty text also between the halves of a character"
REFUSED = {
    "s RLIKE '(?i)h'": "flags aren't in the common part of both syntaxes",
    "split('abc', '(?=b)')": "nor is looking ahead",
    "split(s, 'x*')": _EMPTY,
    "split('aXbX', '$')": _EMPTY,
    "regexp_replace('abc', 'b*', '-')": _EMPTY,
    "regexp_replace('abc', 'x*', '-')": _EMPTY,
    "regexp_replace(s, '^a*|b*', '')": _EMPTY,
    "initcap(s)": "titles by Unicode are ICU's",
}
"""What Spark has and we refuse, with the reason."""

OTHERWISE = {
    "TRY_CAST(bin AS STRING)": "Arrow's strings are valid UTF-8",
    "TRY_CAST('10:20:30' AS TIMESTAMP)": "Spark takes today's date",
    **{
        f"TRY_CAST('{text}' AS {kind})": _YEARS
        for text in ("12345-01-01", "0000-01-01")
        for kind in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ")
    },
    "big > 4.999": "Spark rounds both sides to 38 digits first",
    "CAST(1.17549435E-38F AS STRING)": "older Java writes a digit more than it takes",
}
"""What we compute otherwise, with the reason."""


def canonical(column):
    """Texts that tell values of one type apart; times as numbers."""
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
    if pa.types.is_string(column.type):
        column = column.cast(pa.binary())
        return [
            None if v is None else v.decode("utf-8", "backslashreplace") for v in column.to_pylist()
        ]
    return [None if value is None else repr(value) for value in column.to_pylist()]


def ours(sql):
    """As Spark's results are recorded: type and values, or that it is an error."""
    try:
        expression = resolve_expression(parse_expression(sql), SCHEMA)
        data_type = str(type_of(expression, SCHEMA))
        values = Evaluator(SCHEMA, expression).values(BATCH)
    except PredicateError as error:
        return {"error": str(error)}
    return {
        "type": _NAMES.get(data_type, data_type),
        "values": canonical(values),
    }


def as_recorded(entry):
    return {key: entry[key] for key in ("type", "values")}


BY_SQL = {entry["sql"]: entry for entry in RECORDED["expressions"]}


def differs_in_the_last_place_only(found, expected):
    """Each number differs from Spark's by at most one unit in the last place."""
    pairs = zip(found["values"], expected["values"], strict=True)
    return found["type"] == expected["type"] == "double" and all(
        abs(float(one) - float(other)) <= math.ulp(float(other))
        for one, other in pairs
        if one != other
    )


def test_an_expression_is_what_spark_makes_of_it():
    differences = []
    for sql, entry in BY_SQL.items():
        if sql in REFUSED or sql in OTHERWISE:
            continue
        found = ours(sql)
        if "error" in entry:
            same = "error" in found
        elif inexact_function(parse_expression(sql)) is None:
            same = found == as_recorded(entry)
        else:
            same = "values" in found and differs_in_the_last_place_only(found, as_recorded(entry))
        if not same:
            differences.append((entry, found))
    assert differences == []


@pytest.mark.parametrize("sql", REFUSED)
def test_what_spark_has_and_we_refuse_is_an_error(sql):
    assert "error" in ours(sql)
    assert "values" in BY_SQL[sql]


@pytest.mark.parametrize("sql", OTHERWISE)
def test_what_we_compute_otherwise_is_not_recorded_so(sql):
    found = ours(sql)
    assert "values" in found
    assert found != as_recorded(BY_SQL[sql])
