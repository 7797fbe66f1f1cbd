"""`bayou migrate` by SIGKILL, from the local disk and from S3, until it has come to its end."""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable

_KILLS = int(os.environ.get("BAYOU_TEST_KILLS", "3"))
_RECORDS = 56_000
_CONFIG = """
connector:
  topics:
    events:
      kafka-topic: events
      event-time: at
      schema-file: schema.json
      destination:
        table-path: {table}
        partition-columns: [year, month, day]
"""
_SCHEMA = {
    "type": "object",
    "required": ["id"],
    "properties": {"id": {"type": "integer"}, "at": {"type": "string", "format": "date-time"}},
}


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.slow)])
def place(request, tmp_path) -> tuple[str, Path]:
    """Where files and table are, as the command is told it and on the disk."""
    if request.param == "local":
        return str(tmp_path), tmp_path
    bucket = request.getfixturevalue("bucket")
    return f"s3a://{bucket}", request.getfixturevalue("s3_server").objects / bucket


def test_killed_again_and_again_a_migration_loses_and_doubles_nothing(place, tmp_path, environment):
    place, folder = place
    options = {k: v for k, v in environment.items() if k.startswith("AWS_")}
    for name, content in _old_files():
        (folder / "json" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "json" / name).write_bytes(content)
    (tmp_path / "p.yaml").write_text(_CONFIG.format(table=f"{place}/lake/events"))
    (tmp_path / "schema.json").write_text(json.dumps(_SCHEMA))
    command = [sys.executable, "-m", "bayou.cli", "migrate", f"{place}/json", "events", "--json"]
    command += ["--config", str(tmp_path / "p.yaml")]
    rng = random.Random()
    for _ in range(_KILLS):
        _kill_somewhere(command, environment, rng)
    done = subprocess.run(
        [*command, "--verify"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    checks = {row["file"]: row for row in rows if row["event"] == "migrated_file"}
    assert [check["problem"] for check in checks.values()] == [""] * 4
    assert sum(check["records"] for check in checks.values()) == _RECORDS + 3
    table = DeltaTable(f"{place}/lake/events", storage_options=options).to_pyarrow_table()
    assert Counter(table["id"].to_pylist()) == Counter(range(_RECORDS))
    assert set(table["day"].to_pylist()) == {"01", "02", "03", "04"}
    letters = DeltaTable(f"{place}/lake/events_dead_letters", storage_options=options)
    assert letters.to_pyarrow_table().num_rows == 3


def _old_files():
    """Two arrays, one of them packed, and lines, one of them bad, over four days."""
    part = _RECORDS // 4
    records = [{"id": n, "at": f"2024-01-{1 + n // part:02}T10:00:00Z"} for n in range(_RECORDS)]
    bad = {"id": "none"}
    yield "year=2024/month=01/day=01/batch_1.json", json.dumps(records[:part]).encode()
    packed = gzip.compress(json.dumps([*records[part : 2 * part], bad]).encode())
    yield "year=2024/month=01/day=02/batch_2.json.gz", packed
    lines = [json.dumps(r) for r in [*records[2 * part : 3 * part], bad]]
    yield "year=2024/month=01/day=03/more.jsonl", "\n".join(lines).encode()
    lines = [json.dumps(r) for r in [bad, *records[3 * part :]]]
    yield "2024/01/04/more.ndjson.gz", gzip.compress("\n".join(lines).encode())


def _kill_somewhere(command, environment, rng):
    """Once it has committed, or before, or never."""
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    commits = rng.randrange(3)
    if commits == 0:
        time.sleep(rng.uniform(0.5, 3))  # deliberate: a kill at any moment before a commit
    for _ in range(commits):
        process.stdout.readline()
    time.sleep(rng.uniform(0, 0.5))  # deliberate: at any moment of what follows a commit
    process.kill()
    process.wait()
    process.stdout.close()
