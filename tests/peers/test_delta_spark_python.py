"""delta-spark's own tests of its Python API pass with Bayou behind its module names.

The tests aren't part of this repository: they are read from a clone of delta-spark's repository,
the folder in `BAYOU_DELTA_SOURCES`. Without the variable, the release is cloned once into the cache
folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

RELEASE = "v4.4.0"
REPOSITORY = "https://github.com/delta-io/delta"
SHIM = Path(__file__).parent / "delta_shim"
FILES = ("test_deltatable.py", "test_sql.py")
"""The tests that work by path or name. The other files test the JAR, or delta-spark's package."""
NUM_TESTS = 52
OF_DELTA_SPARK_ITSELF = {
    "test_verify_paritionedBy_compatibility": "calls the builder in the JVM",
    "test_dropFeatureSupport": "drops a table feature that only delta-spark's tests have",
}
"""Tests that can't pass without delta-spark's JAR."""
DIFFERENT = {
    "test_optimize_w_partition_filter": "expects Catalyst's form of a predicate in the history",
}
"""Tests of the other 50 that fail; the page for users of delta-spark has the difference."""


def sources() -> Path:
    """The folder of a clone of delta-spark's repository that has the release."""
    named = os.environ.get("BAYOU_DELTA_SOURCES")
    if named:
        return Path(named)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "bayou" / f"delta-{RELEASE}"
    if not folder.is_dir():
        command = ["git", "clone", "--quiet", "--bare", "--depth", "1", "--branch", RELEASE]
        done = subprocess.run(
            [*command, REPOSITORY, str(folder)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (
            f"{REPOSITORY} can't be cloned: {done.stderr}Set BAYOU_DELTA_SOURCES to a clone."
        )
    return folder


def source(clone: Path, file: str) -> str:
    command = ["git", "-C", str(clone), "show", f"{RELEASE}:python/delta/tests/{file}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.timeout(900)
def test_the_tests_of_delta_sparks_python_api_pass(tmp_path: Path) -> None:
    clone = sources()
    for file in FILES:
        (tmp_path / file).write_text(source(clone, file))
    report = tmp_path / "report.xml"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, f"--junitxml={report}", *FILES],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(SHIM), *(p for p in sys.path if p)]),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "TZ": "UTC",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    cases = list(ET.parse(report).iter("testcase"))  # written by pytest, above
    failed = {str(case.get("name")) for case in cases if len(case.findall("./*[@message]"))}
    print(f"{len(cases) - len(failed)} of {len(cases)} pass; not: {sorted(failed)}")
    assert len(cases) == NUM_TESTS, done.stdout[-4000:]
    assert failed == {*OF_DELTA_SPARK_ITSELF, *DIFFERENT}, done.stdout[-20_000:]
