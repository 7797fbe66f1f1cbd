"""A stream of a table on S3 into another one, with the store's options, restarted in between."""

import json
import os
import subprocess
import sys
import textwrap

import pyarrow as pa
import pytest

import bayou

pytestmark = pytest.mark.spark

PROGRAM = """
    import json
    import sys

    from pyspark.sql import SparkSession

    source, target, checkpoint = sys.argv[1:4]
    options = json.loads(sys.argv[4])
    spark = SparkSession.builder.master("local[2]").getOrCreate()
    for rate in (2, 100):
        query = (
            spark.readStream.format("delta")
            .options(maxFilesPerTrigger=rate, schemaTrackingLocation=source + "-log", **options)
            .load(source)
            .writeStream.format("delta")
            .options(checkpointLocation=checkpoint, **options)
            .trigger(availableNow=True)
            .start(target)
        )
        query.awaitTermination(120)
        spark.range(10, 13).write.format("delta").mode("append").options(**options).save(source)
    print(query.lastProgress["batchId"])
    spark.stop()
"""


@pytest.mark.slow
def test_a_stream_reads_and_writes_tables_on_s3(s3_server, bucket, tmp_path):
    source, target = f"s3://{bucket}/source", f"s3://{bucket}/target"
    storage = dict(s3_server.storage_options)
    for number in range(5):
        rows = pa.table({"id": [number]})
        bayou.write(source, rows, mode="append", storage_options=storage)
    options = {name.lower(): value for name, value in storage.items()}
    program = textwrap.dedent(PROGRAM)
    run = subprocess.run(
        [
            sys.executable,
            "-c",
            program,
            source,
            target,
            str(tmp_path / "checkpoint"),
            json.dumps(options),
        ],
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
    )
    assert run.stdout.splitlines() == ["3"], run.stderr[-3000:]
    found = bayou.table(target, storage_options=storage).to_arrow().column("id").to_pylist()
    assert sorted(found) == [0, 1, 2, 3, 4, 10, 11, 12]
