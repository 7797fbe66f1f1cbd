"""Changes of schema that a range can be read across: those of delta-spark's CDCReader."""

from __future__ import annotations

import pytest

from bayou.kernel.table_changes.schema_changes import TableShape, incompatibility
from bayou.protocol.schema import (
    INTEGER,
    LONG,
    STRING,
    VOID,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
)


def field(name: str, data_type: DataType, physical: str | None = None, **facts: bool):
    mapping = {} if physical is None else {"delta.columnMapping.physicalName": physical}
    return StructField(name=name, data_type=data_type, metadata=mapping, **facts)


def shape(*fields: StructField, mode: str = "none") -> TableShape:
    return TableShape(schema=StructType(fields), mode=mode)


def struct(*fields: StructField) -> StructType:
    return StructType(fields)


ID = field("id", LONG)


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ([ID], [ID]),
        ([ID], [field("new", STRING), ID]),
        ([field("id", LONG, nullable=False)], [ID]),
        ([field("id", VOID)], [ID]),
        ([field("s", struct(ID))], [field("s", struct(ID, field("b", STRING)))]),
        (
            [field("a", ArrayType(element_type=struct(ID), contains_null=False))],
            [field("a", ArrayType(element_type=struct(ID, field("b", STRING))))],
        ),
    ],
)
def test_columns_may_be_added_and_may_become_nullable(earlier, later):
    assert incompatibility(shape(*earlier), shape(*later)) is None


@pytest.mark.parametrize(
    ("earlier", "later", "problem"),
    [
        ([ID, field("b", STRING)], [ID], "column 'b' was dropped"),
        ([ID], [field("ID", LONG)], "column 'id' was renamed to 'ID'"),
        ([field("id", INTEGER)], [ID], "column 'id' changed its type from integer to long"),
        ([ID], [field("id", LONG, nullable=False)], "column 'id' can no longer be null"),
        ([field("s", struct(ID))], [field("s", struct())], "column 's.id' was dropped"),
        ([field("s", struct(ID))], [field("s", LONG)], "'s' changed its type from struct"),
        (
            [field("a", ArrayType(element_type=LONG))],
            [field("a", ArrayType(element_type=LONG, contains_null=False))],
            "column 'a.element' can no longer be null",
        ),
        (
            [field("m", MapType(key_type=STRING, value_type=INTEGER))],
            [field("m", MapType(key_type=STRING, value_type=LONG))],
            "'m.value' changed its type",
        ),
        (
            [field("m", MapType(key_type=INTEGER, value_type=LONG))],
            [field("m", MapType(key_type=LONG, value_type=LONG))],
            "'m.key' changed its type",
        ),
        (
            [field("m", MapType(key_type=STRING, value_type=LONG))],
            [field("m", MapType(key_type=STRING, value_type=LONG, value_contains_null=False))],
            "column 'm.value' can no longer be null",
        ),
    ],
)
def test_any_other_change_of_the_schema_is_named(earlier, later, problem):
    assert problem in incompatibility(shape(*earlier), shape(*later))


MAPPED = field("id", LONG, "col-1")


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        (shape(MAPPED, mode="name"), shape(MAPPED, field("b", STRING, "col-2"), mode="name")),
        (shape(ID), shape(field("id", LONG, "id"), mode="name")),
        (shape(ID), shape(field("id", LONG, "id"), field("b", LONG, "col-1"), mode="id")),
    ],
)
def test_under_column_mapping_columns_may_be_added_and_it_may_be_turned_on(earlier, later):
    assert incompatibility(earlier, later) is None


@pytest.mark.parametrize(
    ("earlier", "later", "problem"),
    [
        (
            shape(MAPPED, mode="name"),
            shape(field("b", LONG, "col-1"), mode="name"),
            "column 'id' was renamed to 'b'",
        ),
        (
            shape(MAPPED, field("b", STRING, "col-2"), mode="name"),
            shape(MAPPED, mode="name"),
            "column 'b' was dropped",
        ),
        (
            shape(MAPPED, mode="name"),
            shape(field("id", LONG, "col-9"), mode="name"),
            "column 'id' was dropped, or replaced by another column of the same name",
        ),
        (
            shape(field("s", struct(field("x", LONG, "c-2")), "c-1"), mode="name"),
            shape(field("s", struct(field("y", LONG, "c-2")), "c-1"), mode="name"),
            "column 'x' was renamed to 'y'",
        ),
        (
            shape(
                field("m", MapType(key_type=struct(field("k", LONG, "c-2")), value_type=LONG), "c"),
                mode="id",
            ),
            shape(field("m", MapType(key_type=struct(), value_type=LONG), "c"), mode="id"),
            "column 'k' was dropped",
        ),
        (shape(ID), shape(field("new", LONG, "id"), mode="name"), "was renamed to 'new'"),
        (shape(MAPPED, mode="name"), shape(ID), "column mapping was disabled"),
        (shape(MAPPED, mode="name"), shape(MAPPED, mode="id"), "mode changed from name to id"),
    ],
)
def test_renames_and_drops_under_column_mapping_are_named(earlier, later, problem):
    assert problem in incompatibility(earlier, later)
