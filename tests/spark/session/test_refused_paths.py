"""Paths with a mistyped or unsupported scheme, in every API of Spark."""

from __future__ import annotations

import pytest

from bayou.errors import ArgumentError
from bayou.spark import DeltaTable, disable, enable, short_message

pytestmark = pytest.mark.spark

REFUSED = ["s3:/bucket/x", "s3//bucket/x", "dbfs:/mnt/x"]


@pytest.fixture(autouse=True)
def no_folder_is_created(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(params=[True, False], ids=["enabled", "data source"])
def session(request, spark):
    if request.param:
        yield spark
    else:
        disable(spark)
        try:
            yield spark
        finally:
            enable(spark)


def refused(action):
    with pytest.raises(Exception) as raised:
        action()
    message = short_message(raised.value)
    assert "mistyped URI" in message or "no engine for the scheme" in message, message


@pytest.mark.parametrize("path", REFUSED)
def test_reads_and_writes_refuse_the_path(session, path):
    rows = session.range(1)
    refused(lambda: session.read.format("delta").load(path).count())
    refused(lambda: rows.write.format("delta").mode("append").save(path))
    refused(lambda: session.readStream.format("delta").load(path).schema)


@pytest.mark.parametrize("path", REFUSED)
def test_delta_table_refuses_the_path(spark, path):
    with pytest.raises(ArgumentError):
        DeltaTable.forPath(spark, path).toDF()
    with pytest.raises(ArgumentError):
        DeltaTable.createOrReplace(spark).location(path).addColumn("id", "bigint").execute()


@pytest.mark.parametrize("path", REFUSED)
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM delta.`PATH`",
        "CREATE TABLE delta.`PATH` (id BIGINT) USING delta",
        "INSERT INTO delta.`PATH` VALUES (1)",
        "DELETE FROM delta.`PATH`",
        "DESCRIBE HISTORY delta.`PATH`",
        "CREATE TABLE refused (id BIGINT) USING delta LOCATION 'PATH'",
    ],
)
def test_sql_refuses_the_path(spark, path, statement):
    refused(lambda: spark.sql(statement.replace("PATH", path)).collect())
