"""Runs a measurement in separate processes and computes medians.

A measured script calls `report`, which prints one JSON object as the last line of its output.
"""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rich.table import Table as Grid

__all__ = ["WIDTH", "Measurement", "beside_peer", "figures", "record", "repeat", "report"]

WIDTH = 110  # columns of the printed tables
figures: dict[str, float] = {}
"""What this process has measured, by name; `goals` compares it with the goals."""

_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Medians of the runs.

    Attributes:
        seconds: duration of the work.
        peak_bytes: peak memory of the process.
        result: the number that the work returned, to check that all programs do the same.
    """

    seconds: float
    peak_bytes: float
    result: int


def report(work: Callable[[], int]) -> None:
    """Measure `work`, without imports before it, and print the result as JSON."""
    start = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "peak_bytes": _peak_bytes(), "result": result}))


def repeat(arguments: Sequence[str], runs: int, *, warm: bool = True) -> Measurement:
    """Run a script `runs` times; with `warm` run it once before, to fill the disk's cache."""
    if warm:
        _run(arguments)
    outcomes = [_run(arguments) for _ in range(runs)]
    results = {outcome["result"] for outcome in outcomes}
    assert len(results) == 1, f"{arguments} counted {results}"
    return Measurement(
        seconds=median(outcome["seconds"] for outcome in outcomes),
        peak_bytes=median(outcome["peak_bytes"] for outcome in outcomes),
        result=int(results.pop()),
    )


def record(case: str, program: str, what: str, figure: float) -> None:
    """Keep a measured figure under the name "case / program / what"."""
    figures[f"{case} / {program} / {what}"] = figure


def beside_peer(title: str, measured: Mapping[str, Measurement], peer: str) -> Grid:
    """Return a table with time and memory of each program, and the ratios to the peer's."""
    grid = Grid(title=title, title_justify="left")
    grid.add_column("")
    for heading in ("seconds", f"beside {peer}", "peak MB", f"beside {peer}"):
        grid.add_column(heading, justify="right")
    base = measured[peer]
    for name, one in measured.items():
        record(title, name, "time", one.seconds / base.seconds)
        record(title, name, "memory", one.peak_bytes / base.peak_bytes)
        grid.add_row(
            name,
            f"{one.seconds:.3g}",
            "" if one is base else f"{one.seconds / base.seconds:.2f}x",
            f"{one.peak_bytes / 1e6:,.0f}",
            "" if one is base else f"{one.peak_bytes / base.peak_bytes:.2f}x",
        )
    return grid


def _peak_bytes() -> int:
    """Return the peak resident memory of this process.

    On Linux, `ru_maxrss` would be wrong: `exec` doesn't reset it, so it includes a large parent's
    memory.
    """
    status = Path("/proc/self/status")
    if status.exists():
        found = re.search(r"^VmHWM:\s*(\d+) kB$", status.read_text(), re.MULTILINE)
        if found is not None:
            return int(found[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _MAXRSS_UNIT


def _run(arguments: Sequence[str]) -> dict[str, float]:
    done = subprocess.run([sys.executable, *arguments], check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(arguments)} failed:\n{done.stderr}")
    outcome: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return outcome
