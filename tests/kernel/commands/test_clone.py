"""Shallow clones: absolute paths, a life of their own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import bayou
from bayou.errors import (
    ArgumentError,
    DataFileError,
    SchemaError,
    TableAlreadyExistsError,
    TablePropertyError,
)
from bayou.kernel import Operation, Table

ROWS = [[{"id": i, "p": p} for i in range(3)] for p in ("plain", "a/b ü", "50%")]
DELETION_VECTORS = {"delta.enableDeletionVectors": "true"}


@pytest.fixture
def target(tmp_path) -> str:
    return str(tmp_path / "the clone")


def rows(path: str) -> list[dict]:
    return sorted(bayou.table(path).to_arrow().to_pylist(), key=repr)


def commit(path: str, version: int = 0) -> list[dict]:
    text = Path(path, f"_delta_log/{version:020d}.json").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_a_clone_has_the_rows_and_no_file(path, target, written, mark_deleted):
    written(*ROWS, partition_by=["p"], configuration=DELETION_VECTORS)
    mark_deleted(lambda _: [1])
    before = rows(path)
    metrics = bayou.table(path).clone(target)
    assert rows(target) == before
    assert (metrics.version, metrics.source_num_of_files) == (0, 3)
    assert [f.name for f in Path(target).iterdir()] == ["_delta_log"]
    adds = [a["add"] for a in commit(target) if "add" in a]
    assert all(a["path"].startswith("file:/") and a["dataChange"] for a in adds)
    assert {a["deletionVector"]["storageType"] for a in adds} == {"p"}
    assert all(a["deletionVector"]["pathOrInlineDv"].startswith("file:/") for a in adds)
    (entry,) = bayou.table(target).history()
    assert entry["operation"] == "CLONE"
    assert entry["operationParameters"] == {"source": f"delta.`file:{path}`", "sourceVersion": 3}
    source, copy = bayou.table(path).snapshot(), bayou.table(target).snapshot()
    assert source.kernel.table_id != copy.kernel.table_id
    assert source.protocol == copy.protocol


def test_each_goes_its_own_way(path, target, written):
    written(*ROWS, partition_by=["p"], configuration=DELETION_VECTORS)
    bayou.table(path).clone(target)
    clone = bayou.table(target)
    clone.delete("id = 0")
    bayou.write(target, pa.table({"id": [9], "p": ["new"]}))
    clone.optimize()
    clone.optimize.purge()
    assert sorted(r["id"] for r in rows(target)) == [1, 1, 1, 2, 2, 2, 9]
    bayou.write(path, pa.table({"id": [7], "p": ["x"]}))
    assert len(rows(path)) == 10
    clone.vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert len(rows(path)) == 10
    clone.restore(0, ignore_missing_files=True)
    assert sorted(r["id"] for r in rows(target)) == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_a_version_is_cloned_and_a_clone_too(path, target, tmp_path, written):
    written(*ROWS)
    bayou.table(path).clone(target, version=1)
    assert len(rows(target)) == 6
    again = str(tmp_path / "again")
    bayou.write(target, pa.table({"id": [9], "p": ["new"]}))
    bayou.table(target).clone(again)
    assert rows(again) == rows(target)


def test_a_version_whose_files_a_vacuum_has_deleted_is_not_cloned(path, target, written):
    written([{"id": 1}])
    table = bayou.table(path)
    table.delete("true")
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(DataFileError, match="version 0 can't be cloned, because 1 of its files"):
        table.clone(target, version=0)
    assert not bayou.exists(target)
    table.clone(target)


def test_rows_of_a_clone_are_numbered_anew(path, target, written):
    written(*ROWS, configuration={"delta.enableRowTracking": "true"})
    bayou.table(path).optimize()
    bayou.table(path).clone(target)
    found = bayou.table(target).to_arrow(columns=["_metadata.row_id"])["_metadata.row_id"]
    assert sorted(found.to_pylist()) == list(range(9))
    key = "delta.rowTracking.materializedRowIdColumnName"
    before = bayou.table(path).snapshot().properties[key]
    assert bayou.table(target).snapshot().properties[key] != before


def test_properties_go_on_top(path, target, written):
    written(*ROWS, configuration={"delta.appendOnly": "false", "mine": "1"})
    bayou.table(path).clone(target, configuration={"delta.enableRowTracking": "true", "mine": "2"})
    found = bayou.table(target).snapshot()
    assert found.properties["mine"] == "2"
    assert "rowTracking" in found.protocol.writer_features
    assert bayou.table(target).to_arrow(columns=["_metadata.row_id"]).num_rows == 9


def test_what_is_there_is_not_replaced(path, target, written):
    written(*ROWS)
    bayou.write(target, pa.table({"id": [1]}))
    table = bayou.table(path)
    for replace in (False, True):
        with pytest.raises(TableAlreadyExistsError):
            table.clone(target, replace=replace)
    bayou.write(target, pa.table({"id": pa.array([], pa.int64())}), mode="overwrite")
    with pytest.raises(TableAlreadyExistsError):
        table.clone(target)
    before = bayou.table(target).snapshot().kernel.table_id
    assert table.clone(target, replace=True).version == 2
    assert rows(target) == rows(path)
    assert bayou.table(target).snapshot().kernel.table_id == before


def test_what_cannot_be_is_refused(path, target, written):
    written(*ROWS)
    table = bayou.table(path)
    with pytest.raises(SchemaError, match="column mapping"):
        table.clone(target, configuration={"delta.columnMapping.mode": "name"})
    with pytest.raises(TablePropertyError):
        table.clone(target, configuration={"delta.appendOnly": "perhaps"})
    with pytest.raises(ArgumentError):
        table.clone(target, version=0, timestamp=1)
    assert not Path(target, "_delta_log").exists()


UNCHECKED = {
    "a constraint": {"delta.constraints.low": "id < 1"},
    "another condition": {"delta.constraints.Known": "id < 1"},
    "suspended row tracking": {
        "delta.enableRowTracking": "true",
        "delta.rowTrackingSuspended": "true",
    },
}


@pytest.mark.parametrize("name", sorted(UNCHECKED))
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("shallow", [False, True])
def test_a_clone_gets_no_property_that_its_rows_may_violate(
    path, target, written, name, replace, shallow
):
    written(*ROWS, configuration={"delta.constraints.known": "id < 10"})
    if replace:
        bayou.create(target, {"id": "long"})
    key, match = max(UNCHECKED[name]), "checked first|both enabled"
    with pytest.raises(TablePropertyError, match=match) as raised:
        bayou.table(path).clone(
            target, configuration=UNCHECKED[name], replace=replace, shallow=shallow
        )
    assert raised.value.key == key
    assert Path(target, "_delta_log").exists() == replace
    bayou.table(path).clone(
        target,
        configuration={"delta.constraints.known": "id < 10"},
        replace=replace,
        shallow=shallow,
    )
    assert rows(target) == rows(path)


@pytest.fixture
def progress(engine, path) -> Callable[..., None]:
    """Commits transaction identifiers without a row."""

    def commit(table: str = path, **versions: int) -> None:
        builder = Table.for_path(engine, table).create_transaction_builder(
            engine, engine_info="test", operation=Operation.STREAMING_UPDATE
        )
        for app_id, version in versions.items():
            builder = builder.with_transaction_id(app_id, version)
        builder.build(engine).commit(engine, ())

    return commit


def test_a_clone_has_the_transaction_identifiers_of_its_version(path, target, written, progress):
    written(*ROWS)
    progress(a=5, b=1)
    progress(a=7)
    bayou.table(path).clone(target, version=3)
    assert bayou.table(target).snapshot().transactions == {"a": 5, "b": 1}
    theirs = [a["txn"] for a in commit(path, 3) if "txn" in a]
    assert [a["txn"] for a in commit(target) if "txn" in a] == theirs


def test_a_clone_omits_transaction_identifiers_where_that_is_asked(path, target, written, progress):
    written(*ROWS)
    progress(a=5)
    bayou.table(path).clone(target, transaction_identifiers=False)
    assert bayou.table(target).snapshot().transactions == {}


@pytest.mark.parametrize("before", [4, 5, 6])
def test_a_clone_replaces_the_identifiers_of_the_empty_table_that_is_there(
    path, target, written, progress, before
):
    written(*ROWS)
    progress(a=5, b=1)
    bayou.write(target, pa.table({"id": pa.array([], pa.int64()), "p": pa.array([], pa.string())}))
    progress(target, a=before, c=3)
    bayou.table(path).clone(target, replace=True)
    assert bayou.table(target).snapshot().transactions == {"a": 5, "b": 1}
    assert rows(target) == rows(path)


@pytest.mark.parametrize("copies", [True, False])
def test_a_clone_withdraws_the_identifiers_of_the_rows_that_it_replaces(
    path, target, written, progress, copies
):
    """Otherwise the writers of the replaced rows would not write them again."""
    written(*ROWS)
    progress(a=5)
    bayou.write(target, pa.table({"id": [7], "p": ["x"]}))
    progress(target, a=9, c=3)
    bayou.table(path).clone(target, shallow=False, replace=True, transaction_identifiers=copies)
    known = bayou.table(target).snapshot()
    assert known.transactions == ({"a": 5} if copies else {})
    assert known.kernel.transaction_version("c") is None
    withdrawn = {a["txn"]["appId"]: a["txn"]["version"] for a in commit(target, 2) if "txn" in a}
    assert withdrawn == {"a": 5 if copies else -1, "c": -1}
    progress(target, c=0)
    assert bayou.table(target).snapshot().transactions["c"] == 0
