"""What runs in tasks on executors: reading shares of files and slices of the log.

Everything arrives serialized and leaves as Arrow batches, so that a data source and a `mapInArrow`
can both use it.

Tasks of a read: files dealt out by bytes, big ones by their row groups.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
from bayou.kernel.engine import RowGroup
from bayou.kernel.engine.engine import EngineDescription
from bayou.kernel.scan.scan_file import scan_batch

__all__ = [
    "FileShare",
    "deal",
    "read_adds",
    "read_change_files",
    "read_files",
    "read_slice",
    "row_groups_of",
    "task_bytes",
]


MAX_TASK_BYTES = 128 * 1024 * 1024
"""About what a task reads at most, as `spark.sql.files.maxPartitionBytes` has it."""

MIN_TASK_BYTES = 4 * 1024 * 1024
"""Less isn't worth a task of its own."""

FILE_COST_BYTES = 1024 * 1024
"""What opening a file costs, in bytes that could be read in that time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileShare:
    """Share `part` of the `parts` into which a file is cut, by row groups.

    Attributes:
        file: index of the file.
        size: estimated bytes, what opening costs included.
    """

    file: int
    part: int
    parts: int
    size: int


def task_bytes(total: int, files: int, *, min_tasks: int, max_bytes: int = MAX_TASK_BYTES) -> int:
    """How much one task should read.

    Args:
        total: bytes of all files.
        files: how many they are.
        min_tasks: number of tasks to aim at where there is enough to read.
        max_bytes: upper limit.
    """
    cost = total + files * FILE_COST_BYTES
    return max(min(cost // max(1, min_tasks), max_bytes), min(MIN_TASK_BYTES, max_bytes))


def deal(sizes: Sequence[int], target: int) -> list[list[FileShare]]:
    """Deal files out to tasks of about `target` bytes each, the largest first.

    A file of more than `target` is cut into equal shares. Each share goes to the task that has
    least so far, so the fullest task has less than twice the average, unless one file's row groups
    are larger than that. Inside a task shares keep the order of the files.
    """
    shares = [
        FileShare(file=i, part=part, parts=parts, size=size // parts + FILE_COST_BYTES)
        for i, size in enumerate(sizes)
        for parts in (max(1, -(-size // target)),)
        for part in range(parts)
    ]
    if not shares:
        return []
    total = sum(share.size for share in shares)
    tasks: list[list[FileShare]] = [[] for _ in range(min(len(shares), -(-total // target)))]
    fill = [(0, i) for i in range(len(tasks))]
    for share in sorted(shares, key=lambda s: -s.size):
        load, i = fill[0]
        tasks[i].append(share)
        heapq.heapreplace(fill, (load + share.size, i))
    for task in tasks:
        task.sort(key=lambda s: (s.file, s.part))
    return tasks


def row_groups_of(row_groups: Sequence[RowGroup], part: int, parts: int) -> tuple[int, int]:
    """First and end row group of a share of a file.

    A row group belongs to the share in which its middle byte lies, so that tasks that know
    nothing of each other read every row group once.
    """
    total = sum(group.total_bytes for group in row_groups)
    if total == 0:  # nothing to weigh them by
        return (0, len(row_groups)) if part == 0 else (0, 0)
    first = end = None
    start = 0
    for i, group in enumerate(row_groups):
        middle = start + group.total_bytes // 2
        start += group.total_bytes
        if min(middle * parts // total, parts - 1) == part:
            first = i if first is None else first
            end = i + 1
    return (0, 0) if first is None or end is None else (first, end)


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
