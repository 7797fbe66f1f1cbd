"""Pipelines with derived columns, a filter and dropped fields."""

from __future__ import annotations

import datetime as dt

import pytest

from bayou.ingest.inspection import prove_offsets

EVENTS = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "event_type": {"type": "string"},
        "event_time": {"type": "string", "format": "date-time"},
        "amount": {"type": "string"},
    },
}


@pytest.fixture
def processed(new_pipeline):
    """Return a function that creates a pipeline with lines below `processing`."""

    def make(lines, *, schema=EVENTS, evolves=False, upserts=False, destination=""):
        pipeline = new_pipeline(upserts=upserts)
        pipeline.evolves = evolves
        return configured(pipeline, lines, schema=schema, destination=destination)

    return make


def configured(pipeline, lines, *, schema=EVENTS, destination=""):
    indented = "".join(f"        {line}\n" for line in lines.strip().splitlines())
    pipeline.more = f"{destination}      processing:\n{indented}"
    pipeline.write_file()
    if schema is None:
        text = pipeline.file.read_text().replace("      schema-file: schema.json\n", "")
        pipeline.file.write_text(text)
    else:
        pipeline.write_schema(schema)
    return pipeline


def event(number, kind="click", **more):
    at = f"2026-01-05T10:{number % 60:02}:00Z"
    return {"id": number, "event_type": kind, "event_time": at, **more}


def rows(pipeline, *names):
    found = pipeline.table.to_arrow(columns=list(names)).to_pylist()
    return sorted((tuple(r[n] for n in names) for r in found), key=str)


def reasons(pipeline):
    return sorted(pipeline.dead_letters.to_arrow()["reason"].to_pylist())


HOURS = """
columns: {hour: "date_trunc('HOUR', event_time)"}
where: "event_type <> 'heartbeat'"
drop: [event_time]
"""
TEN = dt.datetime(2026, 1, 5, 10, tzinfo=dt.UTC)


def proof(pipeline):
    return prove_offsets(pipeline.configuration, pipeline.topic)
