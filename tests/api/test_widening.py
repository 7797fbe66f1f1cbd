"""Columns that take a wider type because of the rows that come."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

import bayou
from bayou.errors import SchemaError
from bayou.protocol.schema import LONG

WIDENS = {"delta.enableTypeWidening": "true"}


def table(whole: pa.DataType, small: pa.DataType, element: pa.DataType, *rows: Any) -> pa.Table:
    """Rows `(id, n, s)` of columns in narrow or wide types."""
    struct = pa.struct({"x": small, "l": pa.list_(element)})
    schema = pa.schema({"id": whole, "n": whole, "s": struct})
    return pa.Table.from_pylist([dict(zip(["id", "n", "s"], r, strict=True)) for r in rows], schema)


NARROW = table(pa.int32(), pa.int8(), pa.int16(), (1, 10, {"x": 1, "l": [1]}), (2, 20, None))
WIDE = table(
    pa.int64(), pa.int32(), pa.int64(), (2, 2 << 40, {"x": 400, "l": [1 << 40]}), (3, 30, None)
)


def rows(path: str) -> list[dict[str, Any]]:
    return sorted(bayou.table(path).to_arrow().to_pylist(), key=repr)


def changes_of(path: str) -> dict[str, list[dict[str, Any]]]:
    """The type changes in the schema, by column."""
    schema = json.loads(bayou.table(path).snapshot().kernel.schema.to_json())
    fields = [*schema["fields"], *schema["fields"][-1]["type"]["fields"]]
    return {
        f["name"]: f["metadata"]["delta.typeChanges"]
        for f in fields
        if "delta.typeChanges" in f["metadata"]
    }


WIDENED = {
    "id": [{"toType": "long", "fromType": "integer"}],
    "n": [{"toType": "long", "fromType": "integer"}],
    "x": [{"toType": "integer", "fromType": "byte"}],
    "l": [{"toType": "long", "fromType": "short", "fieldPath": "element"}],
}


def test_an_append_widens_columns_and_the_schema_says_so(path: str) -> None:
    bayou.write(path, NARROW, configuration=WIDENS)
    with pytest.raises(SchemaError, match="'id'.*doesn't fit"):
        bayou.write(path, pa.table({"id": [1 << 40]}))
    bayou.write(path, WIDE, merge_schema=True)
    assert changes_of(path) == WIDENED
    assert rows(path) == sorted([*NARROW.to_pylist(), *WIDE.to_pylist()], key=repr)


@pytest.mark.parametrize("vectors", ["true", "false"])
@pytest.mark.parametrize("feed", ["true", "false"])
def test_a_merge_widens_columns_and_the_schema_says_so(path: str, vectors: str, feed: str) -> None:
    others = {"delta.enableDeletionVectors": vectors, "delta.enableChangeDataFeed": feed}
    bayou.write(path, NARROW, configuration=WIDENS | others)
    merge = bayou.table(path).merge(WIDE, "target.id = source.id", merge_schema=True)
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert changes_of(path) == WIDENED
    assert rows(path) == sorted([NARROW.to_pylist()[0], *WIDE.to_pylist()], key=repr)


def test_a_merge_computes_with_the_columns_as_they_will_be(path: str) -> None:
    bayou.write(path, NARROW, configuration=WIDENS)
    merge = bayou.table(path).merge(WIDE, "target.id = source.id", merge_schema=True)
    merge = merge.when_matched_update({"n": "target.n + source.n"}, "target.n < source.n")
    merge.when_not_matched_by_source_update({"n": "target.n + 1"}).execute()
    assert [row["n"] for row in rows(path)] == [11, 20 + (2 << 40)]
    schema = bayou.table(path).snapshot().kernel.schema
    assert [str(f.data_type) for f in schema][:2] == ["integer", "long"]


def test_a_merge_casts_where_types_dont_widen(path: str) -> None:
    bayou.write(path, NARROW)
    source = WIDE.slice(1)
    merge = bayou.table(path).merge(source, "target.id = source.id", merge_schema=True)
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert changes_of(path) == {}
    assert bayou.table(path).to_arrow().schema.field("n").type == pa.int32()


def test_a_column_that_a_constraint_uses_isnt_widened_by_rows(path: str) -> None:
    bayou.write(path, NARROW, configuration=WIDENS)
    bayou.table(path).alter.add_constraint({"small": "n < 100"})
    with pytest.raises(SchemaError, match="CHECK constraint small"):
        bayou.write(path, WIDE, merge_schema=True)
    assert bayou.table(path).snapshot().kernel.schema.select(["n"]).fields[0].data_type != LONG


def test_the_preview_of_the_feature_notes_the_version(path: str) -> None:
    preview = {"delta.feature.typeWidening-preview": "supported"}
    bayou.write(path, NARROW, configuration=WIDENS | preview)
    bayou.write(path, WIDE.select(["n"]), merge_schema=True)
    assert changes_of(path)["n"] == [{"toType": "long", "fromType": "integer", "tableVersion": 1}]
    assert bayou.table(path).snapshot().protocol.reader_features == ["typeWidening-preview"]
