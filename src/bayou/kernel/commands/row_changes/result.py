"""What changing rows has written, in one process or in many, and the actions that make it count."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields

import msgspec

from bayou.errors import ArgumentError
from bayou.kernel.arrow.serialization import WireFormat
from bayou.kernel.data_writer.data_writer import delete_data_files
from bayou.kernel.engine import Engine
from bayou.kernel.scan.scan_file import ScanFile
from bayou.kernel.transaction.table_update import remove_of
from bayou.protocol.actions import Action, AddCDCFile, AddFile, RemoveFile

__all__ = ["RowChanges"]


@dataclass(slots=True, kw_only=True)
class RowChanges:
    """What was written, and the actions that make it count.

    Attributes:
        added: new data files.
        marked: files whose deletion vector is a new one.
        removed: files that aren't there any more, as they were.
        change_files: of the change data feed.
        vector_files: paths of files with deletion vectors, decoded and absolute.
        num_copied_rows, num_deleted_rows, num_updated_rows, num_inserted_rows: rows; None where
            files went away whose statistics don't tell their rows.
        num_removed_files: files without a successor, or with one that has another path.
        num_removed_bytes: their size.
        num_vectors_added: files that got their first deletion vector.
        num_vectors_updated: files that got another one.
        num_vectors_removed: files that had one and are gone.
        scan_seconds: what finding the rows took; of several workers the longest.
    """

    added: list[AddFile] = field(default_factory=list)
    marked: list[AddFile] = field(default_factory=list)
    removed: list[RemoveFile] = field(default_factory=list)
    change_files: list[AddCDCFile] = field(default_factory=list)
    vector_files: list[str] = field(default_factory=list)
    num_copied_rows: int = 0
    num_deleted_rows: int | None = 0
    num_updated_rows: int = 0
    num_inserted_rows: int = 0
    num_removed_files: int = 0
    num_removed_bytes: int = 0
    num_vectors_added: int = 0
    num_vectors_updated: int = 0
    num_vectors_removed: int = 0
    scan_seconds: float = 0.0

    @property
    def actions(self) -> list[Action]:
        """What a transaction commits; empty where nothing changes."""
        return [*self.removed, *self.marked, *self.added, *self.change_files]

    def remove_files(self, files: Iterable[ScanFile], *, data_change: bool = True) -> None:
        """Remove whole files, without a look into them."""
        now = time.time_ns() // 1_000_000
        for file in files:
            self.remove(file.add, now, data_change=data_change)
            rows = file.num_records
            if rows is None or self.num_deleted_rows is None:
                self.num_deleted_rows = None
                continue
            vector = file.deletion_vector
            self.num_deleted_rows += rows - (0 if vector is None else vector.cardinality)

    def remove(self, add: AddFile, now: int, *, data_change: bool = True) -> None:
        """Remove a file; its rows are counted elsewhere."""
        self.removed.append(remove_of(add, now, data_change=data_change))
        self.num_removed_files += 1
        self.num_removed_bytes += add.size
        if add.deletion_vector is not None:
            self.num_vectors_removed += 1

    def vector_counts(self) -> dict[str, int]:
        """`num_deletion_vectors_...` as delta-spark counts: replaced ones are added and removed."""
        return {
            "num_deletion_vectors_added": self.num_vectors_added + self.num_vectors_updated,
            "num_deletion_vectors_removed": self.num_vectors_removed + self.num_vectors_updated,
            "num_deletion_vectors_updated": self.num_vectors_updated,
        }

    def discard(self, engine: Engine, table: str) -> None:
        """Delete what was written, if it isn't to be committed.

        Never after a commit whose outcome isn't known.
        """
        delete_data_files(engine, table, [*self.added, *self.change_files])
        engine.files.delete_files(self.vector_files)

    @classmethod
    def combined(cls, shares: Iterable[RowChanges]) -> RowChanges:
        """What several workers did to different files of one table, for one commit.

        Raises:
            ArgumentError: two of them changed the same file.
        """
        whole = cls()
        for share in shares:
            for name in _LISTS:
                getattr(whole, name).extend(getattr(share, name))
            for name in _COUNTS:
                one, other = getattr(whole, name), getattr(share, name)
                setattr(whole, name, None if one is None or other is None else one + other)
            whole.scan_seconds = max(whole.scan_seconds, share.scan_seconds)
        gone = [remove.path for remove in whole.removed]
        if len(set(gone)) < len(gone):
            twice = next(path for path, count in Counter(gone).items() if count > 1)
            raise ArgumentError(
                f"{twice} was changed by two workers. Hand each file to one; what the workers "
                "wrote isn't part of the table, `discard` deletes it.",
                argument="shares",
            )
        return whole

    def to_bytes(self) -> bytes:
        """For the process that commits."""
        return _WIRE.encode(
            _WireChanges(
                self.added,
                self.marked,
                self.removed,
                self.change_files,
                self.vector_files,
                [getattr(self, name) for name in _COUNTS],
                self.scan_seconds,
            )
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> RowChanges:
        """The inverse of `to_bytes`.

        Raises:
            SerializationError: not such bytes, or of a newer version of the package.
        """
        return _WIRE.decode(data, _of_wire)


_LISTS = ("added", "marked", "removed", "change_files", "vector_files")
_COUNTS = tuple(f.name for f in fields(RowChanges) if f.name.startswith("num_"))


class _WireChanges(msgspec.Struct, frozen=True, array_like=True):
    added: list[AddFile]
    marked: list[AddFile]
    removed: list[RemoveFile]
    change_files: list[AddCDCFile]
    vector_files: list[str]
    counts: list[int | None]
    scan_seconds: float


_WIRE = WireFormat("outcome of row changes", 1, _WireChanges)


def _of_wire(wire: _WireChanges) -> RowChanges:
    found = RowChanges(
        added=wire.added,
        marked=wire.marked,
        removed=wire.removed,
        change_files=wire.change_files,
        vector_files=wire.vector_files,
        scan_seconds=wire.scan_seconds,
    )
    for name, count in zip(_COUNTS, wire.counts, strict=True):
        setattr(found, name, count)
    return found
