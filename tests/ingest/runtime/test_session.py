"""What is said where Spark can't start."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from bayou.errors import PrerequisiteError
from bayou.ingest.runtime.session import pipeline_session

START = """\
import json, pathlib, sys
from bayou.errors import BayouError
from bayou.ingest.runtime.session import pipeline_session
try:
    pipeline_session(pathlib.Path(sys.argv[1]), master="local[1]", conf=json.loads(sys.argv[2]))
except BayouError as error:
    print(f"{type(error).__name__}: {error.message}")
"""

WORKER = """\
import gc, json, pathlib, sys
from bayou.ingest.runtime.session import pipeline_session
spark = pipeline_session(pathlib.Path(sys.argv[1]), master="local[1]", conf={})
def state(_):
    import pyspark.daemon
    return gc.get_freeze_count(), pyspark.daemon.__file__
(found,) = spark.sparkContext.parallelize([0], 1).map(state).collect()
print(json.dumps(found))
spark.stop()
"""


@pytest.fixture
def taken_port():
    with socket.socket() as there:
        there.bind(("127.0.0.1", 0))
        there.listen()
        yield there.getsockname()[1]


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(
    "setting", ["spark.ui.port", "spark.driver.port", "spark.blockManager.port"]
)
def test_a_taken_port_is_one_sentence_that_names_it(tmp_path, taken_port, setting):
    conf = {setting: str(taken_port), "spark.port.maxRetries": "0"}
    if setting == "spark.ui.port":
        conf["spark.ui.enabled"] = "true"
    run = subprocess.run(
        [sys.executable, "-c", START, tmp_path / "state", json.dumps(conf)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout == (
        f"PrerequisiteError: Spark doesn't start: port {taken_port} is in use by another process. "
        f"Stop that process, or set {setting} to a free port in connector.spark.\n"
    )
    assert run.stderr == ""


def test_a_log_that_cannot_be_made_names_the_state_path_and_what_to_do(tmp_path):
    (tmp_path / "spark.log").mkdir()
    with pytest.raises(PrerequisiteError) as caught:
        pipeline_session(tmp_path, master=None, conf={})
    assert caught.value.message == (
        f"The state path {tmp_path / 'spark.log'} can't be used: Is a directory. Move this folder "
        "away, because its path must be a file, or set connector.state-path."
    )


@pytest.mark.slow
@pytest.mark.spark
def test_workers_import_the_installed_pyspark_and_freeze_the_imported_modules(tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", WORKER, tmp_path / "state"],
        env={name: value for name, value in os.environ.items() if name != "SPARK_HOME"},
        capture_output=True,
        text=True,
        check=True,
    )
    frozen, daemon = json.loads(run.stdout)
    assert frozen > 10_000  # Spark's collection after each task doesn't visit them
    assert Path(daemon).samefile(Path(pyspark.__file__).with_name("daemon.py"))  # no pyspark.zip
