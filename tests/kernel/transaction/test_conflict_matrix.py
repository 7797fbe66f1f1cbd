"""Every kind of operation behind every kind of winner, as delta-spark's ConflictChecker decides.

An operation is made from a version, another one wins meanwhile, and the first is committed then.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.errors import (
    CommitConflictError,
    ConcurrentAppendError,
    ConcurrentDeleteReadError,
    ConcurrentTransactionError,
    MetadataChangedError,
    ProtocolChangedError,
)
from bayou.kernel import Operation, Snapshot, Table, write_data
from bayou.kernel.commands.alter.feature_traces import drop_column_mapping
from bayou.kernel.commands.alter.properties import set_properties
from bayou.kernel.commands.alter.protocol import add_feature
from bayou.kernel.commands.merge import MergeClause, MergeDefinition, MergeSource, merge
from bayou.kernel.commands.optimize.optimize import plan_optimize
from bayou.kernel.commands.optimize.rewrite_execution import run_plan
from bayou.kernel.commands.restore import restore
from bayou.kernel.commands.row_changes.delete import delete
from bayou.kernel.commands.row_changes.update import update
from bayou.kernel.table_features.writer_support import only_enables_features
from bayou.protocol.actions import Metadata

ENGINE = ArrowEngine()
INFO = "matrix/1"
LEVELS = ("WriteSerializable", "Serializable")
_IDS = itertools.count(1000)

Step = Callable[[Snapshot], object]


def rows(p: int, count: int = 2) -> list[pa.RecordBatch]:
    ids = [next(_IDS) for _ in range(count)]
    types = pa.schema({"id": pa.int64(), "p": pa.int64()})
    return [pa.RecordBatch.from_pylist([{"id": i, "p": p} for i in ids], types)]


def write(
    snapshot: Snapshot,
    p: int,
    removing: str | None = None,
    app: tuple[str, int] | None = None,
    domain: str | None = None,
) -> object:
    builder = snapshot.build_update_table_transaction(INFO, Operation.WRITE)
    if app is not None:
        builder = builder.with_transaction_id(*app)
    if domain is not None:
        builder = builder.with_domain_metadata(domain, "{}")
    transaction = builder.build(ENGINE)
    actions = write_data(ENGINE, transaction.transaction_state(ENGINE), rows(p))
    if removing is not None:
        where = None if removing == "all" else removing
        actions = [*actions, *transaction.generate_remove_actions(ENGINE, where)]
    return transaction.commit(ENGINE, actions)


def merge_into(snapshot: Snapshot, on: str) -> object:
    source = rows(0)
    clauses = (
        MergeClause(kind="MATCHED", action="update"),
        MergeClause(kind="NOT MATCHED", action="insert"),
    )
    definition = MergeDefinition(on=on, clauses=clauses)
    read = MergeSource.read(source[0].schema, source)
    return merge(ENGINE, snapshot, read, definition, engine_info=INFO)


STEPS: dict[str, Step] = {
    "append to 0": lambda s: write(s, 0),
    "append to 1": lambda s: write(s, 1),
    "overwrite": lambda s: write(s, 0, "all"),
    "overwrite 0": lambda s: write(s, 0, "p = 0"),
    "delete 1": lambda s: delete(ENGINE, s, "p = 1", engine_info=INFO),
    "delete a row of 0": lambda s: delete(ENGINE, s, "p = 0 AND id = 1", engine_info=INFO),
    "delete a row": lambda s: delete(ENGINE, s, "id = 1", engine_info=INFO),
    "update another of 0": lambda s: update(
        ENGINE, s, {"id": "id + 100"}, "p = 0 AND id = 2", engine_info=INFO
    ),
    "update 1": lambda s: update(ENGINE, s, {"id": "id + 100"}, "p = 1", engine_info=INFO),
    "merge": lambda s: merge_into(s, "target.id = source.id"),
    "merge into 0": lambda s: merge_into(s, "target.p = 0 AND target.id = source.id"),
    "optimize 0": lambda s: run_plan(ENGINE, plan_optimize(ENGINE, s, INFO, where="p = 0"), INFO),
    "restore": lambda s: restore(
        ENGINE, s, Table.for_path(ENGINE, s.path).snapshot_as_of_version(ENGINE, 1), INFO
    ),
    "set a property": lambda s: set_properties(ENGINE, s, {"mine": "x"}, engine_info=INFO),
    "add a feature": lambda s: add_feature(ENGINE, s, "v2Checkpoint", engine_info=INFO),
    "add another": lambda s: add_feature(ENGINE, s, "vacuumProtocolCheck", engine_info=INFO),
    "add a strict one": lambda s: add_feature(ENGINE, s, "checkConstraints", engine_info=INFO),
    "app a": lambda s: write(s, 1, app=("a", 1)),
    "app a goes on": lambda s: write(s, 1, app=("a", 2)),
    "app b": lambda s: write(s, 1, app=("b", 1)),
    "domain d": lambda s: write(s, 1, domain="d"),
    "domain e": lambda s: write(s, 1, domain="e"),
}

APPEND, DELETED, METADATA = ConcurrentAppendError, ConcurrentDeleteReadError, MetadataChangedError
PROTOCOL, NAMED = ProtocolChangedError, ConcurrentTransactionError

# By operation: what the winners make of it, under WriteSerializable and under Serializable.
BOTH = dict[str, type[CommitConflictError] | tuple[type[CommitConflictError] | None, ...] | None]
CASES: dict[str, BOTH] = {
    "append to 0": {
        **dict.fromkeys(["append to 0", "overwrite", "overwrite 0", "delete 1", "merge"]),
        **dict.fromkeys(["optimize 0", "add a feature", "app a", "domain d"]),
        "set a property": METADATA,
        "add a strict one": PROTOCOL,
    },
    "overwrite": {
        "append to 0": (None, APPEND),
        "append to 1": (None, APPEND),
        "overwrite 0": APPEND,
        "delete 1": DELETED,
        "delete a row": APPEND,
        "optimize 0": APPEND,
    },
    "overwrite 0": {
        "append to 0": (None, APPEND),
        "append to 1": None,
        "overwrite 0": APPEND,
        "delete 1": None,
        "delete a row of 0": APPEND,
        "update 1": None,
        "optimize 0": APPEND,
        "set a property": METADATA,
    },
    "delete 1": {
        "append to 0": None,
        "append to 1": (None, APPEND),
        "update another of 0": None,
        "update 1": APPEND,
        "overwrite 0": None,
        "delete 1": DELETED,
    },
    "delete a row of 0": {
        "append to 0": (None, APPEND),
        "update 1": None,
        "update another of 0": APPEND,  # another row of the same file
        "delete 1": None,
        "optimize 0": APPEND,
    },
    "delete a row": {
        "append to 1": (None, APPEND),
        "update 1": APPEND,  # its condition says nothing of partitions
        "delete 1": None,
    },
    "update another of 0": {"delete a row of 0": APPEND, "append to 1": None, "merge": APPEND},
    "merge": {
        "append to 1": (None, APPEND),
        "update 1": APPEND,
        "delete a row of 0": APPEND,
        "merge": APPEND,
    },
    "optimize 0": {
        "append to 0": None,
        "overwrite 0": DELETED,
        "delete a row of 0": DELETED,
        "update 1": None,
        "delete 1": None,
        "optimize 0": DELETED,
        "set a property": None,  # its files fit the table all the same: committed anew
        "add a feature": None,
    },
    "restore": {"append to 0": APPEND, "delete 1": DELETED, "delete a row": APPEND},
    "set a property": {
        "append to 0": None,
        "delete a row": None,
        "set a property": METADATA,
        "add a feature": None,
    },
    "add a feature": {"add a feature": PROTOCOL, "append to 0": None, "delete 1": None},
    "add another": {"add a feature": PROTOCOL},
    "app a": {"app a goes on": NAMED, "app b": None, "append to 0": None},
    "domain d": {"domain d": NAMED, "domain e": None},
}
MATRIX = [
    (loser, winner, level, outcome[i] if isinstance(outcome, tuple) else outcome)
    for loser, winners in CASES.items()
    for winner, outcome in winners.items()
    for i, level in enumerate(LEVELS)
]


def table(path: Path, level: str, properties: dict[str, str] | None = None) -> Table:
    """Three versions: rows 1 and 2 in partition 0, more there, and in partition 1."""
    every = {"delta.isolationLevel": level, "delta.feature.domainMetadata": "supported"}
    first = pa.table({"id": pa.array([1, 2], pa.int64()), "p": pa.array([0, 0], pa.int64())})
    bayou.write(path, first, partition_by=["p"], configuration={**every, **(properties or {})})
    for p in (0, 1):
        bayou.write(path, pa.Table.from_batches(rows(p)))
    return Table.for_path(ENGINE, str(path))


def ids(table: Table) -> list[int]:
    return sorted(bayou.table(table.path).to_arrow()["id"].to_pylist())


def outcome_of(table: Table, loser: Step, winner: Step) -> type[CommitConflictError] | None:
    before = table.latest_snapshot(ENGINE)
    winner(before)
    won, version = ids(table), table.latest_snapshot(ENGINE).version
    try:
        loser(before)
    except CommitConflictError as error:
        conflict = error
    else:
        assert table.latest_snapshot(ENGINE).version == version + 1
        return None
    assert conflict.winning_version == version
    assert (ids(table), table.latest_snapshot(ENGINE).version) == (won, version)
    return type(conflict)


@pytest.mark.parametrize(("loser", "winner", "level", "expected"), MATRIX)
def test_what_a_winner_makes_of_an_operation(tmp_path, loser, winner, level, expected):
    vectors = {"delta.enableDeletionVectors": "true"} if level == "WriteSerializable" else {}
    found = outcome_of(table(tmp_path / "t", level, vectors), STEPS[loser], STEPS[winner])
    assert found is expected


ENABLING = {
    "delta.enableDeletionVectors": "true",
    "delta.checkpointPolicy": "v2",
    "delta.enableInCommitTimestamps": "true",
    "delta.columnMapping.mode": "name",
}


@pytest.mark.parametrize("name", ENABLING)
@pytest.mark.parametrize("step", ["append to 0", "delete a row", "merge", "overwrite"])
def test_a_feature_that_is_turned_on_stops_nobody(tmp_path, name, step):
    mine = table(tmp_path / "t", "WriteSerializable")

    def enable(snapshot: Snapshot) -> None:
        set_properties(ENGINE, snapshot, {name: ENABLING[name]}, engine_info=INFO)

    assert outcome_of(mine, STEPS[step], enable) is None
    latest = mine.latest_snapshot(ENGINE)
    assert latest.properties[name] == ENABLING[name]
    assert (latest.in_commit_timestamp is not None) == (name == "delta.enableInCommitTimestamps")
    bayou.table(mine.path).delete("p = 0")
    bayou.table(mine.path).create_checkpoint()
    assert set(bayou.table(mine.path).to_arrow()["p"].to_pylist()) <= {1}


@pytest.mark.parametrize(
    "change",
    [
        {"delta.enableChangeDataFeed": "true"},
        {"delta.enableDeletionVectors": "true", "delta.appendOnly": "true"},
        {"delta.enableDeletionVectors": "true", "comment": "mine"},
        {"delta.enableRowTracking": "true"},
    ],
    ids=str,
)
def test_other_changes_of_properties_stop_everyone(tmp_path, change):
    mine = table(tmp_path / "t", "WriteSerializable")
    before = mine.latest_snapshot(ENGINE)
    set_properties(ENGINE, before, change, engine_info=INFO)
    with pytest.raises((MetadataChangedError, ProtocolChangedError)):
        write(before, 0)


def test_a_feature_that_is_turned_off_stops_everyone(tmp_path):
    on = {"delta.enableDeletionVectors": "true"}
    mine = table(tmp_path / "t", "WriteSerializable", on)
    off = {"delta.enableDeletionVectors": "false"}

    def disable(snapshot: Snapshot) -> None:
        set_properties(ENGINE, snapshot, off, engine_info=INFO)

    assert outcome_of(mine, STEPS["append to 0"], disable) is MetadataChangedError


def test_nothing_but_ids_may_change_in_a_schema():
    def metadata(fields: list[dict[str, object]], **configuration: str) -> Metadata:
        text = json.dumps({"type": "struct", "fields": fields})
        return Metadata(id="x", schema_string=text, configuration=configuration)

    plain = {"name": "a", "type": "long", "nullable": True, "metadata": {}}
    numbered = {**plain, "metadata": {"delta.columnMapping.id": 1}}
    before = metadata([plain])
    mapped = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "1"}
    assert only_enables_features(before, metadata([numbered], **mapped))
    assert not only_enables_features(before, metadata([numbered]))
    assert not only_enables_features(before, metadata([{**numbered, "nullable": False}], **mapped))
    assert not only_enables_features(before, metadata([numbered, plain], **mapped))
    assert not only_enables_features(
        before, metadata([plain], **{"delta.columnMapping.mode": "id"})
    )
    assert not only_enables_features(metadata([plain], k="v"), before)
    renamed = {**numbered, "metadata": {"delta.columnMapping.physicalName": "col-1"}}
    assert not only_enables_features(before, metadata([renamed], **mapped))
    assert not only_enables_features(metadata([renamed]), metadata([renamed], **mapped))
    nested = {**plain, "type": {"type": "struct", "fields": [plain]}}
    kept = {**plain, "type": {"type": "struct", "fields": [numbered]}}
    moved = {**plain, "type": {"type": "struct", "fields": [renamed]}}
    assert only_enables_features(metadata([nested]), metadata([kept], **mapped))
    assert not only_enables_features(metadata([nested]), metadata([moved], **mapped))


@pytest.mark.parametrize("partition_by", [None, "p"])
def test_an_append_conflicts_with_a_restore_of_other_physical_names(tmp_path, partition_by):
    path = str(tmp_path / "t")
    mapped = {"delta.columnMapping.mode": "name"}
    bayou.write(path, pa.table({"id": [1], "p": [0]}), "error", partition_by, mapped)
    mine = Table.for_path(ENGINE, path)
    drop_column_mapping(ENGINE, mine.latest_snapshot(ENGINE), INFO)
    before = mine.latest_snapshot(ENGINE)  # new files have the columns `id` and `p`
    bayou.table(path).restore(0)  # the columns are named `col-<uuid>` in files again
    with pytest.raises(MetadataChangedError):
        write(before, 0)
    assert bayou.table(path).to_arrow().to_pylist() == [{"id": 1, "p": 0}]


def test_two_that_give_out_identity_values_are_a_conflict_a_delete_beside_one_is_none(tmp_path):
    path = tmp_path / "t"
    level = {"delta.isolationLevel": "WriteSerializable"}
    bayou.write(path, pa.table({"v": pa.array([1, 2], pa.int64())}), configuration=level)
    log = next((path / "_delta_log").glob("*.json"))
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "metaData" in line:
            schema = json.loads(line["metaData"]["schemaString"])
            marks = {
                "delta.identity.start": 1,
                "delta.identity.step": 1,
                "delta.identity.allowExplicitInsert": False,
            }
            column = {"name": "n", "type": "long", "nullable": True, "metadata": marks}
            schema["fields"].append(column)
            line["metaData"]["schemaString"] = json.dumps(schema)
        if "protocol" in line:
            line["protocol"] = {"minReaderVersion": 1, "minWriterVersion": 6}
    log.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    for crc in (path / "_delta_log").glob("*.crc"):
        crc.unlink()

    def append(snapshot: Snapshot) -> object:
        data = pa.record_batch({"v": pa.array([7], pa.int64())})
        builder = snapshot.build_update_table_transaction(INFO, Operation.WRITE)
        transaction = builder.build(ENGINE)
        adds = write_data(ENGINE, transaction.transaction_state(ENGINE), [data])
        return transaction.commit(ENGINE, adds)

    mine = Table.for_path(ENGINE, str(path))
    before = mine.latest_snapshot(ENGINE)
    append(before)
    with pytest.raises(MetadataChangedError):
        append(before)
    assert delete(ENGINE, before, "v = 1", engine_info=INFO).version == 2
    append(mine.latest_snapshot(ENGINE))
    numbers = [n for n in bayou.table(path).to_arrow()["n"].to_pylist() if n is not None]
    assert len(set(numbers)) == len(numbers) == 2


def test_ids_versions_and_times_of_a_commit_that_lost_are_those_behind_the_winner(tmp_path):
    properties = {"delta.enableRowTracking": "true", "delta.enableInCommitTimestamps": "true"}
    mine = table(tmp_path / "t", "WriteSerializable", properties)
    before = mine.latest_snapshot(ENGINE)
    known = ids(mine)
    for step in ("append to 0", "append to 1", "update 1", "app a", "domain d"):
        STEPS[step](mine.latest_snapshot(ENGINE) if step == "update 1" else before)
    found = bayou.table(mine.path).to_arrow(
        ["id", "_metadata.row_id", "_metadata.row_commit_version"]
    )
    row_ids = found.column(1).to_pylist()
    assert len(set(row_ids)) == len(row_ids) > len(known)
    assert set(found.column(2).to_pylist()) <= set(range(before.version + 6))
    history = bayou.table(mine.path).history()
    times = [commit["inCommitTimestamp"] for commit in history]
    assert times == sorted(set(times), reverse=True)
