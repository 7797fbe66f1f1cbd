"""optimize, zorder and purge by the short API."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import bayou
from bayou.errors import ArgumentError, TableNotFoundError
from bayou.kernel.commands.optimize.metrics import ZOrderFileStats


def rows(path: str) -> list[dict]:
    return sorted(bayou.table(path).to_arrow().to_pylist(), key=repr)


def test_optimize_packs_files_and_keeps_rows(path):
    for i in range(6):
        bayou.write(path, pa.table({"id": [i], "p": [i % 2]}), partition_by=["p"])
    before = rows(path)
    table = bayou.table(path)
    metrics = table.optimize("p = 1")
    assert (metrics.num_files_removed, metrics.total_considered_files) == (3, 3)
    assert rows(path) == before
    (entry,) = table.history(1)
    assert entry["operation"] == "OPTIMIZE"
    assert entry["operationParameters"]["predicate"] == '["p = 1"]'
    assert entry["operationMetrics"]["numRemovedFiles"] == "3"


def test_zorder_lets_a_point_filter_skip_files(path):
    source = random.Random(3)
    points = [(source.randrange(1_000), source.randrange(1_000)) for _ in range(20_000)]
    for first in range(0, len(points), 5_000):
        part = points[first : first + 5_000]
        bayou.write(path, pa.table({"x": [x for x, _ in part], "y": [y for _, y in part]}))
    table = bayou.table(path)
    before = rows(path)
    size = sum(table.snapshot().files()["size"].to_pylist())
    metrics = table.optimize.z_order(["x", "y"], target_size=size // 16)
    assert metrics.num_files_added == 16
    stats = metrics.z_order_stats
    assert stats.merged_files == stats.input_other_files == ZOrderFileStats(num=4, size=size)
    assert (stats.strategy_name, stats.num_output_cubes) == ("all", 1)
    assert metrics.clustering_stats is None
    assert rows(path) == before
    for column in ("x", "y"):
        for value in (10, 345, 990):
            kept = table.snapshot().files(filter=f"{column} = {value}").num_rows
            assert kept <= 8
    both = table.snapshot().files(filter="x = 345 AND y = 678").num_rows
    assert both <= 3
    assert table.history(1)[0]["operationParameters"]["zOrderBy"] == '["x","y"]'


def test_an_order_larger_than_memory_is_the_same(path, monkeypatch):
    monkeypatch.setattr("bayou.api.commands.optimize._MEMORY_BYTES", 20_000)
    bayou.write(path, pa.table({"x": list(range(10_000, 0, -1)), "y": [0] * 10_000}))
    before = rows(path)
    bayou.table(path).optimize.z_order(["x"], target_size=2_000)
    assert rows(path) == before
    assert bayou.table(path).snapshot().files(filter="x = 17").num_rows == 1


@pytest.mark.parametrize(
    "arguments",
    [{"batch_size": 0}, {"max_concurrent_tasks": "2"}, {"target_size": -1}, {"full": True}],
)
def test_what_makes_no_sense_is_refused(path, arguments):
    bayou.write(path, pa.table({"id": [1]}))
    with pytest.raises(ArgumentError):
        bayou.table(path).optimize(**arguments)


def test_without_a_table_there_is_nothing_to_rearrange(path):
    optimize = bayou.table(path).optimize
    for call in (optimize, optimize.compact, optimize.purge):
        with pytest.raises(TableNotFoundError):
            call()


def test_a_clustered_table_is_clustered_step_by_step(path):
    source = random.Random(5)

    def write(count: int) -> None:
        x, y = ([source.randrange(1_000) for _ in range(count)] for _ in range(2))
        bayou.write(path, pa.table({"x": x, "y": y}))

    write(10_000)
    table = bayou.table(path)
    table.alter.cluster_by("x", "y")
    before = rows(path)
    size = sum(table.snapshot().files()["size"].to_pylist())
    assert table.optimize(target_size=size // 8).num_output_cubes == 1
    assert rows(path) == before
    assert table.snapshot().files(filter="x = 345 AND y = 678").num_rows <= 2
    assert table.optimize().version is None
    write(10)
    assert table.optimize().num_files_removed > 1
    assert table.optimize().version is None
    entry = table.history(1)[0]
    assert entry["operationParameters"]["clusterBy"] == '["x","y"]'
    with pytest.raises(ArgumentError, match="clustered table"):
        table.optimize.z_order(["x"])
    with pytest.raises(ArgumentError, match="clustered table"):
        table.optimize("x = 1")
    table.alter.cluster_by("y")
    assert table.optimize().version is None
    assert table.optimize(full=True).num_output_cubes == 1


def test_zorder_takes_a_column_in_backticks(tmp_path):
    bayou.write(str(tmp_path), pa.table({"a.b": [2, 1], "x`y": [3, 4]}))
    assert bayou.table(str(tmp_path)).optimize.z_order(["`a.b`", "`x``y`"]).num_files_added == 1
