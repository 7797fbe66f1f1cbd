"""DataFrames that the methods of `DeltaTable` return, with the schemas of delta-spark."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pyspark.sql.types import LongType, StructField, StructType

from bayou.kernel.commands.merge import MergeMetrics
from bayou.kernel.commands.optimize.metrics import OptimizeMetrics
from bayou.kernel.commands.restore import RestoreMetrics

_RESTORE = (
    "table_size_after_restore",
    "num_of_files_after_restore",
    "num_removed_files",
    "num_restored_files",
    "removed_files_size",
    "restored_files_size",
)
_MERGE = ("num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows")


def empty_frame(spark: Any) -> Any:
    """A DataFrame that has neither rows nor columns."""
    return spark.createDataFrame([], StructType([]))


def restore_frame(spark: Any, metrics: RestoreMetrics) -> Any:
    """Metrics of RESTORE as one row."""
    values = asdict(metrics)
    return spark.createDataFrame([tuple(values[name] for name in _RESTORE)], _longs(_RESTORE))


def merge_frame(spark: Any, metrics: MergeMetrics | None) -> Any:
    """Return the metrics of MERGE as a DataFrame of one row.

    If `metrics` is None, the DataFrame has no row: an earlier commit with the same `txnAppId` and
    `txnVersion` has already merged the rows.
    """
    if metrics is None:
        return spark.createDataFrame([], _longs(_MERGE))
    row = (
        metrics.num_affected_rows,
        metrics.num_target_rows_updated,
        metrics.num_target_rows_deleted,
        metrics.num_target_rows_inserted,
    )
    return spark.createDataFrame([row], _longs(_MERGE))


_SIZES = "struct<min: bigint, max: bigint, avg: double, totalFiles: bigint, totalSize: bigint>"
_COUNT_AND_SIZE = "struct<num: bigint, size: bigint>"
_FILES_AND_SIZE = "struct<numFiles: bigint, size: bigint>"
_OPTIMIZE = {
    "numFilesAdded": "bigint",
    "numFilesRemoved": "bigint",
    "filesAdded": _SIZES,
    "filesRemoved": _SIZES,
    "partitionsOptimized": "bigint",
    "zOrderStats": f"struct<strategyName: string, inputCubeFiles: {_COUNT_AND_SIZE}, "
    f"inputOtherFiles: {_COUNT_AND_SIZE}, inputNumCubes: bigint, mergedFiles: {_COUNT_AND_SIZE}, "
    "numOutputCubes: bigint, mergedNumCubes: bigint>",
    "clusteringStats": f"struct<inputZCubeFiles: {_FILES_AND_SIZE}, "
    f"inputOtherFiles: {_FILES_AND_SIZE}, inputNumZCubes: bigint, mergedFiles: {_FILES_AND_SIZE}, "
    "numOutputZCubes: bigint>",
    "numBins": "bigint",
    "numBatches": "bigint",
    "totalConsideredFiles": "bigint",
    "totalFilesSkipped": "bigint",
    "preserveInsertionOrder": "boolean",
    "numFilesSkippedToReduceWriteAmplification": "bigint",
    "numBytesSkippedToReduceWriteAmplification": "bigint",
    "startTimeMs": "bigint",
    "endTimeMs": "bigint",
    "totalClusterParallelism": "bigint",
    "totalScheduledTasks": "bigint",
    "autoCompactParallelismStats": "struct<maxClusterActiveParallelism: bigint, "
    "minClusterActiveParallelism: bigint, maxSessionActiveParallelism: bigint, "
    "minSessionActiveParallelism: bigint>",
    "deletionVectorStats": "struct<numDeletionVectorsRemoved: bigint, "
    "numDeletionVectorRowsRemoved: bigint>",
    "numTableColumns": "bigint",
    "numTableColumnsWithStats": "bigint",
}
"""SQL types of the metrics of OPTIMIZE, by field name.

Metrics that don't apply to a command are null, as in delta-spark.
"""


def optimize_frame(spark: Any, path: str, metrics: OptimizeMetrics) -> Any:
    """Metrics of OPTIMIZE and REORG as one row, with the table's path."""
    values: dict[str, Any] = {
        "numFilesAdded": metrics.num_files_added,
        "numFilesRemoved": metrics.num_files_removed,
        "filesAdded": tuple(asdict(metrics.files_added).values()),
        "filesRemoved": tuple(asdict(metrics.files_removed).values()),
        "partitionsOptimized": metrics.partitions_optimized,
        "numBins": metrics.num_bins,
        "numBatches": metrics.num_batches,
        "totalConsideredFiles": metrics.total_considered_files,
        "totalFilesSkipped": metrics.total_files_skipped,
        "preserveInsertionOrder": False,
        "numFilesSkippedToReduceWriteAmplification": 0,
        "numBytesSkippedToReduceWriteAmplification": 0,
        "startTimeMs": metrics.start_time_ms,
        "endTimeMs": metrics.end_time_ms,
        "numTableColumns": metrics.num_table_columns,
        "numTableColumnsWithStats": metrics.num_table_columns_with_stats,
    }
    if metrics.z_order_stats is not None:
        values["zOrderStats"] = _nested(asdict(metrics.z_order_stats))
    if metrics.clustering_stats is not None:
        values["clusteringStats"] = _nested(asdict(metrics.clustering_stats))
    if metrics.num_deletion_vectors_removed:
        values["deletionVectorStats"] = (
            metrics.num_deletion_vectors_removed,
            metrics.num_deleted_rows_removed,
        )
    row = (qualified(path), tuple(values.get(name) for name in _OPTIMIZE))
    fields = ", ".join(f"{name}: {data_type}" for name, data_type in _OPTIMIZE.items())
    return spark.createDataFrame([row], f"path string, metrics struct<{fields}>")


def qualified(path: str) -> str:
    """Convert a path to Hadoop's form, such as `file:/lake/events`."""
    return f"file:{path}" if path.startswith("/") else path


def _nested(values: Any) -> Any:
    """Convert nested dictionaries to nested tuples, which `createDataFrame` accepts as rows."""
    return tuple(map(_nested, values.values())) if isinstance(values, dict) else values


def _longs(names: tuple[str, ...]) -> StructType:
    return StructType([StructField(name, LongType()) for name in names])
