"""Partitions by a timestamp without a zone, which each reader takes in its own: they stay so."""

from __future__ import annotations

import datetime as dt
import io
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.errors import CommitConflictError, ConstraintViolationError
from bayou.kernel import CommitBoundary, Snapshot, Table, TransactionState, read_change_file
from bayou.kernel.arrow.types import from_arrow_schema
from bayou.kernel.commands.alter.constraints import add_constraint
from bayou.kernel.commands.merge import MergeClause, MergeDefinition, MergeSource
from bayou.kernel.commands.merge.execution import merge
from bayou.kernel.commands.optimize.optimize import plan_optimize, plan_zorder
from bayou.kernel.commands.optimize.purge import plan_purge
from bayou.kernel.commands.optimize.rewrite_execution import run_plan
from bayou.kernel.commands.row_changes.delete import begin_delete, commit_delete
from bayou.kernel.commands.row_changes.update import begin_update, commit_update
from bayou.kernel.commands.write import TableWrite, WriteMode, commit_write, plan_write
from bayou.kernel.data_writer.task_writer import write_task_data
from bayou.kernel.expressions.sql.parser import parse_predicate
from bayou.kernel.scan.transform import read_scan_file
from support.log_writer import LogWriter, add, metadata, protocol

LOCAL, ZONED = "2024-01-01 00:00:00", "2024-01-01T00:00:00.000000Z"
VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}


def table_of(folder: str, properties: dict[str, str]) -> tuple[ArrowEngine, str]:
    """Two files of one partition as UTC has it, of two in any other zone."""
    engine = ArrowEngine()
    log = LogWriter(engine, folder)
    features = (["deletionVectors"], ["deletionVectors", "changeDataFeed"])
    adds = []
    for name, text, first in (("a", LOCAL, 1), ("b", LOCAL, 4), ("c", ZONED, 7)):
        rows = pa.table({"id": pa.array(range(first, first + 3), pa.int64())})
        data = io.BytesIO()
        pq.write_table(rows, data)
        log.engine.files.put(f"{log.table}/{name}", data.getvalue())
        values, size = {"p": text}, len(data.getvalue())
        adds.append(add(name, partition_values=values, size=size, stats={"numRecords": 3}))
    schema = {"id": "long", "p": "timestamp"}
    log.commit(protocol(3, 7, features), metadata(schema, ["p"], properties), *adds)
    return engine, log.table


def rows_in(engine: ArrowEngine, table: str, zone: str) -> list[Any]:
    scan = Snapshot.load(engine, table).scan_builder().with_time_zone(zone).build()
    state = scan.scan_state(engine)
    with scan.scan_files(engine) as batches:
        files = [file for batch in batches for file in batch.rows()]
    found = [r for f in files for b in read_scan_file(engine, state, f) for r in b.to_pylist()]
    return sorted(tuple(row.values()) for row in found)


CHANGES = {
    "optimize": lambda table: table.optimize(),
    "delete": lambda table: table.delete("id IN (1, 8)"),
    "update": lambda table: table.update({"id": "id + 0"}, predicate="id IN (2, 7)"),
    "merge": lambda table: (
        table.merge(pa.table({"id": [1, 9]}), "target.id = source.id")
        .when_matched_delete()
        .execute()
    ),
}


@pytest.mark.parametrize("properties", [{}, VECTORS, FEED], ids=["plain", "vectors", "feed"])
@pytest.mark.parametrize("name", sorted(CHANGES))
def test_rows_keep_their_time_in_every_zone(tmp_path, name, properties):
    engine, path = table_of(str(tmp_path), properties)
    before = rows_in(engine, path, "Asia/Tokyo")
    table = bayou.table(path, engine=engine)
    CHANGES[name](table)
    assert table.snapshot().version == 1
    after = rows_in(engine, path, "Asia/Tokyo")
    assert after == [row for row in before if row in after]
    gone = {"optimize": 0, "delete": 2, "update": 0, "merge": 2}[name]
    assert len(after) == len(before) - gone


UTC_MIDNIGHT = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
"""What `LOCAL` is in UTC."""


def source(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "p": [UTC_MIDNIGHT] * len(ids)})


MOVES = {
    "update": lambda table: table.update(
        {"p": "TIMESTAMP'2024-01-01T00:00:00Z'"}, predicate="id = 1"
    ),
    "merge": lambda table: (
        table.merge(source(1), "target.id = source.id")
        .when_matched_update({"p": "source.p"})
        .execute()
    ),
    "merge of all columns": lambda table: (
        table.merge(source(1), "target.id = source.id").when_matched_update_all().execute()
    ),
}


@pytest.mark.parametrize("properties", [{}, VECTORS, FEED], ids=["plain", "vectors", "feed"])
@pytest.mark.parametrize("name", sorted(MOVES))
def test_an_assigned_time_is_the_same_in_every_zone(tmp_path, name, properties):
    engine, path = table_of(str(tmp_path), properties)
    before = rows_in(engine, path, "Asia/Tokyo")
    MOVES[name](bayou.table(path, engine=engine))
    after = rows_in(engine, path, "Asia/Tokyo")
    assert after == [(1, UTC_MIDNIGHT), *before[1:]]


def test_a_merge_moves_only_the_rows_whose_clause_assigns_the_time(tmp_path):
    engine, path = table_of(str(tmp_path), {})
    before = rows_in(engine, path, "Asia/Tokyo")
    later = UTC_MIDNIGHT + dt.timedelta(days=1)
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "p": [later] * 2})
    (
        bayou.table(path, engine=engine)
        .merge(rows, "target.id = source.id")
        .when_matched_update({"p": "source.p"}, predicate="source.id = 1")
        .when_matched_update({"id": "source.id"})
        .execute()
    )
    assert rows_in(engine, path, "Asia/Tokyo") == [(1, later), *before[1:]]


def test_a_feed_has_the_assigned_time(tmp_path):
    engine, path = table_of(str(tmp_path), FEED)
    MOVES["update"](bayou.table(path, engine=engine))
    changes = Table.for_path(engine, path).changes(engine, CommitBoundary.at_version(1))
    scan = changes.scan_builder().with_time_zone("Asia/Tokyo").build()
    with scan.change_files(engine) as files:
        state = scan.change_state(engine)
        rows = [r for f in files for b in read_change_file(engine, state, f) for r in b.to_pylist()]
    times = {row["_change_type"]: row["p"] for row in rows}
    assert times == {"update_preimage": TOKYO, "update_postimage": UTC_MIDNIGHT}


TOKYO = dt.datetime(2023, 12, 31, 15, tzinfo=dt.UTC)
"""What `LOCAL` is in Tokyo."""

ZONED_CONDITION = f"p = TIMESTAMP'{TOKYO.isoformat()}'"


@pytest.mark.parametrize("properties", [{}, VECTORS, FEED], ids=["plain", "vectors", "feed"])
def test_a_delete_finds_rows_by_their_time_in_its_zone(tmp_path, properties):
    engine, path = table_of(str(tmp_path), properties)
    operation = begin_delete(
        engine,
        Snapshot.load(engine, path),
        f"{ZONED_CONDITION} AND id <> 2",
        engine_info="test",
        time_zone="JST",
    )
    commit_delete(engine, operation, operation.run(engine))
    assert rows_in(engine, path, "Asia/Tokyo") == [
        (2, TOKYO),
        *((number, UTC_MIDNIGHT) for number in (7, 8, 9)),
    ]


@pytest.mark.parametrize("zone", ["JST", "GMT+9", "+9"])
def test_a_delete_by_time_or_id_supports_every_name_of_its_zone(tmp_path, zone):
    engine, path = table_of(str(tmp_path), {})
    operation = begin_delete(
        engine,
        Snapshot.load(engine, path),
        f"{ZONED_CONDITION} OR id = 8",
        engine_info="test",
        time_zone=zone,
    )
    commit_delete(engine, operation, operation.run(engine))
    assert rows_in(engine, path, zone) == [(7, UTC_MIDNIGHT), (9, UTC_MIDNIGHT)]


@pytest.mark.parametrize(
    "plan",
    [plan_optimize, plan_purge, partial(plan_zorder, columns=["id"])],
    ids=["optimize", "purge", "zorder"],
)
def test_a_rewrite_selects_partitions_by_their_time_in_its_zone(tmp_path, plan):
    engine, path = table_of(str(tmp_path), VECTORS)
    table = bayou.table(path, engine=engine)
    table.delete("id IN (1, 4, 7)")
    before = rows_in(engine, path, "Asia/Tokyo")
    state = Snapshot.load(engine, path)
    for zone, files in (("UTC", 0), ("JST", 2)):
        planned = plan(engine, state, "test", where=ZONED_CONDITION, time_zone=zone)
        assert planned.considered == files
    table.alter.set_table_properties({"mine": "1"})  # the commit compares the files again
    assert run_plan(engine, planned, "test").num_files_removed == 2
    assert rows_in(engine, path, "Asia/Tokyo") == before


@pytest.mark.parametrize("properties", [{}, VECTORS, FEED], ids=["plain", "vectors", "feed"])
def test_an_update_computes_times_in_its_zone(tmp_path, properties):
    engine, path = table_of(str(tmp_path), properties)
    before = rows_in(engine, path, "Asia/Tokyo")
    operation = begin_update(
        engine,
        Snapshot.load(engine, path),
        {"p": "p + INTERVAL 9 HOURS"},
        f"{ZONED_CONDITION} AND id = 2",
        engine_info="test",
        time_zone="Asia/Tokyo",
    )
    commit_update(engine, operation, operation.run(engine))
    assert rows_in(engine, path, "Asia/Tokyo") == [before[0], (2, UTC_MIDNIGHT), *before[2:]]


@pytest.mark.parametrize("properties", [{}, VECTORS, FEED], ids=["plain", "vectors", "feed"])
@pytest.mark.parametrize("condition", ["target.p = source.p", "source.p = TIMESTAMP'2023-01-01'"])
def test_a_merge_compares_times_in_its_zone(tmp_path, properties, condition):
    engine, path = table_of(str(tmp_path), properties)
    before = rows_in(engine, path, "Asia/Tokyo")
    rows = pa.table({"p": [TOKYO], "new": pa.array([100], pa.int64())})
    definition = MergeDefinition(
        on=condition,
        clauses=(
            MergeClause(
                kind="MATCHED",
                action="update",
                condition="target.id = 4",
                assignments={"id": "target.id + source.new"},
            ),
            MergeClause(
                kind="NOT MATCHED BY SOURCE",
                action="update",
                condition=f"target.{ZONED_CONDITION} AND target.id = 4",
                assignments={"id": "target.id + 100"},
            ),
        ),
    )
    merge(
        engine,
        Snapshot.load(engine, path),
        MergeSource.read(rows.schema, rows.to_batches()),
        definition,
        engine_info="test",
        time_zone="Asia/Tokyo",
    )
    changed = [row for row in before if row[0] != 4]
    assert rows_in(engine, path, "Asia/Tokyo") == sorted([*changed, (104, TOKYO)])


def test_rows_that_an_operation_reads_in_its_zone_conflict(tmp_path):
    engine, path = table_of(str(tmp_path), {})
    operation = begin_delete(
        engine,
        Snapshot.load(engine, path),
        "id = 9",
        engine_info="test",
        time_zone="Asia/Tokyo",
    )
    operation.transaction.record_rows_read(
        engine, parse_predicate(ZONED_CONDITION), time_zone="Asia/Tokyo"
    )
    changes = operation.run(engine)
    bayou.table(path, engine=engine).delete("id IN (1, 2, 3)")
    with pytest.raises(CommitConflictError, match="removed"):
        commit_delete(engine, operation, changes)


OVERWRITES = {
    "dynamic": {"dynamic_partitions": True},
    "condition": {"replace_where": ZONED_CONDITION},
    "rows": {"replace_where": f"{ZONED_CONDITION} AND id > 0"},
}


@pytest.mark.parametrize("properties", [{}, VECTORS, FEED], ids=["plain", "vectors", "feed"])
@pytest.mark.parametrize("name", sorted(OVERWRITES))
def test_an_overwrite_replaces_rows_by_their_time_in_its_zone(tmp_path, name, properties):
    engine, path = table_of(str(tmp_path), properties)
    rows = pa.table({"id": pa.array([99], pa.int64()), "p": [TOKYO]})
    write = TableWrite(
        table=path,
        schema=from_arrow_schema(rows.schema),
        mode=WriteMode.OVERWRITE,
        engine_info="test",
        time_zone="Asia/Tokyo",
        **OVERWRITES[name],
    )
    plan = plan_write(engine, write)
    state = TransactionState.from_bytes(plan.state)
    commit_write(engine, write, plan, write_task_data(engine, state, rows.to_batches()))
    assert rows_in(engine, path, "Asia/Tokyo") == [
        (7, UTC_MIDNIGHT),
        (8, UTC_MIDNIGHT),
        (9, UTC_MIDNIGHT),
        (99, TOKYO),
    ]


def test_a_feed_reads_times_in_its_zone(tmp_path):
    engine, path = table_of(str(tmp_path), FEED)
    bayou.table(path, engine=engine).delete("id = 1")
    start = CommitBoundary.at_version(1)
    changes = Table.for_path(engine, path).changes(engine, start)
    scan = changes.scan_builder().with_time_zone("Asia/Tokyo").build()
    with scan.change_files(engine) as files:
        state = scan.change_state(engine)
        found = [
            r for f in files for b in read_change_file(engine, state, f) for r in b.to_pylist()
        ]
    assert [row["p"] for row in found] == [TOKYO]


def test_a_constraint_is_checked_with_the_times_in_its_zone(tmp_path):
    engine, path = table_of(str(tmp_path), {})
    condition = f"p < TIMESTAMP'{UTC_MIDNIGHT.isoformat()}' OR id > 6"

    def add_condition(zone: str) -> None:
        table = Snapshot.load(engine, path)
        add_constraint(engine, table, "early", condition, engine_info="test", time_zone=zone)

    def update(zone: str) -> None:
        table = Snapshot.load(engine, path)
        values = {"id": "id + 0"}
        operation = begin_update(
            engine, table, values, "id = 2", engine_info="test", time_zone=zone
        )
        commit_update(engine, operation, operation.run(engine))

    with pytest.raises(ConstraintViolationError, match="existing rows violate"):
        add_condition("UTC")
    add_condition("JST")
    with pytest.raises(ConstraintViolationError, match="rows violate CHECK constraint early"):
        update("UTC")
    before = rows_in(engine, path, "Asia/Tokyo")
    update("JST")
    assert rows_in(engine, path, "Asia/Tokyo") == before
