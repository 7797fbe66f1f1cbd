"""Row operations whose source or subquery reads the table that they change."""

import pyarrow as pa
import pytest

import bayou
from bayou.errors import CommitConflictError
from bayou.spark.commands.delete_update import run_delete
from bayou.spark.expressions.expressions import parse_condition
from bayou.spark.hooks.hooks import ENABLED
from bayou.spark.target_table import TargetTable
from bayou.spark.write.self_reads import version_read

pytestmark = pytest.mark.spark


@pytest.fixture(params=["kernel", pytest.param("spark", marks=pytest.mark.slow)])
def joined_by(request, spark):
    if request.param == "kernel":
        yield
        return
    spark.conf.set("bayou.rowOperations.sourceBytes", "0")
    yield
    spark.conf.unset("bayou.rowOperations.sourceBytes")


@pytest.fixture
def counters(spark, table):
    made = table({"k": ["a", "b"], "n": [1, 1]})
    spark.createDataFrame([("a", 1), ("c", 1)], "k string, n long").createOrReplaceTempView("new")
    return made


def location(made):
    return made.detail().first()["location"]


def append(made, *rows):
    new = pa.Table.from_pylist([dict(zip("kn", row, strict=True)) for row in rows])
    bayou.write(location(made), new, mode="append")


@pytest.mark.usefixtures("joined_by")
def test_a_merge_of_own_rows_undoes_no_commit_since_they_were_read(counters, rows):
    counted = counters.toDF().groupBy("k").agg({"n": "sum"}).toDF("k", "n")
    merge = (
        counters.alias("t")
        .merge(counted.alias("s"), "t.k = s.k")
        .whenMatchedUpdate(set={"n": "s.n + 1"})
        .whenNotMatchedBySourceDelete()
    )
    counters.update("k = 'a'", {"n": "n + 10"})
    append(counters, ("c", 1))
    with pytest.raises(CommitConflictError, match="read the table again"):
        merge.execute()
    assert rows(counters) == [("a", 11), ("b", 1), ("c", 1)]
    merge_counts(counters, counters.toDF())
    assert rows(counters) == [("a", 12), ("b", 2), ("c", 2)]


@pytest.mark.parametrize("option", ["metadataColumn", "bayou.timeZone"])
def test_a_merge_knows_own_rows_that_the_data_source_reads(spark, counters, rows, option):
    value = {"metadataColumn": "true", "bayou.timeZone": "Europe/Berlin"}[option]
    reader = spark.read.format("delta").option(option, value)
    read = reader.load(location(counters)).select("k", "n")
    older = reader.option("versionAsOf", 0).load(location(counters)).select("k", "n")
    counters.update("k = 'a'", {"n": "n + 10"})
    with pytest.raises(CommitConflictError):
        merge_counts(counters, read)
    merge_counts(counters, older)  # going back is meant
    assert rows(counters) == [("a", 2), ("b", 2)]


def merge_counts(made, counted):
    merging = made.alias("t").merge(counted.alias("s"), "t.k = s.k")
    merging.whenMatchedUpdate(set={"n": "s.n + 1"}).execute()


def test_a_table_s_own_frame_is_known_without_the_hooks(spark, counters):
    before = spark.conf.get(ENABLED)
    spark.conf.set(ENABLED, "false")
    try:
        frame = counters.toDF()
        assert version_read(frame, location(counters)) == 0
    finally:
        spark.conf.set(ENABLED, before)


@pytest.mark.usefixtures("joined_by")
def test_two_merges_of_the_rows_that_the_table_lacks_conflict(spark, counters, rows):
    def merge():
        lacking = spark.table("new").join(counters.toDF(), "k", "left_anti")
        merging = counters.alias("t").merge(lacking.alias("s"), "false")
        return merging.whenNotMatchedInsertAll()

    first, second = merge(), merge()
    first.execute()
    with pytest.raises(CommitConflictError):
        second.execute()
    merge().execute()
    assert rows(counters) == [("a", 1), ("b", 1), ("c", 1)]


def test_subqueries_over_own_rows_undo_no_commit_since_they_were_read(spark, counters, rows):
    counters.toDF().createOrReplaceTempView("read_before")
    append(counters, ("c", 5))
    table = f"delta.`{location(counters)}`"
    counters.delete("k NOT IN (SELECT k FROM read_before)")
    assert rows(counters) == [("a", 1), ("b", 1), ("c", 5)]
    with pytest.raises(CommitConflictError):
        counters.update("k = 'a'", {"n": "(SELECT max(n) FROM read_before) + 1"})
    with pytest.raises(CommitConflictError):
        spark.sql(
            f"MERGE INTO {table} t USING new s ON t.k = s.k WHEN MATCHED THEN UPDATE SET "
            "n = (SELECT max(n) FROM read_before) + 1"
        )
    counters.toDF().createOrReplaceTempView("read_now")
    counters.update("k = 'a'", {"n": "(SELECT max(n) FROM read_now) + 1"})
    assert rows(counters) == [("a", 6), ("b", 1), ("c", 5)]


class _ReadBefore(TargetTable):
    """A table whose latest snapshot was loaded before another writer's commit."""

    def snapshot(self):
        return self.table.snapshot_as_of_version(self.engine, 0)


def test_a_subquery_that_reads_a_later_version_moves_the_operation_to_it(spark, counters, rows):
    path = location(counters)
    append(counters, ("a", 2))
    counters.toDF().createOrReplaceTempView("read_later")
    several = "k IN (SELECT k FROM read_later GROUP BY k HAVING count(*) > 1)"
    run_delete(_ReadBefore(spark=spark, location=path), parse_condition(spark, several))
    assert rows(counters) == [("b", 1)]
