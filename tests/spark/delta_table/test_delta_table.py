"""`DeltaTable` but for its row operations."""

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import UnsupportedOperationException

import bayou
from bayou.errors import ArgumentError, IcebergCompatError, TableNotFoundError
from bayou.spark import DeltaTable

pytestmark = pytest.mark.spark


def test_a_table_is_opened_by_path_and_by_name(spark, table, tmp_path, rows):
    made = table({"id": [1, 2]})
    assert rows(made) == [(1,), (2,)]
    path = str(tmp_path / "t")
    assert rows(DeltaTable.forName(spark, f"delta.`{path}`")) == [(1,), (2,)]
    spark.sql(f"CREATE TABLE opened (id BIGINT) USING delta LOCATION '{path}'")
    named = DeltaTable.forName(spark, "opened")
    assert rows(named) == [(1,), (2,)]
    assert named.detail().first()["name"] == "opened"
    spark.sql("DROP TABLE opened")
    with pytest.raises(TableNotFoundError, match="DELTA_MISSING_DELTA_TABLE"):
        DeltaTable.forPath(spark, str(tmp_path / "nothing"))
    with pytest.raises(TableNotFoundError, match="DELTA_MISSING_DELTA_TABLE"):
        DeltaTable.forName(spark, "nothing")
    with pytest.raises(ArgumentError, match="fs"):
        DeltaTable.forPath(spark, path, {"color": "blue"})


def test_a_folder_in_a_table_counts_as_one(spark, table, tmp_path):
    table({"id": [1]})
    assert DeltaTable.isDeltaTable(spark, str(tmp_path / "t"))
    assert DeltaTable.isDeltaTable(spark, str(tmp_path / "t" / "p=1"))
    assert not DeltaTable.isDeltaTable(spark, str(tmp_path))


def test_parquet_files_become_a_table(spark, tmp_path):
    folder = tmp_path / "day=2024-01-05"
    folder.mkdir()
    pq.write_table(pa.table({"id": [1]}), folder / "x.parquet")
    table = DeltaTable.convertToDelta(spark, f"parquet.`{tmp_path}`", "day date")
    assert [str(r["day"]) for r in table.toDF().collect()] == ["2024-01-05"]
    with pytest.raises(ArgumentError, match="parquet"):
        DeltaTable.convertToDelta(spark, str(tmp_path))


def test_frames_have_delta_sparks_columns(table, rows):
    made = table({"id": [1, 2]})
    made.delete("id = 1")
    history = made.history()
    assert [r["operation"] for r in history.collect()] == ["DELETE", "WRITE"]
    assert made.history(1).count() == 1
    assert "tableFeatures" in made.detail().columns
    restored = made.restoreToVersion(0)
    assert restored.columns == [
        "table_size_after_restore",
        "num_of_files_after_restore",
        "num_removed_files",
        "num_restored_files",
        "removed_files_size",
        "restored_files_size",
    ]
    assert rows(made) == [(1,), (2,)]
    first = history.collect()[1]["timestamp"]
    made.delete()
    made.restoreToTimestamp(f"{first:%Y-%m-%d %H:%M:%S.%f}")
    assert rows(made) == [(1,), (2,)]
    optimized = made.optimize().executeCompaction()
    assert optimized.columns[:2] == ["path", "metrics"]
    assert made.vacuum().columns == []


def test_files_are_laid_out_anew(spark, table, tmp_path, rows):
    made = table({"id": [1], "p": ["a"]}, partition_by=["p"], enableDeletionVectors="true")
    for number in range(3):
        bayou.write(str(tmp_path / "t"), pa.table({"id": [number], "p": ["a"]}), mode="append")
    made.optimize().where("p = 'a'").executeCompaction()
    assert made.detail().first()["numFiles"] == 1
    ordered = made.optimize().executeZOrderBy("id").first().metrics
    assert tuple(ordered.zOrderStats.inputOtherFiles) == (1, ordered.filesRemoved.totalSize)
    assert (ordered.clusteringStats, ordered.deletionVectorStats) == (None, None)
    made.delete("id = 2")
    made.reorg().executePurge()
    assert [r["operation"] for r in made.history(1).collect()] == ["REORG"]
    assert len(rows(made)) == 3


def test_a_shallow_clone_is_a_table_of_its_own(spark, table, tmp_path, rows):
    made = table({"id": [1, 2]})
    made.delete("id = 1")
    cloned = made.clone(str(tmp_path / "c"), isShallow=True)
    earlier = made.cloneAtVersion(0, str(tmp_path / "d"), isShallow=True)
    cloned.delete()
    assert (rows(made), rows(cloned), rows(earlier)) == ([(2,)], [], [(1,), (2,)])


def test_a_deep_clone_has_its_own_files_and_is_repeated(spark, table, tmp_path, rows):
    made = table({"id": [1, 2]})
    target = str(tmp_path / "c")
    copy = made.clone(target)
    bayou.write(str(tmp_path / "t"), pa.table({"id": [3]}))
    again = made.clone(target, replace=True, properties={"mine": "1"})
    metrics = again.history(1).first()["operationMetrics"]
    assert (metrics["numCopiedFiles"], metrics["sourceNumOfFiles"]) == ("1", "2")
    shutil.rmtree(tmp_path / "t")
    assert rows(copy) == [(1,), (2,), (3,)]
    assert again.detail().first()["properties"]["mine"] == "1"


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_table_gets_iceberg_compatibility_and_its_errors(spark, table, tmp_path, version):
    key = f"enableIcebergCompatV{version}"
    made = table({"id": [1], "p": ["a"]}, partition_by=["p"], **{key: "true"})
    spark.range(2).selectExpr("id", "'b' p").write.format("delta").mode("append").save(
        str(tmp_path / "t")
    )
    assert made.toDF().count() == 3
    query = (
        spark.readStream.format("delta")
        .load(str(tmp_path / "t"))
        .writeStream.format("delta")
        .option(f"delta.{key}", "true")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "streamed"))
    )
    assert query.awaitTermination(120)
    streamed = bayou.table(str(tmp_path / "streamed"))
    assert streamed.snapshot().properties[f"delta.{key}"] == "true"
    assert streamed.snapshot().properties["delta.columnMapping.mode"] == "name"
    assert streamed.count() == 3
    builder = DeltaTable.create(spark).location(str(tmp_path / "u")).addColumn("v", "void")
    with pytest.raises(UnsupportedOperationException) as caught:
        builder.property(f"delta.{key}", "true").execute()
    assert isinstance(caught.value, IcebergCompatError)
    condition = "DELTA_ICEBERG_COMPAT_VIOLATION.UNSUPPORTED_DATA_TYPE"
    assert (caught.value.getCondition(), caught.value.getSqlState()) == (condition, "KD00E")


@pytest.mark.parametrize("asked", [True, False])
def test_clones_copy_transaction_identifiers_unless_told_otherwise(spark, table, tmp_path, asked):
    made = table({"id": [1, 2]})
    frame = spark.range(1).write.format("delta").mode("append")
    frame.option("txnAppId", "app").option("txnVersion", "7").save(str(tmp_path / "t"))
    expected = {"app": 7} if asked else {}
    given = {} if asked else {"transaction_identifiers": False}
    made.clone(str(tmp_path / "c"), isShallow=True, **given)
    made.cloneAtVersion(1, str(tmp_path / "d"), isShallow=True, **given)
    for name in ("c", "d"):
        assert bayou.table(str(tmp_path / name)).snapshot().transactions == expected


def test_features_come_and_go(table):
    made = table({"id": [1]})
    made.upgradeTableProtocol(3, 7)
    made.addFeatureSupport("deletionVectors")
    assert "deletionVectors" in made.detail().first()["tableFeatures"]
    made.dropFeatureSupport("deletionVectors")
    assert "deletionVectors" not in made.detail().first()["tableFeatures"]


def test_manifests_are_generated(table, tmp_path):
    made = table({"id": [1]})
    made.generate("symlink_format_manifest")
    assert Path(tmp_path, "t", "_symlink_format_manifest", "manifest").exists()
    with pytest.raises(ArgumentError, match="DELTA_MODE_NOT_SUPPORTED"):
        made.generate("other")


def test_a_notebook_shows_the_table_as_html(table):
    shown = table({"id": [1, 2]})._repr_html_()
    assert "<table" in shown
    assert "id" in shown
