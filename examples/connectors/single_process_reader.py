"""A connector in one process: reads a Delta table with the kernel's API.

usage: single_process_reader.py TABLE [FILTER] [COLUMN ...]

The three functions are the three phases of a query engine: analysis, planning, execution.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import pyarrow as pa

from bayou.engines import for_path
from bayou.kernel import (
    CloseableIterator,
    Engine,
    FileSplit,
    Scan,
    ScanFile,
    Snapshot,
    Table,
    closeable,
)
from bayou.kernel.expressions.model import referenced_columns


def analyze(engine: Engine, path: str, version: int | None = None) -> Snapshot:
    """Analysis: resolve the table in the query to a version with its schema."""
    table = Table.for_path(engine, path)
    if version is not None:
        return table.snapshot_as_of_version(engine, version)
    return table.latest_snapshot(engine)


def plan(snapshot: Snapshot, columns: Sequence[str], filter: str | None) -> Scan:
    """Planning: build a scan that also reads the columns of the remaining filter."""
    builder = snapshot.scan_builder().with_filter(filter)
    remaining = builder.build().remaining_filter
    needed = {path[0] for path in referenced_columns(remaining)} if remaining else set()
    fields = tuple(f for f in snapshot.schema if f.name in needed or f.name in columns)
    return builder.with_read_schema(type(snapshot.schema)(fields)).build()


@closeable
def execute(engine: Engine, scan: Scan, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Execution: return the rows, file after file; closing the result closes open files."""
    matching = None
    if scan.remaining_filter is not None:
        schema = scan.scan_state(engine).logical_schema
        matching = engine.expressions.predicate_evaluator(schema, scan.remaining_filter)
    with scan.scan_files(engine).flat_map(lambda batch: batch.rows()) as files:
        for file in files:
            with read_file(engine, scan, file) as batches:
                for batch in batches:
                    if matching is not None:
                        yield batch.filter(matching.eval(batch)).select(columns)
                    else:
                        yield batch.select(columns)


def read_file(engine: Engine, scan: Scan, file: ScanFile) -> CloseableIterator[pa.RecordBatch]:
    """Return the rows of one data file; `bayou.kernel.read_scan_file` does this in one call."""
    state = scan.scan_state(engine)
    split = FileSplit(path=file.status.path, size=file.status.size)
    physical = engine.parquet.read_parquet_files(
        [split], state.physical_read_schema, state.physical_predicate
    )
    logical = Scan.transform_physical_data(engine, state, file, physical)
    return logical.map(lambda batch: batch.selected())


def main(arguments: Sequence[str]) -> None:
    """Print the rows of a table."""
    path, condition, *columns = [*arguments, ""] if len(arguments) == 1 else arguments
    engine = for_path(path)
    snapshot = analyze(engine, path)
    names = columns or list(snapshot.schema.names)
    scan = plan(snapshot, names, condition or None)
    rows = 0
    with execute(engine, scan, names) as batches:
        for batch in batches:
            rows += batch.num_rows
            for row in batch.to_pylist():
                print(row)
    print(f"{rows} rows of {snapshot.path}, version {snapshot.version}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
