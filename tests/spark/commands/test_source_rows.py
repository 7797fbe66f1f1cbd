"""How large a merge's source is, told before it is joined."""

import pytest

from bayou.spark.commands.source_rows import checkpoint_small_source, collect_small_source

pytestmark = pytest.mark.spark


@pytest.fixture
def limit(spark):
    def of(size):
        spark.conf.set("bayou.rowOperations.sourceBytes", str(size))

    yield of
    spark.conf.unset("bayou.rowOperations.sourceBytes")


def test_lists_of_python_are_small_though_spark_has_no_estimate(spark, limit):
    source = spark.createDataFrame([(n, str(n)) for n in range(100)], "id long, v string")
    assert collect_small_source(spark, source.where("id < 50")).num_rows == 50
    limit(28 * 100)
    assert collect_small_source(spark, source).num_rows == 100
    limit(28 * 99)
    assert collect_small_source(spark, source) is None
    assert checkpoint_small_source(spark, source) is None
    limit(0)
    assert collect_small_source(spark, source) is None


def test_what_spark_knows_to_be_large_is_not_looked_at(spark, limit):
    limit(1000)
    never = spark.range(1_000_000).selectExpr("raise_error('looked at') v")
    assert collect_small_source(spark, never) is None
    assert checkpoint_small_source(spark, never) is None


def test_rows_that_are_kept_stay_as_they_are_under_the_same_columns(spark):
    source = spark.createDataFrame([(n,) for n in range(20)], "id long").alias("s")
    source = source.selectExpr("id", "rand() r")
    stored = checkpoint_small_source(spark, source)
    assert stored.select(source["r"]).collect() == stored.select("r").collect()
    assert stored.where(source["id"] < 5).count() == 5
