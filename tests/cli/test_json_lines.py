"""`--json`: every line of every command is an object with `event`, and names are words with `_`."""

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


def _commands(pipeline):
    file, table, folder = pipeline.file, pipeline.path, pipeline.folder
    servers, into = pipeline.broker.bootstrap_servers, ("--folder", folder / "new")
    return [
        ({"written", "text"}, "init", pipeline.kafka_topic, "-b", servers, *into),
        ({"topic"}, "validate", file),
        ({"plan"}, "plan", file),
        ({"topic_status"}, "status", file),
        ({"topic"}, "topics", file, "--all"),
        ({"table"}, "verify", table),
        ({"table", "proof"}, "verify", "--config", file),
        ({"row"}, "read", table),
        ({"commit"}, "history", table),
        ({"column"}, "schema", "show", table),
        (set(), "schema", "diff", table, "--schema-file", "--config", file),
        ({"dead_letters"}, "dlq", "list", file),
        ({"dead_letter"}, "dlq", "show", file, "events"),
        ({"replayed", "still_refused"}, "dlq", "replay", file, "events"),
        (
            {"step", "migrated", "migrated_file"},
            *("migrate", folder / "json", table, "-c", file, "--verify"),
        ),
        ({"column_change"}, "schema", "diff", table),
        ({"optimized"}, "optimize", table),
        ({"file", "vacuumed"}, "vacuum", table, "--dry-run"),
        ({"vacuumed"}, "vacuum", table),
        ({"restored", "notice"}, "restore", table, "--version", 0),
        ({"dropped"}, "dlq", "drop", file, "events", "--all"),
        ({"error"}, "verify", folder),
        ({"error"}, "read", folder / "nowhere"),
        ({"error"}, "plan", folder / "nowhere.yaml"),
        ({"error"}, "restore", table),
        ({"error"}, "dlq", "show", file, "nope"),
    ]


def test_every_line_says_what_it_is(taken_in, invoke):
    stray = taken_in.folder / "lake" / "events" / "stray.parquet"
    stray.write_bytes(b"x")
    os.utime(stray, (0, 0))
    for expected, *command in _commands(taken_in):
        result = invoke(*command, "--json")
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        known = {line["event"] for line in lines}
        assert known == expected, (command, result.output)
        assert result.stderr == "", command
        assert all(_NAME.fullmatch(key) for line in lines for key in line), (command, lines)


def test_columns_of_a_table_are_kept_apart_from_what_a_line_says(taken_in, invoke):
    (line, *_) = invoke("read", taken_in.path, "--json", "--filter", "id = 1").stdout.splitlines()
    assert json.loads(line)["row"]["name"] == "a"


def test_a_dead_letters_headers_are_pairs(taken_in, invoke):
    letter = json.loads(invoke("dlq", "show", taken_in.file, "events", "--json").stdout)
    assert (letter["topic"], letter["value"], letter["headers"]) == ("events", "no json", [])
