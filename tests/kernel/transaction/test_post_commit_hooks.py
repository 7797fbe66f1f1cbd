"""What a commit makes due, in which order, and that a failure never touches the commit."""

from __future__ import annotations

import logging

import pytest

from bayou.errors import ArgumentError
from bayou.kernel import Operation, Table, TransactionBuilder
from bayou.kernel.transaction.post_commit_hooks import PostCommitHook, due_hooks, run_hooks
from bayou.protocol.actions import AddFile
from bayou.protocol.schema import LONG, StructField, StructType
from support.faults import Fault, FaultInjectingEngine

SCHEMA = StructType((StructField(name="id", data_type=LONG),))


def builder(engine, path) -> TransactionBuilder:
    table = Table.for_path(engine, path)
    built = table.create_transaction_builder(engine, "test", Operation.WRITE)
    return built if table.exists(engine) else built.with_schema(SCHEMA)


def append(engine, path, name="a", **options):
    built = builder(engine, path)
    if options:
        built = built.with_log_compaction_interval(**options)
    add = AddFile(path=name, partition_values={}, size=3, modification_time=0, data_change=True)
    return built.build(engine).commit(engine, [add])


def test_the_checksum_is_always_due(engine, table_path):
    result = append(engine, table_path)
    assert [h.name for h in result.post_commit_hooks] == ["checksum"]
    result.run_post_commit_hooks(engine)
    segment = Table.for_path(engine, table_path).latest_snapshot(engine).log_segment
    assert segment.checksum is not None
    assert segment.checksum[0] == 0


def test_hooks_come_in_the_order_in_which_each_costs_least():
    hooks = due_hooks("t", 19, {"delta.checkpointInterval": "19"}, compaction_interval=10)
    assert [h.name for h in hooks] == ["checksum", "checkpoint", "log_compaction", "log_cleanup"]
    assert hooks[2].first_version == 10


def test_a_table_that_keeps_its_log_is_not_cleaned():
    configuration = {"delta.checkpointInterval": "5", "delta.enableExpiredLogCleanup": "false"}
    assert [h.name for h in due_hooks("t", 5, configuration)] == ["checksum", "checkpoint"]


def test_commits_are_compacted_every_so_many(engine, table_path):
    due = [append(engine, table_path, f"f{i}", commits=3) for i in range(6)]
    names = [[h.name for h in result.post_commit_hooks] for result in due]
    assert [v for v, n in enumerate(names) if "log_compaction" in n] == [2, 5]
    for result in due:
        result.run_post_commit_hooks(engine)
    segment = Table.for_path(engine, table_path).latest_snapshot(engine).log_segment
    assert [(c.version, c.end_version) for c in segment.compacted] == [(0, 2), (3, 5)]


def test_a_compaction_of_one_commit_is_refused(engine, table_path):
    with pytest.raises(ArgumentError, match="2 or more"):
        builder(engine, table_path).with_log_compaction_interval(1)


def test_a_hook_that_fails_is_logged_and_the_others_run(engine, table_path, caplog):
    results = [append(engine, table_path, f"f{i}", commits=2) for i in range(2)]
    faulty = FaultInjectingEngine(engine, Fault(operation="put_if_absent", path=".crc"))
    with caplog.at_level(logging.WARNING):
        results[1].run_post_commit_hooks(faulty)
    assert ": the checksum of" in caplog.text
    assert "The commit is valid" in caplog.text
    segment = Table.for_path(engine, table_path).latest_snapshot(engine).log_segment
    assert (segment.checksum, segment.version) == (None, 1)
    listed = [s.path for s in engine.files.list_from(f"{table_path}/_delta_log/0")]
    assert any(path.endswith("compacted.json") for path in listed)


def test_an_exception_of_any_type_in_a_hook_does_not_look_like_a_failed_commit(
    engine, table_path, caplog, monkeypatch
):
    def fails(self: PostCommitHook, engine: object) -> None:
        raise RuntimeError(f"a bug in {self.name}")

    result = append(engine, table_path)
    monkeypatch.setattr(PostCommitHook, "run", fails)
    with caplog.at_level(logging.WARNING):
        result.run_post_commit_hooks(engine)
    assert "The commit is valid" in caplog.text
    assert "RuntimeError: a bug in checksum" in caplog.text


def test_a_hook_may_be_run_later_by_somebody_who_knows_only_its_name(engine, table_path):
    for name in "ab":
        append(engine, table_path, name)
    for version in (0, 1):
        PostCommitHook(name="checksum", table=table_path, version=version).run(engine)
    snapshot = Table.for_path(engine, table_path).latest_snapshot(engine)
    assert snapshot.log_segment.checksum is not None


def test_nothing_due_is_nothing_done(engine):
    run_hooks(engine, ())


def test_checksums_go_on_behind_a_writer_whose_own_is_still_on_its_way(engine, table_path):
    append(engine, table_path).run_post_commit_hooks(engine)
    one, two = (builder(engine, table_path).build(engine) for _ in range(2))
    add = AddFile(path="x", partition_values={}, size=5, modification_time=0, data_change=True)
    one.commit(engine, [add])
    two.commit(engine, [add]).run_post_commit_hooks(engine)
    segment = Table.for_path(engine, table_path).latest_snapshot(engine).log_segment
    assert segment.checksum is not None
    assert segment.checksum[0] == 2
