"""Micro-batches as delta-spark cuts them: every recorded trace, row by row and offset by offset."""

import os
import re
import subprocess
import sys

import conformance
import pytest

pytestmark = pytest.mark.spark

EMPTY_FIRST_BATCH = "starting-version-latest"
"""Spark gives a Python source no way to say that there is no first offset yet: its batch 0 is
empty where delta-spark waits."""

_COMPLAINT = re.compile(r"^.*(?:ERROR|Exception|Caused by|Error:).*$", re.MULTILINE)


@pytest.mark.timeout(900)
def test_all_traces_of_delta_sparks_source_are_replayed():
    sets = conformance.folder()
    assert sets is not None
    run = subprocess.run(
        [
            sys.executable,
            str(sets / "streaming" / "run_streaming_traces.py"),
            "--impl",
            "bayou",
            "--strict-errors",
        ],
        capture_output=True,
        text=True,
        timeout=850,
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
    )
    failed = re.findall(r"^FAIL (\S+)", run.stdout, re.MULTILINE)
    said = "\n".join(_COMPLAINT.findall(run.stderr))
    assert failed == [EMPTY_FIRST_BATCH], run.stdout[-4000:] + said[-8000:]
    assert re.search(r"^passed 39 of 40 cases", run.stdout, re.MULTILINE)
