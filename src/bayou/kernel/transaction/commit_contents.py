"""The file actions of a commit: encoded lines and totals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from bayou.errors import ArgumentError
from bayou.kernel.crc.commit_effect import FileChanges
from bayou.protocol.actions import (
    Action,
    AddCDCFile,
    AddFile,
    RemoveFile,
    encode_action,
)
from bayou.protocol.file_names import canonical_path
from bayou.protocol.json_decoding import JsonDecoder

__all__ = ["CommitContents", "num_records"]


class _NumRecords(msgspec.Struct, frozen=True, rename="camel"):
    num_records: int | None = None


_STATS = JsonDecoder(_NumRecords)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitContents:
    """Encoded file actions of a commit.

    Attributes:
        lines: one line per action in order, without `adds`.
        adds: adds that aren't encoded yet, because row tracking assigns their ids at the commit.
        removed_paths: canonical paths of the removes.
        changes_removed: whether a remove has `dataChange`.
        changes_data: whether an add or a remove has `dataChange`.
        num_added: number of adds.
        num_changes: number of change data files.
        added_bytes, removed_bytes: total size of the adds and of the removes.
        rows: total rows of the adds; None if a file's statistics don't have them.
        tally: histogram of the sizes of added and removed files.
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

    @classmethod
    def of(cls, actions: Iterable[Action], *, keep_adds: bool = False) -> CommitContents:
        """Encode and count actions in one pass.

        Raises:
            ArgumentError: an action isn't a file action.
        """
        lines: list[bytes] = []
        adds: list[AddFile] = []
        removed: set[str] = set()
        changes_removed = changes_data = False
        num_added = num_changes = added_bytes = removed_bytes = 0
        rows: int | None = 0
        tally = FileChanges()
        for action in actions:
            if keep_adds and isinstance(action, AddFile):
                adds.append(action)
            else:
                lines.append(encode_action(action))
            match action:
                case AddFile():
                    num_added += 1
                    tally.add(action)
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
                        f"actions: {type(action).__name__} isn't a file action. Set it with the "
                        "transaction builder.",
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
        )

    def metrics(self) -> dict[str, object]:
        """`operationMetrics` of a write, named as in delta-spark."""
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
    """`numRecords` in the JSON of statistics, None if missing."""
    if stats is None:
        return None
    try:
        return _STATS.decode(stats).num_records
    except msgspec.DecodeError:
        return None
