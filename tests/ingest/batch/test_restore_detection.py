"""Tables that were restored while a pipeline looked away."""

from __future__ import annotations

import contextlib
import time
from types import SimpleNamespace

import pyarrow as pa
import pytest

import bayou
from bayou.engines import for_path
from bayou.errors import PipelineError
from bayou.ingest import TopicTable
from bayou.ingest.batch.target.target_and_dead_letters import TopicTables
from bayou.ingest.batch.target.target_checks import check_not_restored, restore_app_id
from bayou.ingest.batch.target.target_table import TargetTable
from bayou.ingest.batch.target.target_upserts import TargetUpserts
from bayou.ingest.broker import describe_topic
from bayou.ingest.dead_letters.dead_letter_replay import replay_dead_letters
from bayou.ingest.inspection import prove_offsets
from bayou.kernel import Table
from bayou.kernel.commands.optimize import auto_compaction
from bayou.kernel.maintenance.log_cleanup import clean_up_log


def kafka_topic(pipeline):
    properties = pipeline.configuration.connector.kafka.client_properties()
    return describe_topic(pipeline.kafka_topic, properties)


TOPIC = SimpleNamespace(
    key="t",
    restore_setting=lambda version: f"accept-restore: {version}",
    config=SimpleNamespace(accept_restore=None, kafka_topic="t"),
)


def test_a_restore_is_seen_also_where_others_commit_meanwhile(tmp_path):
    path = str(tmp_path / "t")
    for n in range(2):
        bayou.write(path, pa.table({"id": [n]}), transaction=("kafka/c/t/-/0", n))
    bayou.table(path).restore(0)  # version 2
    for n in range(3):  # while the log is read
        bayou.write(path, pa.table({"id": [n]}))
    engine = for_path(path)
    table = Table.for_path(engine, path)
    restored = table.snapshot_as_of_version(engine, 2)
    with pytest.raises(PipelineError, match="version 2 of .* is a RESTORE"):
        check_not_restored(engine, table, TOPIC, restored, known=1)
    latest = table.latest_snapshot(engine)
    assert check_not_restored(engine, table, TOPIC, latest, known=2).newest == -1


def test_a_comment_on_a_new_column_does_not_hide_a_restore(small_pipeline):
    small_pipeline.evolves = True
    small_pipeline.write_file()
    small_pipeline.produce({"id": 1})
    small_pipeline.take_in()
    small_pipeline.write_file()
    text = small_pipeline.file.read_text()
    comment = "column-comments: {id: Number}\n        delta-config"
    small_pipeline.file.write_text(text.replace("delta-config", comment))
    tables = TopicTables.of(small_pipeline.topic, kafka_topic(small_pipeline), {})
    tables.target.open()
    small_pipeline.produce({"id": 2})
    small_pipeline.take_in()
    small_pipeline.table.restore(0)
    tables.target.comment_columns()  # as after a batch, before the restore was seen
    assert small_pipeline.table.snapshot().schema.get("id").metadata["comment"] == "Number"
    with pytest.raises(PipelineError, match="version 2 of .* is a RESTORE"):
        small_pipeline.take_in()


@pytest.mark.parametrize("upserts", [False, True])
def test_an_auto_compaction_after_a_batch_does_not_hide_a_restore(
    small_pipeline, upserts, monkeypatch
):
    small_pipeline.upserts = upserts
    small_pipeline.write_file()
    for number in range(4):
        small_pipeline.produce({"id": number})
        small_pipeline.take_in()
        if number == 0:
            auto_compact = {"delta.autoOptimize.autoCompact": "true"}
            small_pipeline.table.alter.set_table_properties(auto_compact)  # version 1
    monkeypatch.setattr(auto_compaction, "_COUNTS", auto_compaction._SmallFileCounts())
    monkeypatch.setattr(auto_compaction, "_MIN_FILES", 2)
    path, load = small_pipeline.table.table_uri, auto_compaction.load_table_state

    def restored_before(engine, table, **options):
        if table == path:  # another process, between the batch and the compaction
            small_pipeline.table.restore(3)
        return load(engine, table, **options)

    monkeypatch.setattr(auto_compaction, "load_table_state", restored_before)
    small_pipeline.produce({"id": 4})
    small_pipeline.take_in()
    newest, restore, *_ = small_pipeline.table.history(2)
    assert newest["operation"] == "OPTIMIZE"
    with pytest.raises(PipelineError, match=f"version {restore['version']} of .* is a RESTORE"):
        small_pipeline.take_in()


@pytest.mark.parametrize("upserts", [False, True])
def test_a_program_that_writes_during_a_restore_does_not_hide_it(
    new_pipeline, upserts, monkeypatch
):
    pipeline = new_pipeline(upserts=upserts)
    for number in range(2):
        pipeline.produce({"id": number})
        pipeline.take_in()
    writer, name = (TargetUpserts, "upsert") if upserts else (TargetTable, "commit")
    write = getattr(writer, name)

    def restored_before(target, *args, **options):
        monkeypatch.setattr(writer, name, write)
        pipeline.table.restore(0)
        return write(target, *args, **options)

    monkeypatch.setattr(writer, name, restored_before)
    with contextlib.suppress(PipelineError):
        TopicTable(pipeline.configuration, "events").write([{"id": 9}])
    pipeline.produce({"id": 3})
    with pytest.raises(PipelineError, match="version 2 of .* is a RESTORE"):
        pipeline.take_in()


def clean_up(table):
    """Write a checkpoint and delete the commits before it, as log cleanup after the retention."""
    engine = for_path(table.table_uri)
    version = Table.for_path(engine, table.table_uri).checkpoint(engine)
    later = time.time_ns() // 1_000_000 + 86_400_000
    cleanup = clean_up_log(engine, table.table_uri, retention_ms=0, now=later, granularity_ms=1)
    assert cleanup.earliest_version == version


@pytest.mark.parametrize("upserts", [False, True])
def test_a_restore_that_log_cleanup_has_deleted_is_noticed(new_pipeline, upserts):
    pipeline = new_pipeline(upserts=upserts)
    for number in range(3):
        pipeline.produce({"id": number})
        pipeline.take_in()
    pipeline.table.restore(0)  # version 3
    pipeline.table.alter.set_table_properties({"a": "b"})
    clean_up(pipeline.table)
    pipeline.produce({"id": 3})
    with pytest.raises(PipelineError) as caught:
        pipeline.take_in()
    assert "log cleanup has deleted the commits up to version 3" in caught.value.message
    assert "no row of the last recorded offset (partition 0, offset 2)" in caught.value.message
    setting = "connector.topics.events.accept-restore: 3"
    assert setting in caught.value.message
    text = pipeline.file.read_text()
    pipeline.file.write_text(
        text.replace("      kafka-topic", "      accept-restore: 3\n      kafka-topic")
    )
    pipeline.take_in()
    pipeline.file.write_text(text)
    pipeline.produce({"id": 4})
    pipeline.take_in()
    assert sorted(pipeline.table.to_arrow()["id"].to_pylist()) == [0, 3, 4]


def test_a_topic_goes_on_after_log_cleanup_if_the_table_has_its_last_rows(small_pipeline):
    for partition in (0, 1):
        small_pipeline.produce({"id": partition}, partition=partition)
        small_pipeline.take_in()
    small_pipeline.table.alter.set_table_properties({"a": "b"})
    clean_up(small_pipeline.table)
    small_pipeline.produce({"id": 2})
    small_pipeline.take_in()
    small_pipeline.table.alter.set_table_properties({"a": "c"})
    clean_up(small_pipeline.table)
    small_pipeline.table.delete("_kafka_partition = 1")
    small_pipeline.produce({"id": 3})
    with pytest.raises(PipelineError, match=r"offset \(partition 1, offset 0\)"):
        small_pipeline.take_in()


def test_the_last_row_of_another_partition_does_not_hide_a_restore(small_pipeline):
    small_pipeline.produce({"id": 0}, {"id": 1}, partition=1)
    small_pipeline.take_in()
    for number in (2, 3):
        small_pipeline.produce({"id": number})
        small_pipeline.take_in()
    small_pipeline.table.restore(0)
    small_pipeline.table.alter.set_table_properties({"a": "b"})
    clean_up(small_pipeline.table)
    small_pipeline.produce({"id": 4})
    with pytest.raises(PipelineError, match=r"offset \(partition 0, offset 1\)"):
        small_pipeline.take_in()


@pytest.mark.parametrize("upserts", [False, True])
def test_a_replay_of_dead_letters_does_not_hide_a_restore(new_pipeline, upserts):
    pipeline = new_pipeline(upserts=upserts)
    for record in ({"id": 0}, {"id": 1}, {"id": 2, "colour": "red"}):
        pipeline.produce(record)
        pipeline.take_in()
    pipeline.table.restore(0)
    version = pipeline.table.version()
    pipeline.evolves = True
    pipeline.write_file()
    with pytest.raises(PipelineError, match=f"version {version} of .* is a RESTORE"):
        replay_dead_letters(pipeline.configuration, pipeline.topic)
    assert pipeline.dead_letters.to_arrow().num_rows == 1
    pipeline.table.alter.set_table_properties({"a": "b"})
    clean_up(pipeline.table)
    pipeline.produce({"id": 3})
    with pytest.raises(PipelineError, match=r"offset \(partition 0, offset 2\)"):
        pipeline.take_in()


def test_log_cleanup_during_a_run_does_not_hide_a_restore(small_pipeline):
    for number in range(2):
        small_pipeline.produce({"id": number})
        small_pipeline.take_in()
    target = TargetTable(
        for_path(small_pipeline.path), small_pipeline.topic, kafka_topic(small_pipeline)
    )
    target.open()
    small_pipeline.table.restore(0)
    small_pipeline.table.alter.set_table_properties({"a": "b"})
    clean_up(small_pipeline.table)
    with pytest.raises(PipelineError, match="commits up to version 2"):
        target.refresh()


def test_a_topic_that_continues_after_log_cleanup_does_not_hide_a_restore_from_other_topics(
    tmp_path,
):
    path = str(tmp_path / "t")
    schema = {"_kafka_partition": pa.int32(), "_kafka_offset": pa.int64()}
    for topic in ("a", "t"):
        rows = {"_kafka_topic": [topic], "_kafka_partition": [0], "_kafka_offset": [0]}
        rows = pa.table(rows).cast(pa.schema({"_kafka_topic": pa.string(), **schema}))
        bayou.write(path, rows, transaction=(f"kafka/c/{topic}/-/0", 0))
    bayou.table(path).restore(0)  # version 2; removes the row of topic t
    bayou.table(path).alter.set_table_properties({"a": "b"})
    clean_up(bayou.table(path))
    engine = for_path(path)
    table = Table.for_path(engine, path)
    config = SimpleNamespace(accept_restore=None, kafka_topic="a")
    other = SimpleNamespace(**{**vars(TOPIC), "config": config, "table_path": path})
    latest = table.latest_snapshot(engine)
    assert check_not_restored(engine, table, other, latest, known=None).newest == 2
    application = restore_app_id(latest.table_id, "a")  # as the next commit of topic a records
    bayou.write(path, bayou.table(path).to_arrow().slice(0, 0), transaction=(application, 2))
    topic = SimpleNamespace(**{**vars(TOPIC), "table_path": path})
    with pytest.raises(PipelineError, match="commits up to version 2"):
        check_not_restored(engine, table, topic, table.latest_snapshot(engine), known=None)


def test_a_restore_of_migrated_records_is_noticed_after_log_cleanup(small_pipeline):
    folder = small_pipeline.folder / "old"
    folder.mkdir()
    events = TopicTable(small_pipeline.configuration, "events")
    for number in range(2):
        (folder / f"{number}.json").write_text(f'{{"id": {number}}}\n')
        events.migrate(str(folder))
    small_pipeline.table.alter.set_table_properties({"a": "b"})
    clean_up(small_pipeline.table)
    (folder / "2.json").write_text('{"id": 2}\n')
    events.migrate(str(folder))
    before = small_pipeline.table.version()
    small_pipeline.table.alter.set_table_properties({"a": "c"})
    small_pipeline.table.restore(before - 1)
    small_pipeline.table.alter.set_table_properties({"a": "d"})
    clean_up(small_pipeline.table)
    (folder / "3.json").write_text('{"id": 3}\n')
    with pytest.raises(PipelineError, match=r"last migrated batch \(records 2 to 2\)"):
        events.migrate(str(folder))


def test_an_idle_topic_commits_that_its_table_was_checked(small_pipeline):
    small_pipeline.produce({"id": 1})
    small_pipeline.take_in()
    small_pipeline.take_in()
    assert small_pipeline.table.version() == 0
    retention = {"delta.logRetentionDuration": "interval 0 seconds"}
    small_pipeline.table.alter.set_table_properties(retention)
    small_pipeline.take_in()
    identifier = f"restore-check/{small_pipeline.kafka_topic}"
    assert small_pipeline.table.snapshot().transactions[identifier] == 1
    small_pipeline.table.delete("id = 1")
    clean_up(small_pipeline.table)
    with pytest.raises(PipelineError, match="may have been restored"):
        small_pipeline.take_in()


def test_a_check_that_an_idle_topic_has_committed_replaces_the_last_row(small_pipeline):
    small_pipeline.produce({"id": 1}, b"not JSON")
    small_pipeline.take_in()
    retention = {"delta.logRetentionDuration": "interval 0 seconds"}
    small_pipeline.table.alter.set_table_properties(retention)
    small_pipeline.take_in()
    clean_up(small_pipeline.table)
    small_pipeline.produce({"id": 2})
    small_pipeline.take_in()
    assert sorted(small_pipeline.table.to_arrow()["id"].to_pylist()) == [1, 2]


def test_verify_shows_the_rows_that_a_restore_has_removed_from_a_filtered_topic(small_pipeline):
    small_pipeline.more = "      processing: {where: id <> 9}\n"
    small_pipeline.write_file()
    for number in (0, 9, 1, 9):
        small_pipeline.produce({"id": number})
        small_pipeline.take_in()
    small_pipeline.table.restore(0)
    small_pipeline.table.alter.set_table_properties({"a": "b"})
    clean_up(small_pipeline.table)
    with pytest.raises(PipelineError, match="run bayou verify"):
        small_pipeline.take_in()
    proof = prove_offsets(small_pipeline.configuration, small_pipeline.topic)
    assert not proof.holds
    assert [(s.start, s.end) for p in proof.partitions for s in p.gaps] == [(2, 3)]
