from __future__ import annotations

import os

import pyarrow as pa
import pytest

import bayou
from bayou.errors import ArgumentError
from bayou.spark import DeltaTable

pytestmark = pytest.mark.spark


@pytest.fixture(params=[0, 10_000], ids=["executors", "driver"])
def deleting(spark, request):
    """Executors, or the driver, delete."""
    spark.conf.set("bayou.vacuum.localFiles", str(request.param))
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    yield
    spark.conf.unset("bayou.vacuum.localFiles")
    spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")


def parquet_files(path: str) -> list[str]:
    return [n for f, _, names in os.walk(path) if "_delta_log" not in f for n in names]


def test_files_and_emptied_folders_go(spark, tmp_path, deleting):
    path = str(tmp_path / "t")
    for day in range(3):
        rows = pa.table({"id": [1, 2], "day": [day, day]})
        bayou.write(path, rows, partition_by=["day"])
    bayou.table(path).delete("day = 2")
    bayou.table(path).update({"id": "id + 1"}, predicate="day = 0 AND id = 1")
    assert len(parquet_files(path)) == 4
    assert DeltaTable.forPath(spark, path).vacuum(0).columns == []
    assert len(parquet_files(path)) == 2
    assert not os.path.exists(f"{path}/day=2")
    assert bayou.table(path).to_arrow().num_rows == 4
    end, start = bayou.table(path).history(2)
    assert (start["operation"], end["operation"]) == ("VACUUM START", "VACUUM END")
    assert end["operationMetrics"]["numDeletedFiles"] == "2"


def test_a_short_retention_is_refused_unless_the_session_allows_it(spark, tmp_path):
    path = str(tmp_path / "t")
    bayou.write(path, pa.table({"id": [1]}))
    with pytest.raises(ArgumentError, match="shorter"):
        DeltaTable.forPath(spark, path).vacuum(1)
