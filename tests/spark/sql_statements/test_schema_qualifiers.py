"""Columns that are qualified with the schema of their table, such as `sales.orders.id`."""

import pytest
from pyspark.errors import AnalysisException

import bayou

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def schemas(spark, tmp_path_factory):
    """The Delta tables `one.t`, `one.u` and `two.t`, each with ids and a struct."""
    root = tmp_path_factory.mktemp("schemas")
    for schema in ("one", "two"):
        spark.sql(f"CREATE SCHEMA {schema} LOCATION '{root}/{schema}'")
    for name, ids in (("one.t", (1, 2)), ("one.u", (2, 3)), ("two.t", (2, 4))):
        rows = ", ".join(f"({i}, named_struct('f', {i * 10}))" for i in ids)
        spark.sql(f"CREATE TABLE {name} USING delta AS SELECT * FROM VALUES {rows} AS v(id, s)")
    spark.sql("CREATE TABLE one.v USING delta AS SELECT 5L AS id, named_struct('id', 5L) AS t")
    struct = "struct(struct(60L AS f) AS w)"
    spark.sql(f"CREATE TABLE one.w USING delta AS SELECT 6L AS id, {struct} AS one")
    yield root
    spark.catalog.setCurrentDatabase("default")
    for schema in ("one", "two"):
        spark.sql(f"DROP SCHEMA {schema} CASCADE")


QUERIES = {
    "SELECT one.t.id FROM one.t": [(1,), (2,)],
    "SELECT ONE.`T`.id AS x FROM `one`.t WHERE one.t.id > 1": [(2,)],
    "SELECT spark_catalog.one.t.id, t.id FROM one.t": [(1, 1), (2, 2)],
    "SELECT one.t.id FROM spark_catalog.one.t": [(1,), (2,)],
    "SELECT one.t.s.f, spark_catalog.one.t.s.f FROM one.t": [(10, 10), (20, 20)],
    "SELECT one.t.* FROM one.t WHERE id = 1": [(1, (10,))],
    # The column `one.w.one` is a struct; `f` is a field of its field `w`.
    "SELECT one.w.f, one.w.id FROM one.w": [(60, 6)],
    "SELECT one.t.id FROM one.t JOIN one.u ON one.t.id = one.u.id": [(2,)],
    "SELECT one.t.id, u.id FROM one.t JOIN one.u ON one.t.s.f < u.s.f WHERE u.id = 3": [
        (1, 3),
        (2, 3),
    ],
    "SELECT one.t.id, two.t.id FROM one.t JOIN two.t ON one.t.id = two.t.id": [(2, 2)],
    "SELECT id FROM one.t WHERE EXISTS (SELECT 1 FROM two.t WHERE two.t.id = one.t.id)": [(2,)],
    "SELECT one.t.id FROM one.t WHERE one.t.id IN (SELECT one.t.id FROM one.t LIMIT 5)": [
        (1,),
        (2,),
    ],
    # A subquery's table has a column with the name of the outer table.
    "SELECT id FROM one.t WHERE EXISTS (SELECT 1 FROM one.v WHERE v.id = one.t.id + 3)": [(2,)],
    "SELECT x.id FROM (SELECT one.t.id FROM one.t) AS x WHERE x.id = 1": [(1,)],
    "SELECT one.t.id FROM one.t JOIN (SELECT 2 AS id) AS t ON one.t.id = 2": [(2,)],
    "SELECT one.t.id, '{one.t.id}' FROM one.t WHERE id = 1": [(1, "{one.t.id}")],
    "SELECT one.t.id FROM one.t VERSION AS OF 0 TABLESAMPLE (100 PERCENT) ORDER BY one.t.id": [
        (1,),
        (2,),
    ],
}


@pytest.mark.parametrize("query", QUERIES)
def test_a_column_can_be_qualified_with_the_schema_of_its_table(spark, schemas, query):
    assert sorted(map(tuple, spark.sql(query).collect())) == QUERIES[query]


def test_the_schema_can_be_the_session_s(spark, schemas):
    spark.catalog.setCurrentDatabase("one")
    try:
        found = spark.sql("SELECT one.t.id, spark_catalog.one.t.id FROM t WHERE one.t.id = 1")
        assert found.collect() == [(1, 1)]
    finally:
        spark.catalog.setCurrentDatabase("default")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT two.t.id FROM one.t",
        "SELECT one.t.id FROM one.t AS x",
        "SELECT one.t.id FROM one.t AS t",
        # `t.id` is a column of `one.t`; with another alias it would be a column of the subquery.
        "SELECT * FROM (SELECT 7 AS id) t WHERE EXISTS (SELECT 1 FROM one.t WHERE t.id = one.t.id)",
        # In the subquery, `t.id` is a field of the column `one.v.t`.
        "SELECT t.id FROM one.t WHERE EXISTS (SELECT 1 FROM one.v WHERE v.id = one.t.id)",
    ],
)
def test_other_columns_are_not_changed(spark, schemas, query):
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        spark.sql(query).collect()


def _ids(root, name):
    return sorted(bayou.table(f"{root}/{name}").to_arrow()["id"].to_pylist())


def test_row_operations_accept_the_schema(spark, schemas):
    for table in ("target", "source"):
        spark.sql(f"CREATE OR REPLACE TABLE one.{table} USING delta AS SELECT * FROM one.t")
    path = schemas / "one"
    spark.sql("UPDATE one.target SET one.target.id = one.target.id + 10 WHERE one.target.id = 2")
    assert _ids(path, "target") == [1, 12]
    spark.sql(
        "DELETE FROM one.target WHERE spark_catalog.one.target.s.f = 20 "
        "AND EXISTS (SELECT 1 FROM one.u WHERE one.u.id + 10 = one.target.id)"
    )
    assert _ids(path, "target") == [1]
    spark.sql(
        """
        MERGE INTO one.target USING one.source VERSION AS OF 0 ON one.target.id = one.source.id
        WHEN MATCHED AND one.source.s.f = 10 THEN UPDATE SET one.target.id = one.source.id + 4
        WHEN NOT MATCHED THEN INSERT (id, s) VALUES (one.source.id, one.source.s)
        """
    )
    assert _ids(path, "target") == [2, 5]
    spark.sql(
        "MERGE INTO one.target USING one.source ON one.target.id = one.source.id "
        "WHEN MATCHED THEN DELETE"
    )
    assert _ids(path, "target") == [5]


def test_a_delete_does_not_confuse_tables_and_columns(spark, schemas):
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        spark.sql(
            "DELETE FROM one.t WHERE EXISTS (SELECT 1 FROM two.t WHERE two.t.id = one.t.id + 90)"
        )
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        spark.sql("DELETE FROM one.t WHERE EXISTS (SELECT 1 FROM one.v WHERE v.id = one.t.id)")
    assert _ids(schemas / "one", "t") == [1, 2]
