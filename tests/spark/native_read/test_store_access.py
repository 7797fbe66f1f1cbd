"""Reads of stores that Spark's Hadoop client can't reach use the data source."""

from __future__ import annotations

import logging

import pyarrow as pa
import pytest

import bayou
from bayou.spark.native_read import read_planner
from bayou.spark.native_read.store_access import store_access
from support.google_storage import google_storage
from support.scripted_s3 import scripted_s3

pytestmark = pytest.mark.spark


@pytest.fixture
def warnings(monkeypatch, caplog):
    """Return a function that returns the warnings of the planner."""
    monkeypatch.setattr(read_planner, "_warned", set())
    with caplog.at_level(logging.WARNING):
        yield lambda: [r.getMessage() for r in caplog.records if r.name == read_planner.__name__]


def test_tables_on_s3_are_read_without_the_connectors_jar_and_it_is_said_once(
    spark, warnings, monkeypatch
):
    with scripted_s3() as s3:
        for name in ("a", "b"):
            bayou.write(f"s3://bucket/{name}", pa.table({"id": [1]}), storage_options=s3.options)
        settings = {
            "endpoint": s3.options["AWS_ENDPOINT_URL"],
            "access.key": "test",
            "secret.key": "test",
        }
        for name, value in settings.items():
            spark.conf.set(f"spark.hadoop.fs.s3a.{name}", value)
        try:
            for name in ("a", "b", "a"):
                frame = spark.read.format("delta").load(f"s3a://bucket/{name}")
                assert frame.count() == 1
                assert "BatchScan" in frame._jdf.queryExecution().toString()
        finally:
            for name in settings:
                spark.conf.unset(f"spark.hadoop.fs.s3a.{name}")
    (said,) = warnings()
    assert "has no file system for s3a" in said
    assert "org.apache.hadoop:hadoop-aws:3." in said


def test_tables_on_google_cloud_storage_are_read_and_written(spark, warnings):
    with google_storage() as store:
        store.buckets.add("bucket")
        options = store.storage_options
        frame = spark.range(3)
        frame.write.format("delta").options(**options).save("gs://bucket/t")
        read = spark.read.format("delta").options(**options).load("gs://bucket/t")
        assert sorted(row.id for row in read.collect()) == [0, 1, 2]
    assert warnings() == []  # the credentials are in options


@pytest.mark.parametrize(
    ("path", "package"),
    [
        ("s3://bucket/t", "hadoop-aws"),
        ("abfss://c@account.dfs.core.windows.net/t", "hadoop-azure"),
        ("abfs://c@account.dfs.core.windows.net/t", "hadoop-azure"),
        ("gs://bucket/t", "gcs-connector"),
    ],
)
def test_the_missing_package_of_each_store_is_named(spark, path, package):
    found = store_access(spark, path, {})
    assert found is not None
    assert package in (found.package or "")


def test_local_tables_are_reachable(spark):
    assert store_access(spark, "/tmp/t", {}) is None
