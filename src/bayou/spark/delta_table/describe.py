"""`DESCRIBE HISTORY` and `DESCRIBE DETAIL`: the frames that delta-spark gives.

Source: `DeltaHistory` and `TableDetail` of delta-spark 4.4.
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

__all__ = ["DETAIL_SCHEMA", "HISTORY_SCHEMA", "detail_frame", "history_frame"]


def _struct(*fields: tuple[str, DataType]) -> StructType:
    return StructType([StructField(name, kind) for name, kind in fields])


_TEXT, _TEXTS = StringType(), MapType(StringType(), StringType())

HISTORY_SCHEMA = _struct(
    ("version", LongType()),
    ("timestamp", TimestampType()),
    ("userId", _TEXT),
    ("userName", _TEXT),
    ("operation", _TEXT),
    ("operationParameters", _TEXTS),
    (
        "job",
        _struct(
            ("jobId", _TEXT),
            ("jobName", _TEXT),
            ("jobRunId", _TEXT),
            ("runId", _TEXT),
            ("jobOwnerId", _TEXT),
            ("triggerType", _TEXT),
        ),
    ),
    ("notebook", _struct(("notebookId", _TEXT))),
    ("clusterId", _TEXT),
    ("readVersion", LongType()),
    ("isolationLevel", _TEXT),
    ("isBlindAppend", BooleanType()),
    ("operationMetrics", _TEXTS),
    ("userMetadata", _TEXT),
    ("engineInfo", _TEXT),
)

DETAIL_SCHEMA = _struct(
    ("format", _TEXT),
    ("id", _TEXT),
    ("name", _TEXT),
    ("description", _TEXT),
    ("location", _TEXT),
    ("createdAt", TimestampType()),
    ("lastModified", TimestampType()),
    ("partitionColumns", ArrayType(_TEXT)),
    ("clusteringColumns", ArrayType(_TEXT)),
    ("numFiles", LongType()),
    ("sizeInBytes", LongType()),
    ("properties", _TEXTS),
    ("minReaderVersion", IntegerType()),
    ("minWriterVersion", IntegerType()),
    ("tableFeatures", ArrayType(_TEXT)),
)


def history_frame(spark: Any, engine: Engine, table: Table, limit: int | None = None) -> Any:
    """The commits still in the log, newest first, as a DataFrame of `HISTORY_SCHEMA`."""
    commits = table.history(engine, limit)
    return spark.createDataFrame([_history_row(commit) for commit in commits], HISTORY_SCHEMA)


def detail_frame(spark: Any, engine: Engine, snapshot: Snapshot, name: str | None = None) -> Any:
    """What a version is, one row of `DETAIL_SCHEMA`.

    Args:
        name: of the table in Spark's catalog; None: the one in its metadata.
    """
    detail = table_detail(engine, snapshot)
    row = (
        "delta",
        detail.id,
        detail.name if name is None else name,
        detail.description,
        detail.location,
        _moment(detail.created_at),
        _moment(detail.last_modified),
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
    return tuple(_fitting(commit.get(f.name), f.dataType) for f in HISTORY_SCHEMA.fields)


def _fitting(value: Any, kind: DataType) -> Any:
    """What a writer put into a commit's `commitInfo` is free form: null where it doesn't fit."""
    if value is None:
        return None
    if isinstance(kind, TimestampType):
        return _moment(value)
    if isinstance(kind, MapType):
        return {str(k): _text(v) for k, v in value.items()} if isinstance(value, dict) else None
    if isinstance(kind, StructType):
        if not isinstance(value, dict):
            return None
        return tuple(_fitting(value.get(f.name), f.dataType) for f in kind.fields)
    if isinstance(kind, BooleanType):
        return value if isinstance(value, bool) else None
    if isinstance(kind, LongType):
        return value if isinstance(value, int) and not isinstance(value, bool) else None
    return _text(value)


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _moment(milliseconds: int | None) -> dt.datetime | None:
    """A moment with its offset: PySpark takes it as it is, in any session time zone."""
    if milliseconds is None:
        return None
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=milliseconds)
