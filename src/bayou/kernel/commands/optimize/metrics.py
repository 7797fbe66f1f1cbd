"""Metrics of OPTIMIZE and REORG, under delta-spark's names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bayou.kernel.commands.metrics_by_name import MetricsByName
from bayou.kernel.commands.optimize.z_cubes import ClusteringStats
from bayou.protocol.actions import AddFile, DeletionVectorDescriptor


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSizeMetrics:
    """Statistics of file sizes in bytes; `min` and `max` are None if there are no files."""

    min: int | None
    max: int | None
    avg: float
    total_files: int
    total_size: int

    @classmethod
    def of(cls, sizes: Sequence[int]) -> FileSizeMetrics:
        return cls(
            min=min(sizes, default=None),
            max=max(sizes, default=None),
            avg=sum(sizes) / len(sizes) if sizes else 0.0,
            total_files=len(sizes),
            total_size=sum(sizes),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ZOrderFileStats:
    """Number of files and their total size in bytes."""

    num: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ZOrderStats:
    """Metrics of a Z-order, which rewrites all files of a partition to one cube.

    Attributes:
        input_cube_files, input_num_cubes: always 0, because the log doesn't record the cubes of
            earlier Z-orders.
        input_other_files, merged_files: the rewritten files. Both attributes have the same value.
        num_output_cubes: number of rewritten partitions, because each partition becomes one cube.
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
        files = ZOrderFileStats(num=len(removed), size=sum(removed))
        return cls(input_other_files=files, merged_files=files, num_output_cubes=partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeMetrics(MetricsByName):
    """Metrics of an OPTIMIZE, Z-order or purge; times are in milliseconds since the epoch.

    Attributes:
        version: the table's version after the last commit; None if nothing was rewritten.
        num_files_added, num_files_removed: totals of all commits.
        num_bins: number of groups of files that were rewritten together.
        num_batches: number of commits.
        total_considered_files: number of live files in the selected partitions.
        num_deleted_rows_removed: number of rows that the removed deletion vectors deleted.
        num_output_cubes: number of written cubes of a clustered table or Z-order.
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
    """Return the `operationMetrics` of one commit.

    Args:
        vectors: deletion vectors of the removed files.
    """
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
