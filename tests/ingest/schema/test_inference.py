"""Schemas that are written from records."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from bayou.ingest.decode import DecodePlan, JsonDecoder, record_columns
from bayou.ingest.schema.inference import inferred_schema


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("2024-01-05", "date"),
        ("2024-01-05T10:00:00.5+01:00", "date-time"),
        ("0000-00-00", None),
        ("2024-02-31", None),
        ("2024-01-05T99:00:00Z", None),
        ("2024-01-05T24:00:00Z", None),
        ("2024-01-05T10:00:60Z", None),
        ("0001-01-01T00:00:00+01:00", None),
        ("2024-01-05t10:00:00z", None),
        ("\u0662\u0660\u0662\u0664-01-05", None),
    ],
)
def test_records_fit_the_schema_that_is_written_from_them(text, form):
    found = inferred_schema([{"at": text}], "events")
    assert found["properties"]["at"].get("format") == form
    schema = json.dumps(found)
    plan = DecodePlan(columns=record_columns(schema), json_schema=schema, discover=False)
    value = json.dumps({"at": text}).encode()
    assert JsonDecoder(plan).decode(pa.array([value])).reasons.to_pylist() == []
