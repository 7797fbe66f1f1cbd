"""What the entry of a table in the session's catalog says, and which names are refused."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812

import bayou
from bayou.errors import ArgumentError, StorageError
from bayou.spark import DeltaTable, enable
from bayou.spark.catalog_tables import CatalogEntry, named_table, why_unusable
from bayou.spark.hooks.hooks import plain_sql
from bayou.spark.jvm.catalog import CatalogTable
from bayou.spark.jvm.objects import JvmError

pytestmark = pytest.mark.spark


@pytest.fixture
def name(spark):
    yield "entries_of_tables"
    spark.sql("DROP TABLE IF EXISTS entries_of_tables")


@pytest.fixture
def path(tmp_path):
    path = str(tmp_path / "a ${table}")
    bayou.write(path, pa.table({"id": [1, 2]}), configuration={"delta.appendOnly": "true"})
    return path


def entry(path):
    snapshot = bayou.table(path).snapshot().kernel
    return CatalogEntry(
        columns=snapshot.schema,
        comment=snapshot.metadata.description,
        properties=snapshot.properties,
    )


def listed(spark, name):
    return {c.name: c.description for c in spark.catalog.listColumns(name)}


def properties(spark, name):
    return {row.key: row.value for row in spark.sql(f"SHOW TBLPROPERTIES {name}").collect()}


def test_a_name_can_contain_the_session_catalog(spark, name, tmp_path):
    path = str(tmp_path / "t")  # in a statement, Spark would replace `${table}` in `path`
    spark.range(1, 3).write.format("delta").save(path)
    full_name = f"spark_catalog.`default`.{name}"
    spark.sql(f"CREATE TABLE {full_name} USING delta LOCATION '{path}'")
    spark.sql(f"DELETE FROM {full_name} WHERE {full_name}.id = 2")
    assert spark.table(full_name).collect() == [(1,)]
    spark.range(3, 4).write.format("delta").mode("append").saveAsTable(full_name)
    spark.sql(f"INSERT INTO {full_name} SELECT {full_name}.id + 10 FROM {full_name}")
    assert sorted(row.id for row in spark.table(name).collect()) == [1, 3, 11, 13]
    assert DeltaTable.forName(spark, full_name).detail().count() == 1


def test_a_name_in_another_catalog_is_no_table_of_the_session_catalog(spark, name, path):
    entry(path).write(spark, name, path)
    settings = {
        "": "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
        ".url": "jdbc:derby:memory:other",
        ".driver": "org.apache.derby.jdbc.EmbeddedDriver",
    }
    for key, value in settings.items():
        spark.conf.set(f"spark.sql.catalog.other{key}", value)
    try:
        assert named_table(spark, f"other.default.{name}") is None
        assert named_table(spark, f"default.{name}").exists
        spark.catalog.setCurrentCatalog("other")
        assert named_table(spark, name) is None
        assert named_table(spark, f"default.{name}") is None
        assert "catalog other" in why_unusable(spark, f"default.{name}")
        assert named_table(spark, f"spark_catalog.default.{name}").exists
        assert spark.table(f"spark_catalog.default.{name}").count() == 2
    finally:
        spark.catalog.setCurrentCatalog("spark_catalog")
        for key in settings:
            spark.conf.unset(f"spark.sql.catalog.other{key}")


def test_an_entry_is_created_and_kept_current(spark, name, path):
    entry(path).write(spark, name, path)
    assert sorted(row.id for row in spark.table(name).collect()) == [1, 2]
    assert listed(spark, name) == {"id": None}
    assert properties(spark, name)["delta.appendOnly"] == "true"
    alter = bayou.table(path).alter
    alter.add_column("it's", "string", comment="who's ${it}")
    alter.set_table_properties({"delta.appendOnly": "false", "team": "it's ${me}", "owner": "me"})
    entry(path).write(spark, name, path)
    assert listed(spark, name) == {"id": None, "it's": "who's ${it}"}
    assert properties(spark, name)["delta.appendOnly"] == "false"
    assert properties(spark, name)["team"] == "it's ${me}"
    spark.sql(f"DROP TABLE {name}")
    assert bayou.table(path).to_arrow().num_rows == 2  # the entry is of an external table


@pytest.mark.parametrize("mode", ["none", "name"])
def test_columns_can_have_the_name_of_their_table(spark, name, tmp_path, mode):
    path = str(tmp_path / "t")
    bayou.write(path, pa.table({"id": [1]}), configuration={"delta.columnMapping.mode": mode})
    spark.sql(f"CREATE TABLE {name} USING delta LOCATION '{path}'")
    columns = ["id", f"{name}.id", f"default.{name}.id", f"spark_catalog.DEFAULT.{name.upper()}.id"]
    for frame in (spark.table(f"default.{name}"), spark.read.table(name)):
        assert tuple(frame.select(*columns).first()) == (1, 1, 1, 1)
        assert frame.join(frame.alias("b"), F.col(f"{name}.id") == F.col("b.id")).count() == 1
        assert frame.select("_metadata.file_name").first()[0].endswith(".parquet")
        assert frame.where(f"{name}.id = 1").drop(frame["id"]).columns == []
    assert spark.readStream.table(name).select(f"{name}.id").columns == ["id"]
    spark.table(name).createOrReplaceTempView("qualified")
    spark.sql("UPDATE qualified SET id = 2 WHERE qualified.id = 1")
    assert bayou.table(path).to_arrow()["id"].to_pylist() == [2]


def test_nested_fields_of_a_saved_table_can_have_any_name(spark, name):
    rows = spark.sql(
        "SELECT named_struct('b.1', 1, 'c-e', 'x') AS a, array(named_struct('d-e', 2)) AS l, "
        "map('k', named_struct('1f', 3)) AS m"
    )
    rows.write.format("delta").saveAsTable(name)
    found = spark.table(name).select("a.`b.1`", "a.`c-e`", "l.`d-e`", "m.k.`1f`").first()
    assert tuple(found) == (1, "x", [2], 3)


def test_the_comment_of_the_table_is_shown(spark, name, path):
    CatalogEntry(columns=entry(path).columns, comment="it's ${all}").write(spark, name, path)
    tables = plain_sql(spark, f"SHOW TABLE EXTENDED LIKE '{name}'")
    assert "Comment: it's ${all}\n" in tables.first()["information"]


def test_a_name_of_something_else_is_refused(spark, name, path, tmp_path):
    entry(path).write(spark, name, path)
    with pytest.raises(ArgumentError, match="has a table with this name at .*, not at /other"):
        entry(path).write(spark, name, "/other")
    spark.range(1).createOrReplaceTempView("entries_view")
    with pytest.raises(ArgumentError, match="temporary view"):
        entry(path).write(spark, "entries_view", path)
    spark.catalog.dropTempView("entries_view")
    spark.sql("CREATE VIEW entries_stored_view AS SELECT 1 AS id")
    with pytest.raises(ArgumentError, match="a view or a table of another format"):
        entry(path).write(spark, "entries_stored_view", path)
    spark.sql("DROP VIEW entries_stored_view")


def test_a_database_that_does_not_exist_is_named(spark, path):
    with pytest.raises(StorageError, match="nowhere.events: the catalog doesn't accept the table"):
        entry(path).write(spark, "nowhere.events", path)


@pytest.mark.parametrize(
    ("use", "condition"),
    [
        (
            lambda spark: spark.range(1).write.format("delta").saveAsTable("nowhere.t"),
            "SCHEMA_NOT_FOUND",
        ),
        (
            lambda spark: spark.range(1).writeTo("nowhere.t").using("delta").create(),
            "SCHEMA_NOT_FOUND",
        ),
        (
            lambda spark: spark.sql("CREATE TABLE nowhere.t (id INT) USING delta"),
            "SCHEMA_NOT_FOUND",
        ),
        (
            lambda spark: (
                DeltaTable.create(spark).tableName("nowhere.t").addColumn("id", "INT").execute()
            ),
            "SCHEMA_NOT_FOUND",
        ),
        (lambda spark: spark.range(1).writeTo("nowhere.t").append(), "TABLE_OR_VIEW_NOT_FOUND"),
        (lambda spark: spark.table("nowhere.t"), "TABLE_OR_VIEW_NOT_FOUND"),
        (lambda spark: DeltaTable.forName(spark, "nowhere.t"), "DELTA_MISSING_DELTA_TABLE"),
    ],
)
def test_a_schema_that_does_not_exist_is_an_analysis_exception(spark, use, condition):
    enable(spark)
    with pytest.raises(AnalysisException) as caught:
        use(spark)
    assert caught.value.getCondition() == condition


@pytest.mark.parametrize("scheme", ["s3://", "s3a://", "s3n://"])
def test_a_location_is_compared_in_any_spelling(spark, name, path, scheme):
    entry(path).write(spark, name, f"file://{path}/")
    with pytest.raises(ArgumentError, match="not at s3"):
        entry(path).write(spark, name, f"{scheme}bucket/t")


def test_an_alteration_succeeds_although_the_catalog_cannot_be_updated(
    spark, name, path, caplog, monkeypatch
):
    enable(spark)
    entry(path).write(spark, name, path)

    def unreachable(table, schema):
        raise JvmError("the metastore doesn't answer")

    monkeypatch.setattr(CatalogTable, "set_columns", unreachable)
    spark.sql(f"ALTER TABLE {name} ADD COLUMNS (more INT)")
    assert bayou.table(path).snapshot().schema.names == ("id", "more")
    (record,) = [r for r in caplog.records if r.name == "bayou.spark.catalog_tables"]
    assert record.getMessage() == (
        f"{name}: the table has changed, but its columns in the catalog couldn't be updated: the "
        "metastore doesn't answer. The next ALTER TABLE repeats the update."
    )


def test_the_error_of_a_table_that_is_not_added_to_the_catalog_says_that_it_is_written(
    spark, name, tmp_path, monkeypatch
):
    enable(spark)
    path = str(tmp_path / "written")

    def unreachable(spark, text):
        raise JvmError("the metastore doesn't answer")

    monkeypatch.setattr("bayou.spark.catalog_tables.plain_sql", unreachable)
    with pytest.raises(StorageError) as raised:
        spark.range(2).write.format("delta").option("path", path).saveAsTable(name)
    assert str(raised.value) == (
        f"{name}: the table exists at {path}, but can't be added to the catalog: the metastore "
        f"doesn't answer. Don't write the rows again; run CREATE TABLE {name} USING delta LOCATION "
        f"'{path}'."
    )
    assert bayou.table(path).to_arrow().num_rows == 2
