"""Measures writing the checkpoint of a table with a million files, compared with deltalake.

usage: PYTHONPATH=tools checkpoint.py [--files N] [--runs N]
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import measure
import million_files
from rich.console import Console
from rich.table import Table

SHAPES = ("row-groups", "one-row-group")
BUDGET = 0.5


def main(arguments: Sequence[str]) -> None:
    """Parse the arguments; `--measure` runs one measurement in this process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--measure", nargs=2, metavar=("WHO", "TABLE"))
    options = parser.parse_args(arguments)
    if options.measure:
        _measure(*options.measure)
    else:
        run(Console(width=measure.WIDTH), options.files, options.runs)


def run(console: Console, files: int, runs: int) -> None:
    """Measure each shape of the previous checkpoint, and print times, peak memory and ratios."""
    printed = Table(title=f"Checkpoint of {files:,} files (budget {BUDGET} of each)")
    for column in ("checkpoint before", "bayou", "deltalake", "time", "memory"):
        printed.add_column(column)
    for shape in SHAPES:
        table = str(million_files.table_with(files, shape))
        ours, theirs = (
            measure.repeat([__file__, "--measure", who, table], runs, warm=False)
            for who in ("bayou", "deltalake")
        )
        printed.add_row(
            shape,
            f"{ours.seconds:.2f} s, {ours.peak_bytes / 1e6:.0f} MB",
            f"{theirs.seconds:.2f} s, {theirs.peak_bytes / 1e6:.0f} MB",
            f"{ours.seconds / theirs.seconds:.2f}",
            f"{ours.peak_bytes / theirs.peak_bytes:.2f}",
        )
    console.print(printed)


def _measure(who: str, table: str) -> None:
    folder = Path(tempfile.mkdtemp(dir=Path(table).parent))
    try:
        copy = folder / "t"
        shutil.copytree(table, copy)
        measure.report(lambda: _checkpoint(who, str(copy)))
    finally:
        shutil.rmtree(folder)


def _checkpoint(who: str, table: str) -> int:
    if who == "bayou":
        import bayou

        return bayou.table(table).create_checkpoint()
    import deltalake

    found = deltalake.DeltaTable(table)
    found.create_checkpoint()
    return found.version()


if __name__ == "__main__":
    main(sys.argv[1:])
