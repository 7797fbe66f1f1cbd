"""Deep clones have files of their own; a repeated clone copies only what is new."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bayou
from bayou.errors import (
    ArgumentError,
    BayouError,
    CorruptTableError,
    FileMissingError,
    TableAlreadyExistsError,
)
from support.examples import examples

ROWS = [[{"id": i, "p": p} for i in range(3)] for p in ("plain", "a/b ü", "50%")]
DELETION_VECTORS = {"delta.enableDeletionVectors": "true"}


@pytest.fixture
def target(tmp_path: Path) -> str:
    return str(tmp_path / "the clone")


def rows(path: str) -> list[dict]:
    return sorted(bayou.table(path).to_arrow().to_pylist(), key=repr)


def files(path: str) -> set[str]:
    return {
        str(f.relative_to(path))
        for f in Path(path).rglob("*")
        if f.is_file() and "_delta" not in str(f)
    }


def deep(path: str, target: str, **options):
    return bayou.table(path).clone(target, shallow=False, replace=True, **options)


def remove_data(path: str) -> None:
    for file in Path(path).rglob("*"):
        if file.is_file():
            file.unlink()


def test_a_deep_clone_outlives_its_source(path, target, written, mark_deleted):
    written(*ROWS, partition_by=["p"], configuration=DELETION_VECTORS)
    mark_deleted(lambda _: [1])
    before = rows(path)
    metrics = deep(path, target)
    assert (metrics.source_num_of_files, metrics.num_copied_files, metrics.num_removed_files) == (
        3,
        3,
        0,
    )
    assert metrics.copied_files_size == metrics.source_table_size > 0
    remove_data(path)
    assert rows(target) == before
    entry = bayou.table(target).history(1)[0]
    assert entry["operation"] == "CLONE"
    assert entry["operationMetrics"]["numCopiedFiles"] == "3"


def test_a_repeated_clone_copies_only_new_files(path, target, written, mark_deleted):
    written(*ROWS, partition_by=["p"], configuration=DELETION_VECTORS)
    deep(path, target)
    first = files(target)
    assert deep(path, target).num_copied_files == 0
    bayou.write(path, pa.table({"id": [7], "p": ["new"]}))
    mark_deleted(lambda _: [0])
    metrics = deep(path, target)
    assert (metrics.num_copied_files, metrics.num_removed_files) == (1, 0)
    assert rows(target) == rows(path)
    assert first < files(target)
    bayou.table(path).delete("p = 'new'")
    bayou.table(path).optimize.compact()
    metrics = deep(path, target)
    assert metrics.num_removed_files >= 1
    assert rows(target) == rows(path)


def test_changes_of_the_clone_are_undone_by_the_next_clone(path, target, written):
    written(*ROWS, configuration=DELETION_VECTORS)
    deep(path, target)
    bayou.table(target).delete("id = 1")
    bayou.write(target, pa.table({"id": [99], "p": ["x"]}))
    assert rows(target) != rows(path)
    metrics = deep(path, target)
    assert (metrics.num_copied_files, metrics.num_removed_files) == (0, 1)
    assert rows(target) == rows(path)


def test_a_deep_clone_replaces_any_table_but_never_a_file(path, target, written):
    written(*ROWS)
    bayou.write(target, pa.table({"z": ["other"]}))
    with pytest.raises(TableAlreadyExistsError):
        bayou.table(path).clone(target, shallow=False)
    before = files(target)
    metrics = deep(path, target)
    assert (metrics.num_copied_files, metrics.num_removed_files) == (3, 1)
    assert rows(target) == rows(path)
    assert bayou.table(target).snapshot(0).to_arrow().to_pylist() == [{"z": "other"}]
    assert before < files(target)


def test_a_deep_clone_of_a_shallow_clone_copies_the_files(
    path, target, written, tmp_path, mark_deleted
):
    written(*ROWS, partition_by=["p"], configuration=DELETION_VECTORS)
    mark_deleted(lambda _: [2])
    shallow = str(tmp_path / "shallow")
    bayou.table(path).clone(shallow)
    expected = rows(path)
    deep(shallow, target)
    assert deep(shallow, target).num_copied_files == 0
    remove_data(path)
    assert rows(target) == expected


def test_rows_of_a_deep_clone_have_new_row_ids(path, target, written):
    written(*ROWS, configuration={"delta.enableRowTracking": "true"})
    bayou.table(path).optimize.compact()
    deep(path, target)
    ids = bayou.table(target).to_arrow(columns=["_metadata.row_id"]).column(0).to_pylist()
    assert sorted(ids) == list(range(9))
    assert deep(path, target).num_copied_files == 0
    again = bayou.table(target).to_arrow(columns=["_metadata.row_id"]).column(0).to_pylist()
    assert again == ids


@pytest.mark.parametrize("by_source", [True, False])
def test_earlier_copies_get_row_ids_when_the_clone_enables_row_tracking(
    path, target, written, mark_deleted, by_source
):
    written(*ROWS, configuration=DELETION_VECTORS)
    mark_deleted(lambda _: [1])
    deep(path, target)
    before = files(target)
    if by_source:
        bayou.table(path).alter.set_table_properties({"delta.enableRowTracking": "true"})
    bayou.write(path, pa.table({"id": [7], "p": ["new"]}))
    options = {} if by_source else {"configuration": {"delta.enableRowTracking": "true"}}
    metrics = deep(path, target, **options)
    assert (metrics.num_copied_files, metrics.num_removed_files) == (1, 0)
    assert before < files(target)
    clone = bayou.table(target)
    columns = ["id", "_metadata.row_id", "_metadata.row_commit_version"]
    tracked = clone.to_arrow(columns=columns)
    assert len(set(tracked["_metadata.row_id"].to_pylist())) == tracked.num_rows == 7
    assert set(tracked["_metadata.row_commit_version"].to_pylist()) == {metrics.version}
    checksum = json.loads(Path(target, "_delta_log", f"{metrics.version:020d}.crc").read_text())
    live = clone.snapshot().files()
    assert (checksum["numFiles"], checksum["tableSizeBytes"]) == (4, sum(live["size"].to_pylist()))
    assert checksum["numDeletedRecordsOpt"] == 3
    clone.update({"id": "id + 10"}, predicate="id = 7")
    clone.optimize.compact()
    found = clone.to_arrow(columns=columns[:2]).to_pylist()
    assert {r["_metadata.row_id"] for r in found} == set(tracked["_metadata.row_id"].to_pylist())


def test_append_only_tables_are_cloned_again(path, target, written):
    written(*ROWS, configuration={"delta.appendOnly": "true"})
    deep(path, target)
    bayou.table(path).optimize.compact()
    assert deep(path, target).num_removed_files == 3
    assert rows(target) == rows(path)


def test_a_version_is_cloned(path, target, written):
    written(*ROWS)
    deep(path, target, version=0)
    assert rows(target) == sorted(bayou.table(path).snapshot(0).to_arrow().to_pylist(), key=repr)


def test_a_table_is_not_cloned_onto_itself(path, written):
    written(*ROWS)
    with pytest.raises(ArgumentError, match="DELTA_UNSUPPORTED_CLONE_REPLACE_SAME_TABLE"):
        deep(path, path)


def test_a_table_is_not_cloned_onto_a_link_to_itself(path, written, tmp_path):
    written(*ROWS)
    link = tmp_path / "link"
    link.symlink_to(path, target_is_directory=True)
    with pytest.raises(ArgumentError, match="DELTA_UNSUPPORTED_CLONE_REPLACE_SAME_TABLE"):
        deep(path, str(link))


@pytest.mark.parametrize("damage", ["missing", "short"])
def test_a_failed_clone_leaves_no_files_and_changes_nothing(path, target, written, damage):
    written(*ROWS)
    deep(path, target, version=0)
    before, expected = files(target), rows(target)
    victim = next(Path(path).rglob("part-*.parquet"))
    if damage == "missing":
        victim.unlink()
    else:
        victim.write_bytes(victim.read_bytes()[:-1])
    with pytest.raises((FileMissingError, CorruptTableError)) as caught:
        bayou.table(path).clone(other := f"{target} 2", shallow=False)
    assert victim.name in str(caught.value)
    assert not files(other)
    with pytest.raises(BayouError):
        bayou.table(other).to_arrow()
    assert (files(target), rows(target)) == (before, expected)


STEPS = st.lists(
    st.sampled_from(
        ["append", "delete", "update", "compact", "clone", "delete clone", "overwrite"]
    ),
    max_size=8,
)


@settings(
    max_examples=examples(30),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
)
@given(steps=STEPS, vectors=st.booleans(), rows_ids=st.booleans())
def test_after_any_history_the_clone_has_the_sources_rows(
    tmp_path_factory, steps, vectors, rows_ids
):
    folder = tmp_path_factory.mktemp("clones")
    source, target = str(folder / "s"), str(folder / "t")
    configuration = {
        "delta.enableDeletionVectors": str(vectors).lower(),
        "delta.enableRowTracking": str(rows_ids).lower(),
    }
    bayou.write(source, pa.table({"id": list(range(6)), "n": [0] * 6}), configuration=configuration)
    for number, step in enumerate(steps, 1):
        data = pa.table({"id": [number * 10, number * 10 + 1], "n": [number] * 2})
        if step == "append":
            bayou.write(source, data)
        elif step == "overwrite":
            bayou.write(source, data, mode="overwrite")
        elif step == "delete":
            bayou.table(source).delete(f"id % 5 = {number % 5}")
        elif step == "update":
            bayou.table(source).update({"n": "n + 1"}, predicate=f"id % 3 = {number % 3}")
        elif step == "compact":
            bayou.table(source).optimize.compact()
        elif step == "clone":
            deep(source, target)
            assert rows(target) == rows(source)
        elif Path(target).exists():
            bayou.table(target).delete(f"id % 2 = {number % 2}")
    deep(source, target)
    expected = rows(source)
    assert rows(target) == expected
    assert deep(source, target).num_copied_files == 0
    remove_data(source)
    assert rows(target) == expected
