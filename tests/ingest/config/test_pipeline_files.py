"""Files of the pipeline that a table's VACUUM, or the start of a run, would delete."""

from __future__ import annotations

import json

import pytest

from bayou.errors import ConfigurationError, PipelineError
from bayou.ingest.config import load_configuration


def load(folder, *, table="lake/events", more=""):
    file = folder / "pipeline.yaml"
    file.write_text(
        f"connector:\n  topics:\n    events:\n      kafka-topic: e\n"
        f"      destination: {{table-path: {json.dumps(str(table))}}}\n{more}"
    )
    return load_configuration(file, environment={})


@pytest.mark.parametrize(
    ("table", "more", "key"),
    [
        ("lake", "  migration: {enabled: true, json-path: {events: lake/old}}\n", "json-path"),
        ("json", "  migration: {enabled: true}\n", "json-path"),
        ("lake", "  state-path: lake/state\n", "state-path"),
        (".", "", "pipeline.yaml: "),
        ("lake/link", "  migration: {enabled: true, json-path: {events: lake/old}}\n", "json-path"),
        (
            "s3://b/lake",
            "  migration: {enabled: true, json-path: {events: 's3a://b//lake/old'}}\n",
            "json-path",
        ),
    ],
)
def test_what_the_pipeline_reads_cannot_lie_in_a_table(tmp_path, table, more, key):
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "link").symlink_to(tmp_path / "lake")
    with pytest.raises(ConfigurationError, match="VACUUM of this table would delete it") as caught:
        load(tmp_path, table=table, more=more)
    assert key in caught.value.message


def test_a_schema_file_cannot_lie_in_a_table(tmp_path):
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "schema.json").write_text('{"properties": {"id": {"type": "integer"}}}')
    with pytest.raises(ConfigurationError, match="VACUUM of this table would delete it") as caught:
        load(tmp_path, table="lake", more="      schema-file: lake/schema.json\n")
    assert caught.value.key == "connector.topics.events.schema-file"


@pytest.mark.parametrize("state", ["lake/.bayou", "lake/_state", "lakes"])
def test_names_that_a_vacuum_spares_may_lie_in_a_table(tmp_path, state):
    load(tmp_path, table="lake", more=f"  state-path: {state}\n")


def with_pattern(folder, table):
    """Load a configuration with a pattern; its schema file is `schemas/events.json`."""
    (folder / "schemas").mkdir(exist_ok=True)
    (folder / "schemas" / "events.json").write_text('{"properties": {"id": {"type": "integer"}}}')
    file = folder / "pipeline.yaml"
    file.write_text(
        "connector:\n  topics:\n    events:\n      kafka-topic-pattern: '.*'\n"
        "      schema-file: schemas/events.json\n"
        f"      destination: {{table-path: {json.dumps(table)}}}\n"
    )
    return load_configuration(file, environment={})


@pytest.mark.parametrize("table", [".", "schemas"])
def test_the_shared_table_of_a_pattern_holds_no_files_of_the_pipeline(tmp_path, table):
    with pytest.raises(ConfigurationError, match="VACUUM of this table would delete it"):
        with_pattern(tmp_path, table)


def test_a_topic_with_the_name_of_a_folder_of_the_pipeline_gets_no_table_there(tmp_path):
    configuration = with_pattern(tmp_path, "{topic}").with_matching({"orders", "schemas"})
    orders, schemas = configuration.topics
    assert orders.table_problem is None
    with pytest.raises(PipelineError, match=r"schemas/events.json is inside .*/schemas, and VAC"):
        schemas.check_table()


def test_links_in_a_circle_are_no_bug(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    load(tmp_path, table="loop/events", more="  state-path: loop/state\n")
