"""Appends and partial overwrites whose rows come from the table that they change."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812  # PySpark's convention

import bayou
from bayou.errors import CommitConflictError
from bayou.spark import DeltaTable
from bayou.spark.sql_statements import insert

pytestmark = pytest.mark.spark


def rows(path):
    return sorted(tuple(row.values()) for row in bayou.table(path).to_arrow().to_pylist())


@pytest.fixture
def path(tmp_path):
    path = str(tmp_path / "t")
    bayou.write(path, pa.table({"id": [1, 2], "p": ["a", "b"]}), partition_by=["p"])
    return path


def missing(spark, path):
    """The rows of a source that the table lacks."""
    source = spark.createDataFrame([(1, "a"), (3, "c")], "id long, p string")
    return source.join(spark.read.format("delta").load(path), "id", "left_anti")


def test_an_append_of_missing_rows_conflicts_with_one_since_the_table_was_loaded(spark, path):
    first, second = missing(spark, path), missing(spark, path)
    first.write.format("delta").mode("append").save(path)
    with pytest.raises(CommitConflictError, match="read the table again"):
        second.write.format("delta").mode("append").save(path)
    missing(spark, path).write.format("delta").mode("append").save(path)
    assert rows(path) == [(1, "a"), (2, "b"), (3, "c")]


def test_an_insert_of_missing_rows_conflicts_with_one_since_its_query_was_planned(
    spark, path, monkeypatch
):
    statement = f"INSERT INTO delta.`{path}` SELECT 3, 'c' WHERE 3 NOT IN "
    statement += f"(SELECT id FROM delta.`{path}`)"
    write_rows = insert.write_rows

    def write_after_another(*arguments, **options):
        monkeypatch.setattr(insert, "write_rows", write_rows)
        spark.sql(statement)
        return write_rows(*arguments, **options)

    monkeypatch.setattr(insert, "write_rows", write_after_another)
    with pytest.raises(CommitConflictError):
        spark.sql(statement)
    assert rows(path) == [(1, "a"), (2, "b"), (3, "c")]


def test_an_append_of_own_rows_conflicts_only_with_changes_of_the_rows_it_reads(spark, path):
    own = spark.read.format("delta").load(path).where("p = 'a'").withColumn("p", F.lit("c"))
    bayou.write(path, pa.table({"id": [9], "p": ["b"]}), mode="append")
    DeltaTable.forPath(spark, path).update("p = 'b'", {"id": "id + 10"})
    own.write.format("delta").mode("append").save(path)
    assert rows(path) == [(1, "a"), (1, "c"), (12, "b"), (19, "b")]
    DeltaTable.forPath(spark, path).update("p = 'a'", {"id": "id + 10"})
    with pytest.raises(CommitConflictError):
        own.write.format("delta").mode("append").save(path)


@pytest.mark.parametrize("option", ["replaceWhere", "partitionOverwriteMode"])
def test_two_partitions_cannot_overwrite_each_other_at_once(spark, path, option):
    def overwrite(partition, by):
        value = {"replaceWhere": f"p = '{partition}'", "partitionOverwriteMode": "dynamic"}[option]
        own = spark.read.format("delta").load(path).where(F.col("p") == by)
        writer = own.withColumn("p", F.lit(partition)).write.format("delta").mode("overwrite")
        return writer.option(option, value)

    first, second = overwrite("a", by="b"), overwrite("b", by="a")
    first.save(path)
    with pytest.raises(CommitConflictError):
        second.save(path)
    assert rows(path) == [(2, "a"), (2, "b")]


def test_cached_rows_are_written_step_by_step(spark, path):
    own = spark.read.format("delta").load(path).cache()
    assert own.count() == 2
    for partition in ("a", "b"):
        writer = own.where(F.col("p") == partition).withColumn("id", F.col("id") + 10).write
        writer = writer.format("delta").mode("overwrite")
        writer.option("replaceWhere", f"p = '{partition}'").save(path)
    own.write.format("delta").mode("append").save(path)
    assert rows(path) == [(1, "a"), (2, "b"), (11, "a"), (12, "b")]


def test_rows_of_a_version_that_is_gone_or_had_another_schema_conflict(spark, path, tmp_path):
    own = spark.read.format("delta").load(path)
    spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMN more INT")
    with pytest.raises(CommitConflictError, match="other metadata"):
        own.withColumn("more", F.lit(1)).write.format("delta").mode("append").save(path)
    newer = spark.read.format("delta").load(path)
    shutil.rmtree(path)
    bayou.write(path, pa.table({"id": [5], "p": ["a"], "more": pa.array([1], pa.int32())}))
    with pytest.raises(CommitConflictError, match="no longer has"):
        newer.where("id > 100").write.format("delta").mode("append").save(path)
    assert rows(path) == [(5, "a", 1)]
