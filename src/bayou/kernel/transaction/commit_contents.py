"""The files of a commit: their lines, and what is counted of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from bayou.errors import ArgumentError
from bayou.kernel.crc.commit_effect import FileTally
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
    """Encoded actions of a commit.

    Attributes:
        lines: one an action, in order; but for `adds`.
        adds: files that were kept as they are, because row tracking gives them ids at the commit.
        removed_paths: paths of the removes, as `canonical_path` gives them.
        changes_removed: a remove takes rows away (`dataChange`).
        changes_data: a file action changes data.
        num_changes: change data files.
        tally: sizes of what is added and removed.
        rows: of the adds; None where a file doesn't say.
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
    tally: FileTally

    @classmethod
    def of(cls, actions: Iterable[Action], *, keep_adds: bool = False) -> CommitContents:
        """Encode and count; the actions are read once.

        Raises:
            ArgumentError: an action that isn't one of a file.
        """
        lines: list[bytes] = []
        adds: list[AddFile] = []
        removed: set[str] = set()
        changes_removed = changes_data = False
        num_added = num_changes = added_bytes = removed_bytes = 0
        rows: int | None = 0
        tally = FileTally()
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
                    known = num_records(action.stats)
                    rows = None if rows is None or known is None else rows + known
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
                        f"A commit takes actions of files, not {type(action).__name__}: the rest "
                        "is set on the transaction's builder.",
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
        """`operationMetrics` of a write, under delta-spark's names."""
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


def num_records(text: str | None) -> int | None:
    """`numRecords` of statistics text, None where it doesn't say."""
    if text is None:
        return None
    try:
        return _STATS.decode(text).num_records
    except msgspec.DecodeError:
        return None
