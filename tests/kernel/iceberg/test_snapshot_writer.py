"""Snapshots of commits that other writers have made: files that are added again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.kernel.iceberg.manifests.entries import DATA_MANIFEST, DELETE_MANIFEST, DataFile
from bayou.kernel.iceberg.manifests.manifest_reader import live_entries
from support.iceberg_tables import ICEBERG_V3, assert_equal_formats, manifests, metadata, write


def readd(path: Path, fields: Mapping[str, Any]) -> None:
    """Commit all live files again with other fields, as `COMPUTE STATS` in delta-spark does."""
    version = bayou.table(path).version()
    adds: dict[str, Any] = {}
    for number in range(version + 1):
        commit = (path / "_delta_log" / f"{number:020}.json").read_text().splitlines()
        actions = [json.loads(line) for line in commit]
        for action in actions:
            if "remove" in action:
                adds.pop(action["remove"]["path"], None)
        adds.update({a["add"]["path"]: a["add"] for a in actions if "add" in a})
    lines: list[Any] = [{"commitInfo": {"timestamp": 1, "operation": "COMPUTE STATS"}}]
    lines += [{"add": {**add, **fields}} for add in adds.values()]
    log = path / "_delta_log" / f"{version + 1:020}.json"
    log.write_text("\n".join(json.dumps(line) for line in lines))
    bayou.table(path).iceberg.sync()


def files(path: Path, content: int) -> list[DataFile]:
    engine = ArrowEngine()
    return [
        entry.data_file
        for manifest in manifests(path)
        if manifest.content == content
        for entry in live_entries(engine, str(path), manifest)
    ]


@pytest.mark.parametrize("data_change", [False, True])
def test_a_file_that_is_added_again_stays_one_file(
    path: Path, configuration: dict[str, str], data_change: bool
) -> None:
    for start in (0, 10):
        ids = pa.array(range(start, start + 3), pa.int64())
        write(path, {"id": ids}, configuration=configuration)
    bayou.table(path).delete("id = 11")
    readd(path, {"dataChange": data_change, "tags": {"a": "b"}, "modificationTime": 1})
    assert_equal_formats(path)
    vectors = [file.referenced_data_file for file in files(path, DELETE_MANIFEST)]
    assert len(vectors) == len(set(vectors)) == (configuration == ICEBERG_V3)
    assert len(files(path, DATA_MANIFEST)) == 2


def test_a_file_that_is_added_again_with_other_row_ids_gets_them(path: Path) -> None:
    write(path, {"id": pa.array(range(3), pa.int64())}, configuration=ICEBERG_V3)
    readd(path, {"dataChange": False, "baseRowId": 100})
    assert [file.first_row_id for file in files(path, DATA_MANIFEST)] == [100]


def test_a_partition_column_of_another_type_removes_the_earlier_snapshots(
    path: Path, configuration: dict[str, str]
) -> None:
    text = {"id": pa.array([1, 2], pa.int64()), "p": pa.array(["a", None])}
    for _ in range(2):
        write(path, text, partition_by=["p"], configuration=configuration)
    number = {"id": pa.array([3, 4], pa.int64()), "p": pa.array([5, None], pa.int32())}
    write(path, number, mode="overwrite", overwrite_schema=True, partition_by=["p"])
    assert_equal_formats(path)
    found = metadata(path)
    schema = next(s for s in found["schemas"] if s["schema-id"] == found["current-schema-id"])
    columns = {field["id"] for field in schema["fields"]}
    assert {f["source-id"] for spec in found["partition-specs"] for f in spec["fields"]} <= columns
    assert len(found["snapshots"]) == 1
    write(path, number)
    bayou.table(path).delete("id = 3")
    assert_equal_formats(path)
    assert len(metadata(path)["snapshots"]) == 3
