"""REORG ... APPLY (UPGRADE UNIFORM ...) makes existing tables readable as Iceberg tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bayou
from bayou.engines import for_path
from bayou.errors import IcebergCompatError
from bayou.kernel import Operation
from bayou.kernel.commands.optimize.rewrite_execution import run_plan
from bayou.kernel.commands.optimize.upgrade_uniform import plan_upgrade, upgrade_uniform

ROWS = pa.table(
    {
        "part": ["a", "b", "a"],
        "id": [1, 2, 3],
        "l": pa.array([[1], None, []], pa.list_(pa.int64())),
    }
)
FORMATS = "delta.universalFormat.enabledFormats"


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "t")


def live_files(path: str) -> dict[str, dict[str, Any]]:
    engine = for_path(path)
    snapshot = bayou.table(path).snapshot().kernel
    scan = snapshot.scan_builder().with_whole_adds().build()
    with scan.scan_files(engine).flat_map(lambda batch: batch.rows()) as files:
        return {file.status.path: dict(file.add.tags or {}) for file in files}


def rows(path: str) -> list[dict[str, Any]]:
    return sorted(bayou.table(path).to_arrow().to_pylist(), key=repr)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"delta.columnMapping.mode": "id"},
        {"delta.enableDeletionVectors": "true"},
        {"delta.enableRowTracking": "true"},
        {"delta.columnMapping.mode": "name", "delta.enableIcebergCompatV2": "true"},
    ],
    ids=lambda p: ",".join(p) or "none",
)
def test_files_are_rewritten_for_the_version(
    path: str, version: int, properties: dict[str, str]
) -> None:
    bayou.write(path, ROWS, partition_by=["part"], configuration=properties)
    bayou.write(path, ROWS)
    bayou.table(path).delete("id = 3")
    before = rows(path)
    was_compatible = "delta.enableIcebergCompatV2" in properties and version == 2
    metrics = bayou.table(path).optimize.upgrade_uniform(version)
    snapshot = bayou.table(path).snapshot()
    assert rows(path) == before
    assert metrics.version == snapshot.version
    assert (metrics.num_files_removed == 0) == was_compatible
    assert (metrics.num_files_added == 0) == was_compatible
    assert snapshot.properties[f"delta.enableIcebergCompatV{version}"] == "true"
    assert snapshot.properties[FORMATS] == "iceberg"
    mode = properties.get("delta.columnMapping.mode", "name")
    assert snapshot.properties["delta.columnMapping.mode"] == mode
    files = live_files(path)
    assert {tags["ICEBERG_COMPAT_VERSION"] for tags in files.values()} == {str(version)}
    for name in files:
        stored = list(pq.ParquetFile(name).schema_arrow)
        columns = [field for field in stored if not field.name.startswith("_row-")]
        assert len(columns) == 3
        for field in columns if version == 2 else stored:
            assert b"PARQUET:field_id" in field.metadata
        (element,) = [f.type.value_field for f in columns if pa.types.is_list(f.type)]
        assert b"PARQUET:field_id" in element.metadata
    bayou.write(path, ROWS)
    assert len(rows(path)) == len(before) + 3
    again = bayou.table(path).optimize.upgrade_uniform(version)
    assert (again.num_files_added, again.num_files_removed) == (0, 0)
    assert again.version == bayou.table(path).snapshot().version == snapshot.version + 1


def test_row_ids_are_kept(path: str) -> None:
    bayou.write(path, ROWS, configuration={"delta.enableRowTracking": "true"})
    bayou.write(path, ROWS)
    bayou.table(path).optimize.compact()
    columns = ["id", "_metadata.row_id"]
    before = bayou.table(path).to_arrow(columns=columns).to_pylist()
    bayou.table(path).optimize.upgrade_uniform(3)
    after = bayou.table(path).to_arrow(columns=columns).to_pylist()
    assert sorted(after, key=repr) == sorted(before, key=repr)


def test_version_1_rewrites_nothing(path: str) -> None:
    bayou.write(path, ROWS.select(["part", "id"]), partition_by=["part"])
    files = live_files(path)
    metrics = bayou.table(path).optimize.upgrade_uniform(1)
    assert (metrics.num_files_added, metrics.num_files_removed) == (0, 0)
    assert live_files(path) == files
    properties = bayou.table(path).snapshot().properties
    assert properties["delta.enableIcebergCompatV1"] == "true"
    assert properties[FORMATS] == "iceberg"
    bayou.table(path).optimize.upgrade_uniform(2)
    assert bayou.table(path).snapshot().properties["delta.enableIcebergCompatV1"] == "false"


@pytest.mark.parametrize("version", [0, 4, "2"])
def test_other_versions_do_not_exist(path: str, version: Any) -> None:
    bayou.write(path, ROWS)
    with pytest.raises(IcebergCompatError, match="1 to 3") as caught:
        bayou.table(path).optimize.upgrade_uniform(version)
    condition = "DELTA_ICEBERG_COMPAT_VIOLATION.COMPAT_VERSION_NOT_SUPPORTED"
    assert caught.value.condition == condition


def test_a_table_that_cannot_be_converted_is_left_as_it_is(path: str) -> None:
    bayou.write(path, ROWS)
    for version, rule in ((1, "array"), (2, "variant"), (3, "can't be disabled")):
        if version == 2:
            bayou.table(path).alter.add_column("v", "variant")
        if version == 3:
            bayou.write(
                path := f"{path}-3", ROWS, configuration={"delta.enableIcebergCompatV3": "true"}
            )
        before = bayou.table(path).snapshot().version
        with pytest.raises(IcebergCompatError, match=rule):
            bayou.table(path).optimize.upgrade_uniform(2 if version == 3 else version)
        assert bayou.table(path).snapshot().version == before


def test_a_failed_upgrade_is_continued(path: str) -> None:
    bayou.write(path, ROWS, configuration={"delta.enableDeletionVectors": "true"})
    bayou.write(path, ROWS)
    bayou.table(path).delete("id = 2")
    engine, state = for_path(path), bayou.table(path).snapshot().kernel

    def fail(plan: Any) -> Any:
        raise ConnectionError("the process ends here")

    with pytest.raises(ConnectionError):
        upgrade_uniform(engine, state, 2, fail, engine_info="test")
    properties = bayou.table(path).snapshot().properties
    assert properties["delta.enableIcebergCompatV2"] == "true"
    assert FORMATS not in properties
    bayou.table(path).optimize.upgrade_uniform(2)
    assert bayou.table(path).snapshot().properties[FORMATS] == "iceberg"
    assert [row["id"] for row in rows(path)] == [1, 1, 3, 3]


def test_files_that_were_added_during_the_rewrite_are_rewritten_too(path: str) -> None:
    bayou.write(path, ROWS)
    engine = for_path(path)
    late: list[str] = []

    def run(plan: Any) -> Any:
        result = run_plan(engine, plan, "test")
        if not late:  # a writer of an older version that knows no tags
            bayou.write(path, ROWS)
            snapshot = bayou.table(path).snapshot().kernel
            transaction = snapshot.build_update_table_transaction("old", Operation.WRITE).build(
                engine
            )
            with transaction.read_files(engine) as files:
                adds = [file.add for file in files]
            replace = msgspec.structs.replace
            transaction.commit(engine, [replace(a, tags=None, data_change=False) for a in adds])
            late.append(path)
        return result

    state = bayou.table(path).snapshot().kernel
    upgrade_uniform(engine, state, 2, run, engine_info="test")
    assert {t["ICEBERG_COMPAT_VERSION"] for t in live_files(path).values()} == {"2"}
    assert len(rows(path)) == 6
    latest = bayou.table(path).snapshot().kernel
    assert not plan_upgrade(engine, latest, 2, "test").items
