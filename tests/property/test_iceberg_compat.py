"""After any history of a table with Iceberg compatibility, its files follow the version's rules."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bayou
from bayou.engines import for_path
from bayou.kernel.table_features.column_mapping import NESTED_IDS_KEY, physical_name
from bayou.protocol.schema import ArrayType, DataType, MapType, StructType
from support.examples import examples

STEPS = [
    "append",
    "overwrite",
    "delete",
    "update",
    "move",
    "merge",
    "optimize",
    "z-order",
    "add column",
    "rename column",
    "drop column",
    "restore",
    "clone",
    "replace",
]


class History:
    """A table and the number of its steps."""

    def __init__(self, path: str, version: int, *, vectors: bool) -> None:
        self.path, self.version, self.number = path, version, 0
        configuration = {f"delta.enableIcebergCompatV{version}": "true"}
        if vectors:
            configuration["delta.enableDeletionVectors"] = "true"
        bayou.write(path, self.rows(), configuration=configuration, partition_by=["p"])

    def rows(self) -> pa.Table:
        first = 10 * self.number
        columns: dict[str, Any] = {
            "p": ["a", "b", "a"],
            "id": [first, first + 1, first + 2],
            "at": pa.array([0, None, first], pa.timestamp("us", "UTC")),
        }
        if self.version > 1:
            columns["l"] = pa.array([[1], None, []], pa.list_(pa.int64()))
            maps = pa.map_(pa.string(), pa.list_(pa.int32()))
            columns["m"] = pa.array([[("k", [1])], [], None], maps)
        return pa.table(columns)

    def take(self, step: str) -> None:
        self.number += 1
        table = bayou.table(self.path)
        match step:
            case "append":
                bayou.write(self.path, self.rows(), schema_mode="merge")
            case "overwrite":
                bayou.write(self.path, self.rows(), mode="overwrite", schema_mode="merge")
            case "replace":
                bayou.write(
                    self.path,
                    self.rows(),
                    mode="overwrite",
                    schema_mode="overwrite",
                    partition_by=["p"],
                )
            case "delete":
                table.delete(f"id % 3 = {self.number % 3}")
            case "update":
                table.update({"id": "id + 1"}, predicate=f"id % 2 = {self.number % 2}")
            case "move":
                table.update({"p": "'c'"}, predicate=f"id % 4 = {self.number % 4}")
            case "merge":
                source = pa.table({"id": [0, 1000 + self.number], "p": ["m", "m"]})
                merge = table.merge(source, "target.id = source.id AND target.p <> 'm'")
                merge.when_matched_update({"p": "source.p"}).when_not_matched_insert(
                    {"id": "source.id", "p": "source.p"}
                ).execute()
            case "optimize":
                table.optimize.compact()
            case "z-order":
                table.optimize.z_order(["id"])
            case "add column":
                kind = "bigint" if self.version == 1 else "array<struct<x: map<string, int>>>"
                table.alter.add_column(f"c{self.number}", kind)
            case "rename column":
                if self._has("at") and not self._has("at2"):
                    table.alter.rename_column("at", "at2")
            case "drop column":
                if self._has("at2"):
                    table.alter.drop_columns("at2")
            case "restore":
                if table.version():
                    table.restore(table.version() // 2)
            case "clone":
                target = f"{self.path}-{self.number}"
                table.clone(target, shallow=False)
                self.path = target

    def _has(self, name: str) -> bool:
        return any(f.name == name for f in bayou.table(self.path).snapshot().kernel.schema)


def check_rules(path: str, version: int) -> None:
    engine = for_path(path)
    snapshot = bayou.table(path).snapshot().kernel
    fields = {physical_name(f): f for f in snapshot.schema}
    known = set(_ids(snapshot.schema))
    assert len(known) == len(list(_ids(snapshot.schema)))
    scan = snapshot.scan_builder().with_whole_adds().build()
    with scan.scan_files(engine).flat_map(lambda batch: batch.rows()) as files:
        adds = [(file.status.path, file.add) for file in files]
    for name, add in adds:
        assert add.stats is not None
        assert json.loads(add.stats)["numRecords"] > 0
        assert version == 3 or add.deletion_vector is None
        tags = add.tags or {}
        assert tags.get("ICEBERG_COMPAT_VERSION") == (None if version == 1 else str(version))
        assert (add.base_row_id is not None) == (version == 3)
        footer = pq.ParquetFile(name)
        stored = footer.schema_arrow
        partition = [f.name for f in stored if f.name in add.partition_values]
        assert partition == list(add.partition_values)
        columns = [f for f in stored if not f.name.startswith("_row-")]
        assert [f.name for f in columns][-len(partition) :] == partition
        for column in columns:
            field = fields.get(column.name)
            if field is None:
                continue  # the column was dropped later
            assert sorted(_file_ids(column)) == sorted(_ids(StructType((field,))))
        for column in stored:
            if column.name.startswith("_row-") and version == 3:
                assert _field_id(column) in (2147483540, 2147483539)
        kinds = {footer.schema.column(i).physical_type for i in range(len(footer.schema))}
        assert "INT96" not in kinds


def _ids(data_type: DataType) -> Iterator[int]:
    match data_type:
        case StructType(fields):
            for field in fields:
                yield field.metadata["delta.columnMapping.id"]
                yield from field.metadata.get(NESTED_IDS_KEY, {}).values()
                yield from _ids(field.data_type)
        case ArrayType():
            yield from _ids(data_type.element_type)
        case MapType():
            yield from _ids(data_type.key_type)
            yield from _ids(data_type.value_type)


def _file_ids(field: Any) -> Iterator[int]:
    yield _field_id(field)
    kind = field.type
    if pa.types.is_map(kind):
        children = [kind.key_field, kind.item_field]
    else:
        children = [kind.field(i) for i in range(kind.num_fields)]
    for child in children:
        yield from _file_ids(child)


def _field_id(field: Any) -> int:
    return int(field.metadata[b"PARQUET:field_id"])


@pytest.mark.parametrize("version", [1, 2, 3])
def test_files_follow_the_rules_after_any_history(
    tmp_path_factory: pytest.TempPathFactory, version: int
) -> None:
    @settings(max_examples=examples(30), deadline=None)
    @given(st.lists(st.sampled_from(STEPS), max_size=8), st.booleans())
    def check(steps: list[str], vectors: bool) -> None:
        folder = tmp_path_factory.mktemp("history")
        history = History(str(folder / "t"), version, vectors=vectors and version == 3)
        for step in steps:
            history.take(step)
        check_rules(history.path, version)
        expected = bayou.table(history.path).to_arrow().num_rows
        assert bayou.table(history.path).count() == expected
        for child in Path(folder).iterdir():
            check_rules(str(child), version)

    check()
