"""The command: what it prints, how it exits, and how little it loads."""

from __future__ import annotations

import json
import subprocess
import sys

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import bayou
from bayou.cli.main import command_line

runner = CliRunner()


def invoke(*arguments):
    return runner.invoke(command_line(), [str(a) for a in arguments])


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table"
    for number in range(3):
        bayou.write(str(path), pa.table({"id": [number]}), mode="append")
    return path


@pytest.mark.process
def test_help_loads_neither_spark_nor_arrow_nor_kafka():
    code = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from bayou.cli.main import command_line\n"
        "result = CliRunner().invoke(command_line(), ['--help'])\n"
        "assert 'history' in result.output, result.output\n"
        "heavy = {'pyspark', 'pyarrow', 'confluent_kafka', 'pydantic', 'pandas'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_the_version_is_printed():
    assert invoke("--version").output.strip() == f"bayou {bayou.__version__}"


def test_history_is_a_table_with_the_newest_commit_first(table):
    result = invoke("history", table)
    assert result.exit_code == 0
    versions = [line.split()[0] for line in result.output.splitlines() if "WRITE" in line]
    assert versions == ["2", "1", "0"]


def test_history_for_machines_is_an_object_a_line(table):
    result = invoke("history", table, "--json", "--limit", 2)
    commits = [json.loads(line) for line in result.output.splitlines()]
    assert [c["version"] for c in commits] == [2, 1]
    assert commits[0]["operation"] == "WRITE"


def test_a_path_without_a_table_is_one_sentence_and_exit_code_1(tmp_path):
    result = invoke("history", tmp_path / "nothing")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.splitlines()) == 1


def test_a_wrong_configuration_is_exit_code_2_with_file_and_line(tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text("connector:\n  topcs: {}\n")
    for command in ("run", "validate"):
        result = invoke(command, file)
        assert result.exit_code == 2
        assert f"{file}:2: connector.topcs: unknown key; did you mean 'topics'?" in result.stderr


def test_wrong_usage_is_exit_code_2():
    assert invoke("run").exit_code == 2
    assert invoke("nonsense").exit_code == 2
    assert invoke("validate").exit_code == 2


def test_an_error_for_machines_is_an_object_too(tmp_path):
    result = invoke("run", tmp_path / "nowhere.yaml", "--json")
    assert result.exit_code == 2
    error = json.loads(result.stdout)
    assert error["event"] == "error"
    assert error["type"] == "ConfigurationError"


def test_a_file_without_a_broker_is_fine_to_validate_and_not_to_run(tmp_path, monkeypatch):
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    file = tmp_path / "p.yaml"
    file.write_text(
        "connector:\n  topics:\n    events:\n"
        "      kafka-topic: events\n      destination:\n        table-path: lake/events\n"
    )
    result = invoke("validate", file)
    assert result.exit_code == 0
    assert "KAFKA_BOOTSTRAP_SERVERS" in result.stderr
    result = invoke("run", file, "--once")
    assert result.exit_code == 2
    assert "KAFKA_BOOTSTRAP_SERVERS" in result.stderr


def test_validate_shows_the_topics_and_what_has_no_effect(tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text(
        "connector:\n  kafka: {bootstrap-servers: 'h:1'}\n  topics:\n    events:\n"
        "      kafka-topic: events\n      destination:\n        table-path: lake/events\n"
        "        delta-config: {vacuum-retention-hours: 168}\n"
    )
    result = invoke("validate", file)
    assert result.exit_code == 0
    assert "events" in result.stdout
    assert "not used without enable-vacuum: true" in result.stderr


def test_validate_says_which_masks_are_of_no_field(tmp_path):
    bayou.write(str(tmp_path / "t"), pa.table({"id": [1], "email": ["x"]}))
    file = tmp_path / "p.yaml"
    file.write_text(
        "connector:\n  topics:\n    t:\n      kafka-topic: t\n"
        "      masks: {emial: drop, Email: hash}\n"
        "      destination: {table-path: t}\n"
    )
    result = invoke("validate", file)
    assert result.exit_code == 0
    assert "topic 't': masks: no record has the field 'emial'. Check the spelling" in result.output
    assert "Email" not in result.output


def test_validate_refuses_a_retention_under_the_tables_own(tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text(
        "connector:\n  kafka: {bootstrap-servers: 'h:1'}\n  topics:\n    events:\n"
        "      kafka-topic: events\n      destination:\n        table-path: lake/events\n"
        "        delta-config: {enable-vacuum: true, vacuum-retention-hours: 24}\n"
    )
    result = invoke("validate", file)
    assert result.exit_code == 2
    assert "24 hours are shorter than the retention of" in result.stderr


def test_migrate_moves_json_files_into_a_topics_table(tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text(
        "connector:\n  topics:\n    events:\n"
        "      kafka-topic: events\n      destination:\n        table-path: lake/events\n"
    )
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "batch_1.json").write_text('[{"id": 1}, {"id": 2}]')
    arguments = ("migrate", tmp_path / "json", "events", "--config", file, "--verify", "--json")
    result = invoke(*arguments, "--dry-run")
    facts = json.loads(result.stdout)
    assert (facts["files"], facts["records"], facts["dry_run"]) == (1, 2, True)
    assert not (tmp_path / "lake").exists()
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    step, facts, row = [json.loads(line) for line in result.stdout.splitlines()]
    assert step["text"] == "version 0: 2 records read, 2 rows, 0 dead letters"
    assert (facts["files"], facts["rows"], row["records"], row["problem"]) == (1, 2, 2, "")
    (tmp_path / "json" / "batch_1.json").write_text('[{"id": 1}, {"id": 3}]')
    result = invoke(*arguments)
    assert result.exit_code == 1
    assert "differ from the migrated records" in result.stdout
    result = invoke("migrate", tmp_path / "jsn", "events", "--config", file)
    assert result.exit_code == 0
    assert f"{tmp_path / 'jsn'}: no JSON files" in result.stderr


def test_the_schema_for_editors_is_a_json_schema():
    schema = json.loads(invoke("validate", "--print-schema").output)
    assert schema["properties"].keys() == {"connector"}
    assert "kafka-topic" in schema["$defs"]["TopicConfig"]["properties"]


@pytest.mark.parametrize("path", ["s3:/bucket/x", "s3//bucket/x", "dbfs:/mnt/x"])
@pytest.mark.parametrize(
    "command",
    ["read", "history", "verify", "optimize", "vacuum", "restore --version 0", "schema show"],
)
def test_a_command_refuses_a_mistyped_or_unsupported_uri(tmp_path, monkeypatch, command, path):
    monkeypatch.chdir(tmp_path)
    result = invoke(*command.split(), path)
    assert result.exit_code in (1, 2)
    assert "mistyped URI" in result.stderr or "no engine for the scheme" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_migration_refuses_a_mistyped_uri(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "p.yaml"
    file.write_text(
        "connector:\n  kafka: {bootstrap-servers: 'localhost:1'}\n  topics:\n    events:\n"
        "      kafka-topic: events\n      destination: {table-path: lake}\n"
    )
    result = invoke("migrate", "s3:/bucket/x", "events", "--config", file)
    assert result.exit_code in (1, 2)
    assert "mistyped URI" in result.stderr
    assert not (tmp_path / "s3:").exists()


@pytest.mark.parametrize("path", ["s3:/bucket/x", "s3//bucket/x", "dbfs:/mnt/x"])
def test_a_configuration_with_a_mistyped_or_unsupported_uri_is_refused(tmp_path, path):
    file = tmp_path / "p.yaml"
    file.write_text(
        "connector:\n  kafka: {bootstrap-servers: 'localhost:1'}\n  topics:\n    events:\n"
        f"      kafka-topic: events\n      destination: {{table-path: '{path}'}}\n"
    )
    for command in ("validate", "plan", "run"):
        result = invoke(command, file)
        assert result.exit_code == 2
        assert "connector.topics.events.destination.table-path" in result.stderr
    assert list(tmp_path.iterdir()) == [file]
