"""Tables that were restored while a pipeline looked away."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import pyarrow as pa
import pytest

import bayou
from bayou.engines import for_path
from bayou.errors import PipelineError
from bayou.ingest import TopicTable
from bayou.ingest.batch.target.target_and_dead_letters import TopicTables
from bayou.ingest.batch.target.target_checks import check_not_restored
from bayou.ingest.batch.target.target_table import TargetTable
from bayou.ingest.batch.target.target_upserts import TargetUpserts
from bayou.ingest.broker import describe_topic
from bayou.kernel import Table
from bayou.kernel.commands.optimize import auto_compaction


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
    assert check_not_restored(engine, table, TOPIC, table.latest_snapshot(engine), known=2) == -1


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
