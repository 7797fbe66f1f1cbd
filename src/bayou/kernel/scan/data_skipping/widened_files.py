"""Which data files are known to be younger than a column's change from float to double.

Their statistics are texts of doubles, those of older files texts of floats; nothing in an `add`
tells one from the other. A file counts only if the log leaves no doubt:

- its add stands in a commit behind the newest change of this kind, and that metaData action is one
  of the commits that were replayed;
- the log names it once: an add that puts a file back, with another deletion vector or with other
  statistics, follows another action with its path;
- it is younger than that metaData action: RESTORE puts files back whose removal may be forgotten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bayou.protocol.actions import AddFile, CommitInfo, Metadata
from bayou.protocol.schema import SchemaJsonError, StructType
from bayou.protocol.type_changes import TYPE_CHANGES_KEY, changed_from_float

__all__ = ["DatedMetadata", "double_files"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatedMetadata:
    """A metaData action and where it stands.

    Attributes:
        version: of its commit, None where several commits are in one file.
        info: of its commit, None where it has none.
    """

    version: int | None
    metadata: Metadata
    info: CommitInfo | None


def double_files(
    history: Sequence[DatedMetadata],
    adds: Sequence[AddFile],
    versions: Sequence[int | None],
    keys: Collection[tuple[str, str | None]],
    repeated: Collection[tuple[str, str | None]],
) -> pa.Array[Any]:
    """Paths of the files that were written after all changes from float to double.

    Args:
        history: metaData actions of the replayed commits, newest first.
        adds: live files of these commits.
        versions: of the adds' commits, None where unknown or where a commit puts files back.
        keys: of all files that the commits name, as `AddFile.key`.
        repeated: those of them that more than one commit names.
    """
    change = _newest_change(history)
    if change is None:
        return pa.array([], pa.string())
    since, time = change
    uses = Counter(path for path, _ in keys)
    young = [
        a.path
        for a, version in zip(adds, versions, strict=True)
        if version is not None and version > since and a.modification_time > time
        if uses[a.key[0]] == 1 and a.key not in repeated
    ]
    return pa.array(sorted(young), pa.string())


def _newest_change(history: Sequence[DatedMetadata]) -> tuple[int, int] | None:
    """Version and time (ms) from which on the same columns, at least one, are changed ones."""
    if not history or TYPE_CHANGES_KEY not in history[0].metadata.schema_string:
        return None
    changed = _changed(history[0].metadata)
    found: tuple[int, int] | None = None
    for entry in history if changed else ():
        time = _time(entry.info)
        if entry.version is None or time is None or _changed(entry.metadata) != changed:
            break
        found = entry.version, time
    return found


def _changed(metadata: Metadata) -> frozenset[tuple[str, ...]]:
    try:
        return changed_from_float(StructType.from_json(metadata.schema_string))
    except SchemaJsonError:  # whoever needs the schema says so
        return frozenset()


def _time(info: CommitInfo | None) -> int | None:
    if info is None:
        return None
    return info.integer("inCommitTimestamp") or info.integer("timestamp")
