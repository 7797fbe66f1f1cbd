"""Rows of a target: the record, where it came from, and when."""

from __future__ import annotations

import datetime as dt
import json

import pyarrow as pa
import pytest

from bayou.ingest.batch.row_layout import RowLayout, record_field_columns
from bayou.ingest.decode import DecodePlan, JsonDecoder, record_columns

RECORD = record_columns(
    json.dumps(
        {
            "properties": {
                "id": {"type": "integer"},
                "at": {"type": "string", "format": "date-time"},
                "on": {"type": "string", "format": "date"},
            }
        }
    )
)
KAFKA_TIME = dt.datetime(2024, 3, 9, 23, 59, tzinfo=dt.UTC)


def rows(layout, values):
    count = len(values)
    source = pa.RecordBatch.from_pydict(
        {
            "value": pa.array(values, pa.binary()),
            "topic": ["t"] * count,
            "partition": pa.array([3] * count, pa.int32()),
            "offset": pa.array(range(10, 10 + count), pa.int64()),
            "timestamp": pa.array([KAFKA_TIME] * count, pa.timestamp("us", "UTC")),
        }
    )
    plan = DecodePlan(columns=layout.record, json_schema=None, discover=False)
    decoded = JsonDecoder(plan).decode(source.column("value"))
    return layout.rows(decoded, source, 1_700_000_000_000_000).to_pylist()


def test_rows_say_where_they_came_from():
    first, second = rows(RowLayout.of(RECORD, (), None), [b'{"id": 1}', b'{"id": 2}'])
    assert (first["_kafka_topic"], first["_kafka_partition"], first["_kafka_offset"]) == (
        "t",
        3,
        10,
    )
    assert second["_kafka_offset"] == 11
    assert first["_ingestion_timestamp"] == dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=dt.UTC)
    assert first["_processed_at"].tzinfo is not None
    assert "year" not in first


def test_rows_of_refused_records_leave_no_gap():
    values = [b'{"id": 1}', b"nope", b'{"id": 3}']
    made = rows(RowLayout.of(RECORD, (), None), values)
    assert {(row["id"], row["_kafka_offset"]) for row in made} == {(1, 10), (3, 12)}


@pytest.mark.parametrize(
    ("event_time", "record", "expected"),
    [
        (None, b'{"id": 1, "at": "2001-02-03T04:05:06Z"}', ("2024", "03", "09")),
        ("at", b'{"id": 1, "at": "2001-02-03T00:30:00+01:00"}', ("2001", "02", "02")),
        ("at", b'{"id": 1}', ("2024", "03", "09")),
        ("on", b'{"id": 1, "on": "1999-12-31"}', ("1999", "12", "31")),
    ],
)
def test_year_month_and_day_come_from_the_event_time_in_utc(event_time, record, expected):
    layout = RowLayout.of(RECORD, ("year", "month", "day"), event_time)
    (row,) = rows(layout, [record])
    assert (row["year"], row["month"], row["day"]) == expected


def test_a_field_of_the_record_goes_before_a_made_column():
    record = record_columns('{"properties": {"month": {"type": "integer"}}}')
    layout = RowLayout.of(record, ("year", "month"), None)
    assert layout.time_parts == ("year",)
    assert str(layout.schema.get("month").data_type) == "long"


def test_the_records_fields_are_found_again_in_a_tables_schema():
    for partition_columns in [(), ("year", "month"), ("id", "day")]:
        layout = RowLayout.of(RECORD, partition_columns, None)
        assert record_field_columns(layout.schema, partition_columns) == RECORD
