from __future__ import annotations

import pytest

from bayou.protocol.property_strings import column_paths, parse_interval

DAY = 86_400_000


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("interval 30 days", 30 * DAY),
        ("INTERVAL 1 WEEK 2 day", 9 * DAY),
        ("7 days", 7 * DAY),
        ("interval 1 hour 30 minutes 5 seconds 7 milliseconds", 5_405_007),
        ("interval 0 hours", 0),
        ("interval 1500 microseconds", 1),
    ],
)
def test_an_interval_is_milliseconds(text, milliseconds):
    assert parse_interval(text) == milliseconds


@pytest.mark.parametrize(
    "text", ["", "interval", "30", "interval 1 month", "interval -1 day", "interval 1 dayz", "soon"]
)
def test_what_isnt_an_interval_of_fixed_length_is_refused(text):
    with pytest.raises(ValueError, match=r"interval|length"):
        parse_interval(text)


def test_a_list_of_columns_may_be_quoted_and_nested():
    assert column_paths("a, s.b,`x.y`.`q``z` , `c d`") == (
        ("a",),
        ("s", "b"),
        ("x.y", "q`z"),
        ("c d",),
    )
    assert column_paths("") == ()


@pytest.mark.parametrize("text", ["a,,b", "`a", "a.", ","])
def test_a_list_of_columns_that_cant_be_read_is_refused(text):
    with pytest.raises(ValueError, match="column names"):
        column_paths(text)
