"""How far the next micro-batch goes: from where a stream stands, as far as it may.

Nothing is read here: commits and the files of the initial snapshot come as values, lazily, so that
a commit that isn't looked at isn't read, and none that a limit keeps out is checked too early.

Whether a table has more files than a stream may begin with.
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
from bayou.spark.streaming.read_limits import Admission

__all__ = [
    "CommitPlaces",
    "check_initial_files",
    "next_feed_offset",
    "next_offset",
    "refuse_more_files",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPlaces:
    """Places of a commit, or of the initial snapshot.

    Attributes:
        version: of the commit.
        count: number of files.
        sizes: gives, from a file on, the sizes of the files in pieces.
        left_out: numbers of files that have no place in a batch (`excludeRegex` of a change feed).
        recorded: change data files.
        whole: in one batch or none.
        barrier: a change of metadata stands before the files.
    """

    version: int
    count: int
    sizes: Callable[[int], Iterable[pa.Array[Any]]]
    left_out: frozenset[int] = frozenset()
    recorded: bool = False
    whole: bool = False
    barrier: bool = False


def next_offset(
    start: SourceOffset,
    places: Iterator[CommitPlaces],
    admission: Admission | None,
    bound: SourceOffset | None,
) -> SourceOffset:
    """Where the next micro-batch ends, `start` itself where there is nothing to read.

    Args:
        start: where the stream stands.
        places: from the version of `start` on; the first is the initial snapshot's if `start` is
            in it.
        admission: None for no limit.
        bound: not beyond here.
    """
    last = start.place
    for commit in places:
        base = (commit.version, BASE_INDEX)
        if base > last:
            if bound is not None and base > bound.place:
                break
            last = base
            if admission is not None:
                admission.begin()
        if bound is not None and bound.place == base:
            break
        if commit.barrier and (commit.version, METADATA_CHANGE_INDEX) > last:
            last = (commit.version, METADATA_CHANGE_INDEX)
            break
        first = max(0, last[1] + 1) if last[0] == commit.version else 0
        end = _end(commit, bound)
        taken = _admitted(commit, first, end, admission)
        if taken:
            last = (commit.version, first + taken - 1)
        if first + taken < commit.count or _is_last(commit, bound):
            break
        last = (commit.version, END_INDEX)
    return start.behind(*last) if last != start.place else start


def next_feed_offset(
    start: SourceOffset,
    places: Iterator[CommitPlaces],
    admission: Admission | None,
    bound: SourceOffset | None,
) -> SourceOffset:
    """`next_offset` for rows of the change data feed.

    Where rates are limited, a commit with change data files ends at its last file, not at the next
    version, and once there is no room commits without files aren't passed over.
    """
    last = start.place
    for commit in places:
        if admission is not None and not admission.has_room:
            break
        base = (commit.version, BASE_INDEX)
        if bound is not None and base > bound.place:
            break
        if base > last and (admission is None or not commit.whole):
            last = base
            if admission is not None:
                admission.begin()
        if bound is not None and bound.place == base:
            break
        if commit.barrier:
            last = max(last, (commit.version, METADATA_CHANGE_INDEX))
            break
        begun = start.index if start.version == commit.version else BASE_INDEX
        numbers: Sequence[int] = range(max(0, begun + 1), _end(commit, bound))
        if commit.left_out:
            numbers = [n for n in numbers if n not in commit.left_out]
        ends = not _is_last(commit, bound)
        if admission is None:
            if numbers:
                last = (commit.version, numbers[-1])
            if ends:
                last = (commit.version, END_INDEX)
            continue
        if commit.whole:
            dummies = 0 if commit.recorded else (base > start.place) + ends
            size = _total(commit, numbers)
            if not admission.admit_together(len(numbers) + dummies, size):
                break
            if numbers:
                last = (commit.version, numbers[-1])
            if ends and not commit.recorded:
                last = (commit.version, END_INDEX)
            continue
        taken = _admitted_of(commit, numbers, admission)
        if taken:
            last = (commit.version, numbers[taken - 1])
        if taken < len(numbers) or not ends:
            break
        last = (commit.version, END_INDEX)
    return start.behind(*last) if last != start.place else start


def _end(commit: CommitPlaces, bound: SourceOffset | None) -> int:
    """One beyond the last file that the bound lets in."""
    if bound is None or bound.version > commit.version:
        return commit.count
    return max(0, min(commit.count, bound.index + 1)) if bound.version == commit.version else 0


def _is_last(commit: CommitPlaces, bound: SourceOffset | None) -> bool:
    return bound is not None and bound.version == commit.version


def _admitted(commit: CommitPlaces, first: int, end: int, admission: Admission | None) -> int:
    """How many files from `first` on, and before `end`, come in."""
    if admission is None or first >= end:
        return max(0, end - first)
    taken, wanted = 0, end - first
    for sizes in commit.sizes(first):
        piece = sizes.slice(0, wanted - taken)
        admitted = admission.admit(piece)
        taken += admitted
        if admitted < len(piece) or taken == wanted:
            break
    return taken


def _admitted_of(commit: CommitPlaces, numbers: Sequence[int], admission: Admission) -> int:
    if not numbers:
        return 0
    if not commit.left_out:
        return _admitted(commit, numbers[0], numbers[-1] + 1, admission)
    return admission.admit(_all_sizes(commit).take(pa.array(numbers)))


def _total(commit: CommitPlaces, numbers: Sequence[int]) -> int:
    sizes: list[Any] = _all_sizes(commit).to_pylist() if numbers else []
    return sum(sizes[n] for n in numbers)


def _all_sizes(commit: CommitPlaces) -> pa.Array[Any]:
    return pa.concat_arrays(list(commit.sizes(0)))


def check_initial_files(engine: Engine, state: TableState, limit: int | None) -> None:
    """Refuse a version with more files than a limit; None for no limit.

    The version's checksum says how many there are; without one they are counted in one pass over
    the log. No list of files is made.

    Raises:
        ArgumentError: see `refuse_more_files`.
    """
    if limit is not None:
        refuse_more_files(state, count_files(engine, state), limit)


def refuse_more_files(state: TableState, count: int, limit: int) -> None:
    """Refuse a number of files that is above a limit.

    Raises:
        ArgumentError: it is; names count, limit and setting.
    """
    if count > limit:
        raise ArgumentError(
            f"{state.path} has {count} files in version {state.version}, and a stream may begin "
            f"with at most {limit} ({' or '.join(MAX_INITIAL_SNAPSHOT_FILE_COUNT.names)}). Raise "
            "the setting, or begin with startingVersion or startingTimestamp, which read no "
            "initial snapshot.",
            argument=MAX_INITIAL_SNAPSHOT_FILE_COUNT.name,
        )
