"""Dead letters of many topics, some of whose tables can't be read."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

import bayou


@pytest.fixture
def file(tmp_path):
    """Topics `good` and `broken`, each with a dead letter; the latter's table has no good log."""
    lines = ["connector:", "  topics:"]
    now = pa.array([dt.datetime.now(dt.UTC)], pa.timestamp("us", "UTC"))
    for name in ("broken", "good"):
        bayou.write(
            str(tmp_path / f"{name}_dead_letters"),
            pa.table({"reason": ["not valid JSON"], "partition": [0], "timestamp": now}),
        )
        lines.append(f"    {name}: {{kafka-topic: {name}, destination: {{table-path: {name}}}}}")
    log = tmp_path / "broken_dead_letters" / "_delta_log"
    for stray in log.glob("*.crc"):
        stray.unlink()
    (log / f"{0:020}.json").write_text("no commit")
    path = tmp_path / "pipeline.yaml"
    path.write_text("\n".join(lines))
    return path


def test_a_table_that_can_not_be_read_hides_no_other(file, events):
    code, (letters, error) = events("dlq", "list", file)
    assert code == 1
    assert (letters["topic"], letters["letters"]) == ("good", 1)
    assert error["type"] == "CorruptTableError"
    assert "topic 'broken'" in error["message"]


def without(file, name):
    lines = file.read_text().splitlines()
    file.write_text("\n".join(line for line in lines if name not in line))


def test_that_nothing_is_known_is_not_said_as_none(file, invoke):
    without(file, "good")
    result = invoke("dlq", "list", file)
    assert result.exit_code == 1
    assert "no dead letters" not in result.stdout


def test_a_filter_that_means_nothing_is_said_once(file, events):
    without(file, "broken")
    code, (error,) = events("dlq", "list", file, "--where", "nothing = 1")
    assert (code, error["type"]) == (2, "PredicateError")


@pytest.mark.parametrize("which", [[], ["--all", "--where", "partition = 0"]])
def test_what_is_dropped_is_said_in_one_way(file, invoke, which):
    result = invoke("dlq", "drop", file, "good", *which)
    assert result.exit_code == 2
    assert "either --where or --all" in result.stderr


@pytest.fixture
def shared(tmp_path):
    """Two topics with one table: the second one has a dead letter."""
    now = pa.array([dt.datetime.now(dt.UTC)], pa.timestamp("us", "UTC"))
    letter = {"reason": ["not valid JSON"], "partition": [0], "timestamp": now, "topic": ["us"]}
    bayou.write(str(tmp_path / "orders_dead_letters"), pa.table(letter))
    path = tmp_path / "pipeline.yaml"
    path.write_text(
        "connector:\n  topics:\n"
        "    orders: {kafka-topics: [eu, us], destination: {table-path: orders}}\n"
    )
    return path


@pytest.mark.parametrize("command", [("show",), ("replay", "--dry-run"), ("drop", "--all")])
def test_dead_letters_of_one_of_several_topics_need_the_name_of_the_topic(shared, events, command):
    code, (error,) = events("dlq", command[0], shared, "orders", *command[1:])
    assert (code, error["type"]) == (2, "ArgumentError")
    assert "'orders/eu', 'orders/us'" in error["message"]


def test_a_topic_of_a_section_with_several_topics_is_found_by_its_key(shared, invoke):
    result = invoke("dlq", "drop", shared, "orders/us", "--all", "--dry-run")
    assert result.exit_code == 0
    assert "1" in result.stdout
