"""SIGKILL at every write and every delete of upkeep: the table reads on, and the work is repeated.

Each run is a process of its own that kills itself before or after its n-th call to the store.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.kernel import Table
from bayou.kernel.upkeep.cleanup import clean_up_log
from bayou.kernel.upkeep.compaction import compact_log

DAY = 86_400

_KILLED = """
import os, signal, sys
from bayou.engines.arrow import ArrowEngine
from bayou.engines.arrow.files import ArrowFiles
from bayou.engines.arrow.local_files import LocalOutput

work, table, calls, after = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "after"
left = calls

def due():
    global left
    left -= 1
    return left == 0

def die():
    os.kill(os.getpid(), signal.SIGKILL)

class Files(ArrowFiles):
    def _around(self, call, *arguments):
        now = due()
        if now and not after:
            die()
        done = call(*arguments)
        if now:
            die()
        return done

    def put(self, path, data):
        return self._around(super().put, path, data)

    def put_if_absent(self, path, data):
        return self._around(super().put_if_absent, path, data)

    def open_output(self, path):
        output = super().open_output(path)
        if due():  # what is written comes later
            output.write(b"cut off")
            die()
        return output

    def delete_files(self, paths):
        for path in paths:
            self._around(super().delete_files, [path])

engine = ArrowEngine(files=Files())
if work == "checkpoint":
    from bayou.kernel.upkeep.checkpoint import checkpoint
    checkpoint(engine, table)
elif work == "parts":
    from bayou.kernel.upkeep.checkpoint_parts import plan_checkpoint, write_checkpoint_part
    plan = plan_checkpoint(engine, table, max_parts=3)
    plan.finish(engine, [write_checkpoint_part(engine, part) for part in plan.parts])
elif work == "compaction":
    from bayou.kernel.upkeep.compaction import compact_log
    compact_log(engine, table, 1, 4)
elif work == "cleanup":
    from bayou.kernel.upkeep.cleanup import clean_up_log
    clean_up_log(engine, table, retention_ms=0)
else:
    from bayou.kernel.operations.vacuum import vacuum
    vacuum(engine, table, 0, enforce_retention_duration=False)
print("done", calls - left)
"""


@pytest.fixture(scope="module", params=["classic", "v2"])
def original(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with old commits, a checkpoint, and files that nothing needs."""
    path = tmp_path_factory.mktemp("table") / "t"
    properties = {
        "delta.checkpointPolicy": request.param,
        "delta.checkpoint.writeStatsAsStruct": "true",
        "delta.checkpointInterval": "3",
        "delta.enableExpiredLogCleanup": "false",
    }
    for i in range(7):
        mode = "overwrite" if i == 4 else "append"
        rows = pa.table({"id": [i * 10 + k for k in range(3)]})
        bayou.write(path, rows, mode=mode, properties=properties if i == 0 else None)
    for file in path.rglob("*"):
        if file.is_file():
            at = time.time() - 10 * DAY
            os.utime(file, (at, at))
    return path


def state(path: Path) -> list[int]:
    return sorted(bayou.table(path).to_arrow()["id"].to_pylist())


def run(work: str, table: Path, calls: int, when: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _KILLED, work, str(table), str(calls), when],
        check=False,
        capture_output=True,
        text=True,
    )


@pytest.mark.timeout(300)
@pytest.mark.parametrize("work", ["checkpoint", "parts", "compaction", "cleanup", "vacuum"])
def test_a_table_reads_on_wherever_upkeep_was_killed(
    original: Path, tmp_path: Path, work: str
) -> None:
    before = state(original)
    whole = tmp_path / "whole"
    shutil.copytree(original, whole)
    finished = run(work, whole, 0, "before")
    assert finished.returncode == 0, finished.stderr
    total = int(finished.stdout.split()[1])
    assert total >= 1
    assert state(whole) == before
    # Every one, or the ends and the middle.
    moments = range(1, total + 1) if total <= 4 else (1, 2, total // 2, total)
    for number in moments:
        when = "after" if number % 2 else "before"
        table = tmp_path / f"{work}{number}"
        shutil.copytree(original, table)
        killed = run(work, table, number, when)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert state(table) == before
        for version in readable(table):
            bayou.table(table).to_arrow(version=version, columns=["id"], limit=0)
        again = run(work, table, 0, "before")
        assert again.returncode == 0, again.stderr
        assert state(table) == before
        bayou.write(table, pa.table({"id": [999]}))
        assert state(table) == sorted([*before, 999])


def readable(table: Path) -> list[int]:
    """Versions from the earliest that can be rebuilt on."""
    snapshot = Table.for_path(ArrowEngine(), str(table)).latest_snapshot(ArrowEngine())
    checkpoint = snapshot.log_segment.checkpoint
    first = 0 if checkpoint is None else checkpoint.version
    return list(range(first, snapshot.version + 1))


def test_upkeep_of_all_kinds_one_after_another(original: Path, tmp_path: Path) -> None:
    table = tmp_path / "t"
    shutil.copytree(original, table)
    before = state(table)
    engine = ArrowEngine()
    bayou.table(table).checkpoint()
    compact_log(engine, str(table), 1, 4)
    assert clean_up_log(engine, str(table), retention_ms=0).deleted
    bayou.table(table).vacuum(0, enforce_retention_duration=False)
    assert state(table) == before
    assert bayou.table(table).snapshot().version == 8
