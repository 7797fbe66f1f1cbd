"""The files of a commit: their lines, and what is counted of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from bayou.protocol.actions import Action, AddFile, RemoveFile, encode_action

__all__ = ["CommitContents"]


class _NumRecords(msgspec.Struct, frozen=True, rename="camel"):
    num_records: int | None = None


_STATS = msgspec.json.Decoder(_NumRecords)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitContents:
    """Encoded actions of a commit.

    Attributes:
        lines: one an action, in order.
        removed_paths: paths of the removes.
        changes_removed: a remove takes rows away (`dataChange`).
        rows: of the adds; None where a file doesn't say.
    """

    lines: list[bytes]
    removed_paths: frozenset[str]
    changes_removed: bool
    num_added: int
    added_bytes: int
    removed_bytes: int
    rows: int | None

    @classmethod
    def of(cls, actions: Iterable[Action]) -> CommitContents:
        """Encode and count; the actions are read once."""
        lines: list[bytes] = []
        removed: set[str] = set()
        changes_removed = False
        num_added = added_bytes = removed_bytes = 0
        rows: int | None = 0
        for action in actions:
            lines.append(encode_action(action))
            match action:
                case AddFile():
                    num_added += 1
                    added_bytes += action.size
                    known = _num_records(action.stats)
                    rows = None if rows is None or known is None else rows + known
                case RemoveFile():
                    removed.add(action.path)
                    removed_bytes += action.size or 0
                    changes_removed = changes_removed or action.data_change
                case _:
                    pass
        return cls(
            lines=lines,
            removed_paths=frozenset(removed),
            changes_removed=changes_removed,
            num_added=num_added,
            added_bytes=added_bytes,
            removed_bytes=removed_bytes,
            rows=rows,
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


def _num_records(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return _STATS.decode(text).num_records
    except msgspec.DecodeError:
        return None
