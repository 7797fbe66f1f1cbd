"""Planning of micro-batches: the next end offset, and the file limit of the initial snapshot.

The planning functions take an iterator of commits, which reads a commit only when the iteration
reaches it. The iteration ends at the read limits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bayou.errors import ArgumentError
from bayou.kernel.crc.file_totals import count_files
from bayou.kernel.engine import Engine
from bayou.kernel.log.table_state import TableState
from bayou.spark.session.settings import MAX_INITIAL_SNAPSHOT_FILE_COUNT
from bayou.spark.streaming.offsets import (
    BASE_INDEX,
    END_INDEX,
    METADATA_CHANGE_INDEX,
    SourceOffset,
)
from bayou.spark.streaming.read_limits import RemainingLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFileSizes:
    """The number and sizes of the files of a commit, or of the initial snapshot.

    Attributes:
        sizes: function that takes an index, and returns the sizes (bytes) of the files from this
            index on, as a sequence of arrays.
        excluded: indexes of files that `excludeRegex` excludes; only for a change data feed.
        in_one_batch: whether all files of the commit must be in the same batch.
        changes_metadata: whether the commit changes the metadata. If so, a batch must end before
            this commit.
    """

    version: int
    count: int
    sizes: Callable[[int], Iterable[pa.Array[Any]]]
    excluded: frozenset[int] = frozenset()
    has_change_data_files: bool = False
    in_one_batch: bool = False
    changes_metadata: bool = False


def next_offset(
    start: SourceOffset,
    commits: Iterator[CommitFileSizes],
    admission: RemainingLimits | None,
    bound: SourceOffset | None,
) -> SourceOffset:
    """Return the end offset of the next micro-batch; `start` if there is nothing to read.

    Args:
        commits: the commits from the version of `start` on. If `start` is in the initial snapshot,
            the snapshot comes first.
        admission: the remaining read limits; None for no limit.
        bound: the maximum end offset; None for no maximum.
    """
    last = start.position
    for commit in commits:
        base = (commit.version, BASE_INDEX)
        if base > last:
            if bound is not None and base > bound.position:
                break
            last = base
            if admission is not None:
                admission.begin()
        if bound is not None and bound.position == base:
            break
        if commit.changes_metadata and (commit.version, METADATA_CHANGE_INDEX) > last:
            last = (commit.version, METADATA_CHANGE_INDEX)
            break
        first = max(0, last[1] + 1) if last[0] == commit.version else 0
        end = _end(commit, bound)
        taken = _admit_range(commit, first, end, admission)
        if taken:
            last = (commit.version, first + taken - 1)
        if first + taken < commit.count or _is_last(commit, bound):
            break
        last = (commit.version, END_INDEX)
    return start.advanced_to(*last) if last != start.position else start


def next_feed_offset(
    start: SourceOffset,
    commits: Iterator[CommitFileSizes],
    admission: RemainingLimits | None,
    bound: SourceOffset | None,
) -> SourceOffset:
    """Return the end offset of the next micro-batch of a change data feed; see `next_offset`.

    With read limits, if a batch ends with the last change data file of a commit, the end offset is
    the offset of this file, not the start of the next version. If a batch is full, commits after it
    that have no files belong to the next batch.
    """
    last = start.position
    for commit in commits:
        if admission is not None and not admission.has_room:
            break
        base = (commit.version, BASE_INDEX)
        if bound is not None and base > bound.position:
            break
        if base > last and (admission is None or not commit.in_one_batch):
            last = base
            if admission is not None:
                admission.begin()
        if bound is not None and bound.position == base:
            break
        if commit.changes_metadata:
            last = max(last, (commit.version, METADATA_CHANGE_INDEX))
            break
        last_read = start.index if start.version == commit.version else BASE_INDEX
        numbers: Sequence[int] = range(max(0, last_read + 1), _end(commit, bound))
        if commit.excluded:
            numbers = [n for n in numbers if n not in commit.excluded]
        ends = not _is_last(commit, bound)
        if admission is None:
            if numbers:
                last = (commit.version, numbers[-1])
            if ends:
                last = (commit.version, END_INDEX)
            continue
        if commit.in_one_batch:
            dummies = 0 if commit.has_change_data_files else (base > start.position) + ends
            size = _total(commit, numbers)
            if not admission.admit_together(len(numbers) + dummies, size):
                break
            if numbers:
                last = (commit.version, numbers[-1])
            if ends and not commit.has_change_data_files:
                last = (commit.version, END_INDEX)
            continue
        taken = _admit_files(commit, numbers, admission)
        if taken:
            last = (commit.version, numbers[taken - 1])
        if taken < len(numbers) or not ends:
            break
        last = (commit.version, END_INDEX)
    return start.advanced_to(*last) if last != start.position else start


def _end(commit: CommitFileSizes, bound: SourceOffset | None) -> int:
    """Return how many of the commit's files the bound allows; all files if `bound` is None."""
    if bound is None or bound.version > commit.version:
        return commit.count
    return max(0, min(commit.count, bound.index + 1)) if bound.version == commit.version else 0


def _is_last(commit: CommitFileSizes, bound: SourceOffset | None) -> bool:
    return bound is not None and bound.version == commit.version


def _admit_range(
    commit: CommitFileSizes, first: int, end: int, admission: RemainingLimits | None
) -> int:
    """Return how many files from index `first` to `end` (exclusive) the read limits allow."""
    if admission is None or first >= end:
        return max(0, end - first)
    taken, remaining = 0, end - first
    for sizes in commit.sizes(first):
        chunk = sizes.slice(0, remaining - taken)
        admitted = admission.admit(chunk)
        taken += admitted
        if admitted < len(chunk) or taken == remaining:
            break
    return taken


def _admit_files(
    commit: CommitFileSizes, numbers: Sequence[int], admission: RemainingLimits
) -> int:
    if not numbers:
        return 0
    if not commit.excluded:
        return _admit_range(commit, numbers[0], numbers[-1] + 1, admission)
    return admission.admit(_all_sizes(commit).take(pa.array(numbers)))


def _total(commit: CommitFileSizes, numbers: Sequence[int]) -> int:
    sizes: list[Any] = _all_sizes(commit).to_pylist() if numbers else []
    return sum(sizes[n] for n in numbers)


def _all_sizes(commit: CommitFileSizes) -> pa.Array[Any]:
    return pa.concat_arrays(list(commit.sizes(0)))


def check_initial_files(engine: Engine, state: TableState, limit: int | None) -> None:
    """Raise `ArgumentError` if a version has more than `limit` files (None: no limit)."""
    if limit is not None:
        check_file_limit(state, count_files(engine, state), limit)


def check_file_limit(state: TableState, count: int, limit: int) -> None:
    """Raise `ArgumentError` if `count`, the number of a version's files, is above `limit`."""
    if count > limit:
        raise ArgumentError(
            f"Table {state.path}: version {state.version} has {count} files, but the initial "
            f"snapshot of a stream is limited to {limit} files "
            f"({' or '.join(MAX_INITIAL_SNAPSHOT_FILE_COUNT.names)}). Raise the limit, or set "
            "startingVersion or startingTimestamp to start without an initial snapshot.",
            argument=MAX_INITIAL_SNAPSHOT_FILE_COUNT.name,
        )
