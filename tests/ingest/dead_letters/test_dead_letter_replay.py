"""Dead letters decided again: each becomes one row at most, whatever happens in between."""

from __future__ import annotations

import contextlib
import datetime as dt
import shutil

import pyarrow as pa
import pytest

import bayou
from bayou.errors import PipelineError, PredicateError
from bayou.ingest import TopicTable
from bayou.ingest.dead_letters import append_replay
from bayou.ingest.dead_letters.append_replay import AppendReplay
from bayou.ingest.dead_letters.dead_letter_replay import delete_dead_letters, replay_dead_letters
from bayou.ingest.inspection import prove_offsets
from bayou.ingest.topic_table.direct_writer import DirectWriter
from bayou.spark.kafka.embedded_broker import ProducedRecord
from support.processed_pipelines import configured

STRICT = {"type": "object", "properties": {"id": {"type": "integer"}}}
WIDER = {"type": "object", "properties": {"id": {"type": "integer"}, "colour": {"type": "string"}}}


@pytest.fixture
def pipeline(small_pipeline):
    """Records with a field that no column is there for, and one that isn't JSON."""
    small_pipeline.write_schema(STRICT)
    small_pipeline.produce({"id": 1}, {"id": 2, "colour": "red"}, b"no json")
    small_pipeline.produce({"id": 3, "colour": "blue"}, partition=1)
    report = small_pipeline.take_in()
    assert (report.rows, report.dead_letters) == (1, 3)
    return small_pipeline


def fix_schema(pipeline):
    pipeline.evolves = True
    pipeline.write_schema(WIDER)
    pipeline.write_file()


def replay(pipeline, **options):
    return replay_dead_letters(pipeline.configuration, pipeline.topic, **options)


def rows(pipeline):
    return sorted((r["id"], r.get("colour")) for r in pipeline.table.to_arrow().to_pylist())


def letters(pipeline):
    return sorted(
        (r["partition"], r["offset"]) for r in pipeline.dead_letters.to_arrow().to_pylist()
    )


def test_after_a_schema_fix_letters_become_rows_and_the_others_stay(pipeline):
    fix_schema(pipeline)
    outcome = replay(pipeline)
    assert (outcome.replayed, outcome.refused, outcome.already_rows, outcome.skipped) == (
        2,
        1,
        0,
        0,
    )
    assert list(outcome.reasons.values()) == [1]
    assert rows(pipeline) == [(1, None), (2, "red"), (3, "blue")]
    assert letters(pipeline) == [(0, 2)]
    assert prove_offsets(pipeline.configuration, pipeline.topic).holds


def test_without_a_fix_nothing_changes(pipeline):
    version = pipeline.table.snapshot().version
    outcome = replay(pipeline)
    assert (outcome.replayed, outcome.refused, outcome.version) == (0, 3, None)
    assert pipeline.table.snapshot().version == version
    assert len(letters(pipeline)) == 3


def test_new_fields_that_where_reads_hide_no_other_new_fields(small_pipeline):
    small_pipeline.write_schema(STRICT)
    small_pipeline.produce(
        {"id": 1}, {"id": 2, "kind": "a", "colour": "red"}, {"id": 3, "kind": "x", "size": 1}
    )
    assert small_pipeline.take_in().dead_letters == 2
    small_pipeline.evolves = True
    configured(small_pipeline, "where: \"kind IS NULL OR kind <> 'x'\"", schema=None)
    outcome = replay(small_pipeline)
    assert (outcome.replayed, outcome.filtered, outcome.refused) == (1, 1, 0)
    assert rows(small_pipeline) == [(1, None), (2, "red")]
    assert "size" not in small_pipeline.table.to_arrow().column_names
    assert letters(small_pipeline) == []


def test_a_dry_run_tells_and_changes_nothing(pipeline):
    fix_schema(pipeline)
    outcome = replay(pipeline, dry_run=True)
    assert (outcome.replayed, outcome.refused) == (2, 1)
    assert rows(pipeline) == [(1, None)]
    assert len(letters(pipeline)) == 3


def test_a_replay_that_ended_between_its_commits_is_finished_by_the_next(pipeline, monkeypatch):
    fix_schema(pipeline)

    def killed(self):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(append_replay.AppendReplay, "_delete_done", killed)
        with pytest.raises(KeyboardInterrupt):
            replay(pipeline)
    assert len(letters(pipeline)) == 3
    outcome = replay(pipeline)
    assert (outcome.replayed, outcome.already_rows, outcome.refused) == (0, 2, 1)
    assert rows(pipeline) == [(1, None), (2, "red"), (3, "blue")]
    assert letters(pipeline) == [(0, 2)]
    assert prove_offsets(pipeline.configuration, pipeline.topic).holds


def test_the_rows_of_two_interrupted_replays_are_recognized(pipeline, monkeypatch):
    fix_schema(pipeline)
    with monkeypatch.context() as interrupted:
        interrupted.setattr(AppendReplay, "_delete_done", lambda _: None)
        for partition in (0, 1):
            assert replay(pipeline, where=f"partition = {partition}").replayed == 1
    outcome = replay(pipeline)
    assert (outcome.replayed, outcome.already_rows, outcome.refused) == (0, 2, 1)
    assert rows(pipeline) == [(1, None), (2, "red"), (3, "blue")]
    assert letters(pipeline) == [(0, 2)]
    assert replay(pipeline).refused == 1


def test_a_letter_that_is_newer_than_the_row_of_an_interrupted_replay_stays(pipeline, monkeypatch):
    """The topic was recreated, and the dead letter of the deleted topic was dropped."""
    fix_schema(pipeline)
    with monkeypatch.context() as interrupted:
        interrupted.setattr(AppendReplay, "_delete_done", lambda _: None)
        replay(pipeline)
    letter = pipeline.dead_letters.to_arrow(filter="partition = 1").to_pylist()[0]
    letter["value"] = b'{"id": 4, "colour": "green"}'
    letter["_ingestion_timestamp"] += dt.timedelta(days=1)
    schema = pipeline.dead_letters.to_arrow().schema
    assert delete_dead_letters(pipeline.configuration, pipeline.topic, where="partition = 1") == 1
    newer = pa.Table.from_pylist([letter], schema)
    bayou.write(pipeline.dead_letters.table_uri, newer, mode="append")
    outcome = replay(pipeline)
    assert (outcome.replayed, outcome.already_rows, outcome.refused) == (0, 1, 2)
    assert outcome.reasons[append_replay.OTHER_ROW] == 1
    assert letters(pipeline) == [(0, 2), (1, 0)]


def test_only_the_letters_asked_for_are_replayed(pipeline):
    fix_schema(pipeline)
    assert replay(pipeline, where="partition = 1").replayed == 1
    assert letters(pipeline) == [(0, 1), (0, 2)]


def test_a_letter_that_is_there_twice_becomes_one_row(pipeline):
    fix_schema(pipeline)
    bayou.write(f"{pipeline.path}_dead_letters", pipeline.dead_letters.to_arrow())
    assert replay(pipeline).replayed == 2
    assert rows(pipeline) == [(1, None), (2, "red"), (3, "blue")]
    assert set(letters(pipeline)) == {(0, 2)}


def test_letters_of_records_that_the_table_does_not_cover_are_left_to_the_pipeline(pipeline):
    fix_schema(pipeline)
    ahead = pipeline.dead_letters.to_arrow(filter="partition = 1")
    at = ahead.schema.get_field_index("offset")
    bayou.write(
        f"{pipeline.path}_dead_letters",
        ahead.set_column(at, ahead.field(at), pa.array([5], pa.int64())),
    )
    outcome = replay(pipeline)
    assert (outcome.replayed, outcome.skipped) == (2, 1)
    assert (1, 5) in letters(pipeline)
    delete_dead_letters(pipeline.configuration, pipeline.topic)
    assert letters(pipeline) == [(1, 5)]


def test_the_pipeline_goes_on_after_a_replay(pipeline):
    fix_schema(pipeline)
    replay(pipeline)
    pipeline.produce({"id": 4, "colour": "green"})
    assert pipeline.take_in().rows == 1
    assert rows(pipeline) == [(1, None), (2, "red"), (3, "blue"), (4, "green")]


def test_letters_are_dropped_by_a_condition(pipeline):
    assert delete_dead_letters(pipeline.configuration, pipeline.topic, where="offset = 2") == 1
    assert letters(pipeline) == [(0, 1), (1, 0)]


def test_a_condition_selects_no_dead_letters_of_other_topics(pipeline):
    of_others = pipeline.dead_letters.to_arrow().set_column(
        pipeline.dead_letters.snapshot().schema.names.index("topic"), "topic", [["other"] * 3]
    )
    bayou.write(pipeline.dead_letters.table_uri, of_others, mode="append")
    for where in ("1 = 1) OR (1 = 1", "offset = 2 OR topic = 'other' -- "):
        for select in (delete_dead_letters, replay_dead_letters):
            with contextlib.suppress(PredicateError):
                select(pipeline.configuration, pipeline.topic, where=where)
    assert pipeline.dead_letters.to_arrow(filter="topic = 'other'").num_rows == 3
    with pytest.raises(PredicateError):
        delete_dead_letters(pipeline.configuration, pipeline.topic, where="1 = 1) OR (1 = 1")


def test_without_a_table_there_is_nothing_to_replay_into(small_pipeline):
    with pytest.raises(PipelineError, match="Run the pipeline first"):
        replay(small_pipeline)


def test_a_letter_without_a_timestamp_has_the_time_when_it_was_read(small_pipeline):
    small_pipeline.write_schema(STRICT)
    text = small_pipeline.file.read_text()
    text = text.replace(
        "      destination:", "      kafka-columns: [timestamp]\n      destination:"
    )
    small_pipeline.file.write_text(text)
    no_time = 2**62  # milliseconds, after the year 9999
    value = b'{"id": 2, "colour": "red"}'
    record = ProducedRecord(value, partition=0, timestamp=no_time)
    small_pipeline.broker.produce(small_pipeline.kafka_topic, [record])
    small_pipeline.take_in()
    (letter,) = small_pipeline.dead_letters.to_arrow().to_pylist()
    small_pipeline.write_schema(WIDER)
    text = text.replace("enable-schema-evolution: false", "enable-schema-evolution: true")
    small_pipeline.file.write_text(text)
    assert replay(small_pipeline).replayed == 1
    (row,) = small_pipeline.table.to_arrow().to_pylist()
    assert row["_kafka_timestamp"] == letter["_ingestion_timestamp"]


@pytest.mark.parametrize("upserts", [False, True])
def test_letters_that_were_replayed_after_the_version_of_a_clone_are_cloned_too(
    new_pipeline, upserts
):
    """The steps of docs/operations/recovery.md."""
    pipeline = new_pipeline(upserts=upserts)
    pipeline.write_schema(STRICT)
    pipeline.produce({"id": 1}, {"id": 2, "colour": "red"}, b"no json")
    pipeline.take_in()
    version = pipeline.table.snapshot().version
    fix_schema(pipeline)
    assert replay(pipeline).replayed == 1
    pipeline.produce({"id": 3}, b"no json either")
    pipeline.take_in()
    time = next(c["timestamp"] for c in pipeline.table.history() if c["version"] == version)
    dead_letters, table = pipeline.dead_letters, pipeline.table
    clone = f"{pipeline.path}_clone"
    table.clone(clone, version=version)
    dead_letters.clone(f"{clone}_dead_letters", timestamp=time)
    pipeline.file.write_text(pipeline.file.read_text().replace("lake/events", "lake/events_clone"))
    report = pipeline.take_in()
    assert (report.rows, report.dead_letters) == (1, 1)
    assert replay(pipeline).replayed == 1
    assert sorted(bayou.table(clone).to_arrow()["id"].to_pylist()) == [1, 2, 3]
    assert bayou.table(f"{clone}_dead_letters").to_arrow().num_rows == 2
    assert prove_offsets(pipeline.configuration, pipeline.topic).holds


def replay_and_clone_between_its_commits(pipeline):
    """Replay, clone both tables as of the replay's first commit, and configure the clones."""
    fix_schema(pipeline)
    earlier = pipeline.dead_letters.snapshot().version
    version = replay(pipeline).version
    pipeline.table.clone(f"{pipeline.path}_clone", version=version)
    letters_path = f"{pipeline.path}_clone_dead_letters"
    pipeline.dead_letters.clone(letters_path, version=earlier)
    pipeline.file.write_text(pipeline.file.read_text().replace("lake/events", "lake/events_clone"))
    return letters_path


@pytest.mark.parametrize("where", [None, "partition = 0"])
def test_clones_from_between_the_commits_of_a_replay_are_like_an_interrupted_replay(
    pipeline, where
):
    """docs/operations/recovery.md, if version N is the replay's commit."""
    letters_path = replay_and_clone_between_its_commits(pipeline)
    outcome = replay(pipeline, where=where)
    known = 2 if where is None else 1
    assert (outcome.replayed, outcome.already_rows, outcome.refused) == (0, known, 1)
    outcome = replay(pipeline)
    assert (outcome.replayed, outcome.already_rows, outcome.refused) == (0, 2 - known, 1)
    assert append_replay.OTHER_ROW not in outcome.reasons
    assert bayou.table(f"{pipeline.path}_clone").to_arrow().num_rows == 3
    assert bayou.table(letters_path).to_arrow()["offset"].to_pylist() == [2]
    assert prove_offsets(pipeline.configuration, pipeline.topic).holds


def test_a_replay_in_a_clone_that_has_completed_is_not_interrupted(pipeline):
    letters_path = replay_and_clone_between_its_commits(pipeline)
    replay(pipeline)
    bayou.table(letters_path).restore(0)
    outcome = replay(pipeline)
    assert (outcome.replayed, outcome.already_rows, outcome.refused) == (0, 0, 3)


def test_the_reason_for_letters_that_a_restore_brought_back_names_the_restore(pipeline):
    fix_schema(pipeline)
    earlier = pipeline.dead_letters.snapshot().version
    replay(pipeline)
    pipeline.dead_letters.restore(earlier)
    outcome = replay(pipeline)
    assert (outcome.replayed, outcome.already_rows, outcome.refused) == (0, 0, 3)
    assert outcome.reasons[append_replay.OTHER_ROW] == 2
    for part in ("topic was recreated", "cloned or restored", "has the record, drop"):
        assert part in append_replay.OTHER_ROW
    assert rows(pipeline) == [(1, None), (2, "red"), (3, "blue")]
    assert len(letters(pipeline)) == 3


@pytest.mark.parametrize("upserts", [False, True])
def test_letters_of_programs_are_refused_and_can_be_dropped(new_pipeline, upserts):
    pipeline = new_pipeline(upserts=upserts)
    pipeline.produce({"id": 1})
    pipeline.take_in()
    TopicTable(pipeline.configuration, "events").write([{"id": 3, "color": "blue"}])
    pipeline.evolves = True
    pipeline.write_file()
    result = replay(pipeline)
    assert (result.replayed, result.skipped, result.refused) == (0, 0, 1)
    assert result.reasons == {append_replay.WRITTEN_BY_PROGRAM: 1}
    assert len(letters(pipeline)) == 1
    assert delete_dead_letters(pipeline.configuration, pipeline.topic) == 1
    assert letters(pipeline) == []


@pytest.fixture(params=["json", "csv"])
def migrating(request, new_pipeline):
    """Return a function that creates a pipeline with a folder of JSON files.

    The topic's own records have another format in one case.
    """

    def create(*, upserts):
        pipeline = new_pipeline(upserts=upserts)
        pipeline.write_schema(STRICT)
        decode = f"decode: {request.param}\n      schema-file"
        write = pipeline.write_file

        def write_file():
            write()
            pipeline.file.write_text(pipeline.file.read_text().replace("schema-file", decode))

        pipeline.write_file = write_file
        pipeline.write_file()
        (pipeline.folder / "old").mkdir()
        lines = ['{"id": 1}', '{"id": 2, "colour": "red"}', '{"id": "?"}']
        (pipeline.folder / "old" / "1.json").write_text("\n".join([*lines, ""]))
        return pipeline

    return create


def migrate(pipeline):
    return TopicTable(pipeline.configuration, "events").migrate(str(pipeline.folder / "old"))


@pytest.mark.parametrize("upserts", [False, True])
def test_letters_of_migrated_files_become_rows_once(migrating, upserts):
    pipeline = migrating(upserts=upserts)
    report = migrate(pipeline)
    assert (report.rows, report.dead_letters) == (1, 2)
    fix_schema(pipeline)
    trial = replay(pipeline, dry_run=True)
    assert (trial.replayed, trial.refused, trial.skipped, trial.version) == (1, 1, 0, None)
    result = replay(pipeline)
    assert (result.replayed, result.refused, result.skipped) == (1, 1, 0)
    again = replay(pipeline)
    assert (again.replayed, again.refused, again.skipped) == (0, 1, 0)
    assert rows(pipeline) == [(1, None), (2, "red")]
    assert letters(pipeline) == [(-1, 2)]
    (check,) = TopicTable(pipeline.configuration, "events").verify_migration(
        str(pipeline.folder / "old")
    )
    assert (check.rows, check.problem) == (2, None)


def test_letters_of_migrated_files_become_rows_once_after_an_interrupted_replay(
    migrating, monkeypatch
):
    pipeline = migrating(upserts=False)
    migrate(pipeline)
    fix_schema(pipeline)
    with monkeypatch.context() as interrupted:
        interrupted.setattr(AppendReplay, "_delete_done", interrupt)
        with pytest.raises(KeyboardInterrupt):
            replay(pipeline)
    events = TopicTable(pipeline.configuration, "events")
    (check,) = events.verify_migration(str(pipeline.folder / "old"))
    assert (check.rows, check.dead_letters, check.problem) == (2, 1, None)
    result = replay(pipeline)
    assert (result.replayed, result.already_rows, result.refused) == (0, 1, 1)
    assert rows(pipeline) == [(1, None), (2, "red")]


def migrate_again(pipeline, second_line):
    """Migrate the files into a new table, beside the dead letters of the first migration."""
    assert migrate(pipeline).dead_letters == 2
    for path in (pipeline.path, f"{pipeline.path}_migration"):
        shutil.rmtree(path)
    lines = ['{"id": 1}', second_line, '{"id": "?"}', ""]
    (pipeline.folder / "old" / "1.json").write_text("\n".join(lines))
    return migrate(pipeline)


def test_letters_at_the_number_of_another_migrated_record_s_row_are_kept(migrating):
    pipeline = migrating(upserts=False)
    assert migrate_again(pipeline, '{"id": 7}').rows == 2
    fix_schema(pipeline)
    result = replay(pipeline)
    assert (result.replayed, result.already_rows, result.refused) == (0, 0, 2)
    assert result.reasons[append_replay.OTHER_ROW] == 1
    assert rows(pipeline) == [(1, None), (7, None)]
    assert letters(pipeline) == [(-1, 1), (-1, 2)]


@pytest.mark.parametrize("upserts", [False, True])
def test_letters_of_different_migrated_records_with_the_same_number_are_refused(migrating, upserts):
    pipeline = migrating(upserts=upserts)
    assert migrate_again(pipeline, '{"id": 7, "colour": "blue"}').dead_letters == 2
    fix_schema(pipeline)
    message = "partition -1, offset 1: some are from an earlier migration, .* of one migration with"
    with pytest.raises(PipelineError, match=message):
        replay(pipeline)
    assert len(letters(pipeline)) == 3
    last = max(pipeline.dead_letters.to_arrow()["_ingestion_timestamp"].to_pylist())
    where = f"_ingestion_timestamp >= '{last.isoformat()}'"
    assert replay(pipeline, where=where).replayed == 1
    assert rows(pipeline) == [(1, None), (7, "blue")]
    assert letters(pipeline) == [(-1, 1), (-1, 2)]


def interrupt(*_args, **_options):
    raise KeyboardInterrupt


@pytest.mark.parametrize("upserts", [False, True])
def test_letters_of_an_interrupted_migration_are_left_to_it(migrating, upserts, monkeypatch):
    pipeline = migrating(upserts=upserts)
    migrate(pipeline)
    lines = ['{"id": 3}', '{"id": 4, "colour": "blue"}', ""]
    (pipeline.folder / "old" / "2.json").write_text("\n".join(lines))
    with monkeypatch.context() as interrupted:
        interrupted.setattr(DirectWriter, "_write_rows", interrupt)
        with pytest.raises(KeyboardInterrupt):
            migrate(pipeline)
    fix_schema(pipeline)
    result = replay(pipeline)
    assert (result.replayed, result.refused, result.skipped) == (1, 1, 1)
    migrate(pipeline)
    assert rows(pipeline) == [(1, None), (2, "red"), (3, None)]
    assert replay(pipeline).replayed == 1
    assert rows(pipeline) == [(1, None), (2, "red"), (3, None), (4, "blue")]


def test_a_field_that_the_change_data_feed_reserves_stops_no_replay(pipeline):
    pipeline.produce({"id": 4, "_change_type": "x"})
    pipeline.take_in()
    pipeline.table.alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    fix_schema(pipeline)
    result = replay(pipeline)
    assert (result.replayed, result.refused) == (2, 2)
    assert rows(pipeline) == [(1, None), (2, "red"), (3, "blue")]
