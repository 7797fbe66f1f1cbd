"""Tables defined column by column."""

import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from bayou.engines.arrow import ArrowEngine
from bayou.errors import ArgumentError, TableAlreadyExistsError
from bayou.spark import DeltaTable, IdentityGenerator
from support.log_writer import LogWriter, metadata, protocol

pytestmark = pytest.mark.spark


def test_columns_get_what_they_are_defined_with(spark, tmp_path):
    path = str(tmp_path / "t")
    made = (
        DeltaTable.create(spark)
        .location(path)
        .addColumn("id", "BIGINT", nullable=False, comment="a number")
        .addColumn("twice", LongType(), generatedAlwaysAs="id * 2")
        .addColumn("n", "BIGINT", generatedByDefaultAs=IdentityGenerator(start=7, step=2))
        .addColumns([StructField("p", StringType())])
        .partitionedBy("p")
        .property("delta.enableChangeDataFeed", "true")
        .comment("things")
        .execute()
    )
    spark.sql("SELECT 3L AS id, 'x' AS p").write.format("delta").mode("append").save(path)
    assert made.toDF().collect() == [(3, 6, 7, "x")]
    assert made.toDF().schema["id"].metadata["comment"] == "a number"
    detail = made.detail().first()
    assert (detail["description"], detail["partitionColumns"]) == ("things", ["p"])
    assert detail["properties"] == {"delta.enableChangeDataFeed": "true"}
    assert [r["operation"] for r in made.history().collect()] == ["WRITE", "CREATE TABLE"]
    with pytest.raises(TableAlreadyExistsError):
        DeltaTable.create(spark).location(path).addColumn("id", "INT").execute()
    kept = DeltaTable.createIfNotExists(spark).location(path).addColumn("x", "INT").execute()
    assert kept.toDF().count() == 1
    other = StructType([StructField("y", IntegerType())])
    replaced = DeltaTable.createOrReplace(spark).location(path).addColumns(other).clusterBy("y")
    assert replaced.execute().toDF().columns == ["y"]


def test_a_named_table_is_put_into_the_catalog(spark, tmp_path):
    made = DeltaTable.create(spark).tableName("built").addColumn("id", "INT").execute()
    assert made.history().first()["operationParameters"]["isManaged"] == "true"
    spark.sql("SELECT 1 AS id").write.insertInto("built")
    assert spark.table("built").collect() == [(1,)]
    with pytest.raises(TableAlreadyExistsError):
        DeltaTable.create(spark).tableName("built").addColumn("id", "INT").execute()
    spark.sql("DROP TABLE built")


def test_a_name_for_a_table_that_is_there_is_checked(spark, tmp_path):
    path = str(tmp_path / "t")
    DeltaTable.create(spark).location(path).addColumn("id", "INT").execute()
    builder = DeltaTable.create(spark).tableName("there").location(path)
    assert builder.addColumn("id", "INT").execute().toDF().columns == ["id"]
    spark.sql("DROP TABLE there")
    with pytest.raises(Exception, match="DELTA_CREATE_TABLE_SCHEME_MISMATCH"):
        DeltaTable.create(spark).tableName("there").location(path).addColumn("x", "INT").execute()


@pytest.mark.parametrize("location", ["{path}", "{path}/", "file:{path}", "file://{path}"])
def test_the_location_of_a_named_table_can_be_written_in_several_ways(spark, tmp_path, location):
    path = str(tmp_path / "t")
    location = location.format(path=path)
    try:
        for create in ("CREATE TABLE", "CREATE TABLE IF NOT EXISTS", "CREATE OR REPLACE TABLE"):
            spark.sql(f"{create} spelled (id INT) USING delta LOCATION '{location}'")
        assert DeltaTable.forPath(spark, path).history().count() == 2
        builder = DeltaTable.createOrReplace(spark).tableName("spelled").addColumn("id", "INT")
        with pytest.raises(ArgumentError, match="not at /other"):
            builder.location("/other").execute()
    finally:
        spark.sql("DROP TABLE IF EXISTS spelled")


@pytest.mark.parametrize(
    "definition",
    ["(x INT) USING delta LOCATION '{}'", "USING delta LOCATION '{}' AS SELECT 2 AS x"],
)
def test_create_if_not_exists_ignores_the_location_if_the_name_exists(spark, tmp_path, definition):
    path, other = str(tmp_path / "t"), tmp_path / "other"
    try:
        spark.sql(f"CREATE TABLE kept (id INT) USING delta LOCATION '{path}'")
        spark.sql(f"CREATE TABLE IF NOT EXISTS kept {definition.format(other)}")
        builder = DeltaTable.createIfNotExists(spark).tableName("kept").location(str(other))
        assert builder.addColumn("x", "INT").execute().toDF().columns == ["id"]
        assert DeltaTable.forPath(spark, path).history().count() == 1
        assert not other.exists()
    finally:
        spark.sql("DROP TABLE IF EXISTS kept")


def test_what_makes_no_sense_is_refused_in_a_sentence(spark):
    builder = DeltaTable.create(spark)
    with pytest.raises(ArgumentError, match="no name and no location"):
        builder.addColumn("id", "INT").execute()
    with pytest.raises(ArgumentError, match="cannot both be set"):
        builder.addColumn(
            "id", "INT", generatedAlwaysAs="1", generatedByDefaultAs=IdentityGenerator()
        )
    with pytest.raises(ArgumentError, match="ILLEGAL_STEP"):
        builder.addColumn("id", "BIGINT", generatedByDefaultAs=IdentityGenerator(step=0))
    with pytest.raises(ArgumentError, match="IdentityGenerator"):
        builder.addColumn("id", "BIGINT", generatedByDefaultAs="1")
    with pytest.raises(ArgumentError, match="string"):
        builder.addColumn(3, "INT")


def test_the_catalogs_create_table_creates_a_delta_table(spark, tmp_path):
    path = str(tmp_path / "t")
    schema = StructType([StructField("id", IntegerType(), nullable=False)])
    options = {"delta.appendOnly": "true"}
    try:
        created = spark.catalog.createTable(
            "by_catalog", path, source="delta", schema=schema, description="things", **options
        )
        assert created.columns == ["id"]
        spark.sql("INSERT INTO by_catalog VALUES (1)")
        assert spark.table("by_catalog").collect() == [(1,)]
        detail = DeltaTable.forPath(spark, path).detail().first()
        assert (detail["description"], detail["properties"]) == ("things", options)
        with pytest.raises(TableAlreadyExistsError):
            spark.catalog.createTable("by_catalog", source="delta", schema=schema)
        spark.catalog.createExternalTable("by_catalog_2", path, source="DELTA")
        assert spark.table("by_catalog_2").collect() == [(1,)]
        with pytest.raises(ArgumentError, match="isn't supported"):
            spark.catalog.createTable("by_catalog_3", source="delta", schema=schema, mode="x")
        spark.catalog.createTable("by_catalog_3", source="parquet", schema=schema)
    finally:
        for name in ("by_catalog", "by_catalog_2", "by_catalog_3"):
            spark.sql(f"DROP TABLE IF EXISTS {name}")


def test_a_creation_time_beyond_every_calendar_is_shown_as_null(spark, tmp_path):
    log = LogWriter(ArrowEngine(), str(tmp_path / "t"))
    created = metadata({"id": "long"})
    created["metaData"]["createdTime"] = 1_700_000_000_000_000
    log.commit(protocol(), created)
    assert DeltaTable.forPath(spark, log.table).detail().first()["createdAt"] is None
