"""Measures MERGE, UPDATE and DELETE of `DeltaTable`, compared with delta-spark.

usage: spark_tables.py [--runs N] [--rows N ..] [--cases CASE ..] [--variants VARIANT ..]
                       [--peers ENVIRONMENT]

The tables have 8,000,000 rows with 8 columns in 8 files or 16 partitions, or 1,000,000 rows with
100 columns. `--rows` sets one or several other sizes. The variants run the same program alternately
in sessions that stay open (`spark_sessions`). Each run changes a new copy of the table, made of
hard links. The first run of each case warms up with an eighth of the rows, and isn't counted. The
variants `driver`, `executors` and `plan` force where the work is done. Their times justify the
defaults of `bayou.rowOperations.localBytes` and `bayou.rowOperations.sourceBytes`.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import measure
import pyarrow as pa
import pyarrow.compute as pc
from million_files import CACHE
from rich.console import Console
from spark_sessions import PEER, PEERS, Result, Sessions, grid

import bayou

ROWS, FILES = 8_000_000, 8
WIDE_ROWS, WIDE_COLUMNS, WIDE_FILES = 1_000_000, 100, 4
FIRST_DAY = 19_723  # 2024-01-01, in days since 1970
WARM_UP = 8  # divisor of the number of rows for the run that isn't counted
BUDGET = 0.25
OURS = ("enable", "driver", "executors", "plan")
VARIANTS = ("enable", PEER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A change of a table; its key is also a key of `spark_tables_work.CASES`.

    Attributes:
        title: the name of the case in the results.
        table: the kind of table, see `target`.
    """

    title: str
    table: str = "vectors"


CASES = {
    "merge": Case(title="MERGE of 1%, updates"),
    "merge-half": Case(title="MERGE of 50%, updates"),
    "merge-inserts": Case(title="MERGE of 1%, inserts only"),
    "merge-partitioned": Case(title="MERGE of 1%, 16 partitions", table="partitioned"),
    "merge-rewriting": Case(title="MERGE of 1%, without deletion vectors", table="plain"),
    "merge-wide": Case(title="MERGE of 1% of 1M rows, 100 columns", table="wide"),
    "update": Case(title="UPDATE of 1%"),
    "delete": Case(title="DELETE of 1%"),
    "delete-point": Case(title="DELETE of a row"),
    "delete-partition": Case(title="DELETE of a partition", table="partitioned"),
}


def target(kind: str, count: int = ROWS) -> Path:
    """Return the path of a table; create the table if it doesn't exist.

    Args:
        kind: `vectors` (deletion vectors), `plain`, `partitioned` or `wide`.
        count: number of rows; a wide table has an eighth of it.
    """
    path = CACHE / f"spark-tables-{kind}-{count}"
    if not bayou.table(str(path)).exists():
        properties = {"delta.enableDeletionVectors": str(kind != "plain").lower()}
        partition_by = ["day"] if kind == "partitioned" else None
        if kind == "wide":
            each = count * WIDE_ROWS // ROWS // WIDE_FILES
            parts = [_wide(n, each) for n in range(WIDE_FILES)]
        else:
            parts = [_rows(n, count // FILES) for n in range(FILES)]
            parts = [pa.concat_tables(parts)] if partition_by else parts
        for number, rows in enumerate(parts):
            if number:
                bayou.write(str(path), rows)
            else:
                bayou.write(str(path), rows, configuration=properties, partition_by=partition_by)
    return path


def run(
    console: Console,
    cases: Sequence[str],
    runs: int,
    variants: Sequence[str] = VARIANTS,
    *,
    peers: Path = PEERS,
    sizes: Sequence[int] = (ROWS,),
) -> None:
    """Measure the cases, and print a table for each case and size.

    Args:
        sizes: numbers of rows of the tables; with several, the title includes the size in MiB.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=CACHE) as folder,
        Sessions(peers) as sessions,
    ):
        for case, size in itertools.product(cases, sizes):
            kind = CASES[case].table
            table, small = target(kind, size), target(kind, size // WARM_UP)
            seconds: dict[str, list[float]] = {
                variant: [] for variant in sessions.variants(variants)
            }
            for number in range(runs + 1):
                for variant, taken in seconds.items():
                    copy = Path(folder, "copy")
                    rows = size if number else size // WARM_UP
                    shutil.copytree(table if number else small, copy, copy_function=os.link)
                    answer = sessions[variant].ask(
                        "spark_tables_work", case=case, table=str(copy), rows=rows
                    )
                    shutil.rmtree(copy)
                    if number:
                        taken.append(answer["seconds"])
            budgets = dict.fromkeys(OURS, BUDGET)
            title = CASES[case].title if len(sizes) == 1 else f"{CASES[case].title}, {_size(table)}"
            result = Result(title=title, seconds=seconds, budgets=budgets)
            console.print(grid(f"Changing {size:,} rows x 8 columns in {FILES} files", [result]))


def _size(table: Path) -> str:
    size = sum(file.stat().st_size for file in table.rglob("*.parquet"))
    return f"{size / (1 << 20):,.0f} MiB"


def _rows(part: int, count: int) -> pa.Table:
    """Return rows that are similar to those of `spark_write_work.COLUMNS`."""
    ids: Any = pa.array(range(part * count, (part + 1) * count), pa.int64())
    mixed = pc.bit_wise_and(pc.multiply(ids, 2_654_435_761), 0xFFFFFF)
    moments = pc.add(pc.multiply(ids, 1000), 1_700_000_000_000_000)
    days = pc.add(pc.cast(pc.bit_wise_and(ids, 15), pa.int32()), pa.scalar(FIRST_DAY, pa.int32()))
    numbers = pc.cast(ids, pa.string())
    return pa.table(
        {
            "id": ids,
            "few": pc.cast(pc.bit_wise_and(mixed, 1023), pa.int32()),
            "number": pc.cast(mixed, pa.int32()),
            "amount": pc.multiply(pc.cast(ids, pa.float64()), 0.37),
            "who": pc.binary_join_element_wise("user", pc.cast(mixed, pa.string()), "-"),
            "note": pc.binary_join_element_wise("a longer text of row", numbers, " "),
            "at": pc.cast(moments, pa.timestamp("us", "UTC")),
            "day": pc.cast(days, pa.date32()),
        }
    )


def _wide(part: int, count: int) -> pa.Table:
    ids: Any = pa.array(range(part * count, (part + 1) * count), pa.int64())
    columns = {
        f"c{n}": pc.bit_wise_and(pc.multiply(ids, 2_654_435_761 + n), 0xFFFFFF)
        for n in range(1, WIDE_COLUMNS)
    }
    return pa.table({"id": ids, **columns})


def main(arguments: Sequence[str]) -> None:
    """Parse the arguments and run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rows", type=int, nargs="+", default=[ROWS])
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--variants", nargs="+", choices=(*OURS, PEER), default=VARIANTS)
    parser.add_argument("--peers", type=Path, default=PEERS)
    options = parser.parse_args(arguments)
    console = Console(width=measure.WIDTH)
    run(
        console,
        options.cases,
        options.runs,
        options.variants,
        peers=options.peers,
        sizes=options.rows,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
