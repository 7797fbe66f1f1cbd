"""delta-spark behind a pipe: one Spark session, one JSON request a line, one JSON answer a line.

Runs in the peers' environment, which knows nothing of Bayou. Requests:

    {"do": "read", "table": path, "out": folder, "version": n or null, "where": SQL or null,
     "columns": [SQL, ..], "options": {..}}
    {"do": "write", "table": path, "rows": Parquet file, "mode": .., "partition_by": [..],
     "options": {..}}
    {"do": "stream", "table": path, "checkpoint": folder, "out": folder, "options": {..},
     "fail_at": batch or null}
    {"do": "sql", "text": SQL}
    {"do": "run", "program": Python text over `spark` and `path`, "path": path}

Answers begin with `@@`, so that what Spark prints doesn't matter: `{"ok": true}` or
`{"ok": false, "error": text}`.
"""

from __future__ import annotations

import json
import sys

from delta import configure_spark_with_delta_pip
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession


def start(warehouse: str) -> SparkSession:
    """A small session in UTC that writes Parquet as pyarrow reads it without loss."""
    conf = {
        "spark.databricks.delta.geo.preview.enabled": "true",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": warehouse,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2]").appName("peer")
    for key, value in conf.items():
        builder = builder.config(key, value)
    return configure_spark_with_delta_pip(builder).getOrCreate()


def read(spark: SparkSession, request: dict) -> None:
    """Copy a table's rows to plain Parquet."""
    reader = spark.read.format("delta").options(**request.get("options", {}))
    if request.get("version") is not None:
        reader = reader.option("versionAsOf", request["version"])
    rows = reader.load(request["table"])
    if request.get("where"):
        rows = rows.where(request["where"])
    if request.get("columns"):
        rows = rows.selectExpr(*request["columns"])
    rows.coalesce(1).write.parquet(request["out"])


def write(spark: SparkSession, request: dict) -> None:
    """Write a Parquet file's rows to a table."""
    writer = spark.read.parquet(request["rows"]).write.format("delta")
    writer = writer.mode(request.get("mode", "append")).options(**request.get("options", {}))
    if request.get("partition_by"):
        writer = writer.partitionBy(*request["partition_by"])
    writer.save(request["table"])


def stream(spark: SparkSession, request: dict) -> None:
    """Read what there is of a table, each micro-batch into a folder; stop in one on purpose."""

    def batch(rows: DataFrame, number: int) -> None:
        if number == request.get("fail_at"):
            raise RuntimeError("the sink stops here, on purpose")
        rows.write.mode("overwrite").parquet(f"{request['out']}/batch={number}")

    reader = spark.readStream.format("delta").options(**request.get("options", {}))
    query = (
        reader.load(request["table"])
        .writeStream.foreachBatch(batch)
        .option("checkpointLocation", request["checkpoint"])
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination(120)
    except StreamingQueryException as error:
        if "on purpose" not in str(error):
            raise


def answer(spark: SparkSession, request: dict) -> dict:
    """Do what was asked; an error is an answer too."""
    try:
        if request["do"] == "read":
            read(spark, request)
        elif request["do"] == "write":
            write(spark, request)
        elif request["do"] == "run":
            exec(request["program"], {"spark": spark, "path": request["path"]})
        elif request["do"] == "stream":
            stream(spark, request)
        else:
            spark.sql(request["text"]).collect()
    except Exception as error:
        return {"ok": False, "error": f"{type(error).__name__}: {error}"[:20_000]}
    return {"ok": True}


def main() -> None:
    """Serve until the pipe is closed."""
    spark = start(sys.argv[1])
    print("@@" + json.dumps({"ok": True}), flush=True)
    for line in sys.stdin:
        print("@@" + json.dumps(answer(spark, json.loads(line))), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
