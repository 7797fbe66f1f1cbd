"""A standalone cluster of two workers: executors share no memory with the driver."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
import uuid

import pytest
from confluent_kafka import Producer

import bayou

pytestmark = pytest.mark.spark

PROGRAM = """
    import json
    import sys
    import warnings

    warnings.simplefilter("ignore")
    from bayou.engines.arrow import ArrowEngine
    from bayou.kernel import Table
    from bayou.spark import DistributedScanBuilder, start_session, state_reconstruction

    url, path, conf = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    spark = start_session("cluster", conf, master=url, time_zone="UTC")
    spark.range(0, 1000, 1, 4).write.format("delta").mode("append").save(path)
    spark.range(1000, 1500, 1, 2).write.format("delta").mode("append").save(path)
    rows = spark.read.format("delta").load(path)
    print("rows", rows.count(), "sum", rows.selectExpr("sum(id)").first()[0])

    engine = ArrowEngine()
    table = Table.for_path(engine, path)
    table.checkpoint(engine, 1)
    spark.range(1500, 1600, 1, 3).write.format("delta").mode("append").save(path)
    snapshot = table.latest_snapshot(engine)

    def paths(scan):
        return [f.path for batch in scan.scan_files(engine) for f in batch.rows()]

    serial = sorted(paths(snapshot.scan_builder().build()))
    builder = DistributedScanBuilder(spark, snapshot, 3)
    print("slices", sorted(paths(builder.build())) == serial)
    print("sorted", len(paths(builder.with_sort_key().build())) == len(serial))
    spark.conf.set("bayou.replay.windowBytes", "0")
    print("window", sorted(paths(builder.build())) == serial)
    print("frame", state_reconstruction(spark, snapshot, 3).count() == len(serial))
    if conf:
        executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()
        print("executors", executors - 1)
    spark.stop()
"""


READERS = """
    import bayou
    from pyspark.sql import functions

    dv = path + "-dv"

    def write(frame):
        return frame.write.format("delta")

    def rows_of(where):
        return sorted((r["id"], r["part"]) for r in bayou.table(where).to_arrow().to_pylist())

    columns = "id", "id % 4 AS part", "named_struct('x', id) AS s"
    made = write(spark.range(0, 400, 1, 4).selectExpr(*columns)).partitionBy("part")
    made = made.option("delta.enableDeletionVectors", "true")
    made = made.option("delta.columnMapping.mode", "name")
    made.save(dv)
    made.mode("ignore").save(dv)
    from bayou.kernel.checkpoint.parts import plan_checkpoint, write_checkpoint_part
    from bayou.spark import DeltaTable

    plan = plan_checkpoint(engine, path, max_parts=1)
    plan.finish(engine, [write_checkpoint_part(engine, part) for part in plan.parts])
    spark.range(1600, 1610, 1, 1).write.format("delta").mode("append").save(path)
    spark.conf.set("bayou.checkpoint.localBytes", "0")
    print("checkpoint", DeltaTable.forPath(spark, path).checkpoint())
    behind = table.latest_snapshot(engine).log_segment.checkpoint
    print("parts", behind.version, len(behind.files))
    print("deleted", bayou.table(dv).delete("id % 10 = 3").num_deleted_rows)
    few = spark.range(1000, 1010, 1, 2).selectExpr("id", "1L AS part", "named_struct('x', id) AS s")
    write(few).mode("overwrite").option("replaceWhere", "part = 1").save(dv)
    two = few.withColumn("part", functions.lit(2).cast("long"))
    write(two).mode("overwrite").option("partitionOverwriteMode", "dynamic").save(dv)
    write(few.limit(3).withColumn("extra", functions.lit("x"))).mode("append").option(
        "mergeSchema", "true"
    ).save(dv)
    for reader in ("native", "source"):
        spark.conf.set("spark.bayou.reader", reader)
        read = spark.read.format("delta").load(dv)
        scan = "FileScan parquet" in read._jdf.queryExecution().executedPlan().toString()
        rows = sorted((r.id, r.part) for r in read.collect())
        some = read.where("part = 3 AND s.x < 100").count()
        print(reader, scan, rows == rows_of(dv), len(rows), some)
    spark.conf.unset("spark.bayou.reader")

    from bayou.spark import DeltaTable

    things, mod = DeltaTable.forPath(spark, dv), functions.udf(lambda n: n % 2 == 0, "boolean")
    spark.conf.set("bayou.rowOperations.localBytes", "0")
    things.update("part = 3 AND id < 20", {"s": "named_struct('x', -1L)"})
    things.delete(mod("id") & functions.expr("part = 0 AND id > 300"))
    source = spark.range(396, 404).selectExpr("id", "id % 4 AS part", "named_struct('x', 0L) AS s")
    for size in ("0", str(1 << 20)):
        spark.conf.set("bayou.rowOperations.sourceBytes", size)
        merging = things.alias("t").merge(source.alias("u"), "t.id = u.id AND t.part = u.part")
        merging = merging.whenMatchedUpdate(set={"s": "u.s"})
        merging.whenNotMatchedInsert(values={"id": "u.id", "part": "u.part", "s": "u.s"}).execute()
    spark.conf.set("bayou.optimize.localBytes", "0")
    things.optimize().executeCompaction()
    metrics = [row.operationMetrics for row in things.history(5).collect()]
    names = "numUpdatedRows", "numDeletedRows", "numTargetRowsInserted", "numTargetRowsUpdated"
    print("changed", [[m[n] for n in names if n in m] for m in reversed(metrics)])
    print("rows", things.toDF().where("s.x <= 0").count(), rows_of(dv) == sorted(
        tuple(r) for r in things.toDF().select("id", "part").collect()
    ))

    copy = path + "-copy"
    for more in range(2):
        stream = spark.readStream.format("delta").option("maxFilesPerTrigger", 3).load(dv)
        query = (
            stream.writeStream.format("delta")
            .option("checkpointLocation", path + "-checkpoint")
            .trigger(availableNow=True)
            .start(copy)
        )
        query.awaitTermination(120)
        print("streamed", rows_of(copy) == rows_of(dv), query.lastProgress["batchId"] > 0)
        write(few.withColumn("extra", functions.lit("y"))).mode("append").save(dv)
    spark.stop()
"""


REPLAYED = ["rows 1500 sum 1124250", "slices True", "sorted True", "window True", "frame True"]
"""What PROGRAM prints wherever it runs."""


def run(url: str, path: str, conf: dict[str, str], program: str = PROGRAM) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), url, path, json.dumps(conf)],
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


def test_replay_reads_and_writes_run_on_a_cluster(spark_cluster, tmp_path):
    path = str(tmp_path / "t")
    assert run(spark_cluster.url, path, spark_cluster.conf) == [*REPLAYED, "executors 2"]
    assert bayou.table(path).to_arrow().num_rows == 1600


@pytest.mark.slow
def test_row_operations_checkpoints_and_streams_run_on_a_cluster(spark_cluster, tmp_path):
    path = str(tmp_path / "t")
    program = PROGRAM.replace("    spark.stop()\n", "") + READERS
    assert run(spark_cluster.url, path, spark_cluster.conf, program) == [
        *REPLAYED,
        "executors 2",
        "checkpoint 3",
        "parts 3 3",
        "deleted 40",
        "native True True 203 20",
        "source False True 203 20",
        "changed [['4'], ['24'], ['7', '1'], ['0', '8'], []]",
        "rows 13 True",
        "streamed True True",
        "streamed True True",
    ]
    assert bayou.table(path).to_arrow().num_rows == 1610


PACKED = """
    import json
    import os
    import sys

    import pyarrow as pa
    from bayou.spark import start_session

    def marks(batches):
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"mark": [os.environ.get("MARK", "none")]})

    url, archive, conf = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    conf["spark.archives"] = archive + "#environment"
    conf["spark.pyspark.python"] = "./environment/bin/python"
    spark = start_session("packed", conf, master=url)
    rows = spark.range(0, 4, 1, 2).mapInArrow(marks, "mark string").distinct().collect()
    print([row.mark for row in rows])
    spark.stop()
"""


def packed_environment(folder):
    """Return the path of an archive with `bin/python`, which sets MARK and runs this Python."""
    python = folder / "packed" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nMARK=packed exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return shutil.make_archive(str(folder / "environment"), "gztar", folder / "packed")


def test_workers_run_the_python_of_a_packed_environment(spark_cluster, tmp_path):
    archive = packed_environment(tmp_path)
    assert run(spark_cluster.url, archive, spark_cluster.conf, PACKED) == ["['packed']"]


@pytest.mark.usefixtures("connect_port")
@pytest.mark.slow
def test_replay_runs_through_spark_connect(tmp_path):
    path = str(tmp_path / "t")
    program = PROGRAM.replace(
        'start_session("cluster", conf, master=url, time_zone="UTC")',
        "SparkSession.builder.remote(url).getOrCreate()",
    ).replace("import warnings", "import warnings\n    from pyspark.sql import SparkSession", 1)
    assert run("local[2]", path, {}, program) == REPLAYED


PIPELINE = """\
connector:
  kafka: {{bootstrap-servers: "{servers}"}}
  spark: {conf}
  topics:
    events:
      kafka-topic: {topic}
      destination: {{table-path: lake/events}}
      processing: {{batch-size: 700}}
    keyed:
      kafka-topic: {topic}
      destination:
        table-path: lake/keyed
        key-columns: [key]
        delta-config: {{enable-upsert: true}}
"""


@pytest.mark.slow
@pytest.mark.parametrize("environment", ["installed", "packed"])
def test_a_pipeline_moves_to_a_cluster_by_its_master(
    spark_cluster, kafka_server, tmp_path, environment
):
    topic = f"cluster-{uuid.uuid4().hex[:8]}"
    kafka_server.create_topic(topic, 4)
    producer = Producer({"bootstrap.servers": kafka_server.bootstrap_servers})
    for number in range(2_000):
        value = json.dumps({"id": number, "key": number % 300}).encode()
        producer.produce(topic, value, partition=number % 4)
    assert producer.flush(30) == 0
    conf = dict(spark_cluster.conf)
    if environment == "packed":
        conf["spark.archives"] = f"{packed_environment(tmp_path)}#environment"
        conf["spark.pyspark.python"] = "./environment/bin/python"
    (tmp_path / "pipeline.yaml").write_text(
        PIPELINE.format(servers=kafka_server.bootstrap_servers, conf=json.dumps(conf), topic=topic)
    )
    before = spark_cluster.applications
    master = f"connector.spark.master={spark_cluster.url}"
    command = ("run", "pipeline.yaml", "--once", "--set", master)
    done = subprocess.run(
        [sys.executable, "-m", "bayou.cli", *command],
        capture_output=True,
        text=True,
        check=False,
        timeout=800,
        cwd=tmp_path,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = bayou.table(str(tmp_path / "lake" / "events")).to_arrow(columns=["id"])
    assert sorted(rows.column("id").to_pylist()) == list(range(2_000))
    assert bayou.table(str(tmp_path / "lake" / "keyed")).to_arrow().num_rows == 300
    assert len(spark_cluster.applications - before) == 1
