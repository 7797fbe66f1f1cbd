"""REPLACE COLUMNS: reorder, comment, add, drop and widen columns in one commit."""

import pyarrow as pa
import pytest

import bayou
from bayou.engines import for_path
from bayou.errors import ConstraintViolationError, SchemaError
from bayou.kernel import Table
from bayou.kernel.commands.alter.replace_columns import replace_columns
from bayou.kernel.commands.create_table import CreationMode, TableDefinition, create_table
from bayou.protocol.schema import StructField, StructType
from bayou.protocol.sql import parse_field

MAPPED = {"delta.columnMapping.mode": "name"}
WIDENED = {"delta.enableTypeWidening": "true"}


@pytest.fixture
def table(tmp_path):
    def make(partition_by=None, **properties):
        path = str(tmp_path / "t")
        rows = pa.table(
            {
                "id": pa.array([1], pa.int32()),
                "name": ["a"],
                "s": pa.array([{"x": 1, "y": 2}], pa.struct({"x": pa.int32(), "y": pa.int32()})),
            }
        )
        bayou.write(path, rows, partition_by=partition_by, configuration=properties)
        return path

    return make


def column(sql, comment=None, *, nullable=True):
    name, _, data_type = sql.partition(" ")
    field = parse_field(name, data_type)
    metadata = {} if comment is None else {"comment": comment}
    return StructField(name=name, data_type=field.data_type, nullable=nullable, metadata=metadata)


def replaced(path, *columns):
    engine = for_path(path)
    snapshot = Table.for_path(engine, path).latest_snapshot(engine)
    replace_columns(engine, snapshot, columns, engine_info="test")
    return bayou.table(path)


S = "s struct<x: int, y: int>"


def test_columns_are_reordered_commented_and_added(table):
    path = table()
    changed = replaced(
        path,
        column("NAME string", "who"),
        column("s struct<y: int, x: int, z: string>"),
        column("id int"),
        column("extra date"),
    )
    schema = changed.snapshot().schema
    assert schema.names == ("name", "s", "id", "extra")
    assert schema.get("name").metadata["comment"] == "who"
    assert changed.to_arrow().to_pylist() == [
        {"name": "a", "s": {"y": 2, "x": 1, "z": None}, "id": 1, "extra": None}
    ]
    assert changed.history(1)[0]["operation"] == "REPLACE COLUMNS"
    assert "extra" in changed.history(1)[0]["operationParameters"]["columns"]


def test_columns_are_dropped_with_column_mapping_only(table):
    path = table(**MAPPED)
    changed = replaced(path, column("id int"), column("s struct<x: int>"))
    assert changed.to_arrow().to_pylist() == [{"id": 1, "s": {"x": 1}}]


def test_types_become_wider_with_type_widening(table):
    path = table(**WIDENED)
    changed = replaced(
        path, column("id bigint"), column("name string"), column("s struct<x: bigint, y: int>")
    )
    assert str(changed.to_arrow().schema.field("id").type) == "int64"
    assert changed.to_arrow().to_pylist()[0]["s"] == {"x": 1, "y": 2}


@pytest.mark.parametrize(
    ("properties", "columns", "message"),
    [
        ({}, ["id int", S], "name would be dropped without column mapping"),
        ({}, ["id bigint", "name string", S], "id would change from integer to long"),
        (MAPPED, ["id int", "called string", S], "could be a rename"),
        ({}, ["id int", "name string", "s struct<x: int>"], "s.y would be dropped without"),
        (WIDENED, ["id smallint", "name string", S], "id would change"),
    ],
)
def test_other_changes_are_refused(table, properties, columns, message):
    path = table(**properties)
    with pytest.raises(SchemaError, match="DELTA_UNSUPPORTED_ALTER_TABLE_REPLACE_COL_OP") as caught:
        replaced(path, *map(column, columns))
    assert message in str(caught.value)
    assert bayou.table(path).snapshot().version == 0


def test_columns_can_not_become_not_null(table):
    path = table()
    kept = [column("name string"), column(S)]
    with pytest.raises(SchemaError, match="id would become NOT NULL"):
        replaced(path, column("id int", nullable=False), *kept)
    with pytest.raises(SchemaError, match="NOT NULL column x would be added"):
        replaced(path, column("id int"), *kept, column("x int", nullable=False))


def test_partition_columns_stay(table):
    path = table(partition_by=["id"], **MAPPED)
    with pytest.raises(SchemaError, match="id"):
        replaced(path, column("name string"), column(S))


def test_tables_with_identity_columns_are_refused(tmp_path):
    path = str(tmp_path / "t")
    marks = {"delta.identity.start": 1, "delta.identity.step": 1}
    marks["delta.identity.allowExplicitInsert"] = True
    engine = for_path(path)
    schema = StructType((column("id bigint"), column("v string")))
    numbered = StructType(
        (
            StructField(name="id", data_type=schema.fields[0].data_type, metadata=marks),
            schema.fields[1],
        )
    )
    definition = TableDefinition(schema=numbered)
    create_table(
        engine, Table.for_path(engine, path), definition, CreationMode.CREATE, engine_info="test"
    )
    with pytest.raises(SchemaError, match="DELTA_IDENTITY_COLUMNS_REPLACE_COLUMN_NOT_SUPPORTED"):
        replaced(path, *schema)


def test_a_column_of_type_void_gets_any_type(tmp_path):
    path = str(tmp_path / "t")
    bayou.create(path, StructType((column("id int"), column("v void"), column("w void"))))
    replaced(path, column("id int"), column("v array<int>"), parse_field("w", "varchar(2)"))
    bayou.write(path, pa.table({"id": pa.array([1], pa.int32()), "w": ["ab"]}))
    assert bayou.table(path).to_arrow().to_pylist() == [{"id": 1, "v": None, "w": "ab"}]
    with pytest.raises(ConstraintViolationError):
        bayou.write(path, pa.table({"id": pa.array([1], pa.int32()), "w": ["abc"]}))
