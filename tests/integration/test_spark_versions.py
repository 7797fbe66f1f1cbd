"""Each way into Spark on the newest PySpark and on the oldest, whose environment `make` brings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

TOUR = Path(__file__).with_name("spark_tour.py")
OLDEST = os.environ.get("BAYOU_OLDEST_PYTHON")
PYTHONS = {"newest": sys.executable} | ({"oldest": OLDEST} if OLDEST else {})


@pytest.mark.parametrize("version", PYTHONS)
def test_each_way_into_spark_works(tmp_path, version):
    python = PYTHONS[version]
    outcome = subprocess.run(
        [python, str(TOUR), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python},
    )
    assert outcome.returncode == 0, outcome.stderr[-4000:]
    assert outcome.stdout.startswith("toured 4.3" if version == "newest" else "toured 4.2")
