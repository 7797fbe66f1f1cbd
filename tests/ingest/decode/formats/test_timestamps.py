"""Fields that are timestamps in a form of their own."""

from __future__ import annotations

import datetime as dt
import json

import pytest

from bayou.errors import ConfigurationError
from bayou.ingest import TopicTable, load_configuration
from bayou.ingest.decode import DecodePlan
from bayou.ingest.decode.formats import RecordDecoder, RecordFormat
from bayou.ingest.decode.formats.timestamps import converted, schema_without
from bayou.ingest.topic_table.direct_writer import record_batch
from bayou.ingest.upsert import ChangeReader, UpsertKeys
from bayou.protocol.schema import LONG, TIMESTAMP, StructField, StructType

AT = dt.datetime(2024, 1, 5, 10, 0, 0, tzinfo=dt.UTC)


def table(folder, formats, topic="", destination=""):
    upsert = str(bool(destination)).lower()
    (folder / "p.yaml").write_text(
        f"""
connector:
  topics:
    t:
      kafka-topic: t
      event-time: at
      timestamp-formats: {formats}
{topic}
      destination:
        table-path: t
        partition-columns: [day]
{destination}
        delta-config: {{enable-schema-evolution: true, enable-upsert: {upsert}}}
"""
    )
    return TopicTable(load_configuration(folder / "p.yaml", environment={}), "t")


@pytest.mark.parametrize(
    ("form", "value", "expected"),
    [
        ("epoch-s", 1704448800, AT),
        ("epoch-s", 1704448800.25, AT + dt.timedelta(milliseconds=250)),
        ("epoch-ms", 1704448800000, AT),
        ("epoch-ms", "1704448800000", AT),
        ("epoch-us", -1, dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC)),
        ("iso", "2024-01-05 11:00:00+01:00", AT),
        ("iso", "2024-01-05T10:00", AT),
        ("%d.%m.%Y %H:%M", "05.01.2024 10:00", AT),
        ("%Y%m%dT%H%M%S%z", "20240105T120000+0200", AT),
    ],
)
def test_a_value_of_its_format_is_a_moment(form, value, expected):
    found = converted({"at": value, "n": 1}, {"at": form, "other": "iso"})
    assert (found["at"], found["at"].tzinfo) == (expected, dt.UTC)
    assert found["n"] == 1


@pytest.mark.parametrize(
    ("form", "value"),
    [
        *(("epoch-ms", v) for v in (True, "x", [], "NaN", 10**20, "1e9999999", "1e999996", "1_0")),
        *(("iso", v) for v in (1, "soon")),
        ("%d.%m.%Y", "2024-01-05"),
    ],
)
def test_a_value_of_another_format_is_told(form, value):
    with pytest.raises(ValueError, match=f"isn't a timestamp of the format {form}"):
        converted({"at": value}, {"at": form})


def test_a_schema_says_nothing_of_values_that_a_format_describes():
    place = {"properties": {"at": {"type": "integer"}, "n": {"type": "integer"}}}
    schema = {"properties": {"at": {"type": "integer"}, "place": place}}
    found = json.loads(schema_without(json.dumps(schema), {"at": "iso", "place.at": "iso"}))
    assert found["properties"]["at"] == found["properties"]["place"]["properties"]["at"] == {}
    assert found["properties"]["place"]["properties"]["n"] == {"type": "integer"}


@pytest.mark.parametrize("schema", [None, {"at": {"type": "integer"}, "n": {"type": "integer"}}])
def test_the_event_time_may_be_a_number(tmp_path, schema):
    topic = ""
    if schema is not None:
        (tmp_path / "s.json").write_text(json.dumps({"properties": schema}))
        topic = "      schema-file: s.json"
    found = table(tmp_path, "{at: epoch-ms}", topic)
    report = found.write([{"at": 1704448800000, "n": 1}, {"n": 2}, {"at": "soon", "n": 3}])
    assert (report.rows, report.dead_letters) == (2, 1)
    first, second = sorted(found.read().to_pylist(), key=lambda row: row["n"])
    assert (first["at"], first["day"], second["at"]) == (AT, "05", None)
    assert found.write([{"at": 0, "more": {"a": 1}}]).new_columns == ("more",)


def test_lines_of_csv_and_flattened_fields_have_timestamps_too(tmp_path):
    (tmp_path / "s.json").write_text('{"properties": {"at": {"type": "string"}, "n": {}}}')
    topic = "      schema-file: s.json\n      decode: csv"
    assert table(tmp_path, "{at: '%d.%m.%Y'}", topic).write([{"at": "05.01.2024"}]).rows == 1
    (tmp_path / "flat").mkdir()
    nested = table(tmp_path / "flat", "{at: iso, place.at: epoch-s}", '      flatten: "_"')
    nested.write([{"at": "2024-01-05T10:00", "place": {"at": 1704448800}}])
    (row,) = nested.read().to_pylist()
    assert (row["at"], row["place_at"]) == (AT, AT)


def test_an_ordering_column_in_milliseconds_decides(tmp_path):
    keys = "        key-columns: [id]\n        ordering-column: at"
    found = table(tmp_path, "{at: epoch-ms}", destination=keys)
    found.write([{"id": 1, "at": 1704448800000, "n": 1}])
    found.write([{"id": 1, "at": 1704448799999, "n": 2}, {"id": 2, "at": 0, "n": 3}])
    assert {row["id"]: row["n"] for row in found.read().to_pylist()} == {1: 1, 2: 3}


def test_a_delete_of_debezium_has_its_order_in_milliseconds():
    columns = StructType(
        (StructField(name="id", data_type=LONG), StructField(name="at", data_type=TIMESTAMP))
    )
    plan = DecodePlan(columns=columns, json_schema=None, discover=False)
    decoder = RecordDecoder(RecordFormat(timestamps={"at": "epoch-ms"}), plan)
    keys = UpsertKeys(columns=("id",), ordering="at")
    reader = ChangeReader(
        decoder, columns, keys, decode=lambda values, _: decoder.decode(values), debezium=True
    )
    before = {"id": 1, "at": 1704448800000}
    values = [{"op": "c", "after": before}, {"op": "d", "before": before}]
    values.append({"op": "d", "before": {"id": 1, "at": "soon"}})
    source = record_batch(
        "t", [json.dumps(v).encode() for v in values], partition=0, first=0, timestamps=[0] * 3
    )
    row, gone, bad = reader.read(source)
    assert row.decoded.columns["at"].to_pylist() == gone.decoded.columns["at"].to_pylist() == [AT]
    assert gone.deleted
    assert "isn't a timestamp" in bad.decoded.reasons[0].as_py()


@pytest.mark.parametrize(
    "form", ["epoch", "%Q", "yyyy-MM-dd", "%d.%m.%Y %d", "%H:%M", "%Y-%m-%d %H:%M %Z"]
)
def test_a_format_that_there_is_not_is_told_with_what_there_is(tmp_path, form):
    with pytest.raises(ConfigurationError, match="write epoch-s, epoch-ms, epoch-us, iso, or"):
        table(tmp_path, f"{{at: '{form}'}}")


def test_a_field_that_the_schema_file_lacks_is_told(tmp_path):
    (tmp_path / "s.json").write_text('{"properties": {"at": {"type": "integer"}}}')
    with pytest.raises(ConfigurationError, match="timestamp-formats: 'att' isn't a property"):
        table(tmp_path, "{att: iso}", "      schema-file: s.json").write([{"at": 1}])
