"""Calendar fields and strings of dates of all years."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from bayou.errors import EvaluationError
from bayou.kernel.arrow.compute import pc
from bayou.kernel.expressions.calendar import (
    date_strings,
    in_arrow_years,
    timestamp_strings,
    year_of,
)
from bayou.kernel.expressions.evaluation import evaluate
from bayou.kernel.expressions.sql.parser import parse_expression

_ERA = 146_097
_NEAR = [dt.date(1970, 1, 1), dt.date(2000, 2, 29), dt.date(2024, 12, 31), dt.date(2369, 6, 5)]


def dates(era):
    days = [(date - _NEAR[0]).days + era * _ERA for date in _NEAR]
    return pa.array([*days, None], pa.int32()).cast(pa.date32())


@pytest.mark.parametrize("era", [0, 19, 20, 75, 76, 100, 10_000, -4, -5, -81, -82, -10_000])
def test_fields_and_strings_repeat_after_400_years(era):
    moved = dates(era)
    years = [date.year + 400 * era for date in _NEAR]
    assert year_of(moved).to_pylist() == [*years, None]
    for field in (pc.month, pc.day, pc.day_of_week, pc.day_of_year, pc.iso_week):
        assert field(in_arrow_years(moved)) == field(dates(0))
    signs = ["+" if year > 9999 else "-" if year < 0 else "" for year in years]
    strings = [
        f"{sign}{abs(year):04}{date.isoformat()[4:]}"
        for sign, year, date in zip(signs, years, _NEAR, strict=True)
    ]
    assert date_strings(moved).to_pylist() == [*strings, None]
    if abs(era) <= 100:
        micros = pc.add(pc.multiply(moved.cast(pa.int32()).cast(pa.int64()), 86_400_000_000), 1)
        text = timestamp_strings(micros.cast(pa.timestamp("us"))).to_pylist()
        assert text == [*(f"{string} 00:00:00.000001" for string in strings), None]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("year(timestamp_seconds(n))", 55981),
        ("month(timestamp_seconds(n))", 10),
        ("weekofyear(timestamp_seconds(n))", 44),
        ("CAST(timestamp_seconds(n) AS STRING)", "+55981-10-31 16:00:00"),
        ("CAST(CAST(timestamp_seconds(n) AS DATE) AS STRING)", "+55981-10-31"),
        ("date_format(timestamp_seconds(n), 'yyyy-MM-dd')", "+55981-10-31"),
        ("CAST(last_day(timestamp_seconds(n)) AS STRING)", "+55981-10-31"),
        ("CAST(add_months(timestamp_seconds(n), 1) AS STRING)", "+55981-11-30"),
        ("CAST(date_trunc('YEAR', timestamp_seconds(n)) AS STRING)", "+55981-01-01 00:00:00"),
        ("CAST(timestamp_seconds(n) + INTERVAL 2 MONTHS AS STRING)", "+55981-12-31 16:00:00"),
        ("CAST(DATE'9999-12-31' + INTERVAL 1 DAY AS STRING)", "+10000-01-01"),
        ("CASE WHEN n < 0 THEN add_months(DATE'2024-01-01', CAST(n / 852 AS INT)) END", None),
        ("n < 0 AND CAST(timestamp_seconds(n) AS INT) = 0", False),
    ],
)
def test_expressions_compute_with_dates_that_arrow_and_python_do_not_support(sql, expected):
    rows = pa.record_batch({"n": pa.array([1_704_448_800_000])})
    assert evaluate(parse_expression(sql), rows).to_pylist() == [expected]


def test_a_cast_that_fails_for_such_a_date_is_an_evaluation_error():
    rows = pa.record_batch({"n": pa.array([1_704_448_800_000])})
    with pytest.raises(EvaluationError, match="CAST"):
        evaluate(parse_expression("CAST(timestamp_seconds(n) AS INT)"), rows)
