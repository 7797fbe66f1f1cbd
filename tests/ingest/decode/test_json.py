"""Decoding: every record is a row or has a reason, on the fast path as on the slow one."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayou.ingest.decode import DecodePlan, JsonDecoder, record_columns
from bayou.ingest.decode.columns import ColumnReader, NotColumnarError
from bayou.protocol.schema import FLOAT, DecimalType, StructField, StructType
from support.examples import examples

SCHEMA = json.dumps(
    {
        "type": "object",
        "required": ["id"],
        "properties": {
            "id": {"type": "integer"},
            "price": {"type": ["number", "null"]},
            "at": {"type": "string", "format": "date-time"},
            "on": {"type": "string", "format": "date"},
            "kind": {"enum": ["a", "b"]},
            "place": {
                "type": "object",
                "properties": {
                    "city": {"type": "string"},
                    "seen": {"type": "array", "items": {"type": "string", "format": "date-time"}},
                },
            },
        },
    }
)
COLUMNS = record_columns(SCHEMA)


def decoder(*, schema=SCHEMA, columns=COLUMNS, discover=False, reserved=frozenset()):
    return JsonDecoder(
        DecodePlan(columns=columns, json_schema=schema, discover=discover, reserved=reserved)
    )


def decode(values, **plan):
    return decoder(**plan).decode(pa.array(values, pa.binary()))


def reasons(values, **plan):
    decoded = decode(values, **plan)
    pairs = zip(decoded.bad_positions.to_pylist(), decoded.reasons.to_pylist(), strict=True)
    return dict(pairs)


def good(number):
    return json.dumps({"id": number, "at": "2024-01-05T10:00:00Z"}).encode()


def test_values_arrive_in_their_columns():
    record = {
        "id": 7,
        "price": 2,
        "at": "2024-01-05T10:00:00.123456+02:00",
        "on": "2024-01-05",
        "kind": "b",
        "place": {"city": "Houma", "seen": ["2024-01-05T10:00:00Z"]},
    }
    (row,) = decode([json.dumps(record).encode()]).columns.to_pylist()
    assert row["id"] == 7
    assert row["price"] == 2.0
    assert row["at"] == dt.datetime(2024, 1, 5, 8, 0, 0, 123456, dt.UTC)
    assert row["on"] == dt.date(2024, 1, 5)
    assert row["place"]["seen"] == [dt.datetime(2024, 1, 5, 10, tzinfo=dt.UTC)]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "no value"),
        (b"", "not valid JSON"),
        (b"{nope", "not valid JSON"),
        (b'{"id": 1} {"id": 2}', "not valid JSON"),
        (b'{"id": 1', "not valid JSON"),
        (b'{"id": NaN}', "not valid JSON"),
        (b'{"id": 1, "kind": "\xff"}', "not valid JSON"),
        (b"[1]", "not a JSON object"),
        (b'"text"', "not a JSON object"),
        (b"{}", "required"),
        (b'{"id": "1"}', "field 'id'"),
        (b'{"id": 1.5}', "field 'id'"),
        (b'{"id": true}', "field 'id'"),
        (b'{"id": 9223372036854775808}', "doesn't fit its type long"),
        (b'{"id": 1, "at": "yesterday"}', "date-time"),
        (b'{"id": 1, "at": null}', "field 'at'"),
        (b'{"id": 1, "on": "2024-02-30"}', '"date"'),
        (b'{"id": 1, "on": "0000-01-01"}', "0000-01-01"),
        (b'{"id": 1, "at": "0000-12-31T23:00:00-05:00"}', "field 'at'"),
        (b'{"id": 1, "at": "0001-01-01T00:00:00+01:00"}', "field 'at'"),
        (b'{"id": 1, "at": "9999-12-31T23:00:00-01:00"}', "field 'at'"),
        (b'{"id": 1, "place": {"seen": ["9999-12-31T23:00:00-01:00"]}}', "doesn't fit its type"),
        (b'{"id": 1, "price": ' + b"9" * 400 + b"}", "field 'price'"),
        (b'{"id": 1, "kind": "c"}', "field 'kind'"),
        (b'{"id": 1, "surprise": 5}', "unknown field 'surprise'"),
        (b'{"id": 1, "place": {"state": "LA"}}', "unknown field 'place.state'"),
        (b'{"id": 1, "x": ' + b"[" * 5_000_000 + b"]" * 5_000_000 + b"}", "nested too deeply"),
        (b'{"id": 1, "x": ' + b'{"y": ' * 1_000_000, "nested too deeply"),
    ],
)
def test_a_bad_record_is_refused_with_a_reason_and_no_other(value, reason):
    values = [good(n) for n in range(100)]
    values[42] = value
    decoded = decode(values)
    assert decoded.bad_positions.to_pylist() == [42]
    assert reason in decoded.reasons[0].as_py()
    assert sorted(decoded.positions.to_pylist()) == [n for n in range(100) if n != 42]
    ids = dict(zip(decoded.positions.to_pylist(), decoded.columns["id"].to_pylist(), strict=True))
    assert all(position == number for position, number in ids.items())


@pytest.mark.parametrize(
    "value",
    [
        b'{"id": 5.0}',
        b' {"id": 5} ',
        b'{\n  "id": 5\n}',
        b'{"id": 5, "id": 5}',
        b'{"id": 5, "surprise": null}',
        b'{"id": 5, "price": null}',
    ],
)
def test_unusual_records_that_are_fine_become_rows(value):
    values = [good(n) for n in range(100)]
    values[5] = value
    decoded = decode(values)
    assert len(decoded.bad_positions) == 0
    assert sorted(decoded.columns["id"].to_pylist()) == list(range(100))


def test_records_that_lean_on_their_neighbours_are_not_joined_with_them():
    values = [b'{"id": 1', b', "price": 2}', b'{"id": 3}{"id": 4}', b'{"id": 5}']
    decoded = decode(values)
    assert decoded.bad_positions.to_pylist() == [0, 1, 2]
    assert decoded.columns["id"].to_pylist() == [5]


def test_without_a_schema_unknown_fields_come_back_with_their_types():
    values = [
        b'{"a": 1, "b": "2024-01-05T10:00:00Z", "e": null, "f": []}',
        b'{"a": 1.5, "c": {"d": [true]}}',
    ]
    decoded = decode(values, schema=None, columns=StructType(), discover=True)
    assert str(decoded.new_fields) == "struct<a:double,b:string,c:struct<d:array<boolean>>>"
    assert len(decoded.bad_positions) == 0


def test_a_name_that_is_taken_is_refused_even_when_new_fields_are_welcome():
    bad = reasons([good(1), b'{"id": 2, "ID": 3}'], discover=True, reserved=frozenset({"id"}))
    assert list(bad) == [1]
    assert "'ID'" in bad[1]


def test_json_text_columns_keep_the_value():
    schema = json.dumps({"properties": {"any": {}, "n": {"type": "integer"}}})
    decoded = decode(
        [b'{"any": {"a": [1, "x"]}, "n": 1}', b'{"any": "text", "n": "x"}', b'{"any": 5}'],
        schema=schema,
        columns=record_columns(schema),
    )
    assert decoded.columns["any"].to_pylist() == ['{"a":[1,"x"]}', "5"]
    assert decoded.bad_positions.to_pylist() == [1]


_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.sampled_from(["2024-01-05T10:00:00Z", "2024-01-05", "2024-01-05 10:00:00", "a", "b"]),
    st.sampled_from(["0000-01-01", "9999-12-31T23:00:00-05:00", 10**400]),
)
_values = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.dictionaries(st.sampled_from(["city", "seen", "other"]), inner, max_size=2),
    ),
    max_leaves=4,
)
_records = st.dictionaries(
    st.sampled_from(["id", "price", "at", "on", "kind", "place", "new"]), _values, max_size=4
).map(lambda record: json.dumps(record).encode())
_plausible = st.fixed_dictionaries(
    {"id": st.integers(0, 9)},
    optional={
        "price": st.one_of(st.none(), st.integers(0, 5), st.floats(0, 1)),
        "at": st.datetimes().map(lambda moment: moment.isoformat() + "+01:00"),
        "place": st.fixed_dictionaries({}, optional={"city": st.text(max_size=3)}),
    },
).map(lambda record: json.dumps(record).encode())
_broken = st.one_of(st.none(), st.binary(max_size=6), _records.map(lambda value: value[:-1]))


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.one_of(_plausible, _plausible, _records, _broken), max_size=80),
    st.booleans(),
)
def test_a_batch_gives_what_its_records_give_one_by_one(values, with_schema):
    decode_all = decoder(schema=SCHEMA if with_schema else None)
    whole = decode_all.decode(pa.array(values, pa.binary()))
    positions, refused = whole.positions.to_pylist(), whole.bad_positions.to_pylist()
    assert sorted(positions + refused) == list(range(len(values)))
    rows = dict(zip(positions, whole.columns.to_pylist(), strict=True))
    why = dict(zip(refused, whole.reasons.to_pylist(), strict=True))
    slow = decoder(schema=SCHEMA if with_schema else None)
    slow._reader.usable = False
    alone = slow.decode(pa.array(values, pa.binary()))
    alone_rows = dict(zip(alone.positions.to_pylist(), alone.columns.to_pylist(), strict=True))
    assert rows == alone_rows
    assert why == dict(zip(alone.bad_positions.to_pylist(), alone.reasons.to_pylist(), strict=True))


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.one_of(_plausible, _records, _broken), max_size=60))
def test_inferred_columns_take_the_records_that_they_were_inferred_from(values):
    array = pa.array(values, pa.binary())
    found = decoder(schema=None, columns=StructType(), discover=True).decode(array)
    again = decoder(schema=None, columns=found.new_fields, discover=True).decode(array)
    assert not again.new_fields.fields
    assert len(again.positions) + len(again.bad_positions) == len(values)
    assert set(again.positions.to_pylist()) <= set(found.positions.to_pylist())


@pytest.mark.parametrize("number", [b"9" * 400 + b".5", b"1000e308"])
def test_a_number_beyond_the_range_of_doubles_refuses_only_its_record(number):
    values = [good(1), b'{"id": 1, "price": ' + number + b"}", good(2)]
    assert decode(values).bad_positions.to_pylist() == [1]


def test_an_array_of_nulls_after_a_null_object_is_decoded():
    """Arrow's reader returns an invalid array for it."""
    values = [b'{"f": null}', b'{"f": {"a": true, "b": [null, null]}}']
    found = decode(values, schema=None, columns=StructType(), discover=True)
    assert str(found.new_fields) == "struct<f:struct<a:boolean>>"
    assert len(found.bad_positions) == 0


NESTED = json.dumps(
    {
        "properties": {
            "id": {"type": "integer"},
            "place": {"type": "object", "properties": {"city": {"type": "string"}}},
            "lines": {
                "type": "array",
                "items": {"type": "object", "properties": {"sku": {"type": "string"}}},
            },
        }
    }
)
_NEW_INSIDE = [
    (b'{"place": {"city": "Houma", "state": "LA"}}', "place", "struct<state:string>"),
    (b'{"lines": [{"sku": "a"}, {"price": 1.5}]}', "lines", "array<struct<price:double>>"),
]


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize(("value", "name", "partial"), _NEW_INSIDE)
def test_new_fields_inside_of_known_ones_come_back_in_a_column_of_their_own(
    fast, value, name, partial
):
    nested = decoder(schema=NESTED, columns=record_columns(NESTED), discover=True)
    nested._reader.usable = fast
    decoded = nested.decode(pa.array([value], pa.binary()))
    assert len(decoded.bad_positions) == 0
    (field,) = decoded.new_fields
    assert (field.name, str(field.data_type)) == (name, partial)


@pytest.mark.parametrize("new", [b'"new": 1', b'"place": {"new": 1}'])
@pytest.mark.parametrize(
    "invalid",
    [b'"id": null', b'"id": 1, "at": "yesterday"', b'"id": 1, "price": 1e400', b'"id": 1, "ID": 2'],
)
def test_a_refused_record_adds_no_column_beside_records_that_add_one(invalid, new):
    values = [good(n) for n in range(100)]
    values[42] = b"{" + invalid + b", " + new + b"}"
    values[50] = b'{"id": 50, "place": {"state": "LA"}}'
    decoded = decode(values, discover=True, reserved=frozenset({"id"}))
    assert str(decoded.new_fields) == "struct<place:struct<state:string>>"
    assert decoded.bad_positions.to_pylist() == [42]


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.one_of(_plausible, _plausible, _records, _broken), max_size=80),
    st.booleans(),
)
def test_new_fields_do_not_depend_on_the_path(values, with_schema):
    settings = {"schema": SCHEMA if with_schema else None, "discover": True}
    reserved = frozenset({"other", "place.other"})
    fast, slow = (decoder(**settings, reserved=reserved) for _ in range(2))
    slow._reader.usable = False
    array = pa.array(values, pa.binary())
    whole, alone = fast.decode(array), slow.decode(array)
    assert {f.name: f for f in whole.new_fields} == {f.name: f for f in alone.new_fields}
    assert sorted(whole.bad_positions.to_pylist()) == sorted(alone.bad_positions.to_pylist())


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize(
    ("value", "path"),
    [
        (b'{"place": {"state": "LA"}}', "place.state"),
        (b'{"lines": [{"sku": "a", "price": 1.5}]}', "lines[].price"),
    ],
)
def test_a_new_field_inside_of_a_known_one_is_never_dropped(fast, value, path):
    for discover, reserved in ((False, frozenset()), (True, frozenset({path}))):
        nested = decoder(
            schema=NESTED, columns=record_columns(NESTED), discover=discover, reserved=reserved
        )
        nested._reader.usable = fast
        decoded = nested.decode(pa.array([b'{"id": 1}', value], pa.binary()))
        assert decoded.bad_positions.to_pylist() == [1]
        assert f"'{path}'" in decoded.reasons[0].as_py()
        assert not decoded.new_fields.fields


def test_a_nested_field_without_a_value_is_no_new_field():
    values = [b'{"place": {"state": null, "more": {}}}', b'{"lines": [{"tags": []}]}']
    decoded = decode(values, schema=NESTED, columns=record_columns(NESTED))
    assert len(decoded.bad_positions) == 0
    assert len(decoded.positions) == 2


def test_a_number_beyond_all_floats_does_not_become_infinite():
    columns = StructType((StructField(name="f", data_type=FLOAT),))
    plan = DecodePlan(columns=columns, json_schema=None, discover=False)
    largest = 3.4028234663852886e38
    values = [b'{"f": 1e39}', b'{"f": -3.5e38}', json.dumps({"f": largest}).encode()]
    decoded = JsonDecoder(plan).decode(pa.array(values, pa.binary()))
    assert decoded.columns["f"].to_pylist() == [largest]
    assert decoded.reasons.to_pylist() == [
        "field 'f': 1e39 doesn't fit its type float",
        "field 'f': -3.5e38 doesn't fit its type float",
    ]


@pytest.mark.parametrize("digits", [28, 29, 38])
def test_decimals_of_all_digits_that_a_column_has_are_taken(digits):
    columns = StructType((StructField(name="n", data_type=DecimalType(precision=digits, scale=2)),))
    plan = DecodePlan(columns=columns, json_schema=None, discover=False)
    text = "9" * (digits - 2) + ".99"
    values = [json.dumps({"n": n}).encode() for n in (text, f"-{text}", f"9{text}")]
    decoded = JsonDecoder(plan).decode(pa.array(values, pa.binary()))
    assert decoded.columns["n"].to_pylist() == [Decimal(text), Decimal(f"-{text}")]
    assert decoded.bad_positions.to_pylist() == [2]


@pytest.mark.parametrize("text", ["1_0", "\u0661\u0660", "", "ten"])
def test_a_string_that_is_no_number_in_other_languages_is_no_decimal(text):
    columns = StructType((StructField(name="n", data_type=DecimalType(precision=9, scale=2)),))
    plan = DecodePlan(columns=columns, json_schema=None, discover=False)
    decoded = JsonDecoder(plan).decode(pa.array([json.dumps({"n": text}).encode()], pa.binary()))
    assert decoded.bad_positions.to_pylist() == [0]


@pytest.mark.parametrize("fast", [True, False])
def test_fields_that_are_discovered_in_spite_of_ignore_are_reported_together(fast):
    plan = DecodePlan(
        columns=COLUMNS,
        json_schema=None,
        discover=False,
        ignore=True,
        inputs=frozenset({"place", "taken"}),
    )
    json_decoder = JsonDecoder(plan)
    json_decoder._reader.usable = fast
    values = [b'{"id": 1, "place": {"state": "LA"}, "taken": "x", "color": "red"}']
    decoded = json_decoder.decode(pa.array(values, pa.binary()))
    assert [field.name for field in decoded.new_fields] == ["place", "taken"]


def with_ids(count, inside):
    """Records that each have twenty names that no other record has."""

    def value(number):
        ids = {f"user{number}_{n}": n for n in range(20)}
        fields = {"record": ids, "object": {"place": ids}, "array": {"scores": [ids]}}[inside]
        return json.dumps({"id": number, **fields}).encode()

    return pa.array([value(number) for number in range(count)], pa.binary())


@pytest.mark.parametrize("inside", ["record", "object", "array"])
@pytest.mark.parametrize("policy", [{"ignore": True}, {"discover": True, "max_new_fields": 9}, {}])
def test_records_with_many_different_names_are_rows_or_refused(inside, policy):
    plan = DecodePlan(columns=COLUMNS, json_schema=None, **{"discover": False, **policy})
    found = JsonDecoder(plan).decode(with_ids(1_500, inside))
    if "ignore" in policy:
        assert found.positions.to_pylist() == list(range(1_500))
        assert len(found.ignored) == (1 if inside == "array" else 30_000)
    else:
        assert len(found.bad_positions) == 1_500


@pytest.mark.parametrize("inside", ["record", "object", "array"])
def test_a_block_with_many_different_names_is_too_large_for_columns(inside):
    reader = ColumnReader(COLUMNS)
    reader.check_names(with_ids(300, inside))
    with pytest.raises(NotColumnarError):  # 30,000 columns with 1,500 values each
        reader.check_names(with_ids(1_500, inside))


def test_a_block_whose_records_have_the_same_unknown_names_is_read_as_columns():
    new = {f"new{n}": n for n in range(300)} | {f"null{n}": None for n in range(300)}
    record = json.dumps({"id": 1, "place": {"more": new}, **new}).encode()
    ColumnReader(COLUMNS).check_names(pa.array([record] * 2_000, pa.binary()))
