"""A stock session: nothing registered, nothing configured, the environment not activated."""

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.spark


def run(program, tmp_path, **environment):
    outcome = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "t")],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
            "SPARK_LOCAL_IP": "127.0.0.1",
            **environment,
        },
    )
    assert outcome.returncode == 0, outcome.stderr[-3000:]
    return outcome.stdout.splitlines()


def test_a_session_that_knows_nothing_of_bayou_reads_and_writes_delta(tmp_path):
    program = """
        import sys
        from pyspark.sql import SparkSession

        spark = SparkSession.builder.master("local[2]").getOrCreate()
        spark.range(5).write.format("delta").mode("append").save(sys.argv[1])
        print(spark.read.format("delta").load(sys.argv[1]).where("id > 2").count())
        print("bayou" in sys.modules)
        spark.stop()
    """
    assert run(program, tmp_path, PYSPARK_PYTHON=sys.executable) == ["2", "False"]
