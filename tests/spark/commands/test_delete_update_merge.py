"""DELETE, UPDATE and MERGE of `DeltaTable`."""

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812

import bayou
from bayou.errors import (
    ArgumentError,
    ConstraintViolationError,
    MultipleMatchesError,
    PredicateError,
)

pytestmark = pytest.mark.spark


def test_rows_are_deleted_by_text_and_by_columns(table, rows):
    made = table({"id": [1, 2, 3, 4]})
    made.delete("id = 1")
    made.delete(F.col("id") > 3)
    made.alias("t").delete("t.id = 2")
    assert rows(made) == [(3,)]
    parameters = [r["operationParameters"]["predicate"] for r in made.history(3).collect()]
    assert parameters == ['["t.id = 2"]', '["(id > 3)"]', '["id = 1"]']
    made.delete()
    assert rows(made) == []


def test_a_try_cast_of_a_column_stays_one(table, rows):
    made = table({"id": [1, 2, 3], "s": ["5", "x", "7"]})
    number = F.col("s").try_cast("int")
    made.delete(number.isNotNull())
    assert rows(made) == [(2, "x")]
    made.update(set={"id": F.coalesce(number, F.lit(20))})
    assert rows(made) == [(20, "x")]
    made.delete(F.expr("try_cast(s AS int)").isNull())
    assert rows(made) == []


def test_a_column_has_any_name(table, rows):
    for name in ("2024", "a-b", "null", "true", "all", "current_date"):
        made = table({name: [1, 2, None], "a": [5, 5, 5], "b": [1, 1, 1]}, name=f"t{name}")
        made.delete(F.col(name) > 1)
        made.update(F.col(name).isNull(), {"b": "7"})
        made.delete(F.coalesce(F.col(name), F.lit(9)) == 9)
        assert rows(made) == [(1, 5, 1)]


def test_rows_are_updated_by_text_and_by_columns(table, rows):
    made = table({"id": [1, 2, 3], "name": ["a", "b", "c"]})
    made.update("id = 1", {"name": "upper(name)"})
    made.update(F.col("id") == 2, {"name": F.concat(F.col("name"), F.lit("!"))})
    made.alias("t").update(set={"t.id": "t.id + 10"})
    assert rows(made) == [(11, "A"), (12, "b!"), (13, "c")]
    with pytest.raises(ArgumentError, match="cannot be None"):
        made.update("id = 1")
    with pytest.raises(ArgumentError, match="must be a dict"):
        made.update("id = 1", ["name"])


def test_a_merge_runs_its_clauses_in_order(spark, table, rows):
    made = table({"id": [1, 2, 3, 4], "v": ["a", "b", "c", "d"]})
    source = spark.createDataFrame([(1, "x"), (2, "y"), (5, "z")], "id long, v string")
    outcome = (
        made.alias("t")
        .merge(source.alias("s"), "t.id = s.id")
        .whenMatchedDelete("s.v = 'y'")
        .whenMatchedUpdate(set={"v": F.concat(F.col("t.v"), F.col("s.v"))})
        .whenNotMatchedInsert(values={"id": "s.id", "v": "'new'"})
        .whenNotMatchedBySourceUpdate("t.id = 3", {"v": "'left'"})
        .execute()
    )
    assert rows(made) == [(1, "ax"), (3, "left"), (4, "d"), (5, "new")]
    assert outcome.first().asDict() == {
        "num_affected_rows": 4,
        "num_updated_rows": 2,
        "num_deleted_rows": 1,
        "num_inserted_rows": 1,
    }
    (commit,) = made.history(1).collect()
    assert commit["operation"] == "MERGE"
    assert commit["operationMetrics"]["numTargetRowsInserted"] == "1"


def test_a_merge_by_name_may_bring_new_columns(spark, table, rows):
    made = table({"id": [1], "v": ["a"]})
    source = spark.createDataFrame([(1, "x", 1.5), (2, "y", 2.5)], "id long, v string, w double")
    merging = made.alias("t").merge(source.alias("s"), F.col("t.id") == F.col("s.id"))
    merging = merging.withSchemaEvolution().whenMatchedUpdateAll().whenNotMatchedInsertAll()
    merging.execute()
    assert rows(made) == [(1, "x", 1.5), (2, "y", 2.5)]


def test_several_matches_of_one_row_are_refused_with_deltas_condition(spark, table):
    made = table({"id": [1]})
    source = spark.createDataFrame([(1,), (1,)], "id long")
    merging = made.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedUpdateAll()
    with pytest.raises(
        MultipleMatchesError, match="DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"
    ):
        merging.execute()


def test_a_condition_that_cannot_be_understood_is_named(table):
    made = table({"id": [1]})
    with pytest.raises(PredicateError, match="nothing"):
        made.delete("nothing = 1")


@pytest.fixture
def on_executors(spark):
    """Has executors do all the work, however small."""
    spark.conf.set("bayou.rowOperations.localBytes", "0")
    yield
    spark.conf.unset("bayou.rowOperations.localBytes")


@pytest.mark.parametrize("vectors", [pytest.param("true", marks=pytest.mark.slow), "false"])
def test_executors_do_what_the_driver_does(spark, table, rows, on_executors, vectors, tmp_path):
    made = table(
        {"id": [1, 2, 3], "v": ["a", "b", "c"]},
        enableDeletionVectors=vectors,
        enableChangeDataFeed="true",
        enableRowTracking="true",
    )
    path = str(tmp_path / "t")
    bayou.write(path, pa.table({"id": [4, 5, 6], "v": ["d", "e", "f"]}), mode="append")
    made.delete("id IN (1, 4)")
    made.update("id = 2", {"v": "upper(v)"})
    source = spark.createDataFrame([(3, "x"), (6, "y"), (7, "z")], "id long, v string")
    merging = made.alias("t").merge(source.alias("s"), "t.id = s.id")
    merging.whenMatchedUpdateAll(
        "s.v = 'x'"
    ).whenMatchedDelete().whenNotMatchedInsertAll().execute()
    assert rows(made) == [(2, "B"), (3, "x"), (5, "e"), (7, "z")]
    changes = spark.read.format("delta").option("readChangeFeed", "true")
    changed = changes.option("startingVersion", "2").load(path)
    counted = {
        r["_change_type"]: r["count"] for r in changed.groupBy("_change_type").count().collect()
    }
    assert counted == {"delete": 3, "update_preimage": 2, "update_postimage": 2, "insert": 1}


def test_an_error_on_an_executor_is_ours_and_leaves_nothing(
    spark, table, rows, on_executors, tmp_path
):
    made = table({"id": [1, 2]})
    bayou.table(str(tmp_path / "t")).alter.add_constraint({"small": "id < 10"})
    with pytest.raises(ConstraintViolationError, match="small"):
        made.update(set={"id": "id + 8"})
    assert rows(made) == [(1,), (2,)]
    assert len(list((tmp_path / "t").glob("*.parquet"))) == 1
    source = spark.createDataFrame([(1,), (1,)], "id long")
    merging = made.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedUpdateAll()
    with pytest.raises(MultipleMatchesError, match="DELTA_MULTIPLE_SOURCE_ROW"):
        merging.execute()


@pytest.mark.parametrize("source_bytes", ["0", "1000000"], ids=["plan", "kernel"])
def test_row_operations_of_an_application_are_done_once(spark, table, rows, source_bytes):
    made = table({"id": [1, 2, 3], "n": [0, 0, 0]})
    source = spark.createDataFrame([(1, 5), (4, 5)], "id long, n long")
    merging = made.alias("t").merge(source.alias("s"), "t.id = s.id")
    merging = merging.whenMatchedUpdate(set={"n": "t.n + s.n"}).whenNotMatchedInsertAll()

    def version(number):
        spark.conf.set("spark.databricks.delta.write.txnVersion", str(number))

    try:
        spark.conf.set("spark.databricks.delta.write.txnAppId", "job")
        spark.conf.set("bayou.rowOperations.sourceBytes", source_bytes)
        for _ in range(2):
            version(1)
            made.update("id < 3", {"n": "n + 1"})
            version(2)
            affected = [r.num_affected_rows for r in merging.execute().collect()]
            version(3)
            made.delete("id = 2")
        assert affected == []
        assert rows(made) == [(1, 6), (3, 0), (4, 5)]
        version(4)
        made.delete("id = 99")  # nothing to commit, as with delta-spark
        made.update("id = 99", {"n": "1"})  # but for this, which commits its progress
        spark.conf.set("spark.databricks.delta.write.txnVersion.autoReset.enabled", "true")
        version(5)
        made.delete("id = 3")
        assert spark.conf.get("spark.databricks.delta.write.txnVersion", None) is None
        with pytest.raises(ArgumentError, match="DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS"):
            made.delete("id = 1")
    finally:
        for key in ("txnAppId", "txnVersion", "txnVersion.autoReset.enabled"):
            spark.conf.unset(f"spark.databricks.delta.write.{key}")
        spark.conf.unset("bayou.rowOperations.sourceBytes")
    operations = [row["operation"] for row in made.history().collect()]
    assert operations == ["DELETE", "UPDATE", "DELETE", "MERGE", "UPDATE", "WRITE"]
