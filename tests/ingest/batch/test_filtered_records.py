"""Filtered records in proofs, replays, migrations, plans and the history."""

from __future__ import annotations

import json

import pytest

from bayou.ingest import TopicTable
from bayou.ingest.dead_letters import record_identity
from bayou.ingest.dead_letters.dead_letter_replay import replay_dead_letters
from bayou.ingest.inspection import plan_run, schema_file_changes, unseen_settings
from support.processed_pipelines import HOURS, TEN, configured, event, proof, rows


def test_filtered_records_are_no_gaps_and_missing_rows_are(processed):
    pipeline = processed(HOURS)
    pipeline.produce(event(1), event(2, "heartbeat"), event(3), event(4, "heartbeat"), b"no json")
    pipeline.take_in()
    found = proof(pipeline)
    assert found.holds
    assert (found.partitions[0].filtered, found.partitions[0].dead_letters) == (2, 1)
    pipeline.table.delete("id = 3")
    assert [(s.start, s.end) for s in proof(pipeline).partitions[0].gaps] == [(2, 3)]


@pytest.mark.parametrize("upserts", [False, True])
def test_a_proof_applies_the_condition_of_the_time(processed, upserts):
    pipeline = processed("where: \"event_type <> 'a'\"", upserts=upserts)
    kinds = ["a", "b", "c"]
    for round_, lines in enumerate(["where: \"event_type <> 'b'\"", "max-retries: 1", None]):
        pipeline.produce(*(event(10 * round_ + n, kind) for n, kind in enumerate(kinds)))
        pipeline.take_in()
        assert proof(pipeline).holds
        if lines is not None:
            configured(pipeline, lines)
            assert proof(pipeline).holds
    assert rows(pipeline, "id") == [(n,) for n in (1, 10, 12, 2, 20, 21, 22)]
    if not upserts:
        assert proof(pipeline).partitions[0].filtered == 2
        pipeline.table.delete("id IN (10, 21)")
        assert [s.start for s in proof(pipeline).partitions[0].gaps] == [3, 7]


@pytest.mark.parametrize("upserts", [False, True])
def test_a_replay_applies_filter_and_expressions_as_a_batch_does(processed, upserts):
    pipeline = processed(
        'columns: {number: "CAST(amount AS INT)"}\nwhere: "event_type <> \'x\'"',
        upserts=upserts,
    )
    pipeline.produce(event(1, amount="1"), event(2, amount="b"), event(3, amount="c"))
    assert pipeline.take_in().dead_letters == 2
    assert proof(pipeline).holds
    configured(
        pipeline,
        'columns: {number: "try_cast(amount AS INT)"}\nwhere: "event_type <> \'x\' AND id < 3"',
    )
    result = replay_dead_letters(pipeline.configuration, pipeline.topic, dry_run=True)
    assert (result.replayed, result.filtered, result.refused) == (1, 1, 0)
    result = replay_dead_letters(pipeline.configuration, pipeline.topic)
    assert (result.replayed, result.filtered, result.refused) == (1, 1, 0)
    assert rows(pipeline, "id", "number") == [(1, 1), (2, None)]
    assert pipeline.dead_letters.to_arrow().num_rows == 0


@pytest.mark.parametrize("upserts", [False, True])
def test_migrated_records_are_filtered_and_derived_too(processed, upserts):
    pipeline = processed(HOURS, upserts=upserts)
    folder = pipeline.folder / "json"
    folder.mkdir()
    records = [event(1), event(2, "heartbeat"), event(3)]
    (folder / "a.json").write_text(json.dumps(records))
    table = TopicTable(pipeline.configuration, "events")
    report = table.migrate(str(folder))
    assert (report.rows, report.filtered, report.dead_letters) == (2, 1, 0)
    (check,) = table.verify_migration(str(folder))
    assert (check.rows, check.filtered, check.problem) == (2, 1, None)
    written = table.write([event(4), event(5, "heartbeat")])
    assert (written.rows, written.filtered) == (1, 1)
    assert rows(pipeline, "id", "hour") == [(1, TEN), (3, TEN), (4, TEN)]


def test_a_plan_shows_derived_columns_and_filtered_records(processed):
    pipeline = processed(HOURS)
    pipeline.produce(event(1), event(2, "heartbeat"), event(3))
    (plan,) = plan_run(pipeline.configuration, pipeline.configuration.topics)
    assert (plan.error, plan.filtered, plan.sampled) == (None, 1, 3)
    assert plan.new_columns["hour"] == "timestamp"
    assert "event_time" not in plan.new_columns
    configured(pipeline, "where: \"evnt_type <> 'x'\"", schema=None)
    (plan,) = plan_run(pipeline.configuration, pipeline.configuration.topics)
    assert (plan.unseen_fields, plan.filtered) == (("evnt_type",), 3)
    assert unseen_settings(pipeline.configuration) == {}
    configured(pipeline, HOURS)
    pipeline.take_in()
    configured(pipeline, "where: \"evnt_type <> 'x'\"", schema=None)
    assert unseen_settings(pipeline.configuration)["events"].fields == ("evnt_type",)
    changes = schema_file_changes(
        configured(pipeline, HOURS).configuration, pipeline.topic, pipeline.table.snapshot()
    )
    assert changes == ()


def test_the_history_has_the_number_of_filtered_records(processed):
    pipeline = processed(HOURS)
    pipeline.produce(event(1), event(2, "heartbeat"), event(3, "heartbeat"))
    pipeline.take_in()
    assert pipeline.table.history(1)[0]["tags"]["filtered"] == "2"


@pytest.mark.parametrize("upserts", [False, True])
def test_a_replay_that_ends_before_filtered_letters_are_deleted_is_finished_by_the_next(
    processed, upserts, monkeypatch
):
    pipeline = processed('where: "id < 3"', upserts=upserts)
    pipeline.produce(event(1), event(2), {"id": "x", "event_type": "a"})
    assert pipeline.take_in().dead_letters == 1
    configured(pipeline, "where: \"event_type <> 'a'\"")

    def killed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(record_identity, "delete_letters", killed)
        with pytest.raises(KeyboardInterrupt):
            replay_dead_letters(pipeline.configuration, pipeline.topic)
    assert pipeline.dead_letters.to_arrow().num_rows == 1
    result = replay_dead_letters(pipeline.configuration, pipeline.topic)
    assert (result.replayed, result.filtered, result.refused) == (0, 1, 0)
    assert pipeline.dead_letters.to_arrow().num_rows == 0
    assert rows(pipeline, "id") == [(1,), (2,)]
    assert proof(pipeline).holds


@pytest.mark.parametrize("upserts", [False, True])
def test_a_proof_finds_rows_that_only_a_later_condition_filters(processed, upserts):
    pipeline = processed('columns: {n: "CAST(amount AS INT)"}', upserts=upserts)
    kinds = ["a", "b", "a", "a", "b"]
    amounts = ["1", "x", "x", "1", "1"]
    events = zip(range(5), kinds, amounts, strict=True)
    pipeline.produce(*(event(n, kind, amount=amount) for n, kind, amount in events))
    assert pipeline.take_in().dead_letters == 2
    for where in ("a", "b"):
        lines = f'columns: {{n: "try_cast(amount AS INT)"}}\nwhere: "event_type <> \'{where}\'"'
        configured(pipeline, lines)
        pipeline.produce(event(10, where), event(20, "c"))
        pipeline.take_in()
        letters = "offset = 2" if where == "a" else None
        result = replay_dead_letters(pipeline.configuration, pipeline.topic, where=letters)
        assert (result.replayed, result.filtered) == (0, 1)
        assert proof(pipeline).holds
    pipeline.table.delete("id IN (3, 4)")
    assert [(s.start, s.end) for s in proof(pipeline).partitions[0].gaps] == [(3, 5)]


def test_a_verified_migration_counts_a_record_with_a_row_only_once(processed):
    pipeline = processed("max-retries: 1")
    folder = pipeline.folder / "json"
    folder.mkdir()
    records = [event(1), event(2, "heartbeat"), event(3)]
    (folder / "a.json").write_text(json.dumps(records))
    TopicTable(pipeline.configuration, "events").migrate(str(folder))
    configured(pipeline, HOURS)
    table = TopicTable(pipeline.configuration, "events")
    (check,) = table.verify_migration(str(folder))
    assert (check.rows, check.filtered, check.problem) == (3, 0, None)
    pipeline.table.delete("id = 3")
    (check,) = table.verify_migration(str(folder))
    assert (check.rows, check.problem) == (2, "1 of its records aren't in the table")


def test_a_proof_counts_filtered_records_with_fields_that_only_derived_columns_read(processed):
    lines = 'columns: {label: "upper(title)"}\nwhere: "kind <> \'x\'"'
    pipeline = processed(lines, schema=None, evolves=True)
    pipeline.produce({"id": 1, "kind": "a"}, {"id": 2, "title": "t"})  # the condition is NULL
    report = pipeline.take_in()
    assert (report.rows, report.filtered) == (1, 1)
    found = proof(pipeline)
    assert (found.holds, found.partitions[0].filtered) == (True, 1)
