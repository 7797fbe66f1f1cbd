"""Reads tables by delta-spark, in a process of its own and in the peers' environment.

`make test-peers` creates the environment and names it in BAYOU_PEERS.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

__all__ = ["PEERS", "rows_by_delta_spark"]

PEERS = os.environ.get("BAYOU_PEERS")
"""The folder of the environment with delta-spark; None if this run has none."""

_SERVER = Path(__file__).resolve().parents[1] / "peers" / "delta_spark_server.py"


def rows_by_delta_spark(
    table: Path, folder: Path, columns: Sequence[str] = ()
) -> list[dict[str, object]]:
    """Return a table's rows as delta-spark reads them from a local disk.

    Args:
        folder: a folder for the rows and the session's files.
        columns: the columns to read; empty for all.
    """
    assert PEERS is not None
    out = folder / f"{table.name}-by-delta-spark"
    python = str(Path(PEERS).resolve() / "bin" / "python")
    request = {"do": "read", "table": str(table), "out": str(out), "version": None}
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SPARK")}
    done = subprocess.run(
        [python, str(_SERVER), str(folder / "warehouse-of-delta-spark")],
        input=json.dumps(request | {"where": None, "columns": list(columns)}) + "\n",
        capture_output=True,
        text=True,
        cwd=folder,
        env={**environment, "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python, "TZ": "UTC"},
        check=False,
        timeout=600,
    )
    answers = [json.loads(line[2:]) for line in done.stdout.splitlines() if line.startswith("@@")]
    assert answers, done.stderr[-3000:]
    assert answers[-1]["ok"], answers[-1]["error"]
    rows: list[dict[str, object]] = pq.read_table(out).to_pylist()
    return rows
