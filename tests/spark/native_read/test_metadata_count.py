"""Rows that are counted from the log, without the data files."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812

import bayou

pytestmark = pytest.mark.spark

ROWS = 10


@pytest.fixture
def ours(spark):
    return spark.newSession()


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "t"
    for n in range(2):
        rows = pa.table({"id": range(5 * n, 5 * n + 5), "p": ["a", "b", "a", "b", "a"]})
        bayou.write(str(path), rows, partition_by=["p"])
    return path


def lose_files(path):
    """Delete the data files: whoever reads them fails."""
    for folder in path.glob("p=*"):
        shutil.rmtree(folder)


@pytest.mark.parametrize("reader", ["native", "source"])
def test_rows_are_counted_without_their_files(ours, table, reader):
    lose_files(table)
    ours.conf.set("spark.bayou.reader", reader)
    frame = ours.read.format("delta").load(str(table))
    assert frame.count() == ROWS
    assert frame.select((F.col("id") + 1).alias("x")).alias("t").count() == ROWS
    for query in ("count(*)", "COUNT( 1 ) AS n"):
        counted = ours.sql(f"SELECT {query} FROM delta.`{table}`")
        assert [tuple(row) for row in counted.collect()] == [(ROWS,)]
        assert counted.schema[0].dataType.simpleString() == "bigint"
    assert ours.sql(f"SELECT count(*) n FROM delta.`{table}`").columns == ["n"]


def test_a_version_stays_as_it_was_loaded(ours, table):
    frame = ours.read.format("delta").load(str(table))
    bayou.write(str(table), pa.table({"id": [10], "p": ["a"]}))
    assert frame.count() == ROWS
    assert ours.read.format("delta").load(str(table)).count() == ROWS + 1


@pytest.mark.parametrize("reader", ["native", "source"])
def test_what_is_not_every_row_once_is_counted_by_spark(ours, table, reader):
    ours.conf.set("spark.bayou.reader", reader)
    frame = ours.read.format("delta").load(str(table))
    name = f"delta.`{table}`"
    assert frame.where("id > 3").count() == 6
    assert frame.where("p = 'a'").count() == 6
    assert frame.limit(3).count() == 3
    assert frame.distinct().count() == ROWS
    assert frame.union(frame).count() == 2 * ROWS
    assert frame.crossJoin(frame.select(F.col("id").alias("other"))).count() == ROWS**2
    assert frame.select(F.explode(F.array("id", "id"))).count() == 2 * ROWS
    assert frame.sample(1.0).count() == ROWS
    assert frame.groupBy("p").count().count() == 2
    reader_with_filter = ours.read.format("delta").option("filter", "id > 3")
    assert reader_with_filter.load(str(table)).count() == 6
    for query, count in (
        (f"SELECT count(*) FROM {name} WHERE id > 3", 6),
        (f"SELECT count(DISTINCT p) FROM {name}", 2),
        (f"SELECT count(*) FILTER (WHERE p = 'a') FROM {name}", 6),
        (f"SELECT count(NULL) + count(*) FROM {name}", ROWS),
        (f"SELECT count(id) FROM {name}", ROWS),
        (f"SELECT count(*) FROM (SELECT * FROM {name} LIMIT 4)", 4),
        (f"SELECT count(*) FROM {name} VERSION AS OF 0", 5),
    ):
        assert ours.sql(query).first()[0] == count, query
    grouped = ours.sql(f"SELECT count(*) FROM {name} GROUP BY p ORDER BY 1")
    assert [row[0] for row in grouped.collect()] == [4, 6]


@pytest.mark.parametrize("reader", ["native", "source"])
def test_a_table_that_was_replaced_since_is_not_counted(ours, table, reader):
    ours.conf.set("spark.bayou.reader", reader)
    frame = ours.read.format("delta").load(str(table))
    shutil.rmtree(table)
    for n in range(3):
        bayou.write(str(table), pa.table({"id": [n], "p": ["a"]}), partition_by=["p"])
    with pytest.raises(Exception, match="(?i)replaced|not exist|FileNotFound"):
        frame.count()


@pytest.mark.parametrize("reader", ["native", "source"])
def test_a_reader_that_is_used_again_counts_what_it_reads(ours, table, tmp_path, reader):
    ours.conf.set("spark.bayou.reader", reader)
    other = str(tmp_path / "other")
    ours.range(7).write.parquet(other)

    def used():
        reused = ours.read.format("delta")
        assert reused.load(str(table)).count() == ROWS
        return reused

    assert used().load(str(table), filter="id > 3").count() == 6
    assert used().load(str(table), versionAsOf=0).count() == 5
    assert used().load(f"{table}@v0").count() == 5
    assert used().load(other, format="parquet").count() == 7


def test_deleted_rows_are_not_counted(ours, tmp_path):
    path = str(tmp_path / "t")
    properties = {"delta.enableDeletionVectors": "true"}
    bayou.write(path, pa.table({"id": range(ROWS)}), configuration=properties)
    bayou.table(path).delete("id < 3")
    assert ours.read.format("delta").load(path).count() == ROWS - 3
    assert ours.sql(f"SELECT count(*) FROM delta.`{path}`").first()[0] == ROWS - 3


def test_files_without_statistics_are_read(ours, tmp_path):
    path = str(tmp_path / "t")
    properties = {"delta.dataSkippingNumIndexedCols": "0"}
    bayou.write(path, pa.table({"id": range(ROWS)}), configuration=properties)
    log = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    lines = [line for line in log.read_text().splitlines() if line]
    without = [line.replace('"numRecords"', '"unknown"') for line in lines]
    log.write_text("\n".join(without) + "\n")
    for checksum in log.parent.glob("*.crc"):
        checksum.unlink()
    assert ours.read.format("delta").load(path).count() == ROWS


def test_a_count_fills_the_cache_of_a_cached_frame(ours, table):
    frame = ours.read.format("delta").load(str(table)).cache()
    try:
        assert frame.count() == ROWS
        lose_files(table)
        assert frame.select("id").distinct().count() == ROWS
    finally:
        frame.unpersist()


def test_a_setting_reads_the_files(ours, table):
    ours.conf.set("spark.databricks.delta.optimizeMetadataQuery.enabled", "false")
    lose_files(table)
    frame = ours.read.format("delta").load(str(table))
    with pytest.raises(Exception, match="(?i)does not exist|missing|not found|FileNotFound"):
        frame.count()
