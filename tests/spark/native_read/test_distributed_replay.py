"""Native reads and SQL that list their files with jobs of distributed log replay."""

import pytest

import bayou
from bayou.spark.session.settings import REPLAY_LOCAL_BYTES, REPLAY_NUM_PARTITIONS

pytestmark = pytest.mark.spark


@pytest.fixture
def conf(spark):
    """Sets a setting of the session, for the test only."""
    names = []

    def set_value(name, value):
        names.append(name)
        spark.conf.set(name, value)

    yield set_value
    for name in names:
        spark.conf.unset(name)


def replay_jobs(spark, path):
    """Number of the session's jobs that reconstruct the state of a table."""
    listed = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    names = [str(listed.apply(i).description()) for i in range(listed.size())]
    return sum(name.startswith(f"Some(State Reconstruction {path}@") for name in names)


@pytest.mark.parametrize("name", REPLAY_NUM_PARTITIONS.names)
def test_a_number_of_partitions_plans_native_reads_on_executors(spark, table, conf, name):
    assert spark.read.format("delta").load(table).where("id = 15").count() == 1
    assert replay_jobs(spark, table) == 0
    conf(name, "2")
    frame = spark.read.format("delta").load(table).where("id = 15")
    assert "FileScan parquet" in frame._jdf.queryExecution().executedPlan().toString()
    assert [row.id for row in frame.collect()] == [15]
    assert replay_jobs(spark, table) > 0
    assert spark.sparkContext.getLocalProperty("spark.job.description") is None


def test_a_log_larger_than_the_limit_plans_sql_on_executors(spark, table, conf):
    conf(REPLAY_LOCAL_BYTES.name, "100")
    rows = spark.sql(f"SELECT count(*) AS n, max(id) AS last FROM delta.`{table}` WHERE id >= 10")
    assert rows.collect() == [(20, 29)]
    assert replay_jobs(spark, table) > 0
    joined = spark.sql(
        f"SELECT count(*) AS n FROM delta.`{table}` a JOIN delta.`{table}` b USING (id)"
        " WHERE b.id < 15"
    )
    assert joined.collect() == [(15,)]


def test_deletion_vectors_hold_when_executors_replay_the_log(spark, table, conf):
    bayou.table(table).alter.set_table_properties({"delta.enableDeletionVectors": "true"})
    bayou.table(table).delete("id IN (3, 15)")
    conf(REPLAY_NUM_PARTITIONS.name, "3")
    rows = spark.read.format("delta").load(table).select("id").collect()
    assert sorted(row.id for row in rows) == [n for n in range(30) if n not in (3, 15)]
    assert replay_jobs(spark, table) > 0
