"""Which files of a clustered table are clustered, and which stay."""

from __future__ import annotations

from bayou.kernel import ScanFile
from bayou.kernel.operations.clustering_cubes import cube_of, files_to_cluster, new_cube_tags
from bayou.protocol.actions import AddFile


def file(name: str, tags: dict | None = None, size: int = 10, provider: str | None = "liquid"):
    add = AddFile(
        path=name,
        partition_values={},
        size=size,
        modification_time=0,
        data_change=True,
        tags=tags,
        clustering_provider=provider,
    )
    return ScanFile(table_root="/t", add=add)


def names(files) -> list[str]:
    return [f.path for f in files]


A, B = new_cube_tags(["x"]), new_cube_tags(["x"])


def test_new_files_are_clustered_with_small_cubes():
    files = [file("old", A), file("new", provider=None)]
    assert sorted(names(files_to_cluster(files, ["x"]))) == ["new", "old"]


def test_a_large_cube_stays():
    files = [file("a", A, 60), file("b", A, 60), file("new", provider=None)]
    assert names(files_to_cluster(files, ["x"], large_cube_bytes=100)) == ["new"]


def test_one_cube_alone_has_nothing_to_be_clustered_with():
    assert files_to_cluster([file("a", A), file("b", A)], ["x"]) == []


def test_two_small_cubes_become_one():
    assert sorted(names(files_to_cluster([file("a", A), file("b", B)], ["x"]))) == ["a", "b"]


def test_files_clustered_by_other_columns_or_otherwise_wait_for_full():
    files = [file("other", new_cube_tags(["y"])), file("foreign", provider="mine"), file("a", A)]
    assert files_to_cluster(files, ["x"]) == []
    assert sorted(names(files_to_cluster(files, ["x"], full=True))) == ["a", "foreign", "other"]


def test_tags_that_cannot_be_read_are_none():
    assert cube_of(file("a", {"ZCUBE_ID": "1", "ZCUBE_ZORDER_BY": "x"})) is None
    assert cube_of(file("a", {"ZCUBE_ID": "1"})) is None
    assert cube_of(file("a", A)) == (A["ZCUBE_ID"], ("x",))
