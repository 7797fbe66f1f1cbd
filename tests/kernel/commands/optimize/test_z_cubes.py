"""Which files of a clustered table are clustered, and which stay."""

from __future__ import annotations

import pytest

from bayou.kernel.commands.optimize.z_cubes import (
    ClusteringFileStats,
    FilesToCluster,
    files_to_cluster,
    new_cube_tags,
)
from bayou.kernel.scan.scan_file import ScanFileBatch, adds_to_array, scan_batch
from bayou.protocol.actions import AddFile


def file(name: str, tags: dict | None = None, size: int = 10, provider: str | None = "liquid"):
    return AddFile(
        path=name,
        partition_values={},
        size=size,
        modification_time=0,
        data_change=True,
        tags=tags,
        clustering_provider=provider,
    )


def choose(files, columns=("x",), *, at_once=2, **how) -> FilesToCluster:
    batches = [
        ScanFileBatch(scan_batch("/t", adds_to_array(files[i : i + at_once])), None)
        for i in range(0, len(files), at_once)
    ]
    return files_to_cluster(batches, columns, **how)


def names(files, **how) -> list[str]:
    return [f.path for f in choose(files, **how).files]


A, B = new_cube_tags(["x"]), new_cube_tags(["x"])


def test_new_files_are_clustered_with_small_cubes():
    files = [file("old", A), file("new", provider=None)]
    assert sorted(names(files)) == ["new", "old"]


def test_a_large_cube_stays():
    files = [file("a", A, 60), file("b", A, 60), file("new", provider=None)]
    assert names(files, large_cube_bytes=100) == ["new"]


def test_one_cube_alone_has_nothing_to_be_clustered_with():
    assert names([file("a", A), file("b", A)]) == []


def test_two_small_cubes_become_one():
    assert sorted(names([file("a", A), file("b", B)])) == ["a", "b"]


def test_files_clustered_by_other_columns_or_otherwise_wait_for_full():
    files = [file("other", new_cube_tags(["y"])), file("foreign", provider="mine"), file("a", A)]
    assert names(files) == []
    assert sorted(names(files, full=True)) == ["a", "foreign", "other"]


@pytest.mark.parametrize("tags", [{"ZCUBE_ID": "1", "ZCUBE_ZORDER_BY": "x"}, {"ZCUBE_ID": "1"}])
def test_files_whose_tags_cannot_be_read_are_new(tags):
    found = choose([file("a", tags)])
    assert [f.path for f in found.files] == ["a"]
    assert found.stats.input_num_zcubes == 0


def test_files_come_cube_by_cube_behind_new_ones():
    first, second = sorted([A, B], key=lambda tags: tags["ZCUBE_ID"])
    files = [file("4", second), file("2", first), file("1"), file("5", second), file("3", first)]
    assert names(files) == ["1", "2", "3", "4", "5"]


def test_what_is_found_and_taken_is_counted():
    y = new_cube_tags(["y"])
    files = [
        file("a", A, 60),
        file("b", A, 60),
        file("c", B, 1),
        file("d", y, 7),
        file("e", size=3),
    ]
    found = choose(files, large_cube_bytes=100)
    assert found.considered == 5
    assert found.stats.input_zcube_files == ClusteringFileStats(num_files=3, size=121)
    assert found.stats.input_other_files == ClusteringFileStats(num_files=2, size=10)
    assert found.stats.input_num_zcubes == 2
    assert found.stats.merged_files == ClusteringFileStats(num_files=2, size=4)
    every = choose(files, large_cube_bytes=100, full=True).stats
    assert every.input_zcube_files == ClusteringFileStats(num_files=4, size=128)
    assert (every.input_num_zcubes, every.merged_files.num_files) == (3, 3)


def test_a_table_without_files_has_nothing_to_cluster():
    assert choose([]).files == ()
    assert choose([]).stats.input_other_files == ClusteringFileStats()
