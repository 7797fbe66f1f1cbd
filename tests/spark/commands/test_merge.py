"""MERGE by the kernel and by Spark: columns with the names of default aliases, and new columns."""

import pytest
from pyspark.sql import functions as F  # noqa: N812

pytestmark = pytest.mark.spark


@pytest.fixture(params=["kernel", "spark"])
def joined_by(request, spark):
    """Whether the kernel or a plan of Spark joins source and target."""
    if request.param == "spark":
        spark.conf.set("bayou.rowOperations.sourceBytes", "0")
    yield request.param
    spark.conf.unset("bayou.rowOperations.sourceBytes")


@pytest.fixture
def changes(spark):
    """Changes as Debezium writes them: the time of the connector, and that of the database."""
    return spark.sql("SELECT 1L AS id, 5L AS ts_ms, named_struct('id', 2L, 'ts_ms', 7L) AS source")


@pytest.mark.usefixtures("joined_by")
def test_a_source_column_named_source_is_not_an_alias(table, rows, changes):
    made = table({"id": [1, 2], "at": [0, 0]})
    merge = made.alias("t").merge(changes, "t.id = source.id")
    merge.whenMatchedUpdate(set={"at": "source.ts_ms"}).whenNotMatchedInsert(
        values={"id": "source.id", "at": F.col("source.ts_ms")}
    ).execute()
    assert rows(made) == [(1, 0), (2, 7)]


@pytest.mark.usefixtures("joined_by")
def test_a_row_that_matches_by_a_field_is_not_inserted(table, rows, changes):
    made = table({"id": [2], "at": [0]})
    merge = made.alias("t").merge(changes, "t.id = source.id")
    merge.whenNotMatchedInsert(values={"id": "source.id", "at": "source.ts_ms"}).execute()
    assert rows(made) == [(2, 0)]


@pytest.mark.usefixtures("joined_by")
def test_a_target_column_named_target_is_not_an_alias(spark, table, rows):
    made = table({"id": [1, 2], "target": [{"id": 2}, {"id": 1}]})
    source = spark.range(1, 2).alias("s")
    made.merge(source, "target.id = s.id").whenMatchedUpdate(set={"id": "target.id + 8"}).execute()
    assert rows(made) == [(1, (2,)), (9, (1,))]


def test_an_update_by_spark_has_no_alias_named_target(table, rows):
    made = table({"id": [1, 2], "target": [{"id": 2}, {"id": 1}]})
    is_odd = F.udf(lambda number: number % 2 == 1, "boolean")
    made.update(is_odd(F.col("target.id")), {"id": "target.id + 8"})
    assert rows(made) == [(1, (2,)), (9, (1,))]


@pytest.mark.usefixtures("joined_by")
def test_the_name_of_a_source_table_hides_a_column_of_this_name(
    spark, table, rows, changes, tmp_path
):
    changes.write.format("delta").save(str(tmp_path / "changes"))
    spark.sql(f"CREATE TABLE source USING delta LOCATION '{tmp_path / 'changes'}'")
    made = table({"id": [1, 2], "at": [0, 0]})
    try:
        merge = made.alias("t").merge(spark.table("source"), "t.id = source.id")
        merge.whenMatchedUpdate(set={"at": "source.ts_ms"}).whenNotMatchedInsert(
            values={"id": "source.id", "at": "source.ts_ms"}
        ).execute()
    finally:
        spark.sql("DROP TABLE source")
    assert rows(made) == [(1, 5), (2, 0)]


def test_an_alias_of_the_source_may_have_the_name_of_the_default_alias(spark, table, rows):
    made = table({"id": [1, 2]})
    source = spark.range(2, 4).alias("target")
    made.merge(source, "target.id = 3").whenNotMatchedInsert(values={"id": "target.id"}).execute()
    assert rows(made) == [(1,), (2,), (2,)]


@pytest.mark.usefixtures("joined_by")
def test_schema_evolution_adds_a_variant_column(spark, table):
    made = table({"id": [1]})
    source = spark.sql(
        "SELECT id, parse_json('{\"a\":1}') AS doc, array(parse_json('2')) AS list "
        "FROM VALUES (1L), (2L) AS v(id)"
    )
    merge = made.alias("t").merge(source.alias("s"), "t.id = s.id").withSchemaEvolution()
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    found = made.toDF()
    assert found.schema["doc"].dataType.simpleString() == "variant"
    assert found.schema["list"].dataType.simpleString() == "array<variant>"
    found = found.selectExpr("id", "to_json(doc)", "to_json(list[0])").orderBy("id")
    assert [tuple(row) for row in found.collect()] == [(1, '{"a":1}', "2"), (2, '{"a":1}', "2")]
