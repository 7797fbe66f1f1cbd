"""Measures merging 1% into 8M rows in one process, compared with `deltalake`.

usage: merge_rows.py [--rows N] [--runs N]

The target has 8 files with a million rows of 8 columns each. The source has one row for every 100
rows of the target; three quarters of its keys exist in the target. Cases: `spread`, where these
keys are in all files; `recent`, where they are in the last file; `inserts`, where no key exists.
`deltalake` doesn't write deletion vectors, so it always rewrites files. Each number is the median
of runs in separate processes, each with a copy of the table whose files are in the disk's cache.
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
    """Return the path of the target table; create the table if it doesn't exist."""
    path = CACHE / f"merge-{rows}{'-vectors' if vectors else ''}"
    table = bayou.table(str(path))
    if not table.exists():
        count = rows // FILES
        for n in range(FILES):
            part = _rows(pa.array(range(n * count, (n + 1) * count), pa.int64()))
            bayou.write(str(path), part, configuration=VECTORS if vectors and not n else None)
    return path


def source(case: str, rows: int) -> pa.Table:
    """Return the source of a case: one row for every 100 rows of the target."""
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
    """Merge with `bayou.table(...).merge`; return the number of updated and inserted rows."""
    merge = bayou.table(str(table)).merge(rows, "target.id = source.id")
    return merge.when_matched_update_all().when_not_matched_insert_all().execute().num_affected_rows


def by_deltalake(table: Path, rows: pa.Table) -> int:
    """Merge with `deltalake`; return the number of updated and inserted rows."""
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
    """Run the measurements and print the results as a table."""
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
    """Parse the arguments; `--measure` runs one measurement in this process."""
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
