"""Commands about one table: what they print, what they change, how they exit."""

from __future__ import annotations

import datetime as dt
import os
import re
import shlex
import subprocess
import sys

import pyarrow as pa
import pytest

import bayou


@pytest.fixture
def config(tmp_path, table):
    file = tmp_path / "p.yaml"
    file.write_text(
        "connector:\n  topics:\n    things:\n      kafka-topic: things\n"
        f"      destination: {{table-path: '{table}', table-name: all_things}}\n"
    )
    return file


def test_rows_are_read_with_a_filter_and_columns(events, table):
    code, rows = events("read", table, "--where", "id >= 1", "--columns", "name")
    assert code == 0
    assert sorted(r["name"] for r in rows) == ["n1", "n2"]


def test_an_earlier_version_is_read_by_number_and_by_time(events, table):
    _, by_number = events("read", table, "--version", 0)
    assert [r["id"] for r in by_number] == [0]
    moment = bayou.table(table).snapshot(1).timestamp
    text = dt.datetime.fromtimestamp(moment / 1000, dt.UTC).isoformat()
    _, by_time = events("read", table, "--as-of", text)
    assert len(by_time) == 2


def test_version_and_timestamp_together_are_wrong_usage(invoke, table):
    result = invoke("read", table, "--version", 0, "--as-of", "2024-01-05")
    assert result.exit_code == 2
    assert "both set" in result.stderr


def test_a_filter_that_means_nothing_is_one_sentence(invoke, table):
    result = invoke("read", table, "--where", "nope = 1")
    assert result.exit_code == 2
    assert "nope" in result.stderr
    assert "bug" not in result.stderr


def test_rows_for_people_are_cut_to_a_line_and_counted(invoke, tmp_path):
    path = tmp_path / "wide"
    bayou.write(str(path), pa.table({"id": [1, 2], "text": ["x" * 500] * 2}))
    result = invoke("read", path, "--limit", 1, "--output", "table")
    assert "…" in result.stdout
    assert "only 1 row is shown. Use --limit 0 for all" in result.stderr


def test_a_topic_of_a_configuration_names_its_table(events, config):
    for name in ("things", "all_things"):
        code, rows = events("read", name, "--config", config)
        assert code == 0
        assert len(rows) == 3


def test_a_restore_says_how_to_undo_it(invoke, table):
    result = invoke("restore", table, "--version", 0)
    assert result.exit_code == 0
    assert f"bayou restore {table} --version 2" in result.stderr
    assert bayou.table(table).to_arrow()["id"].to_pylist() == [0]
    assert invoke("restore", table, "--version", 2).exit_code == 0
    assert bayou.table(table).to_arrow().num_rows == 3


def test_how_to_undo_a_restore_can_be_copied_into_a_shell(invoke, tmp_path):
    path = tmp_path / "Ana's tables" / "$t"
    for number in range(2):
        bayou.write(str(path), pa.table({"id": [number]}), mode="append")
    result = invoke("restore", path, "--version", 0)
    _, _, command = result.stderr.partition("to undo the restore, run: ")
    assert shlex.split(command.splitlines()[0]) == ["bayou", "restore", str(path), "--version", "1"]


def test_how_to_undo_a_restore_of_a_topics_table_names_its_file(invoke, config):
    result = invoke("restore", "things", "--config", config, "--version", 0)
    assert f"bayou restore things --version 2 --config {config}" in result.stderr


def test_how_to_undo_a_restore_does_not_repeat_a_secret(invoke, config):
    settings = (
        "connector.storage={access-key: a, secret-key: hunter2}",
        "connector.storage.secret-key=hunter2",
        "connector.storage.region=x",
    )
    given = [part for setting in settings for part in ("--set", setting)]
    result = invoke("restore", "things", "--config", config, "--version", 0, *given)
    assert (
        "--set connector.storage.secret-key=... --set connector.storage.region=x" in result.stderr
    )
    assert "hunter2" not in result.output


def test_a_restore_to_nowhere_is_wrong_usage(invoke, table):
    assert invoke("restore", table).exit_code == 2
    result = invoke("restore", table, "--version", 99)
    assert result.exit_code == 1
    assert "99" in result.stderr


def test_small_files_are_packed(events, table):
    code, (facts,) = events("optimize", table)
    assert code == 0
    assert facts["files_removed"] == 3
    assert bayou.table(table).detail().num_files == 1
    _, (again,) = events("optimize", table)
    assert again["version"] is None


def test_rows_are_put_along_a_z_order(events, table):
    code, (facts,) = events("optimize", table, "--zorder", "id,name")
    assert code == 0
    assert facts["version"] == 3


def test_a_dry_vacuum_lists_and_deletes_nothing(events, table):
    bayou.table(table).optimize()
    before = sorted(table.glob("*.parquet"))
    code, lines = events("vacuum", table, "--dry-run")
    assert code == 0
    assert lines[-1]["event"] == "vacuumed"
    assert lines[-1]["dry_run"] is True
    assert sorted(table.glob("*.parquet")) == before


@pytest.mark.parametrize("hours", ["inf", "1e300"])
def test_a_retention_beyond_all_time_is_refused(invoke, table, hours):
    result = invoke("vacuum", table, "--retention-hours", hours)
    assert result.exit_code == 2
    assert "is invalid" in result.stderr


def test_a_retention_below_the_tables_own_is_refused(invoke, table):
    result = invoke("vacuum", table, "--retention-hours", 1)
    assert result.exit_code == 2
    assert "Remove --retention-hours. If nobody else uses the table" in result.stderr
    assert "enforce" not in result.stderr


def test_a_dry_run_changes_nothing(events, table):
    before = sorted(table.rglob("*"))
    code, (facts,) = events("optimize", table, "--dry-run")
    assert (code, facts["files_removed"], facts["dry_run"]) == (0, 3, True)
    code, (facts,) = events("optimize", table, "--zorder", "id", "--dry-run")
    assert (code, facts["files_removed"], facts["version"]) == (0, 3, None)
    code, (facts,) = events("restore", table, "--version", 0, "--dry-run")
    assert (code, facts["files"], facts["files_taken_out"]) == (0, 1, 2)
    assert (facts["version"], facts["dry_run"]) == (None, True)
    assert sorted(table.rglob("*")) == before


def test_columns_are_shown_with_their_types(events, table):
    _, rows = events("schema", "show", table)
    assert [tuple(row.values()) for row in rows] == [
        ("id", "long", True, False),
        ("name", "string", True, False),
    ]


def test_a_schemas_difference_is_exit_code_1(events, invoke, table):
    assert invoke("schema", "diff", table).exit_code == 0
    wider = pa.table({"id": [1], "place": [{"city": "x"}]})
    bayou.write(str(table), wider, merge_schema=True)
    code, rows = events("schema", "diff", table)
    assert code == 1
    assert [tuple(row.values()) for row in rows] == [
        ("place", None, "struct"),
        ("place.city", None, "string"),
    ]


def test_schemas_are_compared_from_the_first_version_that_can_be_read(events, tmp_path):
    path = tmp_path / "cleaned"
    for number in range(12):
        bayou.write(str(path), pa.table({"id": [number]}))
    for version in range(5):  # as delta-spark cleans: the commits up to the checkpoint stay
        (path / "_delta_log" / f"{version:020}.json").unlink()
    bayou.write(str(path), pa.table({"id": [1], "more": ["x"]}), merge_schema=True)
    code, rows = events("schema", "diff", path)
    assert (code, [row["column"] for row in rows]) == (1, ["more"])


def test_the_schema_file_is_compared_with_the_table(events, tmp_path, table, config):
    (tmp_path / "s.json").write_text(
        '{"properties": {"id": {"type": "integer"}, "size": {"type": "number"}}}'
    )
    text = config.read_text().replace(
        "kafka-topic: things\n", "kafka-topic: things\n      schema-file: s.json\n"
    )
    config.write_text(text)
    code, rows = events("schema", "diff", "things", "--config", config, "--schema-file")
    assert code == 1
    assert {r["column"]: (r["before"], r["after"]) for r in rows} == {
        "name": ("string", None),
        "size": (None, "double"),
    }


def test_a_schema_file_is_not_compared_with_other_versions(invoke, config):
    result = invoke("schema", "diff", "things", "--config", config, "--schema-file", "--from", 1)
    assert result.exit_code == 2
    assert "Remove --from and --to" in result.stderr


def test_tables_are_verified_and_what_is_none_is_named(invoke, events, table, tmp_path):
    code, (facts,) = events("verify", table)
    assert code == 0
    assert (facts["is_delta"], facts["rows"], facts["version"]) == (True, 3, 2)
    assert facts["schema"] == {"id": "long", "name": "string"}
    assert len(facts["sample"]) == 3
    assert len(facts["history"]) == 3
    result = invoke("verify", table, tmp_path / "nothing")
    assert result.exit_code == 1
    assert f"{tmp_path / 'nothing'}: not a Delta table" in result.stderr


def test_a_table_that_can_not_be_read_is_not_called_none(invoke, events, table):
    commit = table / "_delta_log" / f"{2:020}.json"
    commit.write_text("no commit")
    for stray in commit.parent.glob("*.crc"):
        stray.unlink()
    code, (told,) = events("verify", table)
    assert (code, told["type"]) == (1, "CorruptTableError")
    assert "not a Delta table" not in invoke("verify", table).stderr


def test_moments_that_python_does_not_have_are_texts(events, invoke, tmp_path):
    path = tmp_path / "far"
    far = pa.array([5_000_000, -5_000_000, 0, None], pa.date32())
    moment = pa.array([4 * 10**17, -(10**17), 0, None], pa.timestamp("us", "UTC"))
    bayou.write(str(path), pa.table({"date": far, "moment": moment}))
    code, rows = events("read", path)
    assert code == 0
    assert [row["date"] for row in rows] == [
        "15659-07-15",
        "-11720-06-19",
        "1970-01-01",
        None,
    ]
    assert rows[0]["moment"].startswith("14645-")
    for command in ("read", "verify"):
        result = invoke(command, path)
        assert result.exit_code == 0
        assert "15659-07-15" in result.stdout


@pytest.mark.parametrize(
    "command", ["read", "history", "verify", "optimize", "vacuum", "schema show", "schema diff"]
)
def test_a_setting_without_a_configuration_is_wrong_usage(invoke, table, command):
    result = invoke(*command.split(), table, "--set", "connector.storage.region=eu")
    assert result.exit_code == 2
    assert "Add --config" in result.stderr


def test_what_to_verify_has_to_be_said(invoke):
    assert invoke("verify").exit_code == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_a_script(invoke, shell):
    result = invoke("completion", shell)
    assert result.exit_code == 0
    assert "_BAYOU_COMPLETE" in result.stdout


@pytest.mark.process
def test_a_shell_that_asks_is_answered_with_commands():
    run = subprocess.run(
        [sys.executable, "-m", "bayou.cli"],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "_BAYOU_COMPLETE": "complete_bash",
            "COMP_WORDS": "bayou va",
            "COMP_CWORD": "1",
        },
    )
    assert set(run.stdout.split()) == {"validate", "vacuum"}


@pytest.mark.parametrize("metrics", ['{"numOutputRows":"many"}', "[1]", "null", '"none"'])
def test_a_history_shows_commits_whose_metrics_mean_nothing(invoke, tmp_path, metrics):
    path = tmp_path / "foreign"
    bayou.write(str(path), pa.table({"id": [1]}))
    commit = path / "_delta_log" / f"{0:020}.json"
    told = f'"operationMetrics":{metrics}'
    text = re.sub(r'"operationMetrics":\{[^}]*\}', told, commit.read_text())
    commit.write_text(text)
    assert told in text
    for command in ("history", "verify"):
        assert invoke(command, path).exit_code == 0


@pytest.mark.parametrize(
    "arguments", [("read", "--limit"), ("optimize", "--target-size"), ("history", "--limit")]
)
def test_a_number_of_more_than_64_bits_is_wrong_usage(invoke, table, arguments):
    result = invoke(arguments[0], table, arguments[1], 10**20)
    assert result.exit_code == 2
    assert str(10**20) in result.stderr
    assert "bug" not in result.stderr
