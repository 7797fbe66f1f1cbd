"""Measures how long a new process takes to import Bayou and to read a small table.

usage: start_time.py [--runs N]

Each number is the median and the minimum of the wall time of processes, with their start. The goals
are 60 ms for the import, 250 ms for the read and 300 ms for commands. The peer reads the same table
with `deltalake`.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import measure
import pyarrow as pa
from rich.console import Console
from rich.table import Table as Grid

import bayou
from bayou.spark.kafka import EmbeddedBroker

_CONFIGURATION = """\
connector:
  kafka: {{bootstrap-servers: "{servers}"}}
  topics:
    events:
      kafka-topic: events
      destination: {{table-path: "{path}"}}
"""
_MAIN = "; from bayou.cli.script import main; main()"
PROGRAMS = {
    "start of Python": "pass",
    "import bayou": "import bayou",
    "import pyarrow": "import pyarrow",
    "Bayou, read 3 rows": "import bayou; bayou.table({path!r}).to_arrow()",
    "bayou read": "import sys; sys.argv[1:] = ['read', {path!r}]" + _MAIN,
    "bayou history": "import sys; sys.argv[1:] = ['history', {path!r}]" + _MAIN,
    "bayou schema show": "import sys; sys.argv[1:] = ['schema', 'show', {path!r}]" + _MAIN,
    "bayou status": "import sys; sys.argv[1:] = ['status', {path!r} + '.yaml']" + _MAIN,
    "deltalake, read 3 rows": "import deltalake; deltalake.DeltaTable({path!r}).to_pyarrow_table()",
}
GOALS_MS = {
    "import bayou": 60,
    "Bayou, read 3 rows": 250,
    "bayou read": 300,
    "bayou history": 300,
    "bayou schema show": 300,
    "bayou status": 300,
}
PEERS = {
    "import bayou": "import pyarrow",
    "Bayou, read 3 rows": "deltalake, read 3 rows",
    "bayou read": "deltalake, read 3 rows",
    "bayou history": "deltalake, read 3 rows",
    "bayou schema show": "deltalake, read 3 rows",
}


def run(console: Console, runs: int) -> None:
    """Measure every program in new processes, and print a table."""
    with tempfile.TemporaryDirectory() as folder, EmbeddedBroker({"events": 1}) as broker:
        path = str(Path(folder) / "table")
        bayou.write(path, pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}))
        text = _CONFIGURATION.format(servers=broker.bootstrap_servers, path=path)
        Path(f"{path}.yaml").write_text(text, encoding="utf-8")
        measured = {
            name: _milliseconds(program.format(path=path), runs)
            for name, program in PROGRAMS.items()
        }
    grid = Grid(title=f"a new process, {runs} runs", title_justify="left")
    grid.add_column("")
    for heading in ("median ms", "minimum ms", "goal ms", "beside its peer"):
        grid.add_column(heading, justify="right")
    for name, times in measured.items():
        measure.record("new process", name, "ms", median(times))
        goal, peer = GOALS_MS.get(name), PEERS.get(name)
        grid.add_row(
            name,
            f"{median(times):.0f}",
            f"{min(times):.0f}",
            "" if goal is None else str(goal),
            "" if peer is None else f"{median(times) / median(measured[peer]):.2f}x",
        )
    console.print(grid)


def _milliseconds(program: str, runs: int) -> list[float]:
    """Run a program in new processes; the first run fills the disk's cache and isn't counted.

    `deltalake` sometimes aborts when its process exits, after it has read the table.
    """
    times = []
    for _ in range(runs + 1):
        start = time.perf_counter()
        process = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=False
        )
        times.append((time.perf_counter() - start) * 1000)
        if process.returncode not in (0, -signal.SIGABRT):
            raise RuntimeError(f"{program!r} failed: {process.stderr}")
    return times[1:]


def main(arguments: Sequence[str]) -> None:
    """Parse the arguments, and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=15)
    run(Console(width=measure.WIDTH), parser.parse_args(arguments).runs)


if __name__ == "__main__":
    main(sys.argv[1:])
