from __future__ import annotations

import contextlib
import json
import struct
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayou.protocol import variant
from bayou.protocol.variant import VariantError, from_json, to_json

NAMES = ["a", "b", "é", "zz"]


def metadata(names, width=1):
    """Metadata of version 1 with numbers of `width` bytes."""
    data = [name.encode() for name in names]
    ends = [sum(map(len, data[:i])) for i in range(len(data) + 1)]
    numbers = b"".join(n.to_bytes(width, "little") for n in [len(data), *ends])
    return bytes([1 | (width - 1) << 6]) + numbers + b"".join(data)


def decode(value, names):
    """A small decoder, after the specification and not after the code under test."""
    kind, head = value[0] & 3, value[0] >> 2
    if kind == 1:
        return value[1 : 1 + head].decode()
    if kind == 0:
        match head:
            case 0:
                return None
            case 1 | 2:
                return head == 1
            case 6:
                return struct.unpack("<q", value[1:9])[0]
            case 16:
                return value[5 : 5 + struct.unpack("<I", value[1:5])[0]].decode()
    is_large = head >> (4 if kind == 2 else 2) & 1
    width, id_width = (head & 3) + 1, (head >> 2 & 3) + 1 if kind == 2 else 0
    count_width = 4 if is_large else 1
    count = int.from_bytes(value[1 : 1 + count_width], "little")
    at = 1 + count_width
    ids = [
        int.from_bytes(value[at + i * id_width : at + (i + 1) * id_width], "little")
        for i in range(count)
    ]
    at += count * id_width
    ends = [
        int.from_bytes(value[at + i * width : at + (i + 1) * width], "little")
        for i in range(count + 1)
    ]
    at += (count + 1) * width
    items = [decode(value[at + ends[i] : at + ends[i + 1]], names) for i in range(count)]
    if kind == 3:
        return items
    found = [names[i] for i in ids]
    assert found == sorted(found, key=str.encode)
    return dict(zip(found, items, strict=True))


def encode(value, ids):
    match value:
        case None:
            return variant.NULL
        case bool():
            return variant.boolean(value)
        case int():
            return variant.number("int64", value)
        case str():
            return variant.string(value)
        case list():
            return variant.array([encode(v, ids) for v in value])
        case _:
            return variant.object_({k: encode(v, ids) for k, v in value.items()}, ids)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.text(max_size=5)
    | st.text(min_size=60, max_size=70),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES), inner),
    max_leaves=10,
)


@given(VALUES, st.integers(1, 4))
def test_objects_arrays_and_strings_are_read_as_they_were_written(value, width):
    ids = variant.field_ids(metadata(NAMES, width))
    assert list(ids) == NAMES
    assert decode(encode(value, ids), NAMES) == value


def test_arrays_and_objects_of_more_than_255_items_have_larger_counts():
    names = [f"n{i:03d}" for i in range(300)]
    ids = {name: i for i, name in enumerate(names)}
    value = {name: [i] * 300 for i, name in enumerate(names)}
    assert decode(encode(value, ids), names) == value


@given(st.dictionaries(st.sampled_from(NAMES), VALUES))
def test_an_object_comes_apart_into_its_fields(value):
    ids = {name: i for i, name in enumerate(NAMES)}
    fields = {name: encode(inner, ids) for name, inner in value.items()}
    assert variant.object_fields(variant.object_(fields, ids), ids) == fields


def test_fields_in_another_order_than_their_values_come_apart_too():
    # Two fields; the first's value stands behind the second's.
    value = bytes([2, 2, 0, 1, 2, 0, 4]) + b"\x0c\x05" + b"\x0c\x07"
    ids = {"a": 0, "b": 1}
    assert variant.object_fields(value, ids) == {"a": b"\x0c\x07", "b": b"\x0c\x05"}


@pytest.mark.parametrize(
    ("encoded", "expected"),
    [
        (variant.number("int8", -1), "0cff"),
        (variant.number("int16", 1), "100100"),
        (variant.number("int32", 1), "1401000000"),
        (variant.number("double", 1.0), "1c000000000000f03f"),
        (variant.decimal(-1, 2), "2002ffffffff"),
        (variant.decimal(10**9, 3), "240300ca9a3b00000000"),
        (variant.decimal(1, 12), "240c0100000000000000"),
        (variant.decimal(1 << 64, 0), "2800" + "00" * 8 + "01" + "00" * 7),
        (variant.integer(127), "0c7f"),
        (variant.integer(-128), "0c80"),
        (variant.integer(128), "108000"),
        (variant.integer(1 << 16), "1400000100"),
        (variant.integer(-1 << 63), "180000000000000080"),
        (variant.number("date", 1), "2c01000000"),
        (variant.number("timestamp", 1), "300100000000000000"),
        (variant.number("timestamp_ntz", 1), "340100000000000000"),
        (variant.number("float", 1.0), "380000803f"),
        (variant.binary(b"\x01"), "3c0100000001"),
        (variant.number("time", 1), "440100000000000000"),
        (variant.uuid(bytes(16)), "50" + "00" * 16),
    ],
)
def test_every_primitive_has_its_number_and_layout(encoded, expected):
    assert encoded.hex() == expected


@pytest.mark.parametrize(
    "data", [b"", b"\x02\x00\x00", b"\x01", b"\x01\x05\x00", b"\x01\x01\x00\x09a"]
)
def test_metadata_that_is_none_is_refused(data):
    with pytest.raises(VariantError, match="metadata|truncated"):
        variant.field_ids(data)


@given(st.binary(max_size=40))
def test_any_bytes_are_an_object_or_refused(data):
    with contextlib.suppress(VariantError):
        assert isinstance(variant.object_fields(data, {"a": 0, "b": 1}), dict)


def test_numbers_that_no_variant_holds_are_refused():
    with pytest.raises(VariantError, match="more than 64 bits"):
        variant.integer(1 << 63)
    with pytest.raises(VariantError, match="39 digits"):
        variant.decimal(10**38, 0)


def test_a_field_name_that_the_metadata_lacks_is_refused():
    with pytest.raises(VariantError, match="lacks the field name 'x'"):
        variant.object_({"x": variant.NULL}, {"a": 0})


JSON_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(10**37), 10**37)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=80)
)
JSON_VALUES = st.recursive(
    JSON_LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), inner)
    ),
    max_leaves=20,
)


def back(text: str) -> str:
    return to_json(*from_json(text))


@given(JSON_VALUES)
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
    "text", ["", "{", "nul", '{"a": 1, "a": 2}', "NaN", "Infinity", '"\\ud800"']
)
def test_a_text_that_is_no_json_is_refused(text):
    with pytest.raises(VariantError, match="isn't JSON"):
        from_json(text)


@pytest.mark.parametrize("depth", [600, 100_000])
def test_json_that_is_nested_too_deeply_is_refused(depth):
    with pytest.raises(VariantError, match="nested too deeply"):
        from_json("[" * depth + "]" * depth)


def test_a_variant_that_is_nested_too_deeply_is_refused():
    value = variant.NULL
    for _ in range(2000):
        value = variant.array([value])
    with pytest.raises(VariantError, match="nested too deeply"):
        to_json(variant.metadata([]), value)


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
