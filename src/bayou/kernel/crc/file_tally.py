"""What a commit does to the number and sizes of a table's files."""

from __future__ import annotations

from dataclasses import dataclass, field

from bayou.protocol.actions import AddFile, RemoveFile

__all__ = ["FileTally"]


@dataclass(slots=True, kw_only=True)
class FileTally:
    """Files added and removed, counted as they go by.

    Attributes:
        added, removed: sizes in bytes.
        added_deleted, removed_deleted: rows that their deletion vectors delete; files without a
            vector aren't among them.
        is_complete: every remove said how large its file was.
    """

    added: list[int] = field(default_factory=list)
    removed: list[int] = field(default_factory=list)
    added_deleted: list[int] = field(default_factory=list)
    removed_deleted: list[int] = field(default_factory=list)
    is_complete: bool = True

    def add(self, action: AddFile) -> None:
        """Count a file that is added."""
        self.added.append(action.size)
        if action.deletion_vector is not None:
            self.added_deleted.append(action.deletion_vector.cardinality)

    def remove(self, action: RemoveFile) -> None:
        """Count a file that is removed."""
        if action.size is None:
            self.is_complete = False
            return
        self.removed.append(action.size)
        if action.deletion_vector is not None:
            self.removed_deleted.append(action.deletion_vector.cardinality)
