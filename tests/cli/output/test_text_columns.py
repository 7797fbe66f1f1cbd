"""Arrow columns as JSON, CSV and tab-separated text."""

from __future__ import annotations

import datetime as dt
import decimal

import pyarrow as pa
import pytest

from bayou.api.rows.json_text import json_values
from bayou.cli.output.text_columns import csv_fields, tsv_fields

_LISTS = pa.list_(pa.float64())
_MAPS = pa.map_(pa.string(), pa.int64())
_DECIMALS = [decimal.Decimal("12345678901234567.50"), None]


@pytest.mark.parametrize(
    ("column", "as_json", "as_csv", "as_tsv"),
    [
        (pa.array([1, None]), ["1", "null"], ["1", ""], ["1", ""]),
        (
            pa.array([float("nan"), float("inf"), float("-inf"), 0.1, None]),
            ['"NaN"', '"Infinity"', '"-Infinity"', "0.1", "null"],
            ["NaN", "Infinity", "-Infinity", "0.1", ""],
            ["NaN", "Infinity", "-Infinity", "0.1", ""],
        ),
        (
            pa.array(['a"b', "", None, "x,y", "t\tn\nb\\", "\x1b", "\x9bé"]),
            ['"a\\"b"', '""', "null", '"x,y"', '"t\\tn\\nb\\\\"', '"\\u001b"', '"\x9bé"'],
            ['"a""b"', '""', "", '"x,y"', '"t\tn\nb\\"', "\x1b", "\x9bé"],
            ['a"b', "", "", "x,y", "t\\tn\\nb\\\\", "\\x1b", "\\x9bé"],
        ),
        (
            pa.array(_DECIMALS, pa.decimal128(20, 2)),
            ["12345678901234567.50", "null"],
            ["12345678901234567.50", ""],
            ["12345678901234567.50", ""],
        ),
        (
            pa.array([0, 1_500_000, 4 * 10**17], pa.timestamp("us", "UTC")),
            ['"1970-01-01T00:00:00Z"', '"1970-01-01T00:00:01.5Z"', '"14645-06-30T15:06:40Z"'],
            ["1970-01-01T00:00:00Z", "1970-01-01T00:00:01.5Z", "14645-06-30T15:06:40Z"],
            ["1970-01-01T00:00:00Z", "1970-01-01T00:00:01.5Z", "14645-06-30T15:06:40Z"],
        ),
        (pa.array([b"\x00\xff", None]), ['"AP8="', "null"], ["AP8=", ""], ["AP8=", ""]),
        (
            pa.array([[1.5, float("nan")], None, [], [None]], _LISTS),
            ['[1.5,"NaN"]', "null", "[]", "[null]"],
            ['"[1.5,""NaN""]"', "", "[]", "[null]"],
            ['[1.5,"NaN"]', "", "[]", "[null]"],
        ),
        (
            pa.array([{"a": 1, "b": [{"c": "x"}]}, None, {"a": None, "b": None}]),
            ['{"a":1,"b":[{"c":"x"}]}', "null", '{"a":null,"b":null}'],
            ['"{""a"":1,""b"":[{""c"":""x""}]}"', "", '"{""a"":null,""b"":null}"'],
            ['{"a":1,"b":[{"c":"x"}]}', "", '{"a":null,"b":null}'],
        ),
        (
            pa.array([[("k", 1)], None, [], [('"', None)]], _MAPS),
            ['{"k":1}', "null", "{}", '{"\\"":null}'],
            ['"{""k"":1}"', "", "{}", '"{""\\"""":null}"'],
            ['{"k":1}', "", "{}", '{"\\\\"":null}'],
        ),
        (
            pa.array([dt.date(2024, 1, 5), None]),
            ['"2024-01-05"', "null"],
            ["2024-01-05", ""],
            ["2024-01-05", ""],
        ),
        (
            pa.array(["u", None]).dictionary_encode(),
            ['"u"', "null"],
            ["u", ""],
            ["u", ""],
        ),
        (pa.array([True, None]), ["true", "null"], ["true", ""], ["true", ""]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_values_survive_as_text(column, as_json, as_csv, as_tsv):
    assert json_values(column).to_pylist() == as_json
    assert csv_fields(column).to_pylist() == as_csv
    assert tsv_fields(column).to_pylist() == as_tsv
    assert json_values(column.slice(1)).to_pylist() == as_json[1:]
    assert csv_fields(column.slice(1)).to_pylist() == as_csv[1:]
