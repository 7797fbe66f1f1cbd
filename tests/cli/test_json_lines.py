"""`--json`: lines of reports are objects with `event`, lines of rows are rows; names have `_`."""

from __future__ import annotations

import json
import os
import re

import pytest

_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*")


@pytest.fixture
def taken_in(small_pipeline):
    small_pipeline.produce({"id": 1, "name": "a"}, {"id": 2}, b"no json")
    small_pipeline.take_in()
    small_pipeline.evolves = True
    small_pipeline.write_file()
    (small_pipeline.folder / "json").mkdir()
    (small_pipeline.folder / "json" / "batch_1.json").write_text('[{"id": 7, "tag": "x"}]')
    return small_pipeline


def _reports(pipeline):
    """Commands whose lines have `event`, with the events that each prints."""
    file, table, folder = pipeline.file, pipeline.path, pipeline.folder
    servers, into = pipeline.broker.bootstrap_servers, ("--folder", folder / "new")
    return [
        ({"written", "text"}, "init", pipeline.kafka_topic, "-b", servers, *into),
        ({"topic"}, "validate", file),
        ({"table"}, "verify", table),
        ({"table", "proof"}, "verify", "--config", file),
        ({"replayed", "still_refused"}, "dlq", "replay", file, "events"),
        (
            {"step", "migrated", "migrated_file"},
            *("migrate", folder / "json", table, "-c", file, "--verify"),
        ),
        ({"optimized"}, "optimize", table),
        ({"file", "vacuumed"}, "vacuum", table, "--dry-run"),
        ({"vacuumed"}, "vacuum", table),
        ({"restored", "notice"}, "restore", table, "--version", 0),
        ({"dropped"}, "dlq", "drop", file, "events", "--all"),
        ({"error"}, "verify", folder),
        ({"error"}, "restore", table),
    ]


def test_every_line_of_a_report_says_what_it_is(taken_in, invoke):
    stray = taken_in.folder / "lake" / "events" / "stray.parquet"
    stray.write_bytes(b"x")
    os.utime(stray, (0, 0))
    for expected, *command in _reports(taken_in):
        result = invoke(*command, "--json")
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        assert {line["event"] for line in lines} == expected, (command, result.output)
        assert result.stderr == "", command
        assert all(_NAME.fullmatch(key) for line in lines for key in line), (command, lines)


def test_commands_that_print_rows_print_nothing_else(taken_in, invoke):
    file, table = taken_in.file, taken_in.path
    for first, *command in [
        ("topic", "status", file),
        ("topic", "plan", file),
        ("kafka_topic", "topics", file, "--all"),
        ("id", "read", table),
        ("version", "history", table),
        ("column", "schema", "show", table),
        (None, "schema", "diff", table, "--schema-file", "--config", file),
        ("topic", "dlq", "list", file),
        ("topic", "dlq", "show", file, "events"),
    ]:
        result = invoke(*command, "--json")
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        assert {next(iter(line)) for line in lines} == ({first} if first else set()), command
        assert result.stderr == "", command
        if command[0] != "read":  # whose names are those of columns
            assert all(_NAME.fullmatch(key) for line in lines for key in line), (command, lines)


def test_errors_of_rows_are_objects_on_standard_error(taken_in, invoke):
    for command in (
        ("read", taken_in.folder / "nowhere"),
        ("dlq", "show", taken_in.file, "nope"),
    ):
        result = invoke(*command, "--json")
        assert result.stdout == ""
        assert json.loads(result.stderr)["event"] == "error"


def test_a_row_of_a_table_is_an_object_of_its_columns(taken_in, invoke):
    (line, *_) = invoke("read", taken_in.path, "--json", "--where", "id = 1").stdout.splitlines()
    assert json.loads(line)["name"] == "a"


def test_a_dead_letters_headers_are_pairs(taken_in, invoke):
    letter = json.loads(invoke("dlq", "show", taken_in.file, "events", "--json").stdout)
    assert (letter["topic"], letter["value"], letter["headers"]) == ("events", "no json", [])
