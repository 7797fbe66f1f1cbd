"""Commands about a configuration's topics, with an embedded broker and without Spark."""

from __future__ import annotations

import json

import pytest

from bayou.errors import PipelineError
from bayou.ingest.config import load_configuration
from bayou.ingest.events import MaintenanceReport
from bayou.ingest.maintenance import LastRuns


@pytest.fixture
def taken_in(small_pipeline):
    small_pipeline.produce(*({"id": i} for i in range(5)))
    small_pipeline.produce({"id": 9}, b"no json", partition=1)
    small_pipeline.take_in()
    return small_pipeline


def test_a_plan_says_what_would_be_read_and_made(small_pipeline, events):
    small_pipeline.produce({"id": 1}, {"id": "x"}, {"id": 2})
    code, (plan,) = events("plan", small_pipeline.file)
    assert code == 0
    assert (plan["records"], plan["creates"], plan["commits"]) == (3, True, 1)
    assert plan["spans"]["0"] == {"start": 0, "end": 3}
    assert plan["sampled"] == 3
    assert sum(plan["refused"].values()) == 1
    assert plan["new_columns"] == {"id": "long", "name": "string"}
    assert not small_pipeline.table.exists()


def test_a_mask_of_no_field_is_told_by_the_plan_and_before_the_run(small_pipeline, events):
    small_pipeline.more = "      masks: {naem: hash}\n"
    small_pipeline.write_file()
    without_schema = small_pipeline.file.read_text().replace("      schema-file: schema.json\n", "")
    small_pipeline.file.write_text(without_schema)
    small_pipeline.produce({"id": 1, "name": "x"})
    code, (plan, notice) = events("plan", small_pipeline.file)
    assert (code, plan["unseen_masks"]) == (0, ["naem"])
    assert "topic 'events': masks: no record has the field 'naem'" in notice["text"]
    small_pipeline.take_in()
    code, told = events("run", small_pipeline.file, "--once")  # nothing waits: no Spark
    assert code == 0
    (warning,) = [line["text"] for line in told if line["event"] == "notice"]
    assert warning == notice["text"]


def test_plan_and_run_say_how_a_table_differs_from_its_definition(small_pipeline, events):
    small_pipeline.produce({"id": 1})
    small_pipeline.take_in()
    small_pipeline.more = "        comment: every event\n"
    small_pipeline.write_file()
    code, (plan, notice) = events("plan", small_pipeline.file)
    assert code == 0
    assert plan["table_differences"] == ["comment is 'every event', the table has none"]
    assert "Set apply-table-changes: true" in notice["text"]
    _, lines = events("run", small_pipeline.file, "--once")  # nothing waits: no Spark
    assert [line["text"] for line in lines if line["event"] == "notice"] == [notice["text"]]
    small_pipeline.more += "        apply-table-changes: true\n"
    small_pipeline.write_file()
    _, lines = events("run", small_pipeline.file, "--once")
    (text,) = [line["text"] for line in lines if line["event"] == "notice"]
    assert "the table is changed to match the configuration: comment is 'every event'" in text
    assert small_pipeline.table.detail().description == "every event"


def test_a_plan_says_what_would_be_written(small_pipeline, events, invoke):
    small_pipeline.produce(*({"id": i, "name": f"name {i}"} for i in range(800)))
    _, (plan,) = events("plan", small_pipeline.file)
    assert "1 file of rows" in invoke("plan", small_pipeline.file, "-o", "table").stdout
    small_pipeline.take_in()
    written = small_pipeline.table.detail()
    assert (plan["cost"]["data_files"], plan["cost"]["log_files"]) == (1, 1)
    assert plan["cost"]["data_bytes"] == pytest.approx(written.size_in_bytes, rel=0.05)


def test_a_plan_of_many_small_batches_tells_how_many_files_they_make(small_pipeline, events):
    small_pipeline.more = "      processing: {batch-size: 100}\n"
    small_pipeline.write_file()
    small_pipeline.produce(*({"id": i} for i in range(900)))
    small_pipeline.produce(*({"id": i} for i in range(300)), partition=1)
    _, (plan,) = events("plan", small_pipeline.file)
    assert plan["commits"] == 12
    assert plan["cost"]["data_files"] == 24
    assert plan["cost"]["log_files"] == 13


def test_a_plan_tells_columns_that_the_records_would_add(taken_in, events):
    taken_in.produce({"id": 1, "place": {"city": "x"}})
    _, (plan,) = events("plan", taken_in.file)
    assert plan["new_columns"] == {}
    assert sum(plan["refused"].values()) == 1
    taken_in.evolves = True
    taken_in.write_file()
    _, (plan,) = events("plan", taken_in.file)
    assert plan["refused"] == {}
    assert list(plan["new_columns"]) == ["place"]


def test_a_plan_for_people_fits_a_page(taken_in, invoke):
    taken_in.produce({"id": "not a number"})
    result = invoke("plan", taken_in.file, "-o", "table")
    assert result.exit_code == 0
    assert "Would be dead letters" in result.stdout


def test_a_topic_that_could_not_run_is_said_in_the_plan(taken_in, invoke):
    taken_in.table.delete()
    taken_in.more = "        partition-columns: [name]\n"
    taken_in.write_file()
    result = invoke("plan", taken_in.file, "-o", "table")
    assert result.exit_code == 1
    assert "partitioned by" in result.stderr
    assert result.stderr.count("'events'") == 1


def test_status_says_where_topics_stand(taken_in, events):
    taken_in.produce({"id": 8})
    taken_in.take_in()
    taken_in.produce({"id": 10})
    taken_in.table.optimize()
    code, (row,) = events("status", taken_in.file)
    assert code == 0
    assert (row["rows"], row["dead_letters"], row["waiting"]) == (7, 1, 1)
    assert 0 < row["freshness_seconds"] < 300
    assert row["running"] is False
    assert [p["position"] for p in row["partitions"]] == [6, 2]
    assert row["maintenance"]["optimize"]["result"] == "done"


def test_status_says_what_failed_of_the_maintenance_while_it_is_asked_for(taken_in, invoke):
    taken_in.more = "          enable-vacuum: true\n"
    taken_in.write_file()
    LastRuns(load_configuration(taken_in.file).state_path, "events").keep(
        MaintenanceReport(
            topic="events",
            task="vacuum",
            table_path="events",
            started=0.0,
            result="failed",
            error=PipelineError("the disk is full", topic="events"),
        )
    )
    result = invoke("status", taken_in.file, "-o", "table")
    assert result.exit_code == 0
    assert "1970-01-01 00:00:00 FAILED" in result.stdout
    assert "vacuum failed at 1970-01-01 00:00:00: the disk is full" in result.stderr
    taken_in.more = ""
    taken_in.write_file()
    assert "FAILED" not in invoke("status", taken_in.file, "-o", "table").stdout


def test_status_of_a_late_topic_is_exit_code_1(taken_in, invoke):
    taken_in.produce({"id": 10})
    taken_in.more = "      slo: {freshness-seconds: 0.000001}\n"
    taken_in.write_file()
    result = invoke("status", taken_in.file, "-o", "table")
    assert result.exit_code == 1
    assert "LATE" in result.stdout


def test_what_can_not_be_read_is_not_known_to_be_none(taken_in, events, invoke):
    commit = taken_in.folder / "lake" / "events" / "_delta_log" / f"{0:020}.json"
    commit.write_text("no commit")
    for stray in commit.parent.glob("*.crc"):
        stray.unlink()
    code, (row, error) = events("status", taken_in.file)
    assert (code, error["event"]) == (1, "error")
    assert {row[name] for name in ("version", "rows", "files", "bytes", "dead_letters")} == {None}
    assert invoke("status", taken_in.file, "-o", "table").stdout.count("?") == 5


def test_status_before_the_first_run(small_pipeline, events):
    code, (row,) = events("status", small_pipeline.file)
    assert code == 0
    assert row["version"] is None
    assert row["waiting"] == 0


def test_topics_are_listed_as_the_brokers_have_them(taken_in, events):
    _, (row,) = events("topics", taken_in.file)
    assert (row["topic"], row["partitions"], row["offsets"]) == ("events", 2, 7)
    _, every = events("topics", taken_in.file, "--all")
    assert taken_in.kafka_topic in {r["kafka_topic"] for r in every}


def test_a_proof_holds_or_says_where_it_does_not(taken_in, events, invoke):
    code, lines = events("verify", "--config", taken_in.file)
    assert code == 0
    assert [line["gaps"] for line in lines if line["event"] == "proof"] == ["", ""]
    taken_in.table.delete("id = 3")
    result = invoke("verify", "--config", taken_in.file)
    assert result.exit_code == 1
    assert "partition 0" in result.stderr
    assert "1 records missing (offsets 3)" in result.stderr


def test_dead_letters_are_listed_shown_replayed_and_dropped(taken_in, events, invoke):
    taken_in.produce({"id": 3, "colour": "red"})
    taken_in.take_in()
    _, rows = events("dlq", "list", taken_in.file)
    assert {r["letters"] for r in rows} == {1}
    assert len(rows) == 2
    _, (letter,) = events("dlq", "show", taken_in.file, "events", "--where", "partition = 1")
    assert letter["value"] == "no json"
    taken_in.evolves = True
    taken_in.write_file()
    _, lines = events("dlq", "replay", taken_in.file, "events", "--dry-run")
    assert (lines[0]["dry_run"], lines[0]["became_rows"]) == (True, 1)
    _, lines = events("dlq", "replay", taken_in.file, "events")
    assert (lines[0]["became_rows"], lines[0]["still_refused"]) == (1, 1)
    assert invoke("dlq", "drop", taken_in.file, "events").exit_code == 2
    _, (planned,) = events("dlq", "drop", taken_in.file, "events", "--all", "--dry-run")
    assert (planned["letters"], planned["dry_run"]) == (1, True)
    _, (dropped,) = events("dlq", "drop", taken_in.file, "events", "--all")
    assert dropped["letters"] == 1
    assert "no dead letters" in invoke("dlq", "list", taken_in.file, "-o", "table").stdout
    assert invoke("verify", "--config", taken_in.file).exit_code == 1  # it was dropped


def test_a_topic_that_the_file_does_not_have_is_named(small_pipeline, invoke):
    result = invoke("dlq", "show", small_pipeline.file, "nope")
    assert result.exit_code == 2
    assert "Its topics are 'events'" in result.stderr


def test_names_of_events_are_json_for_machines(taken_in, invoke):
    result = invoke("status", taken_in.file, "--json")
    assert json.loads(result.stdout)["topic"] == "events"


def test_commands_count_filtered_records_and_name_fields_that_no_record_has(
    small_pipeline, events, invoke
):
    small_pipeline.more = (
        '      processing:\n        columns: {half: "id / 2"}\n        where: "name <> \'x\'"\n'
    )
    small_pipeline.write_file()
    small_pipeline.produce({"id": 1, "name": "a"}, {"id": 2, "name": "x"}, {"id": 3})
    _, (plan,) = events("plan", small_pipeline.file)
    assert (plan["filtered"], plan["new_columns"]["half"]) == (2, "double")
    assert "2 of 3 sampled records" in invoke("plan", small_pipeline.file, "-o", "table").stdout
    small_pipeline.take_in()
    code, lines = events("verify", "--config", small_pipeline.file)
    assert code == 0
    proofs = [line for line in lines if line["event"] == "proof"]
    assert [proof["filtered"] for proof in proofs] == [2, 0]
    assert "filtered" in invoke("verify", "--config", small_pipeline.file).stdout

    text = small_pipeline.file.read_text().replace("id / 2", "ide / 2")
    small_pipeline.file.write_text(text)
    code, lines = events("validate", small_pipeline.file)
    assert (code, lines[-1]["event"]) == (2, "error")
    assert "processing.columns.half: Column 'ide' doesn't exist" in lines[-1]["message"]
    without_schema = text.replace("      schema-file: schema.json\n", "")
    small_pipeline.file.write_text(without_schema)
    for command in (["validate"], ["plan"], ["run", "--once"]):  # nothing waits: no Spark
        code, lines = events(*command[:1], small_pipeline.file, *command[1:])
        assert code == 0
        notices = [line["text"] for line in lines if line.get("event") == "notice"]
        assert any("no record has the field 'ide'" in notice for notice in notices), command


def test_a_replay_says_how_many_letters_are_filtered_out(small_pipeline, events):
    small_pipeline.produce({"id": "x", "name": "a"}, {"id": 1})
    small_pipeline.take_in()
    small_pipeline.more = "      processing: {where: \"name <> 'a'\"}\n"
    small_pipeline.write_file()
    _, (replayed,) = events("dlq", "replay", small_pipeline.file, "events")
    assert (replayed["became_rows"], replayed["filtered_out"]) == (0, 1)
    assert events("verify", "--config", small_pipeline.file)[0] == 0


def test_commands_show_the_tables_of_routes(routed, invoke):
    pipeline = routed()
    pipeline.produce({"id": 1, "kind": "a"}, {"id": 2, "kind": "b"})
    file = str(pipeline.file)
    text = invoke("validate", file).stdout
    assert "lake/events_{value}" in text
    text = invoke("plan", file, "-o", "table").stdout
    assert "Tables of route-by" in text
    assert "events_a" in text
    pipeline.take_in()
    text = invoke("status", file, "-o", "table").stdout
    assert "events_b" in text
    text = invoke("read", "events_a", "--config", file).stdout
    assert "kind" in text
    text = invoke("verify", "--config", file).stdout
    assert "Exactly once" in text
