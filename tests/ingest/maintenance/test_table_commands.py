"""Maintenance of large tables on the executors of the pipeline's session."""

from __future__ import annotations

import pyarrow as pa
import pytest

import bayou
from bayou.ingest.maintenance import maintain_table

pytestmark = pytest.mark.spark

LOCAL = ("bayou.optimize.localBytes", "bayou.vacuum.localFiles")


@pytest.fixture(params=["executors", "driver"])
def session(spark, request):
    """The session; every table is large for its executors, or none is."""
    if request.param == "executors":
        for name in LOCAL:
            spark.conf.set(name, "0")
    yield spark
    for name in LOCAL:
        spark.conf.unset(name)


def jobs(spark, name):
    """The names of the Spark jobs that begin with `name`."""
    listed = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    described = [listed.apply(i).description() for i in range(listed.length())]
    return [d.get() for d in described if d.isDefined() and d.get().startswith(name)]


def write(path, *, partition_by=None):
    for number in range(6):
        rows = {"id": [number, number + 100], "v": [number % 3, 1], "day": [number % 2] * 2}
        bayou.write(path, pa.table(rows), partition_by=partition_by)


def rows(path):
    return sorted(row["id"] for row in bayou.table(path).to_arrow().to_pylist())


IDS = sorted([*range(6), *range(100, 106)])


@pytest.mark.parametrize("z_order_by", [(), ("v", "id")])
def test_partitions_are_compacted_or_sorted(session, tmp_path, request, z_order_by):
    path = str(tmp_path / "t")
    write(path, partition_by=["day"])
    report = maintain_table(
        "t", bayou.table(path), "optimize", spark=session, z_order_by=z_order_by
    )
    assert (report.result, report.files_removed, report.files_added) == ("done", 6, 2)
    assert rows(path) == IDS
    commits = bayou.table(path).history(2)
    assert {str(commit["operation"]) for commit in commits} == {"OPTIMIZE"}
    columns = "[]" if not z_order_by else '["v","id"]'
    assert {commit["operationParameters"]["zOrderBy"] for commit in commits} == {columns}
    on_executors = request.node.callspec.params["session"] == "executors"
    assert bool(jobs(session, f"OPTIMIZE {path}@")) is on_executors
    again = maintain_table("t", bayou.table(path), "optimize", spark=session, z_order_by=z_order_by)
    assert again.result == "nothing"


def test_a_compaction_does_not_sort(session, tmp_path):
    path = str(tmp_path / "t")
    write(path)
    report = maintain_table("t", bayou.table(path), "compaction", spark=session, z_order_by=["id"])
    assert report.files_added == 1
    assert bayou.table(path).history(1)[0]["operationParameters"]["zOrderBy"] == "[]"


def test_a_clustered_table_is_clustered(session, tmp_path, request):
    path = str(tmp_path / "t")
    write(path)
    bayou.table(path).alter.cluster_by("v")
    report = maintain_table("t", bayou.table(path), "optimize", spark=session)
    assert report.result == "done"
    assert bayou.table(path).history(1)[0]["operationParameters"]["clusterBy"] == '["v"]'
    assert bool(jobs(session, f"OPTIMIZE {path}@")) is (
        request.node.callspec.params["session"] == "executors"
    )
    assert rows(path) == IDS


def test_a_vacuum_deletes_on_executors(session, tmp_path, request):
    path = str(tmp_path / "t")
    write(path)
    bayou.table(path).alter.set_table_properties(
        {"delta.deletedFileRetentionDuration": "interval 0 hours"}
    )
    bayou.table(path).optimize()
    report = maintain_table("t", bayou.table(path), "vacuum", spark=session)
    assert (report.result, report.files_removed) == ("done", 6)
    assert bool(jobs(session, f"VACUUM {path}")) is (
        request.node.callspec.params["session"] == "executors"
    )
    assert rows(path) == IDS


def test_a_column_that_is_missing_is_named(session, tmp_path):
    path = str(tmp_path / "t")
    write(path)
    report = maintain_table(
        "t", bayou.table(path), "optimize", spark=session, z_order_by=["colour"]
    )
    assert report.result == "failed"
    assert "the table has no column 'colour' for ZORDER BY" in report.error.message
