"""What a merge has done to some files, in one process or in many.

What a merge did.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec
from pyroaring import BitMap64

from bayou.kernel.arrow.serialization import WireFormat
from bayou.kernel.commands.row_changes.result import RowChanges

__all__ = ["MergeMetrics", "MergeOutcome"]


class _WireOutcome(msgspec.Struct, frozen=True, array_like=True):
    changes: bytes
    matched: bytes
    taken: tuple[int, ...]


_WIRE = WireFormat("outcome of a merge", 1, _WireOutcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeOutcome:
    """A worker's share of a merge.

    Attributes:
        changes: what was written.
        matched: rows of the source that match a row of the files.
        taken: how many target rows each clause took, those of `matched` first, then
            `not_matched_by_source`.
    """

    changes: RowChanges
    matched: BitMap64 = field(default_factory=BitMap64)
    taken: tuple[int, ...] = ()

    @classmethod
    def combined(cls, shares: Iterable[MergeOutcome]) -> MergeOutcome:
        """What several workers did to different files, and inserted, for one commit.

        Raises:
            ArgumentError: two of them changed the same file.
        """
        known = list(shares)
        matched = BitMap64()
        for share in known:
            matched |= share.matched
        clauses = max((len(share.taken) for share in known), default=0)
        return cls(
            changes=RowChanges.combined(share.changes for share in known),
            matched=matched,
            taken=tuple(
                sum(share.taken[n] for share in known if share.taken) for n in range(clauses)
            ),
        )

    def to_bytes(self) -> bytes:
        """For the process that commits."""
        return _WIRE.encode(
            _WireOutcome(self.changes.to_bytes(), self.matched.serialize(), self.taken)
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> MergeOutcome:
        """The inverse of `to_bytes`.

        Raises:
            SerializationError: not such bytes, or of a newer version of the package.
        """
        return _WIRE.decode(
            data,
            lambda wire: cls(
                changes=RowChanges.from_bytes(wire.changes),
                matched=BitMap64.deserialize(wire.matched),
                taken=wire.taken,
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeMetrics:
    """What a MERGE did; times are in milliseconds. The history has the same, in camel case.

    Attributes:
        version: the table's afterwards; where nothing changed, the one that was read.
        num_source_rows: None where another engine read the source.
        num_output_rows: rows that were written: inserted, updated and copied.
        num_target_rows_copied: rows that were left in files that were rewritten.
        num_target_deletion_vectors_added: vectors that are new, those that replace one included.
        num_target_deletion_vectors_removed: vectors that are gone, those that were replaced
            included.
        num_target_deletion_vectors_updated: vectors that replace one.
    """

    version: int
    num_source_rows: int | None = 0
    num_target_rows_inserted: int = 0
    num_target_rows_updated: int = 0
    num_target_rows_matched_updated: int = 0
    num_target_rows_not_matched_by_source_updated: int = 0
    num_target_rows_deleted: int = 0
    num_target_rows_matched_deleted: int = 0
    num_target_rows_not_matched_by_source_deleted: int = 0
    num_target_rows_copied: int = 0
    num_output_rows: int = 0
    num_target_files_added: int = 0
    num_target_files_removed: int = 0
    num_target_bytes_added: int = 0
    num_target_bytes_removed: int = 0
    num_target_change_files_added: int = 0
    num_target_deletion_vectors_added: int = 0
    num_target_deletion_vectors_removed: int = 0
    num_target_deletion_vectors_updated: int = 0
    execution_time_ms: int = 0
    materialize_source_time_ms: int = 0
    scan_time_ms: int = 0
    rewrite_time_ms: int = 0

    @property
    def num_affected_rows(self) -> int:
        """Rows that were inserted, updated or deleted."""
        return (
            self.num_target_rows_inserted
            + self.num_target_rows_updated
            + self.num_target_rows_deleted
        )
