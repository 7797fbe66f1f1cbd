"""Finds the files that were written after the last change of a column from float to double.

In these files, the bounds of the column are exact. In older files, the bounds were computed from
floats and are inexact. Data skipping must not compare a double with inexact bounds.

A file counts as written after the change only if three conditions hold:

- The `add` is in a commit after the change. This is known only if the commit of the change was
  replayed.
- The replayed commits have only one action for the file's path. If there are several actions, the
  `add` may only change the deletion vector or the statistics of an older file.
- The file's modification time is later than the change. This condition excludes an older file whose
  earlier actions aren't replayed, for example a file that RESTORE adds again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bayou.kernel.arrow.arrays import to_array
from bayou.kernel.arrow.compute import pc
from bayou.kernel.log.file_action_keys import KEY_SEPARATOR
from bayou.protocol.actions import CommitInfo, Metadata
from bayou.protocol.schema import SchemaJsonError, StructType
from bayou.protocol.type_widening import TYPE_CHANGES_KEY, columns_widened_from_float


@dataclass(frozen=True, slots=True, kw_only=True)
class DatedMetadata:
    """A `metaData` action and its commit.

    Attributes:
        version: version of the commit; None if the action was read from a log compaction file.
        info: `commitInfo` of the commit.
    """

    version: int | None
    metadata: Metadata
    info: CommitInfo | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeToDouble:
    """The newest change of a column from float to double.

    Attributes:
        later: indexes of the commits after the change, counted from the newest commit (0). Commits
            such as RESTORE are left out, because they may add files that were written before the
            change.
        time: time of the change, ms since the epoch.
    """

    later: pa.Array[Any]
    time: int


def newest_change_to_double(
    history: Sequence[DatedMetadata], versions: Sequence[int | None]
) -> ChangeToDouble | None:
    """Find the newest change of a column from float to double; None if there is none.

    Args:
        history: `metaData` actions of the replayed commits, newest first.
        versions: version of each replayed commit, newest first; None for commits such as RESTORE,
            which may add files that were written before the commit.
    """
    if not history or TYPE_CHANGES_KEY not in history[0].metadata.schema_string:
        return None
    changed = _changed_columns(history[0].metadata)
    change: tuple[int, int] | None = None
    for entry in history if changed else ():
        time = _time(entry.info)
        if entry.version is None or time is None or _changed_columns(entry.metadata) != changed:
            break
        change = entry.version, time
    if change is None:
        return None
    since, time = change
    later = [number for number, v in enumerate(versions) if v is not None and v > since]
    return ChangeToDouble(later=pa.array(later, pa.int32()), time=time)


def exact_double_files(
    commits: pa.Array[Any],
    keys: pa.Array[Any],
    adds: pa.StructArray,
    all_keys: pa.Array[Any],
    change: ChangeToDouble | None,
) -> pa.Array[Any]:
    """Return the paths of the files that were written after a column changed from float to double.

    Args:
        commits: index of the commit of each element of `adds`, counted from the newest commit (0).
        keys: log-replay key (path and deletion vector id) of each element of `adds`, as a string.
        all_keys: log-replay keys of all replayed `add` and `remove` actions, including `adds`.
        change: the newest change. If None, the result is empty.
    """
    if change is None:
        empty: pa.Array[Any] = to_array([], pa.string())
        return empty
    counts = pc.value_counts(_canonical_paths(all_keys))
    single = counts.field("values").filter(pc.equal(counts.field("counts"), 1))
    is_single = pc.is_in(_canonical_paths(keys), value_set=single)
    is_newer = pc.greater(pc.struct_field(adds, "modificationTime"), change.time)
    is_later = pc.is_in(commits, value_set=change.later)
    mask = pc.and_(is_later, pc.and_(is_newer, is_single))
    paths: pa.Array[Any] = pc.struct_field(adds, "path").filter(mask)
    return paths


def _canonical_paths(keys: pa.Array[Any]) -> Any:
    return pc.replace_substring_regex(keys, f"{KEY_SEPARATOR}[^{KEY_SEPARATOR}]*$", "")


def _changed_columns(metadata: Metadata) -> frozenset[tuple[str, ...]]:
    try:
        return columns_widened_from_float(StructType.from_json(metadata.schema_string))
    except SchemaJsonError:  # the error is raised when a scan parses the schema
        return frozenset()


def _time(info: CommitInfo | None) -> int | None:
    if info is None:
        return None
    return info.integer("inCommitTimestamp") or info.integer("timestamp")
