"""Measures writes in one process, compared with `deltalake`: rows, commits, changes, upkeep.

usage: write_rows.py [--scale F] [--runs N] [--case CASE ...]

Each number is the median of runs in separate processes. The input of a case (rows in memory, a
table) is created before the time starts, but counts as memory. Bayou fsyncs the files that it
writes, `deltalake` doesn't. Both programs write to the same table; "with vectors" is a table with
deletion vectors, which `deltalake` doesn't write.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import measure
import million_files
import pyarrow as pa
import pyarrow.compute as pc
import scan_rows
from rich.console import Console

import bayou

ROWS, FILES = 8_000_000, 8
COMMITS = 1_000
LOG_FILES = 1_000_000
UNREFERENCED, FOLDERS = 100_000, 100
VECTORS = {"delta.enableDeletionVectors": "true"}

Work = Callable[[], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """An operation to measure.

    Attributes:
        title: the name of the case at full scale.
        programs: for each program a function that gets an empty folder and the scale, prepares the
            input, and returns the function to measure.
    """

    title: str
    programs: dict[str, Callable[[Path, float], Work]]


def append(partitions: int) -> dict[str, Callable[[Path, float], Work]]:
    """Return the programs of a case that appends all rows to a new table, see `Case`.

    Args:
        partitions: number of values of the partition column; 0 for a table without partitions.
    """

    def by_bayou(folder: Path, scale: float) -> Work:
        rows, columns = _partitioned(int(ROWS * scale), partitions)
        write = bayou.write

        def work() -> int:
            write(str(folder / "t"), rows, mode="append", partition_by=columns or None)
            return rows.num_rows

        return work

    def by_deltalake(folder: Path, scale: float) -> Work:
        import deltalake

        rows, columns = _partitioned(int(ROWS * scale), partitions)

        def work() -> int:
            deltalake.write_deltalake(
                str(folder / "t"), rows, mode="append", partition_by=columns or None
            )
            return rows.num_rows

        return work

    return {"bayou": by_bayou, "deltalake": by_deltalake}


def commits_by_bayou(folder: Path, scale: float) -> Work:
    """Return the function to measure: append one row many times."""
    row, write = scan_rows.rows_from(0, 1), bayou.write
    count = int(COMMITS * scale)

    def work() -> int:
        for _ in range(count):
            write(str(folder / "t"), row, mode="append")
        return count

    return work


def commits_by_deltalake(folder: Path, scale: float) -> Work:
    """Return the function to measure: append one row many times with `deltalake`."""
    import deltalake

    row = scan_rows.rows_from(0, 1)
    count = int(COMMITS * scale)

    def work() -> int:
        for _ in range(count):
            deltalake.write_deltalake(str(folder / "t"), row, mode="append")
        return count

    return work


def checkpoint_by_bayou(folder: Path, scale: float) -> Work:
    """Return the function to measure: write a checkpoint, ten commits after the previous one."""
    table = bayou.table(str(_log(folder, scale)))

    def work() -> int:
        table.create_checkpoint()
        return million_files.COMMITS

    return work


def checkpoint_by_deltalake(folder: Path, scale: float) -> Work:
    """Return the function to measure: load the table and write a checkpoint with `deltalake`."""
    import deltalake

    path = str(_log(folder, scale))

    def work() -> int:
        deltalake.DeltaTable(path).create_checkpoint()
        return million_files.COMMITS

    return work


def merge_by_bayou(folder: Path, scale: float, properties: dict[str, str] | None = None) -> Work:
    """Return the function to measure: merge a source; half of it updates rows, half is new."""
    import sqlglot  # noqa: F401  # parses the condition

    table, source = bayou.table(str(_table(folder, scale, properties))), _source(scale)

    def work() -> int:
        merge = table.merge(source, "target.id = source.id")
        done = merge.when_matched_update_all().when_not_matched_insert_all().execute()
        return done.num_target_rows_updated + done.num_target_rows_inserted

    return work


def merge_by_deltalake(folder: Path, scale: float) -> Work:
    """Return the function to measure: the merge of `merge_by_bayou`, with `deltalake`."""
    import deltalake

    path, source = str(_table(folder, scale)), _source(scale)

    def work() -> int:
        merge = deltalake.DeltaTable(path).merge(
            source, "target.id = source.id", source_alias="source", target_alias="target"
        )
        done = merge.when_matched_update_all().when_not_matched_insert_all().execute()
        return int(done["num_target_rows_updated"] + done["num_target_rows_inserted"])

    return work


def delete_by_bayou(folder: Path, scale: float, properties: dict[str, str] | None = None) -> Work:
    """Return the function to measure: delete one row by its id."""
    import sqlglot  # noqa: F401  # parses the condition

    table = bayou.table(str(_table(folder, scale, properties)))
    return lambda: table.delete(f"id = {int(ROWS * scale) // 2}").num_deleted_rows or 0


def delete_by_deltalake(folder: Path, scale: float) -> Work:
    """Return the function to measure: delete one row by its id with `deltalake`."""
    import deltalake

    path = str(_table(folder, scale))
    where = f"id = {int(ROWS * scale) // 2}"
    return lambda: int(deltalake.DeltaTable(path).delete(where)["num_deleted_rows"])


def vacuum_by_bayou(folder: Path, scale: float) -> Work:
    """Return the function to measure: delete unreferenced files in 100 folders."""
    table = bayou.table(str(_littered(folder, scale)))
    return lambda: _vacuumed(
        table.vacuum(0, dry_run=False, enforce_retention_duration=False).inventory
    )


def vacuum_by_deltalake(folder: Path, scale: float) -> Work:
    """Return the function to measure: delete unreferenced files with `deltalake`.

    Without `full`, it would only delete files with a remove action in the log.
    """
    import deltalake

    path = str(_littered(folder, scale))

    def work() -> int:
        table = deltalake.DeltaTable(path)
        return len(table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True))

    return work


CASES = {
    "append": Case(title=f"Append {ROWS:,} rows, 8 columns", programs=append(0)),
    "append-20": Case(title=f"Append {ROWS:,} rows into 20 partitions", programs=append(20)),
    "append-1000": Case(title=f"Append {ROWS:,} rows into 1,000 partitions", programs=append(1000)),
    "commits": Case(
        title=f"{COMMITS:,} appends of one row",
        programs={"bayou": commits_by_bayou, "deltalake": commits_by_deltalake},
    ),
    "checkpoint": Case(
        title=f"Checkpoint of {LOG_FILES:,} files",
        programs={"bayou": checkpoint_by_bayou, "deltalake": checkpoint_by_deltalake},
    ),
    "merge": Case(
        title=f"Merge 1% into {ROWS:,} rows",
        programs={
            "bayou": merge_by_bayou,
            "bayou, with vectors": lambda f, s: merge_by_bayou(f, s, VECTORS),
            "deltalake": merge_by_deltalake,
        },
    ),
    "delete": Case(
        title=f"Delete one of {ROWS:,} rows",
        programs={
            "bayou": delete_by_bayou,
            "bayou, with vectors": lambda f, s: delete_by_bayou(f, s, VECTORS),
            "deltalake": delete_by_deltalake,
        },
    ),
    "vacuum": Case(
        title=f"Vacuum {UNREFERENCED:,} files",
        programs={"bayou": vacuum_by_bayou, "deltalake": vacuum_by_deltalake},
    ),
}


def _partitioned(count: int, partitions: int) -> tuple[pa.Table, list[str]]:
    rows = scan_rows.rows_from(0, count)
    if not partitions:
        return rows, []
    # Neighbours are in different partitions: every batch has rows of all.
    ids = rows.column("id")
    whole = pc.multiply(pc.divide(ids, partitions), partitions)
    return rows.append_column("part", pc.subtract(ids, whole)), ["part"]


def _table(folder: Path, scale: float, properties: dict[str, str] | None = None) -> Path:
    """Return a copy of a cached table for one run, made of hard links to its files."""
    rows = int(ROWS * scale)
    original = million_files.CACHE / f"write-{rows}{'-vectors' if properties else ''}"
    if not (original / "complete").exists():
        shutil.rmtree(original, ignore_errors=True)
        for n in range(FILES):
            part = scan_rows.rows_from(n * (rows // FILES), rows // FILES)
            bayou.write(
                str(original),
                part,
                mode="append" if n else "error",
                configuration=None if n else properties,
            )
        (original / "complete").touch()
    table = folder / "t"
    shutil.copytree(original, table, copy_function=_link)
    return table


def _log(folder: Path, scale: float) -> Path:
    table = folder / "t"
    original = million_files.table_with(int(LOG_FILES * scale), "one-row-group")
    shutil.copytree(original, table, copy_function=_link)
    return table


def _littered(folder: Path, scale: float) -> Path:
    table = folder / "t"
    bayou.write(str(table), scan_rows.rows_from(0, 1000), mode="error")
    before = time.time() - 60  # VACUUM keeps files of the second in which it starts
    for n in range(FOLDERS):
        inside = table / f"day={n}"
        inside.mkdir()
        for k in range(int(UNREFERENCED * scale) // FOLDERS):
            file = inside / f"part-{k:05d}.parquet"
            file.touch()
            os.utime(file, (before, before))
    return table


def _vacuumed(inventory: pa.Table) -> int:
    return sum(pc.ends_with(inventory.column("path"), ".parquet").to_pylist())


def _source(scale: float) -> pa.Table:
    """Return a hundredth as many rows as the table's: half with existing ids, half with new ids."""
    rows = int(ROWS * scale)
    count = rows // 200
    there = scan_rows.rows_from(0, rows).take(pa.array(range(0, rows, 200), pa.int64()))
    new = scan_rows.rows_from(rows, count)
    source = pa.concat_tables([there, new]).combine_chunks()
    doubled = pc.multiply(source.column("amount"), 2.0)
    return source.set_column(source.schema.get_field_index("amount"), "amount", doubled)


def _link(source: str, target: str) -> str:
    Path(target).hardlink_to(source)
    return target


def run(console: Console, scale: float, runs: int, cases: Sequence[str] = tuple(CASES)) -> None:
    """Run the measurements and print the results as a table."""
    for name in cases:
        case = CASES[name]
        measured = {
            program: measure.repeat(
                [__file__, "--measure", name, program, str(scale)], runs, warm=False
            )
            for program in case.programs
        }
        assert len({one.result for one in measured.values()}) == 1, measured
        title = case.title if scale == 1 else f"{case.title} (times {scale})"
        console.print(measure.beside_peer(title, measured, "deltalake"))


def main(arguments: Sequence[str]) -> None:
    """Parse the arguments; `--measure` runs one measurement in this process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1, help="1 is the full size")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--case", nargs="*", choices=CASES)
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.measure:
        case, program, scale = options.measure
        million_files.CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=million_files.CACHE) as folder:
            pa.array([""])  # pyarrow imports pandas for the first list it is given
            measure.report(CASES[case].programs[program](Path(folder), float(scale)))
    else:
        cases = options.case or tuple(CASES)
        run(Console(width=measure.WIDTH), options.scale, options.runs, cases)


if __name__ == "__main__":
    main(sys.argv[1:])
