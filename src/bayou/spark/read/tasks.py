"""Distributes files over tasks by size, and reads the files in tasks.

The functions that run in tasks take serialized arguments, and yield Arrow batches.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from bayou.engines import from_description
from bayou.kernel import (
    ChangeFile,
    ChangeState,
    Engine,
    LogSlice,
    Scan,
    ScanFile,
    ScanFileBatch,
    ScanState,
    prefetch_vectors,
    read_change_file,
    read_scan_file,
)
from bayou.kernel.engine import RowGroup
from bayou.kernel.engine.engine import EngineDescription
from bayou.kernel.scan.scan_file import scan_batch

MAX_TASK_BYTES = 128 * 1024 * 1024
"""Approximate maximum size of a task; the default of `spark.sql.files.maxPartitionBytes`."""

MIN_TASK_BYTES = 4 * 1024 * 1024
"""Minimum number of bytes of a task."""

FILE_COST_BYTES = 1024 * 1024
"""Cost of opening a file, as the number of bytes that can be read in the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart:
    """A part of a file: some of the file's row groups. One task reads the part.

    Attributes:
        file: index of the file in the list of files.
        part: index of this part in the file, from 0 to `parts` - 1.
        parts: number of parts into which the file is split.
        size: estimated number of bytes of this part, plus the cost of opening the file.
    """

    file: int
    part: int
    parts: int
    size: int


def task_bytes(total: int, files: int, *, min_tasks: int, max_bytes: int = MAX_TASK_BYTES) -> int:
    """Return the number of bytes that each task should read, at most `max_bytes`.

    Args:
        total: total size of all files in bytes.
        files: number of files.
        min_tasks: desired number of tasks. If tasks would be too small, there are fewer tasks.
    """
    cost = total + files * FILE_COST_BYTES
    return max(min(cost // max(1, min_tasks), max_bytes), min(MIN_TASK_BYTES, max_bytes))


def assign_files(sizes: Sequence[int], target: int) -> list[list[FilePart]]:
    """Distribute files over tasks of about `target` bytes; return the parts that each task reads.

    A file of more than `target` bytes is split into equal parts. Beginning with the largest part,
    each part is assigned to the task with the fewest bytes. No task has more than twice the average
    number of bytes, unless a single row group is larger. The parts of a task are in file order.

    Args:
        sizes: the size of each file in bytes.
    """
    file_parts = [
        FilePart(file=i, part=part, parts=parts, size=size // parts + FILE_COST_BYTES)
        for i, size in enumerate(sizes)
        for parts in (max(1, -(-size // target)),)
        for part in range(parts)
    ]
    if not file_parts:
        return []
    total = sum(file_part.size for file_part in file_parts)
    tasks: list[list[FilePart]] = [[] for _ in range(min(len(file_parts), -(-total // target)))]
    loads = [(0, i) for i in range(len(tasks))]
    for file_part in sorted(file_parts, key=lambda s: -s.size):
        load, i = loads[0]
        tasks[i].append(file_part)
        heapq.heapreplace(loads, (load + file_part.size, i))
    for task in tasks:
        task.sort(key=lambda s: (s.file, s.part))
    return tasks


def row_groups_of(row_groups: Sequence[RowGroup], part: int, parts: int) -> tuple[int, int]:
    """Return the range of row groups in a part of a file, as (first index, last index + 1).

    The range is `(0, 0)` if the part has no row groups. A row group belongs to the part that
    contains the row group's middle byte. Therefore each row group belongs to exactly one part.
    """
    total = sum(group.total_bytes for group in row_groups)
    if total == 0:  # no sizes to split by
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
    description: EngineDescription, state: bytes, file_parts: Sequence[tuple[bytes, int, int]]
) -> Iterator[pa.RecordBatch]:
    """Read parts of files with the logical schema of the scan. The rows aren't filtered.

    Args:
        state: serialized `ScanState`.
        file_parts: (serialized `ScanFile`, index of the part in the file, number of parts of the
            file) for each part.
    """
    engine = from_description(description)
    scan_state = ScanState.from_bytes(state)
    files = ((ScanFile.from_bytes(data), part, parts) for data, part, parts in file_parts)
    prepared = prefetch_vectors(engine, scan_state.table, files, lambda f: [f[0].deletion_vector])
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
    """Replay a slice of the log, and read the files in the slice; all arguments are serialized."""
    engine = from_description(description)
    scan_state = ScanState.from_bytes(state)
    batches = Scan.from_bytes(scan).replay_slice(engine, LogSlice.from_bytes(log_slice))
    yield from _read_scan_files(engine, scan_state, batches.flat_map(lambda batch: batch.rows()))


def read_adds(
    description: EngineDescription, state: bytes, log_slice: bytes
) -> Iterator[pa.RecordBatch]:
    """Read the files in the attribute `adds` of a `LogSlice`, without a replay of the log."""
    engine = from_description(description)
    scan_state = ScanState.from_bytes(state)
    adds = LogSlice.from_bytes(log_slice).adds
    assert adds is not None  # the slice was planned with `adds`
    files = ScanFileBatch(scan_batch(scan_state.table, adds)).rows()
    yield from _read_scan_files(engine, scan_state, files)


def _read_scan_files(
    engine: Engine, scan_state: ScanState, files: Iterable[ScanFile]
) -> Iterator[pa.RecordBatch]:
    prepared = prefetch_vectors(engine, scan_state.table, files, lambda f: [f.deletion_vector])
    for file, vectors in prepared:
        yield from read_scan_file(engine, scan_state, file, vectors=vectors)


def read_change_files(
    description: EngineDescription, state: bytes, file_parts: Sequence[tuple[bytes, int, int]]
) -> Iterator[pa.RecordBatch]:
    """Read parts of the files of a change data feed. The rows have the columns of the feed.

    Args:
        state: serialized `ChangeState`.
        file_parts: (serialized `ChangeFile`, index of the part in the file, number of parts of the
            file) for each part.
    """
    engine = from_description(description)
    change_state = ChangeState.from_bytes(state)
    files = ((ChangeFile.from_bytes(data), part, parts) for data, part, parts in file_parts)
    table = change_state.scan_state.table
    prepared = prefetch_vectors(engine, table, files, lambda f: f[0].deletion_vectors)
    for (file, part, parts), vectors in prepared:
        if parts == 1:
            yield from read_change_file(engine, change_state, file, vectors=vectors)
            continue
        groups = engine.parquet.read_row_groups(file.file.status)
        first, end = row_groups_of(groups, part, parts)
        if first < end:
            yield from read_change_file(engine, change_state, file, first, end, vectors=vectors)
