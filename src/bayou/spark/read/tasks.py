"""What runs in tasks on executors: reading shares of files and slices of the log.

Everything arrives serialized and leaves as Arrow batches, so that a data source and a `mapInArrow`
can both use it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from bayou.engines import from_description
from bayou.kernel import (
    ChangeFile,
    ChangeState,
    LogSlice,
    Scan,
    ScanFile,
    ScanFileBatch,
    ScanState,
    read_change_file,
    read_scan_file,
    with_vectors,
)
from bayou.kernel.engine.description import EngineDescription
from bayou.kernel.scan.scan_file import scan_batch
from bayou.spark.read.partitions import row_groups_of

__all__ = [
    "read_adds",
    "read_change_files",
    "read_files",
    "read_slice",
]


def read_files(
    description: EngineDescription, state: bytes, shares: Sequence[tuple[bytes, int, int]]
) -> Iterator[pa.RecordBatch]:
    """The rows of shares of files.

    Args:
        description: how to reach the store.
        state: a `ScanState`.
        shares: `ScanFile`, share, number of shares.

    Returns:
        Batches in the scan's logical schema; its remaining filter isn't applied.
    """
    engine = from_description(description)
    scan_state = ScanState.from_bytes(state)
    files = ((ScanFile.from_bytes(data), part, parts) for data, part, parts in shares)
    prepared = with_vectors(engine, scan_state.table, files, lambda f: [f[0].deletion_vector])
    for (file, part, parts), vectors in prepared:
        if parts == 1:
            yield from read_scan_file(engine, scan_state, file, vectors=vectors)
            continue
        first, end = row_groups_of(engine.parquet.read_row_groups(file.status), part, parts)
        if first < end:
            yield from read_scan_file(engine, scan_state, file, first, end, vectors=vectors)


def read_slice(
    description: EngineDescription, state: bytes, scan: bytes, log_slice: bytes
) -> Iterator[pa.RecordBatch]:
    """The rows of the files that a slice of the log names, which is replayed here.

    Args:
        description: how to reach the store.
        state: a `ScanState`.
        scan: the `Scan`.
        log_slice: a `LogSlice` of it.
    """
    engine = from_description(description)
    scan_state = ScanState.from_bytes(state)
    batches = Scan.from_bytes(scan).replay_slice(engine, LogSlice.from_bytes(log_slice))
    files = batches.flat_map(lambda batch: batch.rows())
    prepared = with_vectors(engine, scan_state.table, files, lambda f: [f.deletion_vector])
    for file, vectors in prepared:
        yield from read_scan_file(engine, scan_state, file, vectors=vectors)


def read_adds(
    description: EngineDescription, state: bytes, log_slice: bytes
) -> Iterator[pa.RecordBatch]:
    """The rows of the files that a slice holds in itself.

    Args:
        description: how to reach the store.
        state: a `ScanState`.
        log_slice: a `LogSlice` with files, none of a checkpoint.
    """
    engine = from_description(description)
    scan_state = ScanState.from_bytes(state)
    adds = LogSlice.from_bytes(log_slice).adds
    assert adds is not None  # that is what the slice was made of
    files = ScanFileBatch(scan_batch(scan_state.table, adds)).rows()
    prepared = with_vectors(engine, scan_state.table, files, lambda f: [f.deletion_vector])
    for file, vectors in prepared:
        yield from read_scan_file(engine, scan_state, file, vectors=vectors)


def read_change_files(
    description: EngineDescription, state: bytes, shares: Sequence[tuple[bytes, int, int]]
) -> Iterator[pa.RecordBatch]:
    """The rows of shares of files of changes.

    Args:
        description: how to reach the store.
        state: a `ChangeState`.
        shares: `ChangeFile`, share, number of shares.

    Returns:
        Batches of the table's columns that are read and those of the change data feed.
    """
    engine = from_description(description)
    change_state = ChangeState.from_bytes(state)
    files = ((ChangeFile.from_bytes(data), part, parts) for data, part, parts in shares)
    table = change_state.scan_state.table
    prepared = with_vectors(engine, table, files, lambda f: f[0].deletion_vectors)
    for (file, part, parts), vectors in prepared:
        if parts == 1:
            yield from read_change_file(engine, change_state, file, vectors=vectors)
            continue
        groups = engine.parquet.read_row_groups(file.file.status)
        first, end = row_groups_of(groups, part, parts)
        if first < end:
            yield from read_change_file(engine, change_state, file, first, end, vectors=vectors)
