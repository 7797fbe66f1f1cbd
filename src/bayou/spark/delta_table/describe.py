"""DataFrames that DESCRIBE HISTORY and DESCRIBE DETAIL return.

They have the schemas `DeltaHistory` and `TableDetail` of delta-spark 4.4.
"""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from bayou.kernel import Engine, Snapshot, Table
from bayou.kernel.table_detail import table_detail


def _struct(*fields: tuple[str, DataType]) -> StructType:
    return StructType([StructField(name, data_type) for name, data_type in fields])


_STRING, _STRING_MAP = StringType(), MapType(StringType(), StringType())

HISTORY_SCHEMA = _struct(
    ("version", LongType()),
    ("timestamp", TimestampType()),
    ("userId", _STRING),
    ("userName", _STRING),
    ("operation", _STRING),
    ("operationParameters", _STRING_MAP),
    (
        "job",
        _struct(
            ("jobId", _STRING),
            ("jobName", _STRING),
            ("jobRunId", _STRING),
            ("runId", _STRING),
            ("jobOwnerId", _STRING),
            ("triggerType", _STRING),
        ),
    ),
    ("notebook", _struct(("notebookId", _STRING))),
    ("clusterId", _STRING),
    ("readVersion", LongType()),
    ("isolationLevel", _STRING),
    ("isBlindAppend", BooleanType()),
    ("operationMetrics", _STRING_MAP),
    ("userMetadata", _STRING),
    ("engineInfo", _STRING),
)

DETAIL_SCHEMA = _struct(
    ("format", _STRING),
    ("id", _STRING),
    ("name", _STRING),
    ("description", _STRING),
    ("location", _STRING),
    ("createdAt", TimestampType()),
    ("lastModified", TimestampType()),
    ("partitionColumns", ArrayType(_STRING)),
    ("clusteringColumns", ArrayType(_STRING)),
    ("numFiles", LongType()),
    ("sizeInBytes", LongType()),
    ("properties", _STRING_MAP),
    ("minReaderVersion", IntegerType()),
    ("minWriterVersion", IntegerType()),
    ("tableFeatures", ArrayType(_STRING)),
)


def history_frame(spark: Any, engine: Engine, table: Table, limit: int | None = None) -> Any:
    """Return the last `limit` commits, newest first, as a DataFrame with `HISTORY_SCHEMA`.

    If `limit` is None, all commits are returned.
    """
    commits = table.history(engine, limit)
    return spark.createDataFrame([_history_row(commit) for commit in commits], HISTORY_SCHEMA)


def detail_frame(spark: Any, engine: Engine, snapshot: Snapshot, name: str | None = None) -> Any:
    """Return the details of a version as a DataFrame of one row with `DETAIL_SCHEMA`.

    Args:
        name: the table's name in the catalog. If None, the name in the table's metadata is used.
    """
    detail = table_detail(engine, snapshot)
    row = (
        "delta",
        detail.id,
        detail.name if name is None else name,
        detail.description,
        detail.location,
        _timestamp(detail.created_at),
        _timestamp(detail.last_modified),
        list(detail.partition_columns),
        list(detail.clustering_columns),
        detail.num_files,
        detail.size_in_bytes,
        dict(detail.properties),
        detail.min_reader_version,
        detail.min_writer_version,
        list(detail.table_features),
    )
    return spark.createDataFrame([row], DETAIL_SCHEMA)


def _history_row(commit: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(_converted(commit.get(f.name), f.dataType) for f in HISTORY_SCHEMA.fields)


def _converted(value: Any, data_type: DataType) -> Any:
    """Convert a `commitInfo` value to a history column's type; None if the types don't match."""
    if value is None:
        return None
    if isinstance(data_type, TimestampType):
        return _timestamp(value)
    if isinstance(data_type, MapType):
        return {str(k): _string(v) for k, v in value.items()} if isinstance(value, dict) else None
    if isinstance(data_type, StructType):
        if not isinstance(value, dict):
            return None
        return tuple(_converted(value.get(f.name), f.dataType) for f in data_type.fields)
    if isinstance(data_type, BooleanType):
        return value if isinstance(value, bool) else None
    if isinstance(data_type, LongType):
        return value if isinstance(value, int) and not isinstance(value, bool) else None
    return _string(value)


def _string(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _timestamp(milliseconds: int | None) -> dt.datetime | None:
    """Convert ms since the epoch to a datetime with time zone UTC.

    The result is None if `milliseconds` is None or outside of the years 1 to 9999.
    """
    if milliseconds is None:
        return None
    try:
        return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None
