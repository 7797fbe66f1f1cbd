"""Ids of columns, fields, elements, keys and values are unique, stable and equal in files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from bayou.kernel.table_features.column_mapping import (
    ID_KEY,
    NESTED_IDS_KEY,
    PHYSICAL_NAME_KEY,
    physical_write_schema,
    without_mapping,
)
from bayou.kernel.table_features.column_mapping_ids import (
    MAX_COLUMN_ID,
    nested_paths,
    with_column_ids,
    with_ids_of,
)
from bayou.protocol.schema import (
    LONG,
    STRING,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
)
from support.examples import examples

MAPPED = {"delta.columnMapping.mode": "name"}


def struct_of(types: list[DataType]) -> StructType:
    return StructType(tuple(StructField(name=f"f{i}", data_type=t) for i, t in enumerate(types)))


TYPES = st.recursive(
    st.sampled_from([LONG, STRING]),
    lambda inner: (
        st.builds(ArrayType, element_type=inner)
        | st.builds(MapType, key_type=st.just(STRING) | inner, value_type=inner)
        | st.lists(inner, min_size=1, max_size=2).map(struct_of)
    ),
    max_leaves=5,
)


def fields_in(data_type: DataType) -> Iterator[StructField]:
    match data_type:
        case StructType(fields):
            for field in fields:
                yield field
                yield from fields_in(field.data_type)
        case ArrayType():
            yield from fields_in(data_type.element_type)
        case MapType():
            yield from fields_in(data_type.key_type)
            yield from fields_in(data_type.value_type)


def ids_of(schema: StructType) -> list[int]:
    """All ids, checked against the paths of the schema."""
    ids: list[int] = []
    for field in fields_in(schema):
        nested = field.metadata.get(NESTED_IDS_KEY, {})
        paths = list(nested_paths(field.metadata[PHYSICAL_NAME_KEY], field.data_type))
        assert list(nested) == paths
        ids += [field.metadata[ID_KEY], *nested.values()]
    return ids


def ids_in_files(arrow_type: Any, ids: list[int]) -> list[int]:
    """The field ids of an Arrow type, at every level."""
    children = (
        [arrow_type.key_field, arrow_type.item_field]
        if pa.types.is_map(arrow_type)
        else [arrow_type.field(i) for i in range(arrow_type.num_fields)]
    )
    for child in children:
        ids.append(int(child.metadata[b"PARQUET:field_id"]))
        ids_in_files(child.type, ids)
    return ids


def assign(
    schema: StructType, before: Mapping[str, str] | None, *, nested: bool = True
) -> tuple[StructType, dict[str, str]]:
    properties = {**(before or {}), **MAPPED}
    return with_column_ids("t", schema, properties, before, nested_ids=nested)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(TYPES, min_size=1, max_size=3), st.lists(TYPES, max_size=2), st.booleans())
def test_ids_are_unique_and_kept_when_columns_are_added(
    first: list[DataType], later: list[DataType], late: bool
) -> None:
    schema, properties = assign(struct_of(first), None, nested=not late)
    if late:  # Iceberg compatibility is enabled for an existing table
        schema, properties = assign(schema, properties)
    before = ids_of(schema)
    added = tuple(StructField(name=f"g{i}", data_type=t) for i, t in enumerate(later))
    schema, properties = assign(StructType((*schema, *added)), properties)
    after = ids_of(schema)
    assert after[: len(before)] == before
    assert len(set(after)) == len(after)
    assert max(after) == int(properties[MAX_COLUMN_ID])
    stored = physical_write_schema(schema, "name")
    assert sorted(ids_in_files(pa.struct(list(stored)), [])) == sorted(after)
    again, unchanged = assign(schema, properties)
    assert (again, unchanged) == (schema, properties)
    assert without_mapping(schema) == StructType((*struct_of(first), *added))


@given(st.lists(TYPES, min_size=1, max_size=3))
def test_without_compatibility_only_fields_have_ids(types: list[DataType]) -> None:
    schema, _ = assign(struct_of(types), None, nested=False)
    assert all(NESTED_IDS_KEY not in field.metadata for field in fields_in(schema))


def column(name: str, data_type: DataType) -> StructField:
    return StructField(name=name, data_type=data_type)


def test_columns_of_a_replaced_schema_keep_their_ids_if_name_and_type_are_equal() -> None:
    inner = StructType((column("x", LONG), column("y", STRING)))
    replaced, properties = with_column_ids(
        "t",
        StructType((column("a", LONG), column("b", LONG), column("s", inner))),
        MAPPED,
        None,
    )
    wider = StructType((*inner, column("z", LONG)))
    fields = (column("S", wider), column("new", LONG), column("b", STRING), column("A", LONG))
    schema, _ = with_column_ids(
        "t", with_ids_of(StructType(fields), replaced), properties, properties
    )
    before = {f.name.lower(): f.metadata for f in fields_in(replaced)}
    after = {f.name.lower(): f.metadata for f in fields_in(schema)}
    kept = {name for name in before if after[name] == before[name]}
    assert kept == {"a", "x", "y"}  # not `b` and `s`, whose types differ
    ids = [metadata["delta.columnMapping.id"] for metadata in after.values()]
    names = [metadata["delta.columnMapping.physicalName"] for metadata in after.values()]
    assert len(set(ids)) == len(set(names)) == len(after)
