"""Computes the end offset of the next micro-batch, and checks the number of files in a version.

`next_offset` and `next_feed_offset` iterate over the commits until a read limit is reached. A
commit is read from the log when the iteration reaches it. Therefore commits after the limit aren't
read.
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
    """The number and sizes of the files in a commit or in the initial snapshot.

    Attributes:
        count: number of files.
        sizes: function that takes the index of a file, and yields arrays with the sizes in bytes of
            this file and all later files.
        excluded: for a change data feed, the indexes of the files that `excludeRegex` excludes;
            empty for other streams.
        in_one_batch: whether all files of the commit must be in the same batch.
        changes_metadata: whether the commit changes the metadata. If true, a batch must end before
            the commit.
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
    limits: RemainingLimits | None,
    bound: SourceOffset | None,
) -> SourceOffset:
    """Return the end offset of the next micro-batch.

    If there is nothing to read, the result is `start`.

    Args:
        commits: the commits from the version of `start` on. If `start` is an offset in the initial
            snapshot, the first element is the initial snapshot.
        limits: the read limits of the batch; None for no limits.
        bound: the maximum end offset; None for no maximum.
    """
    last = start.position
    for commit in commits:
        base = (commit.version, BASE_INDEX)
        if base > last:
            if bound is not None and base > bound.position:
                break
            last = base
            if limits is not None:
                limits.begin()
        if bound is not None and bound.position == base:
            break
        if commit.changes_metadata and (commit.version, METADATA_CHANGE_INDEX) > last:
            last = (commit.version, METADATA_CHANGE_INDEX)
            break
        first = max(0, last[1] + 1) if last[0] == commit.version else 0
        end = _end(commit, bound)
        admitted_files = _admit_range(commit, first, end, limits)
        if admitted_files:
            last = (commit.version, first + admitted_files - 1)
        if first + admitted_files < commit.count or _is_last(commit, bound):
            break
        last = (commit.version, END_INDEX)
    return start.advanced_to(*last) if last != start.position else start


def next_feed_offset(
    start: SourceOffset,
    commits: Iterator[CommitFileSizes],
    limits: RemainingLimits | None,
    bound: SourceOffset | None,
) -> SourceOffset:
    """Return the end offset of the next micro-batch of a change data feed; see `next_offset`.

    With read limits, a batch ends earlier than with `next_offset` in two cases:

    - If the last file of the batch is the last change data file of a commit, the batch ends at this
      file, and not at the start of the next version.
    - If the batch has reached a limit, it doesn't include the next commits, even if these commits
      have no files.
    """
    last = start.position
    for commit in commits:
        if limits is not None and not limits.has_room:
            break
        base = (commit.version, BASE_INDEX)
        if bound is not None and base > bound.position:
            break
        if base > last and (limits is None or not commit.in_one_batch):
            last = base
            if limits is not None:
                limits.begin()
        if bound is not None and bound.position == base:
            break
        if commit.changes_metadata:
            last = max(last, (commit.version, METADATA_CHANGE_INDEX))
            break
        last_read = start.index if start.version == commit.version else BASE_INDEX
        indexes: Sequence[int] = range(max(0, last_read + 1), _end(commit, bound))
        if commit.excluded:
            indexes = [n for n in indexes if n not in commit.excluded]
        ends = not _is_last(commit, bound)
        if limits is None:
            if indexes:
                last = (commit.version, indexes[-1])
            if ends:
                last = (commit.version, END_INDEX)
            continue
        if commit.in_one_batch:
            virtual_files = 0 if commit.has_change_data_files else (base > start.position) + ends
            size = _total(commit, indexes)
            if not limits.admit_together(len(indexes) + virtual_files, size):
                break
            if indexes:
                last = (commit.version, indexes[-1])
            if ends and not commit.has_change_data_files:
                last = (commit.version, END_INDEX)
            continue
        admitted_files = _admit_files(commit, indexes, limits)
        if admitted_files:
            last = (commit.version, indexes[admitted_files - 1])
        if admitted_files < len(indexes) or not ends:
            break
        last = (commit.version, END_INDEX)
    return start.advanced_to(*last) if last != start.position else start


def _end(commit: CommitFileSizes, bound: SourceOffset | None) -> int:
    """Return how many files of a commit are at or before `bound`; all files if `bound` is None."""
    if bound is None or bound.version > commit.version:
        return commit.count
    return max(0, min(commit.count, bound.index + 1)) if bound.version == commit.version else 0


def _is_last(commit: CommitFileSizes, bound: SourceOffset | None) -> bool:
    return bound is not None and bound.version == commit.version


def _admit_range(
    commit: CommitFileSizes, first: int, end: int, limits: RemainingLimits | None
) -> int:
    """Add the files from index `first` to `end` (exclusive) to the batch, up to the read limits.

    Returns the number of added files.
    """
    if limits is None or first >= end:
        return max(0, end - first)
    admitted_files, remaining = 0, end - first
    for sizes in commit.sizes(first):
        chunk = sizes.slice(0, remaining - admitted_files)
        admitted = limits.admit(chunk)
        admitted_files += admitted
        if admitted < len(chunk) or admitted_files == remaining:
            break
    return admitted_files


def _admit_files(commit: CommitFileSizes, indexes: Sequence[int], limits: RemainingLimits) -> int:
    if not indexes:
        return 0
    if not commit.excluded:
        return _admit_range(commit, indexes[0], indexes[-1] + 1, limits)
    return limits.admit(_all_sizes(commit).take(pa.array(indexes)))


def _total(commit: CommitFileSizes, indexes: Sequence[int]) -> int:
    sizes: list[Any] = _all_sizes(commit).to_pylist() if indexes else []
    return sum(sizes[n] for n in indexes)


def _all_sizes(commit: CommitFileSizes) -> pa.Array[Any]:
    return pa.concat_arrays(list(commit.sizes(0)))


def check_initial_files(engine: Engine, state: TableState, limit: int | None) -> None:
    """Raise `ArgumentError` if a version has more than `limit` files; None means no limit."""
    if limit is not None:
        check_file_limit(state, count_files(engine, state), limit)


def check_file_limit(state: TableState, count: int, limit: int) -> None:
    """Raise `ArgumentError` if `count`, the number of files in a version, is above `limit`."""
    if count > limit:
        raise ArgumentError(
            f"Table {state.path}: version {state.version} has {count} files, but the initial "
            f"snapshot of a stream is limited to {limit} files "
            f"({' or '.join(MAX_INITIAL_SNAPSHOT_FILE_COUNT.names)}). Raise the limit, or set "
            "startingVersion or startingTimestamp to start without an initial snapshot.",
            argument=MAX_INITIAL_SNAPSHOT_FILE_COUNT.name,
        )
