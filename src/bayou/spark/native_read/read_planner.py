"""The choice between a native read and the data source."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # PySpark's convention

from bayou.engines import for_path
from bayou.errors import ArgumentError
from bayou.kernel import Engine, Snapshot
from bayou.kernel.expressions.literals import normalize_time_zone
from bayou.protocol.identifiers import quote_identifier
from bayou.protocol.schema import VOID, ArrayType, DataType, MapType, StructType
from bayou.spark.errors import readable_errors
from bayou.spark.hooks.requests import ReadRequest
from bayou.spark.jvm.classes import java_class
from bayou.spark.log_replay.snapshot_cache import latest_snapshot
from bayou.spark.native_read.file_listing import too_many_files
from bayou.spark.native_read.relation import native_frame
from bayou.spark.read.filters import table_columns
from bayou.spark.read.options import SourceOptions, open_pinned
from bayou.spark.read.time_travel import path_travel
from bayou.spark.session.hadoop_storage import with_session_storage
from bayou.spark.session.loaded_version import LOADED_VERSION, loaded_version
from bayou.spark.session.settings import TIME_ZONE
from bayou.spark.session.storage_options import boolean_option
from bayou.spark.types import from_spark

__all__ = ["DOOR", "load"]

_LOG = logging.getLogger(__name__)

DOOR = "spark.bayou.read.door"
"""Setting: `native`, `source` (the data source), or `auto`, which decides by the table."""

_DOORS = ("auto", "native", "source")

MAX_FILES = 4_000_000
"""Maximum number of files of a table that is read natively.

A native read holds all files of a query in the JVM's memory; the data source doesn't. A filtered
query of a smaller table lists few files.
"""

_BYTES_A_DELETED_ROW = 200
_SOURCE_OPTIONS = ("readChangeFeed", "readChangeData", "metadataColumn")
"""Options that only the data source supports."""

_NOT_HADOOP = ("aws_", "azure_", "google_")
_ENDPOINTS = frozenset({"AWS_ENDPOINT_URL", "AWS_ENDPOINT"})
_warned: set[str] = set()


def load(request: ReadRequest) -> Any:
    """Hook of `load`: the DataFrame of a native read; NotImplemented for the data source."""
    values = {k.lower(): v for k, v in request.options.items()}
    spark = request.spark
    door = _door(spark)
    if request.connect or len(request.paths) != 1 or door == "source":
        return NotImplemented
    if any(boolean_option(values, name) for name in _SOURCE_OPTIONS):
        return NotImplemented
    if TIME_ZONE.string(values) not in (None, spark.conf.get("spark.sql.session.timeZone")):
        return NotImplemented  # Spark's own reader supports only the session's time zone
    with readable_errors():
        path = request.paths[0]
        read_options = with_session_storage(spark, path, request.options)
        session_zone = str(spark.conf.get("spark.sql.session.timeZone"))
        options = SourceOptions.parse({**read_options, TIME_ZONE.name: session_zone, "path": path})
        zone = _time_zone(spark)
        engine, snapshot = _open(spark, options)
        travels = _travels(options)
        loaded = "" if travels else loaded_version(snapshot.path, snapshot.version)
        if (reason := _unreachable(spark, snapshot, read_options)) is not None:
            _LOG.info("Table %s: the data source reads it, because %s.", snapshot.path, reason)
            request.reader.option(LOADED_VERSION, loaded)
            return NotImplemented
        reason = _unsupported(snapshot)
        if reason is None and door == "auto":
            reason = too_many_files(snapshot, MAX_FILES)
        if reason is not None:
            _warn_once(f"Table {snapshot.path}: the data source reads it, because {reason}.")
            request.reader.option(LOADED_VERSION, loaded)
            return NotImplemented
        try:
            frame = native_frame(
                spark,
                engine,
                snapshot,
                time_zone=zone,
                max_deleted_rows=_heap(spark) // _BYTES_A_DELETED_ROW,
                options={
                    LOADED_VERSION: loaded,
                    **{k: v for k, v in request.options.items() if k.startswith("fs.")},
                },
            )
        except Py4JError as error:
            _warn_once(
                "The internals of this version of Spark differ from versions 4.0 to 4.3, so tables "
                f"are read by the data source: {str(error).splitlines()[0]}"
            )
            return NotImplemented
        return _with_filter_and_schema(frame, request, options, snapshot)


def _door(spark: Any) -> str:
    door = str(spark.conf.get(DOOR, "auto")).strip().lower()
    if door not in _DOORS:
        raise ArgumentError(
            f"Setting {DOOR}: {door!r} isn't valid. It must be {', '.join(_DOORS[:-1])} or "
            f"{_DOORS[-1]}.",
            argument=DOOR,
        )
    return door


def _with_filter_and_schema(
    frame: DataFrame, request: ReadRequest, options: SourceOptions, snapshot: Snapshot
) -> DataFrame:
    if options.filter is not None:
        frame = frame.where(F.expr(options.filter))
    if request.schema is not None:
        requested = from_spark(request.schema, table=snapshot.path)
        columns = table_columns(requested, snapshot.schema, snapshot.path)
        frame = frame.select(
            [
                F.col(quote_identifier(known.name)).alias(field.name)
                for field, known in zip(requested, columns, strict=True)
            ]
        )
    return frame


def _open(spark: Any, options: SourceOptions) -> tuple[Engine, Snapshot]:
    """The snapshot of the requested version, or the latest one from the snapshot cache."""
    if _travels(options):
        return open_pinned(options, None)
    engine = for_path(options.path, options.storage)
    return engine, latest_snapshot(engine, options.path, spark)


def _travels(options: SourceOptions) -> bool:
    """Whether the read has a version or a timestamp."""
    in_options = options.version is not None or options.timestamp is not None
    return in_options or path_travel(options.path) is not None


def _unsupported(snapshot: Snapshot) -> str | None:
    """The reason that Spark's Parquet reader can't read the table; None if it can."""
    for field in snapshot.schema:
        if field.data_type != VOID and _has_void(field.data_type):
            return f"column {field.name} has a field of type void"
    if any(name.lower() == "_metadata" for name in snapshot.schema.names):
        return "it has a column _metadata, a name that Spark reserves for file metadata"
    return None


def _unreachable(spark: Any, snapshot: Snapshot, options: Mapping[str, str]) -> str | None:
    """The reason that Spark's Hadoop client can't read the table's files; None if it can.

    Args:
        spark: the session.
        snapshot: the table.
        options: the read's options, with the session's storage settings.
    """
    if snapshot.path.startswith("/"):
        return None
    scheme = urlsplit(snapshot.path).scheme
    scheme = "s3a" if scheme in ("s3", "s3n") else scheme
    names = {key.lower() for key in options}
    if any(key.startswith(_NOT_HADOOP) for key in names):
        return "its credentials are in options that Hadoop doesn't support"
    if scheme == "s3a" and "fs.s3a.endpoint" not in names and _ENDPOINTS & os.environ.keys():
        return "its endpoint is in an environment variable that Hadoop doesn't read"
    jvm, context = spark._jvm, spark._jsc  # noqa: SLF001  # no public API
    try:
        java_class(jvm, "org.apache.hadoop.fs.FileSystem").getFileSystemClass(
            scheme, context.hadoopConfiguration()
        )
    except Py4JError:
        return f"Spark's Hadoop client has no file system for {scheme}:"
    return None


def _has_void(data_type: DataType) -> bool:
    match data_type:
        case StructType(fields):
            return any(_has_void(f.data_type) for f in fields)
        case ArrayType():
            return _has_void(data_type.element_type)
        case MapType():
            return _has_void(data_type.key_type) or _has_void(data_type.value_type)
        case _:
            return data_type == VOID


def _time_zone(spark: Any) -> str:
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    return (
        "UTC"
        if zone.upper() in ("UTC", "GMT", "Z", "ETC/UTC", "+00:00")
        else normalize_time_zone(zone)
    )


def _heap(spark: Any) -> int:
    return int(java_class(spark._jvm, "java.lang.Runtime").getRuntime().maxMemory())  # noqa: SLF001


def _warn_once(message: str) -> None:
    if message not in _warned:
        _warned.add(message)
        _LOG.warning(message)
