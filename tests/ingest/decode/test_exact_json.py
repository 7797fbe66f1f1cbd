"""Numbers with more digits than a double has keep them, wherever a column can store them."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bayou
from bayou.ingest import TopicTable, load_configuration
from bayou.ingest.decode import DecodePlan, JsonDecoder
from bayou.ingest.decode.exact_json import decode_exact_json, encode_exact_json
from bayou.ingest.decode.json_schema import JSON_TEXT
from bayou.ingest.topic_table.direct_writer import DirectWriter, record_batch
from bayou.protocol.schema import (
    DOUBLE,
    FLOAT,
    LONG,
    STRING,
    ArrayType,
    DecimalType,
    StructField,
    StructType,
)
from support.examples import examples

LONG_NUMBER = "12345678901234567.89"


def column(kind, *values, metadata=None):
    """The values and the number of refused records of a column `a`."""
    field = StructField(name="a", data_type=kind, metadata=metadata or {})
    plan = DecodePlan(columns=StructType((field,)), json_schema=None, discover=False)
    records = [b'{"a": %s}' % value.encode() for value in values]
    decoded = JsonDecoder(plan).decode(pa.array(records, pa.binary()))
    return decoded.columns.column("a").to_pylist(), len(decoded.bad_positions)


def test_a_decimal_keeps_all_digits_of_a_number():
    kind = DecimalType(precision=38, scale=4)
    assert column(kind, LONG_NUMBER, "1.234567890123456789e18", "0.1") == (
        [Decimal(LONG_NUMBER), Decimal(1234567890123456789), Decimal("0.1")],
        0,
    )
    assert column(kind, "0.00010000000000000000001") == ([], 1)


def test_a_long_keeps_all_digits_of_a_number_with_a_fraction_or_an_exponent():
    assert column(LONG, "9007199254740993.0", "9.007199254740993e15", "1E2", "-0.0") == (
        [2**53 + 1, 2**53 + 1, 100, 0],
        0,
    )
    assert column(LONG, "9223372036854775807.0") == ([2**63 - 1], 0)
    assert column(LONG, "-9223372036854775809.0", "0.99999999999999999999", "1e300") == ([], 3)


@pytest.mark.parametrize("good", [[], ["1", "2.5", "1e300"] * 20])
@pytest.mark.parametrize("value", [2**53 + 1, -(2**53) - 1, 2**63 - 1, 2**64 + 1, 10**29 + 1])
def test_an_integer_that_a_double_would_round_is_refused(value, good):
    text = str(value)
    for kind, form in (
        (DOUBLE, "{}"),
        (ArrayType(element_type=DOUBLE), "[1, {}]"),
        (StructType((StructField(name="b", data_type=DOUBLE),)), '{{"b": {} }}'),
    ):
        wrapped = [form.format(number) for number in good]
        values, refused = column(kind, *wrapped, form.format(text))
        assert (len(values), refused) == (len(good), 1)


def test_a_double_takes_integers_that_print_as_it():
    # JavaScript writes 2**60 with zeros instead of the digits that the double doesn't need.
    values = ["9007199254740992", "1152921504606847000", "18446744073709551616", "-0", "1e16"]
    assert column(DOUBLE, *values) == ([2.0**53, 2.0**60, 2.0**64, 0.0, 1e16], 0)
    assert column(FLOAT, "16777216", "16777217", "16777218") == ([2.0**24, 2.0**24 + 2], 1)


def test_json_text_keeps_all_digits_of_a_number():
    values, refused = column(
        STRING, f'{{"price": [{LONG_NUMBER}]}}', "1E2", "1e400", metadata=JSON_TEXT
    )
    assert (values, refused) == ([f'{{"price":[{LONG_NUMBER}]}}', "100.0"], 1)


@settings(max_examples=examples(200))
@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**300), max_value=10**300))
def test_numbers_come_back_equal(number):
    text = str(number)
    assert Decimal(encode_exact_json(decode_exact_json(text)).decode()) == number


@settings(max_examples=examples(200))
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles_stay_doubles(number):
    decoded = decode_exact_json(repr(number))
    assert isinstance(decoded, float)
    assert repr(decoded) == repr(number)


def test_an_exponent_of_any_size_is_read():
    assert decode_exact_json("0e99999999999999999999") == 0
    assert decode_exact_json("1e-9999999999999999999999") == 0


def test_records_that_are_flattened_or_have_timestamps_keep_all_digits(tmp_path):
    (tmp_path / "schema.json").write_text(
        json.dumps(
            {
                "type": "object",
                "properties": {
                    "place": {"type": "object", "properties": {"id": {"type": "integer"}}},
                    "any": {},
                    "at": {},
                },
            }
        )
    )
    (tmp_path / "p.yaml").write_text(
        "connector:\n  topics:\n    events:\n      kafka-topic: events\n"
        "      schema-file: schema.json\n"
        "      flatten: _\n      timestamp-formats: {at: epoch-s}\n"
        "      destination:\n        table-path: events\n"
    )
    configuration = load_configuration(tmp_path / "p.yaml", environment={})
    table = TopicTable(configuration, "events")
    value = b'{"place": {"id": 9007199254740993.0}, "any": [%s], "at": 1700000000.12345678901}'
    records = record_batch(
        "events",
        [value % LONG_NUMBER.encode()],
        partition=0,
        first=0,
        timestamps=[0],
    )
    DirectWriter(configuration, table.topic, records_of_topic=True).write([records], {})
    (row,) = table.read(columns=["place_id", "any", "at"]).to_pylist()
    assert (row["place_id"], row["any"]) == (2**53 + 1, f"[{LONG_NUMBER}]")
    assert row["at"].microsecond == 123456


@pytest.mark.parametrize("debezium", [False, True])
def test_a_delete_finds_the_key_with_all_its_digits(tmp_path, debezium):
    (tmp_path / "schema.json").write_text(
        json.dumps({"type": "object", "properties": {"id": {"type": "integer"}}})
    )
    (tmp_path / "p.yaml").write_text(
        "connector:\n  topics:\n    events:\n      kafka-topic: events\n"
        "      schema-file: schema.json\n"
        f"      decode: {'debezium' if debezium else 'json'}\n"
        "      destination:\n        table-path: events\n        key-columns: [id]\n"
        "        delta-config: {enable-upsert: true}\n"
    )
    configuration = load_configuration(tmp_path / "p.yaml", environment={})
    table = TopicTable(configuration, "events")
    row = b'{"id": 9007199254740993.0}'
    neighbor = b'{"id": 9007199254740992}'
    if debezium:
        values = [b'{"op": "c", "after": %s}' % v for v in (row, neighbor)]
        values.append(b'{"op": "d", "before": %s}' % row)
    else:
        values = [row, neighbor, None]
    records = record_batch(
        "events", values, partition=0, first=0, timestamps=range(3), keys=[row, neighbor, row]
    )
    DirectWriter(configuration, table.topic, records_of_topic=True).write([records], {})
    assert table.read(columns=["id"])["id"].to_pylist() == [2**53]
    assert not bayou.table(f"{table.topic.table_path}_dead_letters").exists()


def test_a_migration_keeps_all_digits_of_records_with_metadata_columns(tmp_path):
    (tmp_path / "schema.json").write_text(
        json.dumps({"type": "object", "properties": {"id": {"type": "integer"}, "any": {}}})
    )
    (tmp_path / "p.yaml").write_text(
        "connector:\n  topics:\n    events:\n      kafka-topic: events\n"
        "      schema-file: schema.json\n      destination:\n        table-path: events\n"
    )
    table = TopicTable(load_configuration(tmp_path / "p.yaml", environment={}), "events")
    (tmp_path / "old.json").write_text(
        f'[{{"id": 9007199254740993.0, "any": {LONG_NUMBER}, "_processed_at": "x"}}]'
    )
    assert table.migrate(str(tmp_path / "old.json")).rows == 1
    (row,) = table.read(columns=["id", "any"]).to_pylist()
    assert (row["id"], row["any"]) == (2**53 + 1, LONG_NUMBER)


_ENCODES = re.compile(r"\b(?:msgspec\.json\.(?:encode|Encoder)|json\.dumps)\(")
_NOT_FROM_JSON = {
    "decode/exact_json.py": "the encoder itself",
    "decode/formats/decoder.py": "records of Avro and Protobuf, and strings",
    "decode/formats/registry_json.py": "a JSON Schema",
    "decode/formats/timestamps.py": "a JSON Schema",
    "migration/migrate.py": "offsets",
}


def test_records_that_were_json_are_encoded_again_only_without_changing_numbers():
    ingest = Path(bayou.__file__).parent / "ingest"
    found = {
        str(file.relative_to(ingest))
        for folder in ("batch", "dead_letters", "decode", "migration", "upsert")
        for file in (ingest / folder).rglob("*.py")
        if _ENCODES.search(file.read_text())
    }
    # properties and tags of commits
    others = {
        "batch/filter_history.py",
        "batch/target/target_checks.py",
        "batch/target/target_upserts.py",
    }
    assert found - others == _NOT_FROM_JSON.keys()
