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
        timeout=800,
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_enable_makes_up_for_an_environment_that_is_not_activated(tmp_path):
    """Workers would run `python3` of the PATH, which has none of the packages."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "python3").write_text("#!/bin/sh\necho a Python without packages >&2\nexit 1\n")
    (folder / "python3").chmod(0o755)
    program = """
        import os
        import sys

        os.environ.pop("PYSPARK_PYTHON", None)
        from pyspark.sql import SparkSession

        from bayou import spark as bayou_spark

        spark = SparkSession.builder.master("local[2]").getOrCreate()
        bayou_spark.enable(spark)
        bayou_spark.enable(spark)
        spark.range(5).write.format("delta").mode("append").save(sys.argv[1])
        print(spark.read.format("delta").load(sys.argv[1]).where("id > 2").count())
        spark.stop()
    """
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    assert run(program, tmp_path, PATH=path) == ["2"]
