"""What OPTIMIZE and REORG did, in delta-spark's numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bayou.kernel.commands.optimize.z_cubes import ClusteringStats
from bayou.protocol.actions import AddFile, DeletionVectorDescriptor

__all__ = [
    "FileSizeMetrics",
    "OptimizeMetrics",
    "ZOrderFileStats",
    "ZOrderStats",
    "history_metrics",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSizeMetrics:
    """Sizes of some files in bytes; `min` and `max` are None where there are none."""

    min: int | None
    max: int | None
    avg: float
    total_files: int
    total_size: int

    @classmethod
    def of(cls, sizes: Sequence[int]) -> FileSizeMetrics:
        """Of files of these sizes."""
        return cls(
            min=min(sizes, default=None),
            max=max(sizes, default=None),
            avg=sum(sizes) / len(sizes) if sizes else 0.0,
            total_files=len(sizes),
            total_size=sum(sizes),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ZOrderFileStats:
    """Some files: how many, and their bytes."""

    num: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ZOrderStats:
    """What a Z-order took, in delta-spark's numbers: always all files of a partition, to one cube.

    Attributes:
        input_cube_files, input_num_cubes: nothing, for a Z-order doesn't know of earlier ones.
        input_other_files, merged_files: the files that were replaced.
        num_output_cubes: partitions.
    """

    strategy_name: str = "all"
    input_cube_files: ZOrderFileStats = ZOrderFileStats()
    input_other_files: ZOrderFileStats
    input_num_cubes: int = 0
    merged_files: ZOrderFileStats
    num_output_cubes: int
    merged_num_cubes: int | None = None

    @classmethod
    def of(cls, removed: Sequence[int], partitions: int) -> ZOrderStats:
        """Of the sizes of files that were replaced."""
        files = ZOrderFileStats(num=len(removed), size=sum(removed))
        return cls(input_other_files=files, merged_files=files, num_output_cubes=partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeMetrics:
    """What an OPTIMIZE, Z-order or purge did to a table.

    Attributes:
        version: the table's version after the last commit; None where nothing was to be done.
        num_files_added, num_files_removed: all commits together.
        partitions_optimized: how many partitions had files rewritten.
        num_bins: groups of files that were rewritten together.
        num_batches: commits.
        total_considered_files: live files of the partitions asked for.
        total_files_skipped: of these, what stayed as it was.
        num_deletion_vectors_removed, num_deleted_rows_removed: what went with rewritten files.
        num_output_cubes: cubes of a clustered table, or of a Z-order, that were written.
        start_time_ms, end_time_ms: ms since the epoch.
        z_order_stats, clustering_stats: of a Z-order, of a clustered table, else None.
    """

    version: int | None
    num_files_added: int
    num_files_removed: int
    files_added: FileSizeMetrics
    files_removed: FileSizeMetrics
    partitions_optimized: int
    num_bins: int
    num_batches: int
    total_considered_files: int
    total_files_skipped: int
    num_deletion_vectors_removed: int
    num_deleted_rows_removed: int
    num_output_cubes: int
    num_table_columns: int
    num_table_columns_with_stats: int
    start_time_ms: int
    end_time_ms: int
    z_order_stats: ZOrderStats | None = None
    clustering_stats: ClusteringStats | None = None


def history_metrics(
    added: Sequence[AddFile],
    removed: Sequence[AddFile],
    vectors: Sequence[DeletionVectorDescriptor],
) -> dict[str, object]:
    """`operationMetrics` of one commit."""
    sizes = sorted(add.size for add in added) or [0]
    count = len(sizes)
    return {
        "minFileSize": sizes[0],
        "p25FileSize": sizes[count // 4],
        "p50FileSize": sizes[count // 2],
        "p75FileSize": sizes[count * 3 // 4],
        "maxFileSize": sizes[-1],
        "numAddedFiles": len(added),
        "numRemovedFiles": len(removed),
        "numAddedBytes": sum(add.size for add in added),
        "numRemovedBytes": sum(add.size for add in removed),
        "numDeletionVectorsRemoved": len(vectors),
    }
