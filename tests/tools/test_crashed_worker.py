"""A worker process of pytest that crashes, under the options that the Makefile gives to pytest."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

EXITS = ("os._exit(0)", "os.abort()")

TESTS = """
import ctypes
import os

import pytest


@pytest.mark.parametrize("number", range(20))
def test_passes(number):
    pass


def test_crashes():
    {crash}


@pytest.mark.parametrize("number", range(20))
def test_comes_after(number):
    pass
"""


def options():
    """Options of the Makefile's `PYTEST`, with two processes."""
    (line,) = re.findall(
        r"^PYTEST := .* -m pytest (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE
    )
    return shlex.split(line.replace("$(JOBS)", "2"))


@pytest.mark.process
@pytest.mark.parametrize(
    "crash",
    ["ctypes.string_at(0)", *(pytest.param(c, marks=pytest.mark.slow) for c in EXITS)],
)
def test_the_run_fails_at_once_and_names_the_test(crash, tmp_path):
    (tmp_path / "test_crash.py").write_text(TESTS.format(crash=crash))
    (tmp_path / "test_other.py").write_text("def test_passes():\n    pass\n")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options(), "--rootdir", ".", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 1
    assert "FAILED test_crash.py::test_crashes - worker" in run.stdout
