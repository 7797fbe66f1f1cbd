from __future__ import annotations

import pyarrow as pa
import pytest

from bayou.kernel.table_features.column_mapping import (
    column_mapping_mode,
    physical_arrow_type,
    physical_name,
    physical_path,
    to_physical_schema,
    without_mapping,
)
from bayou.protocol.schema import LONG, STRING, ArrayType, MapType, StructField, StructType


def field(name, data_type, number, nullable=True):
    metadata = {
        "delta.columnMapping.id": number,
        "delta.columnMapping.physicalName": f"col-{number}",
    }
    return StructField(name=name, data_type=data_type, nullable=nullable, metadata=metadata)


SCHEMA = StructType(
    (
        field("a", LONG, 1),
        field("s", StructType((field("x", LONG, 3, nullable=False),)), 2),
        field("l", ArrayType(element_type=StructType((field("y", STRING, 5),))), 4),
        field(
            "m",
            MapType(
                key_type=StructType((field("k", LONG, 7),)),
                value_type=StructType((field("v", LONG, 8),)),
            ),
            6,
        ),
    )
)


def test_a_field_without_mapping_metadata_has_its_own_name():
    assert physical_name(StructField(name="a", data_type=LONG)) == "a"
    assert physical_name(field("a", LONG, 1)) == "col-1"


@pytest.mark.parametrize(
    ("logical", "physical"),
    [
        (("a",), ("col-1",)),
        (("s", "x"), ("col-2", "col-3")),
        (("l", "element", "y"), ("col-4", "element", "col-5")),
        (("m", "key", "k"), ("col-6", "key", "col-7")),
        (("m", "value", "v"), ("col-6", "value", "col-8")),
    ],
)
def test_a_path_is_translated_step_by_step(logical, physical):
    assert physical_path(SCHEMA, logical) == physical


@pytest.mark.parametrize("path", [("b",), ("a", "x"), ("l", "y"), ("A",)])
def test_an_unknown_path_is_a_key_error(path):
    with pytest.raises(KeyError):
        physical_path(SCHEMA, path)


def test_a_physical_schema_keeps_everything_but_names():
    physical = to_physical_schema(SCHEMA, "name")
    assert physical.names == ("col-1", "col-2", "col-4", "col-6")
    assert str(physical) == (
        "struct<col-1:long,col-2:struct<col-3:long>,col-4:array<struct<col-5:string>>,"
        "col-6:map<struct<col-7:long>,struct<col-8:long>>>"
    )
    assert physical.fields[1].data_type.fields[0].nullable is False
    assert to_physical_schema(SCHEMA, "none") == SCHEMA


def test_in_id_mode_every_nested_field_is_asked_for_by_its_id():
    kind = physical_arrow_type(SCHEMA, "id")
    assert kind.field("col-2").metadata == {b"PARQUET:field_id": b"2"}
    assert kind.field("col-4").type.value_field.type.field(0).metadata == {
        b"PARQUET:field_id": b"5"
    }
    assert kind.field("col-6").type.key_type.field(0).metadata == {b"PARQUET:field_id": b"7"}


def test_in_name_mode_no_field_is_asked_for_by_its_id():
    kind = physical_arrow_type(SCHEMA, "name")
    assert kind.field("col-2").metadata is None
    assert kind.field("col-2").type == pa.struct([("col-3", pa.int64())])
    assert kind.field("col-2").type.field(0).nullable


def test_id_mode_without_an_id_is_refused():
    with pytest.raises(ValueError, match="column 'a' has no delta.columnMapping.id"):
        physical_arrow_type(StructType((StructField(name="a", data_type=LONG),)), "id")


def test_without_mapping_only_that_metadata_is_gone():
    plain = without_mapping(SCHEMA)
    assert to_physical_schema(plain, "name") == plain
    assert physical_path(plain, ("m", "value", "v")) == ("m", "value", "v")
    kept = StructField(name="a", data_type=LONG, metadata={"comment": "c"})
    assert without_mapping(StructType((kept,))) == StructType((kept,))


def test_the_mode_comes_from_the_properties():
    assert column_mapping_mode({}) == "none"
    assert column_mapping_mode({"delta.columnMapping.mode": "NAME"}) == "name"
    with pytest.raises(ValueError, match="must be one of none, name, id"):
        column_mapping_mode({"delta.columnMapping.mode": "index"})
