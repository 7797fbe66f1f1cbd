"""Merging 1% into 8M rows in one process, beside `deltalake`.

usage: merge_rows.py [--rows N] [--runs N]

8 files of a million rows with 8 columns. The source has one row for every 100 of the target, three
quarters of them with a key that is there. Spread: those keys lie in all files; recent: in the last
one; inserts: none is there. `deltalake` writes no deletion vectors, so that it rewrites files
either way. Every number is of a process of its own with a copy of the table, the median of the
runs, with the files in the disk's cache.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import measure
import pyarrow as pa
import pyarrow.compute as pc
from million_files import CACHE
from rich.console import Console

import bayou

ROWS, FILES = 8_000_000, 8
VECTORS = {"delta.enableDeletionVectors": "true"}
CASES = ("spread", "recent", "inserts")


def target(rows: int, *, vectors: bool) -> Path:
    """The table; made where it isn't there."""
    path = CACHE / f"merge-{rows}{'-vectors' if vectors else ''}"
    table = bayou.table(str(path))
    if not table.exists():
        count = rows // FILES
        for n in range(FILES):
            part = _rows(pa.array(range(n * count, (n + 1) * count), pa.int64()))
            bayou.write(str(path), part, properties=VECTORS if vectors and not n else None)
    return path


def source(case: str, rows: int) -> pa.Table:
    """One row for every 100 of the target."""
    count = rows // 100
    old = 0 if case == "inserts" else count * 3 // 4
    step, first = (rows // old, 0) if case == "spread" else (1, rows - old)
    present = range(first, first + old * step, step)
    ids = [*present, *range(rows, rows + count - old)]
    return _rows(pa.array(ids, pa.int64()), changed=1)


def _rows(ids: pa.Array, changed: int = 0) -> pa.Table:
    mixed = pc.bit_wise_and(pc.multiply(ids, 2_654_435_761), 0xFFFFFF)  # spread, reproducible
    seconds = pc.add(ids, 1_700_000_000)
    return pa.table(
        {
            "id": ids,
            "at": pc.cast(pc.multiply(seconds, 1_000_000), pa.timestamp("us", "UTC")),
            "day": pc.cast(pc.cast(pc.divide(seconds, 86_400), pa.int32()), pa.date32()),
            "kind": pc.binary_join_element_wise(
                "kind", pc.cast(pc.bit_wise_and(mixed, 15), pa.string()), "-"
            ),
            "name": pc.binary_join_element_wise("name", pc.cast(mixed, pa.string()), "-"),
            "amount": pc.divide(pc.cast(mixed, pa.float64()), 100.0),
            "count": pc.cast(pc.add(pc.bit_wise_and(mixed, 1023), changed), pa.int32()),
            "good": pc.equal(pc.bit_wise_and(mixed, 1), 1),
        }
    )


def by_bayou(table: Path, rows: pa.Table) -> int:
    """The short API."""
    merge = bayou.table(str(table)).merge(rows, "target.id = source.id")
    return merge.when_matched_update_all().when_not_matched_insert_all().execute().num_affected_rows


def by_deltalake(table: Path, rows: pa.Table) -> int:
    """The same in `deltalake`."""
    import deltalake

    merge = deltalake.DeltaTable(str(table)).merge(
        rows, "target.id = source.id", source_alias="source", target_alias="target"
    )
    metrics = merge.when_matched_update_all().when_not_matched_insert_all().execute()
    return int(metrics["num_target_rows_updated"]) + int(metrics["num_target_rows_inserted"])


PROGRAMS: dict[str, tuple[Callable[[Path, pa.Table], int], bool]] = {
    "bayou": (by_bayou, False),
    "bayou, deletion vectors": (by_bayou, True),
    "deltalake": (by_deltalake, False),
}


def run(console: Console, rows: int, runs: int) -> None:
    """Measure every program and print what they took."""
    for vectors in (False, True):
        target(rows, vectors=vectors)
    for case in CASES:
        measured = {
            name: measure.repeat([__file__, "--measure", name, case, "--rows", str(rows)], runs)
            for name in PROGRAMS
        }
        assert len({one.result for one in measured.values()}) == 1, case
        console.print(measure.beside_peer(f"1% into {rows:,} rows, {case}", measured, "deltalake"))


def _measured(name: str, case: str, rows: int) -> None:
    program, vectors = PROGRAMS[name]
    data = source(case, rows)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        copy = Path(folder) / "table"
        # Data files are never written to again: a link is a copy.
        shutil.copytree(target(rows, vectors=vectors), copy, copy_function=os.link)
        measure.report(lambda: program(copy, data))


def main(arguments: Sequence[str]) -> None:
    """The command line; `--measure` is the measured process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.measure:
        _measured(*options.measure, options.rows)
    else:
        run(Console(width=measure.WIDTH), options.rows, options.runs)


if __name__ == "__main__":
    main(sys.argv[1:])
