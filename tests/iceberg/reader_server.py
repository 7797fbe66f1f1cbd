"""Readers of Iceberg tables behind a pipe: one JSON request a line, one JSON answer a line.

Runs in an environment of its own, which knows nothing of Bayou. Requests:

    {"reader": "spark" or "duckdb", "table": path, "out": Parquet file, "where": SQL or null,
     "snapshot": id or null}
    {"reader": "spark", "table": path, "out": Parquet file, "aggregates": list of SQL}

Answers begin with `@@`, so that what Spark prints doesn't matter:
`{"ok": true, "files": n or null}` or `{"ok": false, "error": text}`. `files` is the number of data
files that Spark has read.
"""

from __future__ import annotations

import json
import sys

import duckdb
import pyarrow.parquet as pq
from duckdb_extensions import import_extension
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, to_json

RUNTIME = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"


def start_spark(warehouse: str) -> SparkSession:
    """A small session in UTC with Iceberg's runtime."""
    conf = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.jars.packages": RUNTIME,
        # Otherwise the metadata answers counts, and no file is read.
        "spark.sql.iceberg.aggregate-push-down.enabled": "false",
        "spark.sql.adaptive.enabled": "false",  # its plans have no metrics of the scan
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": warehouse,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2]").appName("iceberg")
    for key, value in conf.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def start_duckdb() -> duckdb.DuckDBPyConnection:
    """A connection in UTC with the extension `iceberg`."""
    connection = duckdb.connect()
    for name in ("avro", "iceberg"):
        import_extension(name, con=connection)
        connection.execute(f"LOAD {name}")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def read_with_spark(spark: SparkSession, request: dict) -> int:
    """Copy a table's rows to a Parquet file; return the number of data files read."""
    reader = spark.read.format("iceberg")
    if request.get("snapshot") is not None:
        reader = reader.option("versionAsOf", str(request["snapshot"]))
    rows = reader.load(request["table"])
    if request.get("where"):
        rows = rows.where(request["where"])
    # Variants don't pass to Arrow.
    columns = [
        to_json(name, {"ignoreNullFields": "false"}).alias(field.name)
        if "variant" in field.dataType.simpleString()
        else col(name)
        for field in rows.schema
        for name in ["`" + field.name.replace("`", "``") + "`"]
    ]
    pq.write_table(rows.select(columns).toArrow(), request["out"])
    counted = rows.groupBy().count()
    counted.collect()
    leaves = counted._jdf.queryExecution().executedPlan().collectLeaves()
    return sum(_files(leaves.apply(number)) for number in range(leaves.size()))


def aggregate_with_spark(spark: SparkSession, request: dict) -> None:
    """Copy aggregates to a Parquet file; Iceberg may compute them from its metadata."""
    spark.conf.set("spark.sql.iceberg.aggregate-push-down.enabled", "true")
    try:
        rows = spark.read.format("iceberg").load(request["table"])
        pq.write_table(rows.selectExpr(*request["aggregates"]).toArrow(), request["out"])
    finally:
        spark.conf.set("spark.sql.iceberg.aggregate-push-down.enabled", "false")


def _files(leaf: object) -> int:
    metric = leaf.metrics().get("resultDataFiles")
    return metric.get().value() if metric.isDefined() else 0


def read_with_duckdb(connection: duckdb.DuckDBPyConnection, request: dict) -> None:
    """Copy a table's rows to a Parquet file."""
    options = ""
    if request.get("snapshot") is not None:
        options = f", snapshot_from_id = {request['snapshot']}::UBIGINT"
    where = f" WHERE {request['where']}" if request.get("where") else ""
    query = f"SELECT * FROM iceberg_scan('{request['table']}'{options}){where}"
    pq.write_table(connection.execute(query).to_arrow_table(), request["out"])


def main() -> None:
    """Answer requests until the input ends."""
    spark = start_spark(sys.argv[1])
    connection = start_duckdb()
    print('@@{"ok": true}', flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        answer: dict[str, object] = {"ok": True, "files": None}
        try:
            if request.get("aggregates"):
                aggregate_with_spark(spark, request)
            elif request["reader"] == "spark":
                answer["files"] = read_with_spark(spark, request)
            else:
                read_with_duckdb(connection, request)
        except Exception as error:
            answer = {"ok": False, "error": f"{type(error).__name__}: {error}"[:4000]}
        print(f"@@{json.dumps(answer)}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
