"""What operations tell of themselves, as the DataFrames that delta-spark gives."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pyspark.sql.types import (
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from bayou.kernel.operations.merge import MergeMetrics
from bayou.kernel.operations.optimize_metrics import OptimizeMetrics
from bayou.kernel.operations.restore import RestoreMetrics

__all__ = ["empty_frame", "merge_frame", "optimize_frame", "restore_frame"]

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
    """No rows and no columns."""
    return spark.createDataFrame([], StructType([]))


def restore_frame(spark: Any, metrics: RestoreMetrics) -> Any:
    """Of RESTORE: one row."""
    values = asdict(metrics)
    return spark.createDataFrame([tuple(values[name] for name in _RESTORE)], _longs(_RESTORE))


def merge_frame(spark: Any, metrics: MergeMetrics) -> Any:
    """Of MERGE: one row."""
    row = (
        metrics.num_affected_rows,
        metrics.num_target_rows_updated,
        metrics.num_target_rows_deleted,
        metrics.num_target_rows_inserted,
    )
    return spark.createDataFrame([row], _longs(_MERGE))


_FILES = StructType(
    [
        StructField("min", LongType()),
        StructField("max", LongType()),
        StructField("avg", DoubleType(), False),
        StructField("totalFiles", LongType(), False),
        StructField("totalSize", LongType(), False),
    ]
)
_COUNTS = {
    "partitionsOptimized": "partitions_optimized",
    "numBins": "num_bins",
    "numBatches": "num_batches",
    "totalConsideredFiles": "total_considered_files",
    "totalFilesSkipped": "total_files_skipped",
    "startTimeMs": "start_time_ms",
    "endTimeMs": "end_time_ms",
    "numTableColumns": "num_table_columns",
    "numTableColumnsWithStats": "num_table_columns_with_stats",
}
_OPTIMIZE = StructType(
    [
        StructField("path", StringType()),
        StructField(
            "metrics",
            StructType(
                [
                    StructField("numFilesAdded", LongType(), False),
                    StructField("numFilesRemoved", LongType(), False),
                    StructField("filesAdded", _FILES),
                    StructField("filesRemoved", _FILES),
                    *(StructField(name, LongType(), False) for name in _COUNTS),
                ]
            ),
        ),
    ]
)


def optimize_frame(spark: Any, path: str, metrics: OptimizeMetrics) -> Any:
    """Of OPTIMIZE and REORG: one row, the table's path and the metrics."""
    values = asdict(metrics)
    row = (
        path,
        (
            metrics.num_files_added,
            metrics.num_files_removed,
            tuple(asdict(metrics.files_added).values()),
            tuple(asdict(metrics.files_removed).values()),
            *(values[name] for name in _COUNTS.values()),
        ),
    )
    return spark.createDataFrame([row], _OPTIMIZE)


def _longs(names: tuple[str, ...]) -> StructType:
    return StructType([StructField(name, LongType()) for name in names])
