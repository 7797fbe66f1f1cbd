"""A column changed in several ways at once."""

import pyarrow as pa
import pytest

import bayou
from bayou.engines import for_path
from bayou.errors import SchemaError
from bayou.kernel import Table
from bayou.kernel.commands.alter.change_column import change_column
from bayou.protocol.schema import LONG, VOID, StructField, StructType
from bayou.protocol.sql import parse_field


def test_type_comment_and_place_go_in_one_commit(tmp_path):
    path = str(tmp_path / "t")
    rows = pa.table({"a": pa.array([1], pa.int32()), "b": pa.array([2], pa.int32())})
    bayou.write(path, rows, configuration={"delta.enableTypeWidening": "true"})
    engine = for_path(path, {})

    def change(**more):
        snapshot = Table.for_path(engine, path).latest_snapshot(engine)
        return change_column(engine, snapshot, ("B",), engine_info="test", **more).version

    to = StructField(name="whatever", data_type=LONG)
    assert change(to=to, comment="numbers", position="") == 1
    (last, _) = bayou.table(path).history()
    assert last["operation"] == "CHANGE COLUMN"
    assert last["operationParameters"]["position"] == "FIRST"
    schema = bayou.table(path).snapshot().kernel.schema
    assert [(f.name, str(f.data_type)) for f in schema] == [("b", "long"), ("a", "integer")]
    assert schema.fields[0].metadata["comment"] == "numbers"
    assert change(to=to) == 1
    with pytest.raises(SchemaError):
        change(position="nothing")


@pytest.mark.parametrize(
    ("sql", "data_type"),
    [
        ("int", pa.int32()),
        ("varchar(3)", pa.string()),
        ("struct<x: int>", pa.struct({"x": pa.int32()})),
        ("array<string>", pa.list_(pa.string())),
    ],
)
def test_a_column_of_type_void_may_change_to_any_type(tmp_path, sql, data_type):
    path = str(tmp_path / "t")
    inner = StructType((_field("a", LONG), _field("v", VOID)))
    bayou.create(path, StructType((_field("id", LONG), _field("v", VOID), _field("s", inner))))
    bayou.write(path, pa.table({"id": [1], "s": [{"a": 1}]}))
    engine = for_path(path, {})
    for column in (("v",), ("s", "v")):
        snapshot = Table.for_path(engine, path).latest_snapshot(engine)
        change_column(engine, snapshot, column, to=parse_field("v", sql), engine_info="test")
    snapshot = bayou.table(path).snapshot()
    assert "typeWidening" not in (snapshot.protocol.writer_features or ())
    assert "delta.typeChanges" not in snapshot.kernel.schema.to_json()
    value = {"int": 7, "varchar(3)": "abc", "struct<x: int>": {"x": 7}}.get(sql, ["a"])
    rows = pa.table({"id": [2], "v": pa.array([value], data_type)})
    bayou.write(path, rows)
    assert bayou.table(path).to_arrow(["id", "v", "s"]).sort_by("id").to_pylist() == [
        {"id": 1, "v": None, "s": {"a": 1, "v": None}},
        {"id": 2, "v": value, "s": None},
    ]


def test_a_column_cannot_change_to_void(tmp_path):
    path = str(tmp_path / "t")
    bayou.write(path, pa.table({"id": [1]}))
    engine = for_path(path, {})
    snapshot = Table.for_path(engine, path).latest_snapshot(engine)
    with pytest.raises(SchemaError, match="DELTA_ALTER_TABLE_CHANGE_COL_NOT_SUPPORTED"):
        change_column(engine, snapshot, ("id",), to=_field("id", VOID), engine_info="test")


def test_a_void_column_that_a_constraint_references_keeps_its_type(tmp_path):
    path = str(tmp_path / "t")
    bayou.create(path, StructType((_field("id", LONG), _field("v", VOID))))
    bayou.table(path).alter.add_constraint({"empty": "v IS NULL"})
    engine = for_path(path, {})
    snapshot = Table.for_path(engine, path).latest_snapshot(engine)
    with pytest.raises(SchemaError, match="DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE"):
        change_column(engine, snapshot, ("v",), to=_field("v", LONG), engine_info="test")


def _field(name, data_type):
    return StructField(name=name, data_type=data_type)
