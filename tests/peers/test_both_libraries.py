"""Which library serves `format("delta")` if delta-spark's JAR and Bayou are both there.

The table of `docs/guide/spark.md` shows the same. The sessions run on the oldest PySpark, which is
the one that delta-spark's JAR is built for.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import DeltaSpark

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

PROGRAM = Path(__file__).with_name("both_libraries.py")
SOURCES = Path(__file__).parents[2] / "src"
JARS = """
import pathlib
pathlib.Path(path).write_text(spark.sparkContext.getConf().get("spark.jars"))
"""
EXTENSION = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


@pytest.fixture(scope="module")
def jars(delta_spark: DeltaSpark, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The session setting that puts delta-spark's JARs on the class path."""
    file = tmp_path_factory.mktemp("jars") / "jars"
    delta_spark.run(JARS, file)
    return {"spark.jars": file.read_text()}


def served_by(conf: dict[str, str], folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Which library serves each call, without and after `enable`."""
    python = os.environ["BAYOU_OLDEST_PYTHON"]
    done = subprocess.run(
        [python, str(PROGRAM), json.dumps(conf), str(folder)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={
            **{k: v for k, v in os.environ.items() if not k.startswith("SPARK")},
            "PYTHONPATH": str(SOURCES),
            "PYSPARK_PYTHON": python,
            "PYSPARK_DRIVER_PYTHON": python,
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(lines) == 2, done.stderr[-4000:]
    plain, enabled = map(json.loads, lines)
    return plain, enabled


DATA_SOURCE = {
    **dict.fromkeys(("read", "write"), "Bayou"),
    "sql": "error",
    **dict.fromkeys(("bayou.spark.DeltaTable", "bayou.spark.sql", "bayou.write"), "Bayou"),
}
"""Without delta-spark's JAR and without `enable`: Bayou's data source; Spark can't run the SQL."""
ENABLED = {**DATA_SOURCE, "sql": "Bayou", "warning": "False"}
JAR = {**DATA_SOURCE, "read": "delta-spark's error", "write": "delta-spark's error"}
JAR_AND_EXTENSION = {**DATA_SOURCE, **dict.fromkeys(("read", "write", "sql"), "delta-spark")}
REMOTE = {"remote": "local[2]"}


@pytest.mark.parametrize("session", [{}, REMOTE], ids=["classic", "connect"])
def test_bayou_serves_the_format_without_the_jar(session: dict[str, str], tmp_path: Path) -> None:
    assert served_by(session, tmp_path) == (DATA_SOURCE, ENABLED)


@pytest.mark.parametrize("session", [{}, REMOTE], ids=["classic", "connect"])
@pytest.mark.parametrize(
    ("conf", "expected"), [({}, JAR), (EXTENSION, JAR_AND_EXTENSION)], ids=["jar", "extension"]
)
def test_delta_spark_serves_the_format_with_its_jar_and_enable_warns(
    session: dict[str, str],
    conf: dict[str, str],
    expected: dict[str, str],
    jars: dict[str, str],
    tmp_path: Path,
) -> None:
    plain, enabled = served_by({**session, **jars, **conf}, tmp_path)
    assert plain == expected
    assert enabled == {**expected, "warning": "True"}
