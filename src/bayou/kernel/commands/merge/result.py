"""Results of a merge's tasks, and the metrics of a merge."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pyroaring import BitMap64

from bayou.kernel.arrow.serialization import PickledTask
from bayou.kernel.commands.metrics_by_name import MetricsByName
from bayou.kernel.commands.row_changes.result import RowChanges


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResult(PickledTask):
    """Result of a merge's task.

    Attributes:
        matched: row numbers of the source rows that match a row of the task's target files.
        clause_counts: number of target rows that each clause of `MergePlan.target_clauses` changes.
    """

    changes: RowChanges
    matched: BitMap64 = field(default_factory=BitMap64)
    clause_counts: tuple[int, ...] = ()

    @classmethod
    def combined(cls, results: Iterable[MergeResult]) -> MergeResult:
        """Combine the results of several workers on different files of one merge."""
        all_results = list(results)
        matched = BitMap64()
        for result in all_results:
            matched |= result.matched
        clauses = max((len(result.clause_counts) for result in all_results), default=0)
        return cls(
            changes=RowChanges.combined(result.changes for result in all_results),
            matched=matched,
            clause_counts=tuple(
                sum(result.clause_counts[n] for result in all_results if result.clause_counts)
                for n in range(clauses)
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeMetrics(MetricsByName):
    """Metrics of a MERGE. In the history their names are in camel case. Times are in milliseconds.

    Attributes:
        version: the table's version after the MERGE; unchanged if no row changed.
        num_source_rows: number of source rows; None if another engine read the source.
        num_output_rows: number of written rows: inserted, updated and copied.
        num_target_rows_copied: number of unchanged rows in rewritten files.
        num_target_deletion_vectors_updated: number of deletion vectors that replace an older one.
            `num_target_deletion_vectors_added` and `num_target_deletion_vectors_removed` also count
            each of these replacements.
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
        """Number of inserted, updated and deleted rows."""
        return (
            self.num_target_rows_inserted
            + self.num_target_rows_updated
            + self.num_target_rows_deleted
        )
