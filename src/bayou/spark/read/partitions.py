"""Tasks of a read: files dealt out by bytes, big ones by their row groups."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from bayou.kernel.engine import RowGroup

__all__ = ["FileShare", "deal", "row_groups_of", "task_bytes"]

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
