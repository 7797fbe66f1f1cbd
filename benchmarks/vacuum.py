"""Measures a VACUUM that deletes half of the files, and many small commits, beside deltalake.

usage: PYTHONPATH=tools vacuum.py [--files N] [--commits N] [--runs N]
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import measure
import pyarrow as pa
from rich.console import Console
from rich.table import Table

FOLDERS = 100


def main(arguments: Sequence[str]) -> None:
    """Parse the arguments; `--measure` runs one measurement in this process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--commits", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--measure", nargs=3, metavar=("WHAT", "WHO", "COUNT"))
    options = parser.parse_args(arguments)
    if options.measure:
        what, who, count = options.measure
        {"vacuum": _vacuum, "commits": _commits}[what](who, int(count))
    else:
        run(Console(width=measure.WIDTH), options.files, options.commits, options.runs)


def run(console: Console, files: int, commits: int, runs: int) -> None:
    """Measure both cases, and print times, peak memory and ratios."""
    printed = Table(title="Upkeep")
    for column in ("what", "bayou", "deltalake", "time", "memory"):
        printed.add_column(column)
    for what, count in (("vacuum", files), ("commits", commits)):
        ours, theirs = (
            measure.repeat([__file__, "--measure", what, who, str(count)], runs, warm=False)
            for who in ("bayou", "deltalake")
        )
        printed.add_row(
            f"{what}, {count:,}",
            f"{ours.seconds:.2f} s, {ours.peak_bytes / 1e6:.0f} MB",
            f"{theirs.seconds:.2f} s, {theirs.peak_bytes / 1e6:.0f} MB",
            f"{ours.seconds / theirs.seconds:.2f}",
            f"{ours.peak_bytes / theirs.peak_bytes:.2f}",
        )
    console.print(printed)


def _vacuum(who: str, count: int) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        _make(folder, count)
        measure.report(lambda: _vacuumed(who, str(folder)))
    finally:
        shutil.rmtree(folder)


def _vacuumed(who: str, table: str) -> int:
    if who == "bayou":
        import bayou

        done = bayou.table(table).vacuum(0, dry_run=False, enforce_retention_duration=False)
        return done.inventory.num_rows
    import deltalake

    found = deltalake.DeltaTable(table)
    deleted = found.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    return len(deleted)


def _make(table: Path, count: int) -> None:
    """Create a table of empty files; half of them are live, the others were never committed."""
    schema = {
        "type": "struct",
        "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}],
    }
    lines: list[dict[str, object]] = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "00000000-0000-4000-8000-000000000000",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps(schema),
                "partitionColumns": [],
                "configuration": {},
            }
        },
    ]
    for number in range(FOLDERS):
        (table / f"p{number}").mkdir()
    for number in range(count):
        name = f"p{number % FOLDERS}/part-{number:08}.parquet"
        (table / name).touch()
        if number % 2:
            add = {"path": name, "partitionValues": {}, "size": 0, "modificationTime": 0}
            lines.append({"add": {**add, "dataChange": True}})
    (table / "_delta_log").mkdir()
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (table / "_delta_log" / f"{0:020}.json").write_text(text)
    time.sleep(0.01)


def _commits(who: str, count: int) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        measure.report(lambda: _appended(who, str(folder / "t"), count))
    finally:
        shutil.rmtree(folder)


def _appended(who: str, table: str, count: int) -> int:
    rows = pa.table({"id": [1]})
    if who == "bayou":
        import bayou

        for _ in range(count):
            bayou.write(table, rows)
        return bayou.table(table).snapshot().version
    import deltalake

    for _ in range(count):
        deltalake.write_deltalake(table, rows, mode="append")
    return deltalake.DeltaTable(table).version()


if __name__ == "__main__":
    main(sys.argv[1:])
