"""Measures OPTIMIZE of many small files, and Z-order of 8M rows, compared with `deltalake`.

usage: PYTHONPATH=tools optimize.py [--scale F] [--runs N] [--case CASE ...]

Each number is the median of runs in separate processes, each with a copy of the table. Bayou
fsyncs the files that it writes, `deltalake` doesn't.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import measure
import million_files
import pyarrow as pa
import pyarrow.compute as pc
import scan_rows
from rich.console import Console

import bayou

SMALL_FILES, ROWS_A_FILE = 1_000, 1_000
ROWS, FILES = 8_000_000, 8
ORDER = ("shuffled", "count")


Work = Callable[[], int]


def compact_by_bayou(path: str) -> Work:
    """Return the function to measure: compact small files."""
    table = bayou.table(path)
    return lambda: table.optimize().num_files_removed


def compact_by_deltalake(path: str) -> Work:
    """Return the function to measure: compact small files with `deltalake`."""
    import deltalake

    return lambda: int(deltalake.DeltaTable(path).optimize.compact()["numFilesRemoved"])


def zorder_by_bayou(path: str) -> Work:
    """Return the function to measure: cluster all rows along a Z-order."""
    table = bayou.table(path)
    return lambda: table.optimize.z_order(ORDER).num_files_removed


def zorder_by_deltalake(path: str) -> Work:
    """Return the function to measure: cluster all rows along a Z-order with `deltalake`."""
    import deltalake

    table = deltalake.DeltaTable
    return lambda: int(table(path).optimize.z_order(list(ORDER))["numFilesRemoved"])


CASES: dict[str, tuple[str, dict[str, Callable[[str], Work]]]] = {
    "compact": (
        f"OPTIMIZE of {SMALL_FILES:,} files with {ROWS_A_FILE:,} rows each",
        {"bayou": compact_by_bayou, "deltalake": compact_by_deltalake},
    ),
    "zorder": (
        f"Z-order of {ROWS:,} rows by two columns",
        {"bayou": zorder_by_bayou, "deltalake": zorder_by_deltalake},
    ),
}


def _original(case: str, scale: float) -> Path:
    """Return the path of a case's table; create the table if it doesn't exist."""
    count, rows = (SMALL_FILES, ROWS_A_FILE) if case == "compact" else (FILES, ROWS // FILES)
    count, rows = (int(count * scale), rows) if case == "compact" else (count, int(rows * scale))
    path = million_files.CACHE / f"optimize-{case}-{count}-{rows}"
    if not (path / "complete").exists():
        shutil.rmtree(path, ignore_errors=True)
        for n in range(count):
            part = scan_rows.rows_from(n * rows, rows)
            mixed = pc.bit_wise_and(pc.multiply(part.column("id"), 2_654_435_761), 0xFFFFFF)
            bayou.write(str(path), part.append_column("shuffled", mixed))
        (path / "complete").touch()
    return path


def _link(source: str, target: str) -> str:
    Path(target).hardlink_to(source)
    return target


def run(console: Console, scale: float, runs: int, cases: Sequence[str] = tuple(CASES)) -> None:
    """Run the measurements and print the results as a table."""
    for name in cases:
        title, programs = CASES[name]
        _original(name, scale)
        measured = {
            program: measure.repeat(
                [__file__, "--measure", name, program, str(scale)], runs, warm=False
            )
            for program in programs
        }
        assert len({one.result for one in measured.values()}) == 1, measured
        shown = title if scale == 1 else f"{title} (times {scale})"
        console.print(measure.beside_peer(shown, measured, "deltalake"))


def main(arguments: Sequence[str]) -> None:
    """Parse the arguments; `--measure` runs one measurement in this process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1, help="1 is the full size")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--case", nargs="*", choices=CASES)
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if not options.measure:
        cases = options.case or tuple(CASES)
        run(Console(width=measure.WIDTH), options.scale, options.runs, cases)
        return
    case, program, scale = options.measure
    with tempfile.TemporaryDirectory(dir=million_files.CACHE) as folder:
        copy = Path(folder) / "t"
        # Data files are never written to again: a link is a copy.
        shutil.copytree(_original(case, float(scale)), copy, copy_function=_link)
        pa.array([""])  # pyarrow imports pandas for the first list it is given
        measure.report(CASES[case][1][program](str(copy)))


if __name__ == "__main__":
    main(sys.argv[1:])
