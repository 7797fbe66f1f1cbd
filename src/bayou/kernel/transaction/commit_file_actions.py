"""The file actions of a commit as JSON lines, and their totals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from bayou.errors import ArgumentError
from bayou.json_decoding import JsonDecoder
from bayou.kernel.crc.commit_effect import FileChanges
from bayou.protocol.actions import (
    Action,
    AddCDCFile,
    AddFile,
    RemoveFile,
    encode_action,
)
from bayou.protocol.file_names import canonical_path

PartitionKey: TypeAlias = tuple[tuple[str, str | None], ...]
"""Key of a partition: the (column, value) pairs of `partitionValues`, sorted by column."""

SMALL_FILE_BYTES = 64 << 20
"""Size in bytes below which a file is small for auto compaction, as in delta-spark."""


def partition_key(values: Mapping[str, str | None]) -> PartitionKey:
    """Convert a file's `partitionValues` to a hashable key of the file's partition."""
    return tuple(sorted(values.items()))


class _NumRecords(msgspec.Struct, frozen=True, rename="camel"):
    num_records: int | None = None


_STATS = JsonDecoder(_NumRecords)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitContents:
    """Encoded file actions of a commit.

    Attributes:
        lines: JSON lines of all actions that aren't in `adds`, in order.
        adds: `add` actions that aren't encoded yet. The commit assigns row ids to them, or reads
            the high water marks of identity columns from their statistics.
        rows: total number of rows of the added files; None if a file has no `numRecords`.
        small_files: number of added small files by partition. The mapping is empty if the files
            weren't counted.
    """

    lines: list[bytes]
    adds: list[AddFile]
    removed_paths: frozenset[str]
    changes_removed: bool
    changes_data: bool
    num_added: int
    num_changes: int
    added_bytes: int
    removed_bytes: int
    rows: int | None
    tally: FileChanges
    small_files: Mapping[PartitionKey, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls, actions: Iterable[Action], *, keep_adds: bool = False, count_small: bool = False
    ) -> CommitContents:
        """Encode actions, and compute their totals.

        Args:
            keep_adds: whether to put `add` actions into `adds` instead of encoding them.
            count_small: whether to count the added small files of each partition.
        """
        lines: list[bytes] = []
        adds: list[AddFile] = []
        removed: set[str] = set()
        changes_removed = changes_data = False
        num_added = num_changes = added_bytes = removed_bytes = 0
        rows: int | None = 0
        tally = FileChanges()
        small: Counter[PartitionKey] = Counter()
        for action in actions:
            if keep_adds and isinstance(action, AddFile):
                adds.append(action)
            else:
                lines.append(encode_action(action))
            match action:
                case AddFile():
                    num_added += 1
                    tally.add(action)
                    if count_small and action.data_change and action.size < SMALL_FILE_BYTES:
                        small[partition_key(action.partition_values)] += 1
                    added_bytes += action.size
                    changes_data = changes_data or action.data_change
                    added = num_records(action.stats)
                    rows = None if rows is None or added is None else rows + added
                case RemoveFile():
                    removed.add(canonical_path(action.path))
                    tally.remove(action)
                    removed_bytes += action.size or 0
                    changes_removed = changes_removed or action.data_change
                    changes_data = changes_data or action.data_change
                case AddCDCFile():
                    num_changes += 1
                case _:
                    raise ArgumentError(
                        f"actions: {type(action).__name__} isn't a file action. Make this change "
                        "with the transaction builder.",
                        argument="actions",
                    )
        return cls(
            lines=lines,
            adds=adds,
            removed_paths=frozenset(removed),
            changes_removed=changes_removed,
            changes_data=changes_data,
            num_added=num_added,
            num_changes=num_changes,
            added_bytes=added_bytes,
            removed_bytes=removed_bytes,
            rows=rows,
            tally=tally,
            small_files=small,
        )

    def metrics(self) -> dict[str, object]:
        """Return `commitInfo.operationMetrics` of a write, with delta-spark's names."""
        metrics: dict[str, object] = {
            "numFiles": self.num_added,
            "numOutputBytes": self.added_bytes,
        }
        if self.rows is not None:
            metrics["numOutputRows"] = self.rows
        if self.removed_paths:
            metrics["numRemovedFiles"] = len(self.removed_paths)
            metrics["numRemovedBytes"] = self.removed_bytes
        return metrics


def num_records(stats: str | None) -> int | None:
    """Return `numRecords` from the JSON of a file's statistics; None if it is missing."""
    if stats is None:
        return None
    try:
        return _STATS.decode(stats).num_records
    except msgspec.DecodeError:
        return None
