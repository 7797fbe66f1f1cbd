"""What OPTIMIZE rewrites: bins, partitions, deleted rows, ordering columns."""

from __future__ import annotations

import pytest

from bayou.engines.arrow import ArrowEngine
from bayou.errors import ArgumentError, PredicateError, SchemaError, SerializationError
from bayou.kernel import col, lit
from bayou.kernel.commands.optimize.optimize import plan_optimize, plan_zorder
from bayou.kernel.commands.optimize.purge import plan_purge
from bayou.kernel.commands.optimize.rewrite import RewriteTask, rewrite

DELETION_VECTORS = {"delta.enableDeletionVectors": "true"}
ROWS = [[{"id": i, "day": f"d{i % 2}", "s": {"f": i}}] for i in range(6)]


def plan(engine, snapshot, **options):
    return plan_optimize(engine, snapshot(), "test/1", **options)


def bins(found) -> list[int]:
    return sorted(len(item.files) for item in found.items)


def test_small_files_of_a_partition_go_together(engine, snapshot, written):
    written(*ROWS, partition_by=["day"])
    found = plan(engine, snapshot)
    assert bins(found) == [3, 3]
    assert (found.considered, found.partitions) == (6, 2)


def test_a_bin_is_no_larger_than_a_file_is_to_be(engine, snapshot, written):
    written(*ROWS)
    size = snapshot().scan_builder().build()
    (one, *_) = size.scan_files(engine).flat_map(lambda batch: batch.rows())
    found = plan(engine, snapshot, target_bytes=one.size * 2 + 10, min_bytes=one.size * 10)
    assert bins(found) == [2, 2, 2]


def test_large_files_and_lone_ones_stay(engine, snapshot, written):
    written(*ROWS)
    assert plan(engine, snapshot, min_bytes=1).items == ()
    assert plan(engine, snapshot, target_bytes=1, min_bytes=1 << 20).items == ()


def test_a_property_gives_the_target(engine, snapshot, written):
    written(*ROWS, configuration={"delta.targetFileSize": "1"})
    assert plan(engine, snapshot).items == ()


def test_only_the_partitions_asked_for(engine, snapshot, written):
    written(*ROWS, partition_by=["day"])
    for where in ("day = 'd1'", "DAY = 'd1'", col("day") == lit("d1")):
        found = plan(engine, snapshot, where=where)
        assert bins(found) == [3]
        assert found.considered == 3


def test_a_filter_on_other_columns_is_refused(engine, snapshot, written):
    written(*ROWS, partition_by=["day"])
    with pytest.raises(PredicateError, match="non-partition column 'id'") as caught:
        plan(engine, snapshot, where="day = 'd1' AND id > 3")
    assert caught.value.expression == "id"
    with pytest.raises(PredicateError):
        plan(engine, snapshot, where="nothing = 1")


def test_a_size_is_a_number_of_bytes(engine, snapshot, written):
    written(ROWS[0])
    for size in (0, -1, "1 GB", True):
        with pytest.raises(ArgumentError, match="number of bytes"):
            plan(engine, snapshot, target_bytes=size)


def test_files_with_many_deleted_rows_are_rewritten(engine, snapshot, written, mark_deleted):
    rows = [{"id": i} for i in range(100)]
    written(rows, rows, configuration=DELETION_VECTORS)
    first = next(iter(snapshot().scan_builder().build().scan_files(engine))).rows()
    path = next(iter(first)).path
    mark_deleted(lambda p: range(10) if p == path else range(5))
    found = plan(engine, snapshot, min_bytes=1)
    assert [f.path for item in found.items for f in item.files] == [path]
    assert plan(engine, snapshot, min_bytes=1, max_deleted_rows_ratio=0.2).items == ()
    assert len(plan(engine, snapshot, min_bytes=1, max_deleted_rows_ratio=0.0).items) == 1


def zorder(engine, snapshot, columns, **options):
    return plan_zorder(engine, snapshot(), "test/1", columns, **options)


def test_zorder_takes_all_files_of_a_partition(engine, snapshot, written):
    written(*ROWS, partition_by=["day"])
    found = zorder(engine, snapshot, ["ID", "s.F"], target_bytes=500)
    assert bins(found) == [3, 3]
    assert {item.order.columns for item in found.items} == {(("id",), ("s", "f"))}
    assert all(item.num_files > 1 for item in found.items)
    assert found.parameters["zOrderBy"] == '["id","s.f"]'


def test_zorder_refuses_columns_that_give_nothing(engine, snapshot, written):
    written(*ROWS, partition_by=["day"], configuration={"delta.dataSkippingStatsColumns": "id"})
    for columns, message in (
        (["day"], "day is a partition column"),
        (["s.f"], "column 's.f' has no statistics"),
        (["nothing"], "no column 'nothing'"),
        (["s.g"], "no column 's.g'"),
        (["id.x"], "no column 'id.x'"),
    ):
        with pytest.raises(SchemaError, match=message):
            zorder(engine, snapshot, columns)
    with pytest.raises(ArgumentError, match="at least one column"):
        zorder(engine, snapshot, [])


def test_an_item_runs_elsewhere(engine, snapshot, written, mark_deleted):
    written(*ROWS, configuration={**DELETION_VECTORS, "delta.enableRowTracking": "true"})
    mark_deleted(lambda path: [])
    for found in (
        plan(engine, snapshot),
        zorder(engine, snapshot, ["id"]),
        plan_purge(engine, snapshot(), "test/1"),
    ):
        for item in found.items:
            sent = RewriteTask.from_bytes(item.to_bytes())
            assert sent.to_bytes() == item.to_bytes()
            (add,) = rewrite(ArrowEngine(), sent)
            assert not add.data_change
    with pytest.raises(SerializationError):
        RewriteTask.from_bytes(b"nothing")
