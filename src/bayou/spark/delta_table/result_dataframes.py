"""What operations tell of themselves, as the DataFrames that delta-spark gives.

Arguments that people give, refused in a sentence where delta-spark refuses them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pyspark.sql.types import LongType, StructField, StructType

from bayou.errors import ArgumentError
from bayou.kernel.commands.merge import MergeMetrics
from bayou.kernel.commands.optimize.metrics import OptimizeMetrics
from bayou.kernel.commands.restore import RestoreMetrics

__all__ = [
    "empty_frame",
    "flag",
    "merge_frame",
    "names",
    "number",
    "optimize_frame",
    "qualified",
    "restore_frame",
    "text",
    "texts",
]


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


def merge_frame(spark: Any, metrics: MergeMetrics | None) -> Any:
    """Of MERGE: one row; none where nothing was to be done any more."""
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
_SOME = "struct<num: bigint, size: bigint>"
_SOME_FILES = "struct<numFiles: bigint, size: bigint>"
_OPTIMIZE = {
    "numFilesAdded": "bigint",
    "numFilesRemoved": "bigint",
    "filesAdded": _SIZES,
    "filesRemoved": _SIZES,
    "partitionsOptimized": "bigint",
    "zOrderStats": f"struct<strategyName: string, inputCubeFiles: {_SOME}, inputOtherFiles: "
    f"{_SOME}, inputNumCubes: bigint, mergedFiles: {_SOME}, numOutputCubes: bigint, "
    "mergedNumCubes: bigint>",
    "clusteringStats": f"struct<inputZCubeFiles: {_SOME_FILES}, inputOtherFiles: {_SOME_FILES}, "
    f"inputNumZCubes: bigint, mergedFiles: {_SOME_FILES}, numOutputZCubes: bigint>",
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
"""Types by name; delta-spark leaves what doesn't apply null, and so it is here."""


def optimize_frame(spark: Any, path: str, metrics: OptimizeMetrics) -> Any:
    """Of OPTIMIZE and REORG: one row, the table's path and the metrics."""
    given: dict[str, Any] = {
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
        given["zOrderStats"] = _nested(asdict(metrics.z_order_stats))
    if metrics.clustering_stats is not None:
        given["clusteringStats"] = _nested(asdict(metrics.clustering_stats))
    if metrics.num_deletion_vectors_removed:
        given["deletionVectorStats"] = (
            metrics.num_deletion_vectors_removed,
            metrics.num_deleted_rows_removed,
        )
    row = (qualified(path), tuple(given.get(name) for name in _OPTIMIZE))
    fields = ", ".join(f"{name}: {kind}" for name, kind in _OPTIMIZE.items())
    return spark.createDataFrame([row], f"path string, metrics struct<{fields}>")


def qualified(path: str) -> str:
    """A path as Hadoop shows it."""
    return f"file:{path}" if path.startswith("/") else path


def _nested(values: Any) -> Any:
    """Dictionaries as the tuples that rows are made of."""
    return tuple(map(_nested, values.values())) if isinstance(values, dict) else values


def _longs(names: tuple[str, ...]) -> StructType:
    return StructType([StructField(name, LongType()) for name in names])


def text(value: str, argument: str) -> str:
    """A text."""
    given: object = value
    if not isinstance(given, str):
        raise ArgumentError(
            f"{argument} needs to be a string but got {type(given).__name__}: {given!r}.",
            argument=argument,
        )
    return value


def number(value: int, argument: str) -> int:
    """A whole number."""
    given: object = value
    if not isinstance(given, int) or isinstance(given, bool):
        raise ArgumentError(
            f"{argument} needs to be an int but got {type(given).__name__}: {given!r}.",
            argument=argument,
        )
    return value


def flag(value: bool, argument: str) -> bool:
    """True or false."""
    given: object = value
    if not isinstance(given, bool):
        raise ArgumentError(
            f"{argument} needs to be a boolean but got {type(given).__name__}: {given!r}.",
            argument=argument,
        )
    return value


def texts(values: Mapping[str, str] | None, argument: str) -> dict[str, str]:
    """Texts by name; nothing for None."""
    given: object = {} if values is None else values
    if not isinstance(given, dict):
        raise ArgumentError(
            f"{argument} needs to be a dict but got {type(given).__name__}: {given!r}.",
            argument=argument,
        )
    for key, value in given.items():
        text(key, f"each key of {argument}")
        text(value, f"the value of {key} in {argument}")
    return dict(given)


def names(columns: tuple[Any, ...], argument: str) -> tuple[str, ...]:
    """Names of columns, given one by one or as one list."""
    if len(columns) == 1 and isinstance(columns[0], list | tuple):
        columns = tuple(columns[0])
    return tuple(text(column, argument) for column in columns)
