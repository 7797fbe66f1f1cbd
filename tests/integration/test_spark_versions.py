"""Each way into Spark on the oldest PySpark, whose environment `make test` brings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

TOUR = Path(__file__).with_name("spark_tour.py")
OLDEST = os.environ.get("BAYOU_OLDEST_PYTHON")
"""Without it the tour is taken on the PySpark that is here."""


@pytest.mark.timeout(600)
def test_each_way_into_spark_works(tmp_path):
    python = OLDEST or sys.executable
    home = str(Path(python).parents[1] / "spark-home")
    outcome = subprocess.run(
        [python, str(TOUR), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={
            **{k: v for k, v in os.environ.items() if not k.startswith("SPARK")},
            "PYSPARK_PYTHON": python,
            "PYSPARK_DRIVER_PYTHON": python,
            "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            **({"SPARK_HOME": home} if Path(home).is_dir() else {}),
        },
    )
    assert outcome.returncode == 0, outcome.stderr[-4000:]
    assert outcome.stdout.startswith("toured 4.2" if OLDEST else "toured 4.")
