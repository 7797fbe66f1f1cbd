"""What a merge did."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MergeMetrics"]


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
