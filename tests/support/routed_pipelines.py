"""Pipelines with `route-by`."""

from __future__ import annotations

from collections import Counter

import pytest

import bayou
from bayou.ingest.inspection import prove_offsets


@pytest.fixture
def routed(new_pipeline):
    """Return a function that creates a pipeline with lines below `route-by`."""

    def make(lines="", *, schema=None, evolves=True, more="", destination=""):
        pipeline = new_pipeline()
        pipeline.evolves = evolves
        return configured(pipeline, lines, schema=schema, more=more, destination=destination)

    return make


def configured(pipeline, lines="", *, schema=None, more="", destination=""):
    lines = lines or TEMPLATE
    indented = "".join(f"          {line}\n" for line in lines.strip().splitlines())
    below = "".join(f"        {line}\n" for line in destination.strip().splitlines())
    pipeline.more = ""
    pipeline.write_file()
    text = pipeline.file.read_text()
    head, separator, rest = text.partition("        table-path: lake/events\n")
    text = f"{head}{separator}        route-by:\n{indented}{below}{rest}{more}"
    if schema is None:
        text = text.replace("      schema-file: schema.json\n", "")
    else:
        pipeline.write_schema(schema)
    pipeline.file.write_text(text)
    return pipeline


TEMPLATE = """
expression: kind
table-path: "lake/events_{value}"
"""


def routed_table(pipeline, name):
    return bayou.table(str(pipeline.folder / "lake" / name))


def ids(pipeline, name="events"):
    """The `id`s of a table's rows, sorted."""
    return sorted(routed_table(pipeline, name).to_arrow(columns=["id"])["id"].to_pylist())


def tables(pipeline):
    """The names of all tables of the pipeline."""
    found = (pipeline.folder / "lake").glob("*/_delta_log")
    return sorted(path.parent.name for path in found)


def offsets(pipeline):
    """Number of rows and dead letters of each (partition, offset), over all tables."""
    seen = Counter()
    for name in tables(pipeline):
        prefix = "" if name.endswith("_dead_letters") else "_kafka_"
        columns = [f"{prefix}partition", f"{prefix}offset"]
        for row in routed_table(pipeline, name).to_arrow(columns=columns).to_pylist():
            seen[tuple(row.values())] += 1
    return seen


def reasons(pipeline):
    return sorted(pipeline.dead_letters.to_arrow()["reason"].to_pylist())


def proof(pipeline):
    return prove_offsets(pipeline.configuration, pipeline.topic)
