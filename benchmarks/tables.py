"""Creates the tables that the parts of `make bench` read, in two processes.

Each part creates the tables that don't exist. Before a run of all parts, this takes half the time.
"""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import million_files
import read_changes
import scan_rows
import spark_scan
import spark_stream
import spark_tables
import tpc_suite
import tpcds
import tpch
import write_rows

__all__ = ["TABLES", "create"]

_FILES = 1_000_000


def _rows_to_write(properties: dict[str, str] | None) -> None:
    million_files.CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=million_files.CACHE) as folder:
        write_rows._table(Path(folder), 1, properties)  # noqa: SLF001


TABLES: dict[str, Callable[[], object]] = {
    "changes": partial(read_changes.changes_table, read_changes.ROWS),
    "TPC-H": partial(tpc_suite.tables_folder, tpch.SUITE, tpch.SUITE.scale),
    "1,000,000 files": partial(million_files.table_with, _FILES, "one-row-group"),
    "1,000,000 files, row groups": partial(spark_stream.table_with, _FILES),
    "16,000,000 rows": partial(scan_rows.rows_table, scan_rows.ROWS),
    "small files": partial(scan_rows.small_files_table, scan_rows.SMALL_FILES),
    "TPC-DS": partial(tpc_suite.tables_folder, tpcds.SUITE, tpcds.SUITE.scale),
    "8,000,000 rows": spark_scan.rows_table,
    "8,000,000 rows to change": partial(spark_tables.target, "vectors"),
    "8,000,000 rows to delete": partial(_rows_to_write, None),
    "8,000,000 rows with vectors": partial(_rows_to_write, write_rows.VECTORS),
    "a tenth of a million files": partial(million_files.table_with, _FILES // 10, "row-groups"),
}
"""Functions that create a table if it doesn't exist; the slowest come first."""


def create() -> None:
    """Create the tables."""
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=spawned) as pool:
        for _ in pool.map(_create, TABLES):
            pass


def _create(name: str) -> None:
    TABLES[name]()
