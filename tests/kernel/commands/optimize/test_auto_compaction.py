"""When `delta.autoOptimize.autoCompact` compacts, what it compacts, and what it never does."""

from __future__ import annotations

import logging
import threading

import pyarrow as pa
import pytest

import bayou
from bayou.errors import BayouError
from bayou.kernel.commands.optimize import auto_compaction
from bayou.kernel.commands.optimize.auto_compaction import compact_after

AUTO_COMPACT = {"delta.autoOptimize.autoCompact": "true"}


@pytest.fixture(autouse=True)
def new_process(monkeypatch):
    """Forgets the counts of other tests, as a new process would; five files are many."""
    monkeypatch.setattr(auto_compaction, "_COUNTS", auto_compaction._SmallFileCounts())
    monkeypatch.setattr(auto_compaction, "_MIN_FILES", 5)


def append(path, rows, times=1, **options):
    for _ in range(times):
        bayou.write(path, pa.Table.from_pylist(rows), **options)


def operations(path) -> list[str]:
    return [str(commit["operation"]) for commit in bayou.table(path).history()]


def num_files(path) -> int:
    return bayou.table(path).snapshot().files().num_rows


def test_many_small_files_become_one(path):
    append(path, [{"id": 1}], configuration=AUTO_COMPACT)
    append(path, [{"id": 1}], 3)
    assert "OPTIMIZE" not in operations(path)
    append(path, [{"id": 1}])
    newest, *_ = bayou.table(path).history(1)
    assert newest["operation"] == "OPTIMIZE"
    assert newest["operationParameters"]["auto"] is True
    assert num_files(path) == 1
    assert bayou.table(path).to_arrow().num_rows == 5


def test_the_old_property_means_the_same(path):
    append(path, [{"id": 1}], configuration={"delta.autoOptimize": "true"})
    append(path, [{"id": 1}], 4)
    assert operations(path).count("OPTIMIZE") == 1


@pytest.mark.parametrize("properties", [{}, {"delta.autoOptimize.autoCompact": "false"}])
def test_nothing_is_compacted_unless_the_property_says_so(path, properties):
    append(path, [{"id": 1}], configuration=properties)
    append(path, [{"id": 1}], 6)
    assert "OPTIMIZE" not in operations(path)


def test_only_partitions_with_many_small_files_are_compacted(path):
    days = [{"id": 1, "day": "a"}, {"id": 2, "day": None}, {"id": 3, "day": "b=/ü"}]
    append(path, days, partition_by=["day"], configuration=AUTO_COMPACT)
    append(path, days[:1], 3)
    append(path, days[1:2], 4)
    append(path, days[2:], 4)
    assert operations(path).count("OPTIMIZE") == 2
    files = bayou.table(path).snapshot().files().column("partition_values").to_pylist()
    assert sorted(str(dict(values)["day"]) for values in files) == ["None", *"aaaa", "b=/ü"]
    assert bayou.table(path).to_arrow().num_rows == 3 + 3 + 4 + 4


def test_files_of_other_processes_count(path, monkeypatch):
    append(path, [{"id": 1}], 8)
    bayou.table(path).alter.set_table_properties(AUTO_COMPACT)
    append(path, [{"id": 1}])
    assert operations(path)[0] == "OPTIMIZE"
    append(path, [{"id": 1}], 3)
    monkeypatch.setattr(auto_compaction, "_COUNTS", auto_compaction._SmallFileCounts())
    append(path, [{"id": 1}])
    assert operations(path).count("OPTIMIZE") == 2
    assert num_files(path) == 1


def test_most_commits_do_not_read_the_log_again(path, monkeypatch):
    append(path, [{"id": 1}], configuration=AUTO_COMPACT)
    loaded: list[str] = []
    load = auto_compaction.load_table_state

    def counted(engine, table, **options):
        loaded.append(table)
        return load(engine, table, **options)

    monkeypatch.setattr(auto_compaction, "load_table_state", counted)
    append(path, [{"id": 1}], 3)
    assert loaded == []
    append(path, [{"id": 1}])
    assert len(loaded) == 1


def test_updates_merges_and_deletes_compact_too(path):
    append(path, [{"id": 1, "v": 0}], configuration=AUTO_COMPACT)
    for i in range(2, 6):
        bayou.table(path).merge(
            pa.Table.from_pylist([{"id": i, "v": 0}]), "target.id = source.id"
        ).when_not_matched_insert_all().execute()
    assert operations(path)[0] == "OPTIMIZE"
    assert num_files(path) == 1
    bayou.table(path).update({"v": "1"}, predicate="id = 4")
    rows = bayou.table(path).to_arrow().to_pylist()
    assert {row["id"]: row["v"] for row in rows} == {i: int(i == 4) for i in range(1, 6)}


def test_restore_and_optimize_do_not_compact(path):
    append(path, [{"id": 1}], 8)
    bayou.table(path).alter.set_table_properties(AUTO_COMPACT)
    bayou.table(path).restore(7)
    assert operations(path)[0] == "RESTORE"


def test_clustered_files_stay_clustered(path):
    append(path, [{"id": i} for i in range(10)], 2, configuration=AUTO_COMPACT)
    bayou.table(path).alter.cluster_by("id")
    bayou.table(path).optimize()
    append(path, [{"id": 1}], 5)
    assert num_files(path) == 2
    assert operations(path)[0] == "OPTIMIZE"


def test_a_failure_is_logged_and_the_commit_stays(path, monkeypatch, caplog):
    append(path, [{"id": 1}], configuration=AUTO_COMPACT)
    append(path, [{"id": 1}], 3)

    def fails(*_, **__):
        raise BayouError("the disk is full")

    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
        patched.setattr(auto_compaction, "run_plan", fails)
        append(path, [{"id": 1}])
    assert "auto compaction after version 4 failed" in caplog.text
    assert "the disk is full" in caplog.text
    assert bayou.table(path).to_arrow().num_rows == 5
    append(path, [{"id": 1}])
    assert operations(path)[0] == "OPTIMIZE"


def test_a_partition_is_compacted_by_one_thread(path, monkeypatch):
    append(path, [{"id": 1}], configuration=AUTO_COMPACT)
    append(path, [{"id": 1}], 3)
    entered, go_on = threading.Event(), threading.Event()
    compact = auto_compaction._compact
    calls: list[int] = []

    def slow(*given):
        calls.append(1)
        entered.set()
        assert go_on.wait(30)
        return compact(*given)

    monkeypatch.setattr(auto_compaction, "_compact", slow)
    thread = threading.Thread(target=append, args=(path, [{"id": 1}]))
    thread.start()
    assert entered.wait(30)
    append(path, [{"id": 1}])
    go_on.set()
    thread.join()
    assert calls == [1]
    assert bayou.table(path).to_arrow().num_rows == 6


def test_commits_without_small_files_do_nothing(engine, path):
    append(path, [{"id": 1}])
    table = bayou.kernel.Table.for_path(engine, path)
    transaction = (
        table.latest_snapshot(engine)
        .build_update_table_transaction("test", bayou.kernel.Operation.WRITE)
        .build(engine)
    )
    result = transaction.commit(engine, ())
    assert compact_after(engine, transaction, result) is None
