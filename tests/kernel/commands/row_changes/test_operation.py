"""Row operations: an application's progress, and what stays of changed files."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

import bayou
from bayou.engines import for_path
from bayou.kernel import Table
from bayou.kernel.commands.merge import MergeClause, MergeDefinition, MergeSource
from bayou.kernel.commands.merge.execution import MergeOperation
from bayou.kernel.commands.row_changes.delete import begin_delete, commit_delete
from bayou.kernel.commands.row_changes.update import begin_update, commit_update

INFO = {"engine_info": "test"}


@pytest.fixture
def table(tmp_path):
    path = str(tmp_path / "t")
    bayou.write(path, pa.table({"id": [1, 2], "v": ["a", "b"]}))
    engine = for_path(path, {})
    return engine, Table.for_path(engine, path)


def latest(table):
    engine, handle = table
    return handle.latest_snapshot(engine)


def test_progress_is_committed_once_and_by_updates_and_merges_alone_where_nothing_changes(table):
    engine, _ = table
    none = begin_delete(engine, latest(table), "id = 9", transaction_id=("job", 1), **INFO)
    assert commit_delete(engine, none, none.run(engine)).version == 0
    update = begin_update(
        engine, latest(table), {"v": "'x'"}, "id = 9", transaction_id=("job", 1), **INFO
    )
    assert commit_update(engine, update, update.run(engine)).version == 1
    assert latest(table).transaction_version("job") == 1
    source = pa.table({"id": [7], "v": ["z"]})
    merge = MergeOperation(
        engine,
        latest(table),
        MergeSource.read(source.schema, source.to_batches()),
        MergeDefinition(
            on="target.id = source.id", clauses=(MergeClause(kind="MATCHED", action="delete"),)
        ),
        transaction_ids={"job": 2},
        **INFO,
    )
    with merge.files(engine) as files:
        outcome = merge.task.run(engine, merge.source, files, inserting=True)
    assert merge.commit(engine, outcome).version == 2
    assert latest(table).transaction_version("job") == 2


def test_what_the_table_has_already_leaves_no_file(table):
    engine, handle = table
    for version in (1, 1):
        update = begin_update(
            engine, latest(table), {"v": "v || '!'"}, transaction_id=("job", version), **INFO
        )
        commit_update(engine, update, update.run(engine))
    assert latest(table).version == 1
    assert bayou.table(handle.path).to_arrow()["v"].to_pylist() == ["a!", "b!"]
    assert len(list(Path(handle.path).glob("*.parquet"))) == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.delete("id = 3"),
        lambda table: table.update({"n": "7"}, predicate="id = 3"),
        lambda table: (
            table.merge(pa.table({"id": [3]}), "source.id = target.id")
            .when_matched_delete()
            .execute()
        ),
        lambda table: table.alter.set_table_properties({"delta.enableRowTracking": "true"}),
    ],
    ids=["delete", "update", "merge", "row tracking"],
)
def test_a_file_that_is_committed_again_keeps_its_tags(tmp_path, change):
    path = str(tmp_path / "t")
    properties = {"delta.enableDeletionVectors": "true"}
    bayou.write(path, pa.table({"id": range(9), "n": range(9)}), configuration=properties)
    table = bayou.table(path)
    table.alter.cluster_by("id")
    table.optimize()
    (clustered,) = adds(path)
    assert set(clustered["tags"]) == {"ZCUBE_ID", "ZCUBE_ZORDER_BY"}
    table.create_checkpoint()
    change(table)
    (again,) = [add for add in adds(path) if add["path"] == clustered["path"]]
    assert again != clustered
    assert again["tags"] == clustered["tags"]
    assert again["clusteringProvider"] == "liquid"


def adds(path):
    """The `add` actions of the last commit that has some."""
    for log in sorted(Path(path, "_delta_log").glob("*.json"), reverse=True):
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        if found := [action["add"] for action in actions if "add" in action]:
            return found
    return []
