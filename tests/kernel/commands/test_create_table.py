"""CREATE TABLE and REPLACE TABLE."""

import json

import pyarrow as pa
import pytest

import bayou
from bayou.engines import for_path
from bayou.errors import (
    ArgumentError,
    SchemaError,
    TableAlreadyExistsError,
    TableNotFoundError,
    TablePropertyError,
)
from bayou.kernel import Table
from bayou.kernel.commands.create_table import (
    CreationMode,
    TableDefinition,
    check_definition,
    create_table,
    generated_column,
    identity_column,
)
from bayou.protocol.schema import LONG, STRING, StructField, StructType

COLUMNS = StructType(
    (
        StructField(name="id", data_type=LONG, nullable=False),
        StructField(name="p", data_type=STRING),
    )
)


@pytest.fixture
def make(tmp_path):
    path = str(tmp_path / "t")
    engine = for_path(path, {})

    def run(mode=CreationMode.CREATE, schema=COLUMNS, **parts):
        definition = TableDefinition(schema=schema, **parts)
        return create_table(
            engine, Table.for_path(engine, path), definition, mode, engine_info="test"
        )

    run.path, run.engine = path, engine
    return run


def test_a_table_is_made_with_what_its_definition_says(make):
    version = make(
        partition_columns=("P",),
        properties={"delta.appendOnly": "true"},
        description="things",
    )
    table = bayou.table(make.path)
    assert version == 0
    assert table.snapshot().partition_columns == ("p",)
    assert table.detail().description == "things"
    (commit,) = table.history()
    assert commit["operation"] == "CREATE TABLE"
    assert commit["operationParameters"] == {
        "isManaged": "false",
        "description": "things",
        "partitionBy": '["p"]',
        "clusterBy": "[]",
        "properties": json.dumps({"delta.appendOnly": "true"}, separators=(",", ":")),
    }
    with pytest.raises(bayou.errors.ConstraintViolationError):
        bayou.write(make.path, pa.table({"id": [None], "p": ["a"]}), mode="append")


def test_generated_and_identity_columns_are_made_on_write(make):
    doubled = generated_column(StructField(name="twice", data_type=LONG), "id * 2")
    number = identity_column(
        StructField(name="n", data_type=LONG), start=10, step=5, allow_explicit=False
    )
    make(schema=StructType((COLUMNS.fields[0], doubled, number)))
    bayou.write(make.path, pa.table({"id": [1, 2]}), mode="append")
    rows = bayou.table(make.path).to_arrow().sort_by("id").to_pylist()
    assert rows == [{"id": 1, "twice": 2, "n": 10}, {"id": 2, "twice": 4, "n": 15}]
    with pytest.raises(ArgumentError, match="ILLEGAL_STEP"):
        identity_column(number, start=1, step=0, allow_explicit=True)
    for start, step in ((1 << 63, 1), (1, -(1 << 63) - 1)):
        with pytest.raises(ArgumentError, match="exceeds the range of bigint"):
            identity_column(number, start=start, step=step, allow_explicit=True)


@pytest.mark.parametrize("sql", ["missing + 1", "twice + 1", "N.a", "again * 2"])
def test_a_generated_column_is_refused_if_its_expression_uses_columns_that_it_can_not(make, sql):
    twice = generated_column(StructField(name="twice", data_type=LONG), sql)
    again = generated_column(StructField(name="again", data_type=LONG), "id")
    with pytest.raises(SchemaError, match="DELTA_INVALID_GENERATED_COLUMN_REFERENCES"):
        make(schema=StructType((COLUMNS.fields[0], twice, again)))


@pytest.mark.parametrize("sql", ["datediff(DAY, p, id) + 1", "dateadd(HOUR, 1, p)"])
def test_the_unit_of_a_function_is_no_column_of_a_generated_column(make, sql):
    number = generated_column(StructField(name="n", data_type=LONG), sql)
    make(schema=StructType((*COLUMNS.fields, number)))
    assert bayou.table(make.path).snapshot().schema.names == ("id", "p", "n")


def test_a_table_that_is_there_is_refused_kept_or_replaced_as_asked(make):
    with pytest.raises(TableNotFoundError, match="createOrReplace"):
        make(CreationMode.REPLACE)
    assert (
        make(CreationMode.CREATE_OR_REPLACE, properties={"delta.enableChangeDataFeed": "true"}) == 0
    )
    bayou.write(make.path, pa.table({"id": [1], "p": ["a"]}), mode="append")
    with pytest.raises(TableAlreadyExistsError, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        make()
    assert make(CreationMode.CREATE_IF_NOT_EXISTS) == 1
    before = bayou.table(make.path).detail()
    schema = StructType((StructField(name="other", data_type=STRING),))
    assert make(CreationMode.REPLACE, schema=schema, clustering_columns=(("other",),)) == 2
    table = bayou.table(make.path)
    assert table.to_arrow().num_rows == 0
    assert table.snapshot().schema == schema
    after = table.detail()
    assert (after.id, after.clustering_columns) == (before.id, ("other",))
    assert after.properties == {}
    assert table.history()[0]["operation"] == "REPLACE TABLE"
    assert make(CreationMode.CREATE_OR_REPLACE) == 3
    assert bayou.table(make.path).detail().clustering_columns == ()


def test_what_no_table_can_be_is_refused(make, tmp_path):
    with pytest.raises(SchemaError, match="DELTA_SCHEMA_NOT_PROVIDED"):
        make(schema=StructType(()))
    with pytest.raises(SchemaError, match="isn.t in the schema"):
        make(partition_columns=("q",))
    with pytest.raises(ArgumentError, match="DELTA_CLUSTER_BY_WITH_PARTITIONED_BY"):
        make(partition_columns=("p",), clustering_columns=(("id",),))
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "file").write_text("x")
    with pytest.raises(ArgumentError, match="DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION"):
        make()


def test_a_definition_is_compared_with_the_table_that_is_there(make):
    make(partition_columns=("p",), properties={"delta.appendOnly": "true"})
    snapshot = Table.for_path(make.engine, make.path).latest_snapshot(make.engine)
    check_definition(snapshot, TableDefinition(schema=StructType(())))
    check_definition(snapshot, TableDefinition(schema=COLUMNS, partition_columns=("P",)))
    with pytest.raises(SchemaError, match="DELTA_CREATE_TABLE_SCHEME_MISMATCH"):
        check_definition(snapshot, TableDefinition(schema=StructType(COLUMNS.fields[:1])))
    with pytest.raises(SchemaError, match="DELTA_CREATE_TABLE_WITH_DIFFERENT_PARTITIONING"):
        check_definition(snapshot, TableDefinition(schema=COLUMNS))
    other = TableDefinition(schema=StructType(()), properties={"delta.appendOnly": "false"})
    with pytest.raises(TablePropertyError, match="DELTA_CREATE_TABLE_WITH_DIFFERENT_PROPERTY"):
        check_definition(snapshot, other)
