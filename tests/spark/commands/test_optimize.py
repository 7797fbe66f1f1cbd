from __future__ import annotations

import itertools
import os

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import bayou
from bayou.errors import ArgumentError, DataFileError, PredicateError
from bayou.spark import DeltaTable

pytestmark = pytest.mark.spark

_LOCAL = "bayou.optimize.localBytes"


@pytest.fixture(params=["executors", "driver"])
def settings(spark, request):
    """The session's conf, on whose executors or in whose driver everything is rewritten."""
    given: list[str] = []

    def set_conf(key: str, value: object) -> None:
        given.append(key)
        spark.conf.set(key, str(value))

    if request.param == "executors":
        set_conf(_LOCAL, 0)
    yield set_conf
    for key in given:
        spark.conf.unset(key)


def small_files(path: str, files: int = 6, rows: int = 50, **properties: str) -> pa.Table:
    """A table of small files in two partitions; gives its rows."""
    pieces = []
    for number in range(files):
        ids = list(range(number, files * rows, files))
        piece = pa.table(
            {
                "id": pa.array(ids, pa.int64()),
                "position": pa.array([i * 7919 % 1000 for i in ids], pa.int64()),
                "day": pa.array([i % 2 for i in ids], pa.int64()),
            }
        )
        bayou.write(path, piece, partition_by=["day"], configuration=properties or None)
        pieces.append(piece)
    return pa.concat_tables(pieces).sort_by("id")


def data_files(path: str) -> set[str]:
    found = (os.path.join(f, n) for f, _, names in os.walk(path) for n in names)
    return {f for f in found if f.endswith(".parquet") and "_delta_log" not in f}


def test_small_files_become_one_a_partition_and_rows_stay(spark, tmp_path, settings):
    path = str(tmp_path / "t")
    rows = small_files(path)
    table = DeltaTable.forPath(spark, path)
    done = table.optimize().executeCompaction().first()["metrics"]
    assert (done["numFilesAdded"], done["numFilesRemoved"], done["numBins"]) == (2, 6, 2)
    assert bayou.table(path).to_arrow().sort_by("id").equals(rows)
    commit = bayou.table(path).history(1)[0]
    assert (commit["operation"], commit["version"]) == ("OPTIMIZE", 6)
    again = table.optimize().executeCompaction().first()["metrics"]
    assert again["numFilesAdded"] == 0
    assert bayou.table(path).history(1)[0]["version"] == 6


def test_batches_of_bins_are_commits_of_their_own(spark, tmp_path, settings):
    path = str(tmp_path / "t")
    rows = small_files(path)
    settings("spark.databricks.delta.optimize.batchSize", 1)
    done = DeltaTable.forPath(spark, path).optimize().executeCompaction().first()["metrics"]
    assert done["numBatches"] == 2
    assert [c["operation"] for c in bayou.table(path).history(2)] == ["OPTIMIZE", "OPTIMIZE"]
    assert bayou.table(path).to_arrow().sort_by("id").equals(rows)


def test_rows_lie_along_the_curve_in_files_of_the_size_asked_for(spark, tmp_path, settings):
    path = str(tmp_path / "t")
    rows = small_files(path, rows=400)
    size = sum(f["size"] for f in bayou.table(path).snapshot().files().to_pylist())
    settings("spark.databricks.delta.optimize.maxFileSize", size // 8)
    table = DeltaTable.forPath(spark, path)
    done = table.optimize().where("day = 0").executeZOrderBy("position").first()["metrics"]
    assert done["partitionsOptimized"] == 1
    assert done["zOrderStats"]["strategyName"] == "all"
    assert done["numFilesAdded"] > 1
    assert bayou.table(path).to_arrow().sort_by("id").equals(rows)
    found = bayou.table(path).to_arrow(["position", "_metadata.file_path"], "day = 0")
    bounds = found.group_by("_metadata.file_path").aggregate(
        [("position", "min"), ("position", "max")]
    )
    ordered = bounds.sort_by("position_min").to_pylist()
    for before, after in itertools.pairwise(ordered):
        assert before["position_max"] <= after["position_min"]


def test_rows_keep_their_ids_and_commit_versions(spark, tmp_path, settings):
    path = str(tmp_path / "t")
    small_files(path, files=2, **{"delta.enableRowTracking": "true"})
    columns = ["id", "_metadata.row_id", "_metadata.row_commit_version"]
    before = bayou.table(path).to_arrow(columns).sort_by("id")
    table = DeltaTable.forPath(spark, path)
    table.optimize().executeCompaction()
    assert bayou.table(path).to_arrow(columns).sort_by("id").equals(before)
    table.optimize().executeZOrderBy("position")
    assert bayou.table(path).to_arrow(columns).sort_by("id").equals(before)


def test_a_clustered_table_is_clustered(spark, tmp_path, settings):
    path = str(tmp_path / "t")
    spark.sql(f"CREATE TABLE delta.`{path}` (id BIGINT, x STRING) USING delta CLUSTER BY (id)")
    for start in (0, 100):
        spark.sql(f"INSERT INTO delta.`{path}` SELECT id, 'x' FROM range({start}, {start + 100})")
    done = DeltaTable.forPath(spark, path).optimize().executeCompaction().first()["metrics"]
    assert done["numFilesAdded"] == 1
    assert done["clusteringStats"]["numOutputZCubes"] == 1
    assert pc.sum(bayou.table(path).to_arrow()["id"]).as_py() == sum(range(200))
    (add,) = bayou.table(path).snapshot().files().to_pylist()
    assert add["num_records"] == 200


def test_deleted_rows_are_purged(spark, tmp_path, settings):
    path = str(tmp_path / "t")
    small_files(path, **{"delta.enableDeletionVectors": "true"})
    bayou.table(path).delete("id = 3")
    done = DeltaTable.forPath(spark, path).reorg().executePurge().first()["metrics"]
    assert done["deletionVectorStats"].asDict() == {
        "numDeletionVectorsRemoved": 1,
        "numDeletionVectorRowsRemoved": 1,
    }
    assert bayou.table(path).to_arrow().num_rows == 299


@pytest.mark.parametrize(
    "run",
    [
        lambda builder: builder.executeCompaction(),
        lambda builder: builder.executeZOrderBy("id"),
    ],
)
def test_what_fails_leaves_no_file_behind(spark, tmp_path, settings, run):
    path = str(tmp_path / "t")
    small_files(path)
    os.remove(max(data_files(path)))
    before = data_files(path)
    with pytest.raises(DataFileError):
        run(DeltaTable.forPath(spark, path).optimize())
    assert data_files(path) == before
    assert bayou.table(path).history(1)[0]["operation"] == "WRITE"


def test_a_setting_that_cannot_be_is_named(spark, tmp_path, settings):
    path = str(tmp_path / "t")
    small_files(path, files=1)
    settings("spark.databricks.delta.optimize.maxDeletedRowsRatio", "much")
    with pytest.raises(ArgumentError, match="maxDeletedRowsRatio: 'much' isn't"):
        DeltaTable.forPath(spark, path).optimize().executeCompaction()


@pytest.mark.parametrize(
    "condition",
    [
        "day >= current_date() - INTERVAL 1 DAY",
        "day > date_sub(CURRENT_DATE, 2)",
        "day >= current_timestamp() - INTERVAL '2' DAY",
        "day > DATE_SUB(CAST(now() AS DATE), 2)",
        "day >= CAST(localtimestamp() AS DATE)",
    ],
)
def test_a_condition_can_depend_on_the_current_time(spark, tmp_path, condition):
    path = str(tmp_path / "t")
    rows = spark.sql("SELECT 1 AS id, explode(array(current_date(), DATE'2024-01-05')) AS day")
    for _ in range(2):
        rows.coalesce(1).write.format("delta").mode("append").partitionBy("day").save(path)
    done = spark.sql(f"OPTIMIZE delta.`{path}` WHERE {condition}").first()["metrics"]
    assert (done["numFilesAdded"], done["numFilesRemoved"]) == (1, 2)


def test_a_partition_column_can_be_named_current_date(spark, tmp_path):
    path = str(tmp_path / "t")
    for day in ("x", "x", "y", "y"):
        bayou.write(
            path, pa.table({"id": [1], "current_date": [day]}), partition_by=["current_date"]
        )
    with pytest.raises(PredicateError, match="'CURRENT_DATE' isn't supported"):
        spark.sql(f"OPTIMIZE delta.`{path}` WHERE current_date = 'x'")
    done = spark.sql(f"OPTIMIZE delta.`{path}` WHERE `current_date` = 'x'").first()["metrics"]
    assert (done["numFilesAdded"], done["numFilesRemoved"]) == (1, 2)
