from __future__ import annotations

import contextlib
import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayou.protocol import variant
from bayou.protocol.variant import VariantError
from bayou.protocol.variant_json import from_json, to_json

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(10**37), 10**37)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=80)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), inner)
    ),
    max_leaves=20,
)


def back(text: str) -> str:
    return to_json(*from_json(text))


@given(VALUES)
def test_what_json_can_say_comes_back(value):
    assert json.loads(back(json.dumps(value))) == value


def test_numbers_are_whole_decimal_or_double():
    header = {text: from_json(text)[1][0] >> 2 for text in ("1", "300", "1.5", "1e0", "1E400")}
    assert header == {"1": 3, "300": 4, "1.5": 8, "1e0": 7, "1E400": 7}
    assert from_json("9223372036854775808")[1][0] >> 2 == 10  # more than 64 bits
    assert from_json("1" * 39)[1][0] >> 2 == 7  # more digits than a decimal has
    assert json.loads(back("0." + "0" * 37 + "1"), parse_float=Decimal) == Decimal("1e-38")


def test_an_object_of_more_fields_than_a_byte_counts_comes_back():
    value = {f"field {i}": [i] * (i % 300) for i in range(300)}
    assert json.loads(back(json.dumps(value))) == value


def test_keys_are_sorted_and_named_once_in_the_metadata():
    metadata, _ = from_json('{"b": {"a": 1}, "a": [{"b": 2}]}')
    assert variant.field_ids(metadata) == {"b": 0, "a": 1}
    assert back('{"b": {"a": 1}, "a": [{"b": 2}]}') == '{"a":[{"b":2}],"b":{"a":1}}'


@pytest.mark.parametrize(
    "text", ["", "{", "nul", '{"a": 1, "a": 2}', "NaN", "Infinity", "[" * 100_000]
)
def test_a_text_that_is_no_json_is_refused(text):
    with pytest.raises(VariantError, match="isn't JSON"):
        from_json(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (variant.number("date", 19_723), '"2024-01-01"'),
        (variant.number("timestamp", 1_500_000), '"1970-01-01 00:00:01.5+00:00"'),
        (variant.number("timestamp_ntz", -1), '"1969-12-31 23:59:59.999999"'),
        (variant.number("timestamp_nanos", 1), '"1970-01-01 00:00:00.000000001+00:00"'),
        (variant.number("time", 3_600_000_001), '"01:00:00.000001"'),
        (variant.number("float", 0.5), "0.5"),
        (variant.number("double", float("nan")), '"NaN"'),
        (variant.number("double", float("-inf")), '"-Infinity"'),
        (variant.binary(b"\x00\xff"), '"AP8="'),
        (variant.uuid(bytes(range(16))), '"00010203-0405-0607-0809-0a0b0c0d0e0f"'),
        (variant.decimal(-150, 2), "-1.5"),
        (variant.decimal(100, 0), "100"),
        (variant.string("x" * 100), f'"{"x" * 100}"'),
    ],
)
def test_what_json_has_no_type_for_is_a_string(value, text):
    assert to_json(variant.metadata([]), value) == text


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_bytes_that_are_no_variant_are_an_error_or_a_text(metadata, value):
    with contextlib.suppress(VariantError):
        assert isinstance(to_json(metadata, value), str)
