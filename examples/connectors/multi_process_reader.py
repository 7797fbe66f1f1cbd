"""A connector with several processes: the driver distributes slices of the log to workers.

usage: multi_process_reader.py TABLE [FILTER] [WORKERS]

Workers receive the engine's description, the scan, its state and a slice as bytes. They return rows
in Arrow's stream format. The driver never holds the list of the table's files.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from bayou.engines import for_path, from_description
from bayou.kernel import (
    EngineDescription,
    LogSlice,
    Scan,
    ScanState,
    Table,
    closeable,
    read_scan_file,
)


@dataclass(frozen=True)
class Task:
    """The input of a worker. The engine description contains credentials: don't log a task."""

    engine: bytes
    scan: bytes
    state: bytes
    part: bytes

    def __repr__(self) -> str:
        return f"Task({len(self.part)} bytes of log)"


@closeable
def read_table(path: str, filter: str | None = None, workers: int = 2) -> Iterator[pa.RecordBatch]:
    """Return the rows of the table's latest version, in no particular order."""
    engine = for_path(path)
    snapshot = Table.for_path(engine, path).latest_snapshot(engine)
    scan = snapshot.scan_builder().with_filter(filter).build()
    tasks = [
        Task(
            engine=engine.description().to_bytes(),
            scan=scan.to_bytes(),
            state=scan.scan_state(engine).to_bytes(),
            part=part.to_bytes(),
        )
        for part in scan.slices(engine, max_slices=2 * workers)
    ]
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        for stream in pool.imap_unordered(run, tasks):
            with pa.ipc.open_stream(stream) as reader:
                yield from reader


def run(task: Task) -> bytes:
    """Run a task in a worker: replay the slice, read its files, apply the remaining filter."""
    engine = from_description(EngineDescription.from_bytes(task.engine))
    scan = Scan.from_bytes(task.scan)
    state = ScanState.from_bytes(task.state)
    matching = None
    if scan.remaining_filter is not None:
        matching = engine.expressions.predicate_evaluator(
            state.logical_schema, scan.remaining_filter
        )
    sink = pa.BufferOutputStream()
    found = scan.replay_slice(engine, LogSlice.from_bytes(task.part))
    files = found.flat_map(lambda batch: batch.rows())
    rows = files.flat_map(lambda file: read_scan_file(engine, state, file))
    with rows, pa.ipc.new_stream(sink, state.logical_arrow_schema) as writer:
        for batch in rows:
            if matching is not None:
                writer.write_batch(batch.filter(matching.eval(batch)))
            else:
                writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def main(arguments: Sequence[str]) -> None:
    """Print the number of rows of the table."""
    path, condition, workers = [*arguments, *["", "2"][len(arguments) - 1 :]]
    with read_table(path, condition or None, int(workers)) as batches:
        print(sum(batch.num_rows for batch in batches), "rows")


if __name__ == "__main__":
    main(sys.argv[1:])
