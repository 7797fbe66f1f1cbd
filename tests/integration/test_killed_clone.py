"""SIGKILL while a deep clone copies files leaves no clone, or the old one, never a part of one."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

import bayou
from bayou.errors import TableNotFoundError

pytestmark = [pytest.mark.process, pytest.mark.slow]

_FILES = 40
_CLONE = (
    "import sys, bayou; bayou.table(sys.argv[1]).clone(sys.argv[2], shallow=False, replace=True)"
)


def append_files(path: str, first: int, count: int) -> None:
    for number in range(first, first + count):
        noise = [os.urandom(50) for _ in range(20_000)]
        bayou.write(path, pa.table({"id": [number] * 20_000, "noise": noise}))


def kill_after(source: str, target: str, files: int) -> None:
    """Start a clone, and kill its process when the target's folder has so many data files."""
    process = subprocess.Popen([sys.executable, "-c", _CLONE, source, target])
    try:
        while process.poll() is None and len(list(Path(target).glob("*.parquet"))) < files:
            time.sleep(0.0005)
    finally:
        process.kill()
        process.wait()


def test_a_killed_clone_is_repeated(tmp_path: Path) -> None:
    source = str(tmp_path / "source")
    append_files(source, 0, _FILES)
    rows = bayou.table(source).count()
    for files in range(1, _FILES, 5):
        target = str(tmp_path / f"clone-{files}")
        kill_after(source, target, files)
        try:
            assert bayou.table(target).count() == rows
        except TableNotFoundError:
            bayou.table(source).clone(target, shallow=False)
        assert bayou.table(target).to_arrow().sort_by("id").num_rows == rows
        bayou.table(target).vacuum(0, enforce_retention_duration=False, dry_run=False)
        assert len(list(Path(target).glob("*.parquet"))) == _FILES


def test_a_killed_repetition_leaves_the_clone_as_it_was(tmp_path: Path) -> None:
    source, target = str(tmp_path / "source"), str(tmp_path / "clone")
    append_files(source, 0, 5)
    bayou.table(source).clone(target, shallow=False)
    for round_ in range(1, 5):
        before = bayou.table(target).count()
        append_files(source, 5 + 10 * round_, 10)
        existing = len(list(Path(target).glob("*.parquet")))
        kill_after(source, target, existing + 2 * round_)
        assert bayou.table(target).count() in (before, bayou.table(source).count())
        bayou.table(source).clone(target, shallow=False, replace=True)
        assert bayou.table(target).count() == bayou.table(source).count()
