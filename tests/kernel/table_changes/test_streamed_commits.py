import pytest

from bayou.kernel.table_changes.streamed_commits import added_files, changed_files, commits_from
from support.log_writer import (
    LogWriter,
    add,
    commit_info,
    deletion_vector,
    metadata,
    protocol,
    remove,
)

CDC = {"cdc": {"path": "c", "partitionValues": {}, "size": 9, "dataChange": False}}


def only_commit(log: LogWriter):
    (found,) = commits_from(log.engine, log.table, 0)
    (commit,) = found.commit_actions(log.engine, ())
    return commit


def test_added_files_are_those_with_new_rows_in_the_order_of_the_log(log):
    log.commit(
        commit_info(operation="WRITE"),
        protocol(),
        metadata({"id": "long"}),
        add("z", size=3, stats={"numRecords": 1}),
        add("moved", dataChange=False),
        remove("gone"),
        remove("also"),
        add("a", size=4),
    )
    files = added_files(only_commit(log))
    assert files.paths.to_pylist() == ["z", "a"]
    assert files.sizes.to_pylist() == [3, 4]
    assert files.adds.field("stats").null_count == 2
    assert (files.removed, files.has_files) == ("gone", True)
    assert files.metadata is not None
    assert files.protocol is not None
    assert files.info.get("operation") == "WRITE"


def test_changed_files_are_the_recorded_ones_where_there_are_any(log):
    log.commit(protocol(), metadata({"id": "long"}), add("a"), remove("b", size=2), CDC)
    files = changed_files(only_commit(log))
    assert (files.paths.to_pylist(), files.sizes.to_pylist()) == (["c"], [9])
    assert files.recorded
    assert files.read_together


def test_changed_files_are_else_those_added_and_removed_in_the_order_of_the_log(log):
    log.commit(protocol(), metadata({"id": "long"}), add("b"), remove("a"), add("c"))
    files = changed_files(only_commit(log))
    assert files.paths.to_pylist() == ["b", "a", "c"]
    assert files.sizes.to_pylist() == [1, 0, 1]
    assert not files.read_together


def test_files_with_deletion_vectors_belong_together(log):
    log.commit(protocol(), metadata({"id": "long"}), add("a", vector=deletion_vector("v")))
    assert changed_files(only_commit(log)).read_together


@pytest.mark.parametrize(("count", "paths"), [("0", []), ("1", ["a"])])
def test_a_merge_that_changed_no_row_has_no_changed_files(log, count, paths):
    metrics = dict.fromkeys(
        ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted"), count
    )
    log.commit(
        commit_info(operation="MERGE", operationMetrics=metrics),
        protocol(),
        metadata({"id": "long"}),
        add("a"),
    )
    assert changed_files(only_commit(log)).paths.to_pylist() == paths
