"""Columns of type variant, by the short API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bayou
from bayou.errors import ArgumentError, SchemaError
from bayou.protocol.schema import VARIANT, ArrayType, StructType

TEXTS = ['{"a":[1,"x",{"b":null}]}', None, "null", "1.5"]


def made(path: str, texts: list[str | None] = TEXTS, **properties: str) -> str:
    rows = pa.table({"id": range(len(texts)), "v": bayou.variants_from_json(texts)})
    named = {f"delta.{key}": value for key, value in properties.items()}
    bayou.write(path, rows, configuration=named)
    return path


def texts_of(path: str, **options: Any) -> dict[int, str | None]:
    rows = bayou.table(path).to_arrow(**options)
    return dict(
        zip(rows["id"].to_pylist(), bayou.variants_to_json(rows["v"]).to_pylist(), strict=True)
    )


def test_variants_of_json_come_back(path: str) -> None:
    made(path)
    assert texts_of(path) == dict(enumerate(TEXTS))
    snapshot = bayou.table(path).snapshot()
    assert snapshot.kernel.schema.select(["v"]).fields[0].data_type == VARIANT
    assert snapshot.protocol.reader_features == ["variantType"]


def test_what_was_read_can_be_appended_to_a_variant_column(path: str) -> None:
    made(path)
    rows = bayou.table(path).to_arrow()
    assert pa.types.is_struct(rows.schema.field("v").type)
    bayou.write(path, rows)
    turned = pa.StructArray.from_arrays(
        [pa.array([b"\x0c\x07"]), pa.array([b"\x01\x00\x00"], pa.large_binary())],
        ["value", "metadata"],
    )
    bayou.write(path, pa.table({"id": [9], "v": turned}), merge_schema=True)
    assert texts_of(path, filter="id = 9") == {9: "7"}
    assert len(bayou.table(path).to_arrow()) == 9


def test_a_variant_has_a_null_count_and_no_bounds(tmp_path: Path) -> None:
    path = made(str(tmp_path))
    log = (tmp_path / "_delta_log" / "00000000000000000000.json").read_text()
    (add,) = [json.loads(line)["add"] for line in log.splitlines() if '"add"' in line]
    stats = json.loads(add["stats"])
    assert stats["nullCount"] == {"id": 0, "v": 1}
    assert stats["minValues"] == {"id": 0}
    group = pq.ParquetFile(f"{path}/{add['path']}").schema_arrow.field("v")
    assert group.nullable
    assert {f.name: f.nullable for f in group.type} == {"metadata": False, "value": False}


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_rows_with_variants_are_updated_merged_packed_and_restored(path: str, vectors: str) -> None:
    made(path, enableDeletionVectors=vectors, enableChangeDataFeed="true")
    table = bayou.table(path)
    table.update({"v": "NULL"}, predicate="id = 0")
    table.delete("id = 3")
    source = pa.table({"id": [1, 7], "v": bayou.variants_from_json(["[1]", "[7]"])})
    for rows in (source, source.set_column(1, "v", source["v"].cast(STORAGE))):
        merge = table.merge(rows, "target.id = source.id", merge_schema=True)
        merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert texts_of(path) == {0: None, 1: "[1]", 2: "null", 7: "[7]"}
    table.optimize()
    table.optimize.purge()
    table.create_checkpoint()
    assert texts_of(path) == {0: None, 1: "[1]", 2: "null", 7: "[7]"}
    assert texts_of(path, filter="v IS NULL") == {0: None}
    changes = table.changes(1).to_arrow()
    assert changes["v"].type == STORAGE
    table.restore(0)
    assert texts_of(path) == dict(enumerate(TEXTS))


STORAGE = pa.struct(
    [pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary(), False)]
)


def test_variants_stand_in_structs_arrays_and_maps(path: str) -> None:
    values = bayou.variants_from_json(["1", None, "[2]"])
    variant = values.type
    rows = pa.table(
        {
            "s": pa.StructArray.from_arrays([values], ["v"]),
            "l": pa.ListArray.from_arrays([0, 1, 1, 3], values),
            "m": pa.MapArray.from_arrays([0, 1, 2, 3], ["a", "b", "c"], values),
        }
    )
    bayou.write(path, rows)
    schema = bayou.table(path).snapshot().kernel.schema
    assert [str(f.data_type) for f in schema] == [
        "struct<v:variant>",
        "array<variant>",
        "map<string,variant>",
    ]
    found = bayou.table(path).to_arrow()
    inner = found["s"].combine_chunks().field("v")
    assert bayou.variants_to_json(inner).to_pylist() == ["1", None, "[2]"]
    assert [len(row) for row in found["l"].to_pylist()] == [1, 0, 2]
    assert variant.extension_name == "arrow.parquet.variant"


def test_rows_without_variants_are_written_copied_and_packed(path: str) -> None:
    values = bayou.variants_from_json(["1", "2", None])
    nested = pa.StructArray.from_arrays([values], ["v"])
    entries = pa.MapArray.from_arrays([0, 1, 2, 3], ["a", "b", "c"], values)
    lists = pa.ListArray.from_arrays([0, 1, 1, 3], values)
    bayou.write(path, pa.table({"id": [0, 1, 2]}))
    rows = pa.table({"id": [3, 4, 5], "v": values, "s": nested, "l": lists, "m": entries})
    bayou.write(path, rows, merge_schema=True)
    bayou.write(path, pa.table({"id": [6]}))
    table = bayou.table(path)
    table.delete("id = 1")
    source = pa.table({"id": [4, 9]})
    merge = table.merge(source, "target.id = source.id")
    merge = merge.when_matched_update({"s": "NULL", "m": "NULL"})
    merge.when_not_matched_insert({"id": "source.id"}).execute()
    table.optimize()
    texts = texts_of(path)
    assert texts == {0: None, 2: None, 3: "1", 4: "2", 5: None, 6: None, 9: None}
    found = {row["id"]: row for row in table.to_arrow().to_pylist()}
    assert found[4]["s"] is found[4]["m"] is found[0]["l"] is None
    assert found[3]["s"]["v"] == found[3]["l"][0] == found[3]["m"][0][1] == found[3]["v"]


def test_a_table_becomes_one_with_variants(path: str) -> None:
    bayou.write(path, pa.table({"id": [0]}))
    table = bayou.table(path)
    table.alter.add_column("l", "array<variant>")
    added = table.snapshot().kernel.schema.select(["l"]).fields[0].data_type
    assert added == ArrayType(element_type=VARIANT)
    rows = pa.table({"id": [1], "v": bayou.variants_from_json(["{}"])})
    bayou.write(path, rows, merge_schema=True)
    assert texts_of(path) == {0: None, 1: "{}"}
    assert isinstance(table.snapshot().kernel.schema, StructType)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"metadata": b"\x01\x00", "value": b""}, "a row with an empty value"),
        ({"metadata": b"\x02\x00", "value": b"\x00"}, "isn't version 1"),
        ({"metadata": None, "value": b"\x00"}, "only metadata is null"),
    ],
)
def test_bytes_that_are_no_variant_are_refused_before_they_are_written(
    path: str, value: dict[str, Any], message: str
) -> None:
    made(path)
    kind = pa.struct({"metadata": pa.binary(), "value": pa.binary()})
    rows = pa.table({"id": [1], "v": pa.array([value], kind)})
    with pytest.raises(SchemaError, match=message):
        bayou.write(path, rows)


def test_a_column_of_another_type_doesnt_go_into_a_variant(path: str) -> None:
    made(path)
    with pytest.raises(SchemaError, match="DELTA_FAILED_TO_MERGE_FIELDS"):
        bayou.write(path, pa.table({"id": [1], "v": ["text"]}))


def test_a_table_isnt_partitioned_by_a_variant(path: str) -> None:
    rows = pa.table({"id": [1], "v": bayou.variants_from_json(["1"])})
    with pytest.raises(SchemaError, match="can't be a partition column"):
        bayou.write(path, rows, partition_by=["v"])


def test_a_text_that_is_no_json_is_named() -> None:
    with pytest.raises(
        ArgumentError, match="string 1 can't be converted to a variant: '{' isn't JSON"
    ):
        bayou.variants_from_json(["1", "{"])
    with pytest.raises(ArgumentError, match="row 0 isn't a variant"):
        bayou.variants_to_json(pa.array([{"metadata": b"", "value": b"\x00"}]))
