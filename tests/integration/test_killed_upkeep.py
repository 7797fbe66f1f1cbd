"""SIGKILL at every write and every delete of upkeep: the table reads on, and the work is repeated.

Operations that change rows or files leave the old version or the new one. Each run is a process of
its own that kills itself before or after its n-th call to the store: the local disk, or S3.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.kernel import Table
from bayou.kernel.maintenance.log_cleanup import clean_up_log
from bayou.kernel.maintenance.log_compaction import compact_log

DAY = 86_400

_KILLED = """
import json, os, signal, sys
from bayou.engines.arrow import ArrowEngine
from bayou.engines.arrow.files import ArrowFiles
from bayou.engines.arrow.storage.local_files import LocalOutput

work, table, calls, after = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "after"
options = json.loads(sys.argv[5])
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

engine = ArrowEngine(files=Files(options))
if work == "checkpoint":
    from bayou.kernel.checkpoint.write import checkpoint
    checkpoint(engine, table)
elif work == "parts":
    from bayou.kernel.checkpoint.parts import plan_checkpoint, write_checkpoint_part
    plan = plan_checkpoint(engine, table, max_parts=3)
    plan.finish(engine, [write_checkpoint_part(engine, part) for part in plan.parts])
elif work == "compaction":
    from bayou.kernel.maintenance.log_compaction import compact_log
    compact_log(engine, table, 1, 4)
elif work == "cleanup":
    from bayou.kernel.maintenance.log_cleanup import clean_up_log
    clean_up_log(engine, table, retention_ms=0)
elif work in ("append", "delete", "merge", "optimize"):
    import pyarrow as pa
    import bayou
    handle = bayou.table(table, engine=engine)
    if work == "append":
        from bayou.kernel import Operation, Table, write_data
        snapshot = Table.for_path(engine, table).latest_snapshot(engine)
        builder = snapshot.build_update_table_transaction("killed/1", Operation.WRITE)
        transaction = builder.build(engine)
        rows = [pa.record_batch({"id": pa.array([500], pa.int64())})]
        adds = write_data(engine, transaction.transaction_state(engine), rows)
        transaction.commit(engine, adds).run_post_commit_hooks(engine)
    elif work == "delete":
        handle.delete("id % 2 = 0")
    elif work == "merge":
        source = pa.table({"id": pa.array([41, 600], pa.int64())})
        merge = handle.merge(source, "target.id = source.id")
        merge.when_matched_delete().when_not_matched_insert_all().execute()
    else:
        handle.optimize()
else:
    from bayou.kernel.commands.vacuum.vacuum import vacuum
    vacuum(engine, table, 0, enforce_retention_duration=False)
print("done", calls - left)
"""


@pytest.fixture(scope="module", params=["classic", pytest.param("v2", marks=pytest.mark.slow)])
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
        bayou.write(path, rows, mode=mode, configuration=properties if i == 0 else None)
    for file in path.rglob("*"):
        if file.is_file():
            at = time.time() - 10 * DAY
            os.utime(file, (at, at))
    return path


KINDS = int(os.environ.get("BAYOU_TEST_FAULTS", "12")) // 3
"""Of work that is killed on S3."""

UPKEEP = ("checkpoint", "parts", "compaction", "cleanup", "vacuum")
CHANGES = ("append", "delete", "merge", "optimize")


def slow_but(quick: str, work: tuple[str, ...]) -> list[Any]:
    """Parameters of a test: one for `make test`, the others for `make test-all`."""
    return [w if w == quick else pytest.param(w, marks=pytest.mark.slow) for w in work]


def state(path: Path | str, options: dict[str, str] | None = None) -> list[int]:
    return sorted(bayou.table(path, options).to_arrow()["id"].to_pylist())


def run(
    work: str, table: Path | str, calls: int, when: str, options: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    told = [work, str(table), str(calls), when, json.dumps(options or {})]
    return subprocess.run(
        [sys.executable, "-c", _KILLED, *told],
        check=False,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("work", slow_but("checkpoint", UPKEEP))
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


@pytest.mark.parametrize("work", slow_but("merge", CHANGES))
def test_a_change_that_was_killed_is_there_or_is_not(
    original: Path, tmp_path: Path, work: str
) -> None:
    before = state(original)
    whole = tmp_path / "whole"
    shutil.copytree(original, whole)
    finished = run(work, whole, 0, "before")
    assert finished.returncode == 0, finished.stderr
    total, after = int(finished.stdout.split()[1]), state(whole)
    for number in sorted({(total + 1) // 2, total}):
        table = tmp_path / f"{work}{number}"
        shutil.copytree(original, table)
        killed = run(work, table, number, "after" if number % 2 else "before")
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        found = state(table)
        assert found in (before, after)
        bayou.write(table, pa.table({"id": [999]}))
        bayou.table(table).vacuum(0, dry_run=False, enforce_retention_duration=False)
        assert state(table) == sorted([*found, 999])


@pytest.mark.slow
def test_on_s3_nothing_that_was_killed_harms_the_table(s3_server, bucket, tmp_path: Path) -> None:
    options = s3_server.storage_options
    chance = random.Random(bucket)
    for work in chance.sample([*UPKEEP, *CHANGES], min(9, KINDS)):
        table = f"s3://{bucket}/{work}"
        policy = {"delta.checkpointPolicy": chance.choice(["classic", "v2"])}
        properties = {"delta.checkpointInterval": "3", **policy}
        for i in range(5):
            rows = pa.table({"id": [i * 10 + k for k in range(3)]})
            bayou.write(
                table,
                rows,
                mode="overwrite" if i == 3 else "append",
                configuration=properties if i == 0 else None,
                storage_options=options,
            )
        before = state(table, options)
        calls = chance.randrange(1, 4)
        killed = run(work, table, calls, chance.choice(["before", "after"]), options)
        assert killed.returncode in (0, -signal.SIGKILL), killed.stderr
        found = state(table, options)
        again = run(work, table, 0, "before", options)
        assert again.returncode == 0, again.stderr
        after = state(table, options)
        assert found in (before, after) or work in ("append", "merge")
        if work not in CHANGES or work == "optimize":
            assert found == before == after
        bayou.write(table, pa.table({"id": [999]}), storage_options=options)
        assert state(table, options) == sorted([*after, 999])


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
    bayou.table(table).create_checkpoint()
    compact_log(engine, str(table), 1, 4)
    assert clean_up_log(engine, str(table), retention_ms=0).deleted
    bayou.table(table).vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert state(table) == before
    assert bayou.table(table).snapshot().version == 8
