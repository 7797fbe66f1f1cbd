"""A pipeline registers its table in a real Hive metastore, and Spark reads it by its name."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from servers import HiveMetastore

pytestmark = [pytest.mark.process, pytest.mark.server, pytest.mark.spark]


@pytest.fixture(scope="module")
def metastore(tmp_path_factory):
    with HiveMetastore(tmp_path_factory.mktemp("hive")) as server:
        yield server


READER = """
import json, sys
from bayou.spark import start_session

conf = {
    "spark.sql.catalogImplementation": "hive",
    "spark.hadoop.hive.metastore.uris": sys.argv[1],
    "spark.sql.warehouse.dir": sys.argv[2],
}
spark = start_session("reader", conf, "local[1]")
rows = spark.sql("SELECT id, name FROM shop.events WHERE id > 1").collect()
properties = {row.key: row.value for row in spark.sql("SHOW TBLPROPERTIES shop.events").collect()}
columns = {c.name: c.description for c in spark.catalog.listColumns("shop.events")}
print(json.dumps([[list(row) for row in rows], properties, columns]))
"""

CREATE_DATABASE = READER.partition("rows = ")[0] + 'spark.sql("CREATE DATABASE shop")\n'


def execute(*command):
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    return subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **python}, check=False
    )


def run_pipeline(pipeline):
    return execute(sys.executable, "-m", "bayou.cli", "run", str(pipeline.file), "--once")


def test_spark_reads_the_table_of_a_pipeline_by_its_name(small_pipeline, metastore, tmp_path):
    small_pipeline.more = (
        "          table-properties: {delta.enableChangeDataFeed: true}\n"
        "        table-name: shop.events\n        column-comments: {id: the number}\n"
        f"  catalog: {{uris: '{metastore.uri}'}}\n"
    )
    small_pipeline.write_file()
    small_pipeline.produce({"id": 1, "name": "a"}, {"id": 2, "name": "b"})
    session = (metastore.uri, str(tmp_path / "warehouse"))
    refused = run_pipeline(small_pipeline)
    assert refused.returncode == 1
    assert "`shop`.`events`: the catalog doesn't accept the table" in refused.stderr
    assert "Traceback" not in refused.stderr
    created = execute(sys.executable, "-c", CREATE_DATABASE, *session)
    assert created.returncode == 0, created.stderr[-3000:]
    small_pipeline.produce({"id": 3, "name": "c"})
    done = run_pipeline(small_pipeline)
    assert done.returncode == 0, done.stderr
    read = execute(sys.executable, "-c", READER, *session)
    assert read.returncode == 0, read.stderr[-3000:]
    rows, properties, columns = json.loads(read.stdout)
    assert sorted(rows) == [[2, "b"], [3, "c"]]
    assert properties["delta.enableChangeDataFeed"] == "true"
    assert columns["id"] == "the number"
