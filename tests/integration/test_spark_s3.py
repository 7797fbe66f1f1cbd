"""Spark over tables on a real S3 server, the store told by environment, session conf or options."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

_LOGGING = """
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c{1}: %m%n%ex
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = info
"""

_PROGRAM = """
import json, logging, sys, time

import bayou, bayou.spark
from bayou.engines import for_path
from bayou.kernel import Table
from bayou.spark import DistributedScanBuilder, initial_snapshot_for_streaming
from pyspark.sql import SparkSession, functions as F

logging.basicConfig(level=logging.INFO)
bucket, folder, told = sys.argv[1], sys.argv[2], sys.argv[3]
storage, conf = json.loads(sys.argv[4]), json.loads(sys.argv[5])
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
logged = f"-Dlog4j2.configurationFile=file:{folder}/log4j2.properties"
builder = builder.config("spark.driver.extraJavaOptions", logged)
for key, value in conf.items():
    if "key" not in key:
        builder = builder.config(key, value)
spark = builder.config("spark.sql.warehouse.dir", folder + "/warehouse").getOrCreate()
bayou.spark.enable(spark)
for key, value in conf.items():
    if "key" in key:
        spark.conf.set(key, value)

def say(*what):
    print("=>", *what, flush=True)

def write(frame):
    return frame.write.format("delta")

def read(path, **options):
    return spark.read.format("delta").options(**options).load(path)

path, copy, named = (f"s3a://{bucket}/{n}" for n in ("t", "copy", "named"))
rows = spark.range(0, 90, 1, 3).selectExpr("id", "id % 3 AS part")
write(rows).partitionBy("part").option("delta.enableDeletionVectors", "true").save(path)
write(rows.where("id < 9")).mode("append").save(path)
write(rows.where("part = 1")).mode("overwrite").option("replaceWhere", "part = 1").save(path)
bayou.table(path, storage_options=storage).delete("id = 5")

frame = read(path).where("part < 2")
frame.explain("extended")
frame._jdf.queryExecution().analyzed().toJSON()
print(frame._jdf.queryExecution().analyzed().toJSON(), frame._jdf.queryExecution().toString())
say("rows", read(path).count(), "some", frame.count(), "sum", frame.agg(F.sum("id")).first()[0])
say("old", read(f"s3://{bucket}/t", versionAsOf=0).count())
spark.conf.set("spark.bayou.reader", "native")
say("native", read(path).count(), "FileScan" in read(path)._jdf.queryExecution().toString())
spark.conf.unset("spark.bayou.reader")

stream = spark.readStream.format("delta").option("maxFilesPerTrigger", 3).load(path)
writer = stream.writeStream.format("delta").option("checkpointLocation", folder + "/c")
query = writer.trigger(availableNow=True).partitionBy("part").start(copy)
query.awaitTermination(120)
query.explain(True)
print(query.lastProgress)
say("streamed", read(copy).count())

sql = bayou.spark.sql
say("sql", sql(spark, f"SELECT count(*) FROM delta.`{path}` VERSION AS OF 1").first()[0])
say("history", sql(spark, f"DESCRIBE HISTORY delta.`{path}`").count())
say("detail", sql(spark, f"DESCRIBE DETAIL delta.`{path}`").first().numFiles)
rows.write.format("delta").option("path", named).saveAsTable("named")
rows.write.format("delta").insertInto("named")
say("named", spark.table("named").count())

engine = for_path(path, storage)
snapshot = Table.for_path(engine, path).latest_snapshot(engine)
say("frame", initial_snapshot_for_streaming(spark, snapshot, 2).count())
scan = DistributedScanBuilder(spark, snapshot, 2).with_sort_key().build()
say("scan", sum(b.num_selected for b in scan.scan_files(engine)))

for number in range(3):
    engine.files.put(f"{snapshot.path}/part={number}/forgotten", b"x")
time.sleep(1)  # S3 truncates times to seconds, and a vacuum keeps files of its second
spark.conf.set("bayou.vacuum.localFiles", "0")
spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
bayou.spark.DeltaTable.forPath(spark, path).vacuum(0)
left = [f.path for f in engine.files.list_tree(snapshot.path, lambda f: f.endswith("_log"))]
named = {f.status.path for batch in scan.scan_files(engine) for f in batch.rows()}
vectors = sum(name.endswith(".bin") for name in left)
say("vacuumed", set(left) >= named, len(left) - len(named) - vectors, read(path).count())
def change_rows():
    DeltaTable = bayou.spark.DeltaTable
    things = DeltaTable.forPath(spark, copy)
    is_even = F.udf(lambda n: n % 2 == 0, "boolean")
    fresh = spark.range(80, 100).selectExpr("id", "id % 3 AS part")
    for local, source in (("1000000", "1000000"), ("0", "1000000"), ("0", "0")):
        spark.conf.set("bayou.rowOperations.localBytes", local)
        spark.conf.set("bayou.rowOperations.sourceBytes", source)
        merging = things.alias("t").merge(fresh.alias("s"), "t.id = s.id")
        merging = merging.whenMatchedDelete("s.id < 83").whenMatchedUpdateAll()
        done = merging.whenNotMatchedInsertAll("s.id > 80").execute().first()
        say("merged", *done)
    things.delete(is_even("id") & (F.col("part") == 1))
    things.update("id = 3", {"part": "id + 100"})
    say("changed", things.toDF().count(), things.toDF().where("part = 103").count())
    say("packed", things.optimize().executeCompaction().first().metrics.numFilesRemoved > 0)
    spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    say("kept", things.vacuum().columns, things.detail().first().location.split(":")[0])
    things.restoreToVersion(things.history().where("operation = 'MERGE'").first().version)
    say("restored", things.toDF().count())

if told == "conf":
    change_rows()

for doing in (lambda: read(path + "/nothing").count(), lambda: write(rows).save(path)):
    try:
        doing()
    except Exception as error:
        print(error)
        say("error", type(error).__name__)
if told == "conf":  # another session knows nothing of this one's keys
    other = spark.newSession()
    options = {k.lower(): v for k, v in storage.items()}
    try:
        wrong = {**options, "aws_secret_access_key": "wrong"}
        other.read.format("delta").options(**wrong).load(path).count()
    except Exception as error:
        print(error)
        say("wrong", "refused the credentials" in str(error))
    few = other.range(3).selectExpr("id", "1L AS part").write.format("delta").options(**options)
    few.mode("append").save(path)
    say("options", other.read.format("delta").options(**options).load(path).count())
spark.stop()
"""


_CHANGED = (
    "merged 20 7 3 10",
    "merged 19 17 0 2",
    "merged 19 17 2 0",
    "changed 86 2",
    "packed True",
    "kept [] s3",
    "restored 101",
)


@pytest.mark.parametrize("told", ["environment", pytest.param("conf", marks=pytest.mark.slow)])
def test_tables_on_s3_are_read_written_and_streamed(s3_server, bucket, tmp_path, told):
    storage = s3_server.storage_options
    conf = {
        "spark.hadoop.fs.s3a.endpoint": s3_server.endpoint.removeprefix("http://"),
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.endpoint.region": s3_server.REGION,
        f"spark.hadoop.fs.s3a.bucket.{bucket}.access.key": s3_server.access_key,
        f"spark.hadoop.fs.s3a.bucket.{bucket}.secret.key": s3_server.secret_key,
    }
    done = _run(
        tmp_path,
        *(bucket, str(tmp_path), told, json.dumps(storage)),
        json.dumps(conf if told == "conf" else {}),
        environment=storage if told == "environment" else {},
    )
    said = [line[3:] for line in done.stdout.splitlines() if line.startswith("=> ")]
    assert said == [
        "rows 94 some 63 sum 2649",
        "old 90",
        "native 94 False",
        "streamed 94",
        "sql 99",
        "history 4",
        "detail 11",
        "named 180",
        "frame 11",
        "scan 11",
        "vacuumed True 0 94",
        *(_CHANGED if told == "conf" else ()),
        "error TableNotFoundError",
        "error TableAlreadyExistsError",
        *(("wrong True", "options 97") if told == "conf" else ()),
    ], done.stderr[-6000:]
    (warning,) = [line for line in done.stderr.splitlines() if "WARNING:bayou" in line]
    assert "org.apache.hadoop:hadoop-aws" in warning
    assert "INFO DAGScheduler" in done.stderr
    for place, text in (("stdout", done.stdout), ("stderr", done.stderr)):
        assert s3_server.secret_key not in text, place


def _run(
    folder: Path, *arguments: str, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    (folder / "log4j2.properties").write_text(_LOGGING)
    kept = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(_PROGRAM), *arguments],
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
        cwd=folder,
        env={
            **kept,
            **environment,
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
    )
