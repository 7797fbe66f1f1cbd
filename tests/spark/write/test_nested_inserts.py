"""Inserts of structs: fields by name or by position, new fields, missing fields."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812  # conventional name

import bayou.spark

pytestmark = pytest.mark.spark

SQL_BY_POSITION = "INSERT INTO nested SELECT * FROM new"
SQL_BY_NAME = "INSERT INTO nested BY NAME SELECT * FROM new"
SQL_COLUMNS = "INSERT INTO nested (a, s) SELECT a, s FROM new"

WRITES = {
    "insert by position": lambda spark, _: bayou.spark.sql(spark, SQL_BY_POSITION),
    "insert by name": lambda spark, _: bayou.spark.sql(spark, SQL_BY_NAME),
    "insert with columns": lambda spark, _: bayou.spark.sql(spark, SQL_COLUMNS),
    "insertInto": lambda spark, _: spark.table("new").write.insertInto("nested"),
    "append": lambda spark, _: spark.table("new").writeTo("nested").append(),
    "overwrite": lambda spark, _: spark.table("new").writeTo("nested").overwrite(F.lit(True)),
}
EVOLVING = {
    "insert by position": lambda spark: bayou.spark.sql(
        spark, SQL_BY_POSITION.replace("INSERT", "INSERT WITH SCHEMA EVOLUTION")
    ),
    "insert by name": lambda spark: bayou.spark.sql(
        spark, SQL_BY_NAME.replace("INSERT", "INSERT WITH SCHEMA EVOLUTION")
    ),
    "replace where": lambda spark: bayou.spark.sql(
        spark,
        "INSERT WITH SCHEMA EVOLUTION INTO nested REPLACE WHERE a = 1 SELECT * FROM new",
    ),
    "insertInto": lambda spark: (
        spark.table("new").write.option("mergeSchema", "true").insertInto("nested")
    ),
    "append": lambda spark: (
        spark.table("new").writeTo("nested").option("mergeSchema", "true").append()
    ),
}


@pytest.fixture
def nested(spark, tmp_path):
    """Creates the table `nested` and the view `new` of one row; then returns the table's rows."""

    def make(schema, new):
        location = f"USING delta LOCATION '{tmp_path / 'nested'}'"
        bayou.spark.sql(spark, f"CREATE TABLE nested ({schema}) {location}")
        bayou.spark.sql(spark, f"CREATE OR REPLACE TEMP VIEW new AS SELECT {new}")
        return lambda: [row.asDict(recursive=True) for row in spark.table("nested").collect()]

    yield make
    bayou.spark.sql(spark, "DROP TABLE IF EXISTS nested")
    spark.catalog.dropTempView("new")


@pytest.mark.parametrize(
    ("write", "a", "expected"),
    [
        # Without a cast of any value, only a column list matches fields by position.
        ("insert by position", "1", {"x": 4, "y": 5}),
        ("insert by name", "1", {"x": 4, "y": 5}),
        ("insert with columns", "1", {"x": 5, "y": 4}),
        ("insertInto", "1", {"x": 4, "y": 5}),
        ("append", "1", {"x": 4, "y": 5}),
        ("overwrite", "1", {"x": 4, "y": 5}),
        # With one, only writes of DataFrames by name match them by name.
        ("insert by position", "1L", {"x": 5, "y": 4}),
        ("insert by name", "1L", {"x": 5, "y": 4}),
        ("insertInto", "1L", {"x": 5, "y": 4}),
        ("append", "1L", {"x": 4, "y": 5}),
        ("overwrite", "1L", {"x": 4, "y": 5}),
    ],
)
def test_fields_in_another_order_are_matched_as_in_delta_spark(spark, nested, write, a, expected):
    rows = nested("a INT, s STRUCT<x: INT, y: INT>", f"{a} AS a, named_struct('y', 5, 'x', 4) AS s")
    WRITES[write](spark, None)
    assert rows() == [{"a": 1, "s": expected}]


@pytest.mark.parametrize("write", EVOLVING)
def test_schema_evolution_adds_columns_and_fields_of_structs(spark, nested, write):
    rows = nested(
        "a INT, s STRUCT<x: INT>",
        "1 AS a, named_struct('x', 4L, 'y', 5) AS s, 'new' AS c",
    )
    EVOLVING[write](spark)
    assert rows() == [{"a": 1, "s": {"x": 4, "y": 5}, "c": "new"}]
    assert spark.table("nested").schema["s"].dataType.simpleString() == "struct<x:int,y:int>"


@pytest.mark.parametrize("write", ["insert by position", "insert by name", "insertInto", "append"])
def test_a_new_field_is_refused_without_schema_evolution(spark, nested, write):
    rows = nested("a INT, s STRUCT<x: INT>", "1 AS a, named_struct('x', 4L, 'y', 5) AS s")
    with pytest.raises(AnalysisException) as caught:
        WRITES[write](spark, None)
    assert caught.value.getCondition() == "DELTA_METADATA_MISMATCH"
    assert rows() == []


@pytest.mark.parametrize("write", ["insert by position", "insert by name", "insertInto"])
def test_a_missing_field_is_refused_by_inserts(spark, nested, write):
    rows = nested("a INT, s STRUCT<x: INT, y: INT>", "1 AS a, named_struct('y', 5) AS s")
    with pytest.raises(AnalysisException, match="not enough nested fields in s") as caught:
        WRITES[write](spark, None)
    assert caught.value.getCondition() == "DELTA_INSERT_COLUMN_ARITY_MISMATCH"
    assert rows() == []


def test_a_dataframe_by_name_may_lack_fields_and_null_structs_stay_null(spark, nested):
    rows = nested(
        "a INT, s STRUCT<x: INT, y: INT>",
        "1 AS a, named_struct('y', 5L) AS s UNION ALL SELECT 2, NULL",
    )
    WRITES["append"](spark, None)
    found = sorted(rows(), key=lambda row: row["a"])
    assert found == [{"a": 1, "s": {"x": None, "y": 5}}, {"a": 2, "s": None}]
