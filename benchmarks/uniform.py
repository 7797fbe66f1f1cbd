"""Cost of the conversion to Iceberg for each commit, on tables of few and of very many files.

usage: PYTHONPATH=tools:src benchmarks/uniform.py [--files N ...] [--runs N]

For each size, a table with Iceberg metadata gets commits that add ten files, and commits that
remove ten files of the table. The conversion of each commit is measured beside the commit itself,
and beside pyiceberg, which appends ten files to the same Iceberg table in an SQL catalog. There are
no data files, because neither side opens them.
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
from statistics import median
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table as Grid

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.kernel import Operation, Table
from bayou.kernel.iceberg.delta_to_iceberg import convert
from bayou.protocol.actions import Action, AddFile, RemoveFile

FILES = (1, 1000, 1_000_000)
CHANGED = 10
CONFIGURATION = {
    "delta.enableIcebergCompatV2": "true",
    "delta.universalFormat.enabledFormats": "iceberg",
    "delta.checkpointInterval": "1000000",
}
SCHEMA = pa.schema({"id": pa.int64(), "user": pa.string(), "price": pa.float64()})
STRINGS = {"user": ("user-00001", "user-99999")}


def main(arguments: Sequence[str]) -> None:
    """Measure tables of each size, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="+", default=FILES)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args(arguments)
    run(Console(width=110), options.files, options.runs)


def run(console: Console, sizes: Sequence[int], runs: int) -> None:
    """Measure tables of each size, and print a table."""
    grid = Grid(title="Conversion to Iceberg for each commit, seconds", title_justify="left")
    for heading in (
        "files",
        "whole table",
        "commit of 10 adds",
        "its conversion",
        "beside the commit",
        "beside pyiceberg",
        "of 10 removes",
    ):
        grid.add_column(heading, justify="right")
    for size in sizes:
        folder = Path(tempfile.mkdtemp())
        try:
            whole, commit, adds, removes, peer = _measure(folder, size, runs)
        finally:
            shutil.rmtree(folder)
        grid.add_row(
            f"{size:,}",
            f"{whole:.3g}",
            f"{commit:.3g}",
            f"{adds:.3g}",
            f"{adds / commit:.2f}x",
            f"{adds / peer:.2f}x",
            f"{removes:.3g}",
        )
    console.print(grid)


def _measure(folder: Path, size: int, runs: int) -> tuple[float, float, float, float, float]:
    engine = ArrowEngine()
    path = str(folder / "table")
    _create(path, size)
    start = time.perf_counter()
    convert(engine, path, full=True)
    whole = time.perf_counter() - start
    commits, adds, removes = [], [], []
    for number in range(runs):
        added = [_add(path, f"new-{number}-{i}", i) for i in range(CHANGED)]
        commits.append(_commit(engine, path, added))
        adds.append(_converted(engine, path))
        removed = [
            RemoveFile(path=add.path, data_change=True, size=add.size, deletion_timestamp=1)
            for add in (_add(path, _name(i), i) for i in _spread(size, number, runs))
        ]
        if removed:
            _commit(engine, path, removed)
            removes.append(_converted(engine, path))
    peer = _pyiceberg(folder, path, runs)
    return whole, median(commits), median(adds), median(removes or [0.0]), peer


def _spread(size: int, number: int, runs: int) -> list[int]:
    """Return the numbers of ten files of one manifest; other runs remove other files."""
    if size < CHANGED * runs:
        return []
    first = number * (size // runs)
    return list(range(first, first + CHANGED))


def _create(path: str, size: int) -> None:
    bayou.create(path, SCHEMA, configuration=CONFIGURATION)
    with (Path(path) / "_delta_log" / f"{1:020}.json").open("wb") as log:
        log.write(json.dumps({"commitInfo": {"operation": "WRITE"}}).encode())
        for number in range(size):
            add = _add(path, _name(number), number)
            fields = {
                "path": add.path,
                "partitionValues": {},
                "size": add.size,
                "modificationTime": add.modification_time,
                "dataChange": True,
                "stats": add.stats,
            }
            log.write(b"\n" + json.dumps({"add": fields}).encode())
    bayou.table(path).create_checkpoint()


def _name(number: int) -> str:
    return f"part-{number:08}"


def _add(path: str, name: str, number: int) -> AddFile:
    columns = _physical_names(path)
    identifier, user, price = columns
    low, high = STRINGS["user"]
    stats = {
        "numRecords": 1000,
        "minValues": {identifier: number * 1000, user: low, price: 0.5},
        "maxValues": {identifier: number * 1000 + 999, user: high, price: 99.5},
        "nullCount": dict.fromkeys(columns, 0),
    }
    return AddFile(
        path=f"{name}.parquet",
        partition_values={},
        size=100_000,
        modification_time=1_700_000_000_000,
        data_change=True,
        stats=json.dumps(stats),
    )


_NAMES: dict[str, tuple[str, ...]] = {}


def _physical_names(path: str) -> tuple[str, ...]:
    if path not in _NAMES:
        fields = bayou.table(path).schema()
        _NAMES[path] = tuple(f.metadata["delta.columnMapping.physicalName"] for f in fields)
    return _NAMES[path]


def _commit(engine: ArrowEngine, path: str, actions: Sequence[Action]) -> float:
    snapshot = Table.for_path(engine, path).latest_snapshot(engine)
    start = time.perf_counter()
    builder = snapshot.build_update_table_transaction("benchmark", Operation.WRITE)
    builder.build(engine).commit(engine, actions)  # without its hooks
    return time.perf_counter() - start


def _converted(engine: ArrowEngine, path: str) -> float:
    start = time.perf_counter()
    convert(engine, path)
    return time.perf_counter() - start


def _pyiceberg(folder: Path, path: str, runs: int) -> float:
    """Return the seconds of pyiceberg's append of ten files."""
    from pyiceberg.catalog import load_catalog
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    catalog: dict[str, Any] = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db"}
    bayou.table(path).iceberg.register("bench.files", None, catalog)
    table = load_catalog("default", **catalog).load_table("bench.files")
    seconds = []
    for number in range(runs):
        start = time.perf_counter()
        with (
            table.transaction() as transaction,
            transaction.update_snapshot().fast_append() as append,
        ):
            for i in range(CHANGED):
                file = DataFile.from_args(
                    content=DataFileContent.DATA,
                    file_path=f"file://{path}/peer-{number}-{i}.parquet",
                    file_format=FileFormat.PARQUET,
                    partition=Record(),
                    record_count=1000,
                    file_size_in_bytes=100_000,
                )
                file.spec_id = table.spec().spec_id
                append.append_data_file(file)
        seconds.append(time.perf_counter() - start)
    return median(seconds)


if __name__ == "__main__":
    main(sys.argv[1:])
