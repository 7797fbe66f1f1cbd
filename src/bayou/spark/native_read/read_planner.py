"""Which way a read takes: Spark's own scan over the kernel's list of files, or the data source."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

from bayou.engines import for_path
from bayou.errors import ArgumentError
from bayou.kernel import Engine, Snapshot
from bayou.kernel.expressions.literals import checked_time_zone
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
"""`auto`, `native` or `source`: who reads; `auto` decides by the table."""

_DOORS = ("auto", "native", "source")

MAX_FILES = 4_000_000
"""A table of more is read by the data source, which never lists them in the JVM, where every file
that a query reads is held. A filtered query of a smaller table lists few."""

_BYTES_A_DELETED_ROW = 200
_OF_THE_SOURCE = ("readChangeFeed", "readChangeData", "metadataColumn")
"""Options for what only the data source gives."""

_NOT_HADOOP = ("aws_", "azure_", "google_")
_ENDPOINTS = frozenset({"AWS_ENDPOINT_URL", "AWS_ENDPOINT"})
_warned: set[str] = set()


def load(request: ReadRequest) -> Any:
    """The DataFrame of a native scan; `NotImplemented` leaves the read to the data source."""
    given = {k.lower(): v for k, v in request.options.items()}
    spark = request.spark
    door = _door(spark)
    if request.connect or len(request.paths) != 1 or door == "source":
        return NotImplemented
    if any(boolean_option(given, name) for name in _OF_THE_SOURCE):
        return NotImplemented
    if TIME_ZONE.text(given) not in (None, spark.conf.get("spark.sql.session.timeZone")):
        return NotImplemented  # Spark's own reader knows the session's only
    with readable_errors():
        path = request.paths[0]
        stored = with_session_storage(spark, path, request.options)
        session_zone = str(spark.conf.get("spark.sql.session.timeZone"))
        options = SourceOptions.parse({**stored, TIME_ZONE.name: session_zone, "path": path})
        zone = _time_zone(spark)
        engine, snapshot = _opened(spark, options)
        travels = _travels(options)
        loaded = "" if travels else loaded_version(snapshot.path, snapshot.version)
        if (reason := _out_of_reach(spark, snapshot, stored)) is not None:
            _LOG.info("%s is read by the data source: %s.", snapshot.path, reason)
            request.reader.option(LOADED_VERSION, loaded)
            return NotImplemented
        reason = _impossible(snapshot)
        if reason is None and door == "auto":
            reason = too_many_files(snapshot, MAX_FILES)
        if reason is not None:
            _say_once(f"{snapshot.path} is read by the data source: {reason}.")
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
            _say_once(
                "This Spark's internals aren't those of versions 4.0 to 4.3, so tables are read by "
                f"the data source: {str(error).splitlines()[0]}"
            )
            return NotImplemented
        return _narrowed(frame, request, options, snapshot)


def _door(spark: Any) -> str:
    door = str(spark.conf.get(DOOR, "auto")).strip().lower()
    if door not in _DOORS:
        raise ArgumentError(
            f"The setting {DOOR} is {door!r}; it must be {', '.join(_DOORS[:-1])} or {_DOORS[-1]}.",
            argument=DOOR,
        )
    return door


def _narrowed(
    frame: DataFrame, request: ReadRequest, options: SourceOptions, snapshot: Snapshot
) -> DataFrame:
    if options.filter is not None:
        frame = frame.where(F.expr(options.filter))
    if request.schema is not None:
        wanted = from_spark(request.schema, table=snapshot.path)
        columns = table_columns(wanted, snapshot.schema, snapshot.path)
        frame = frame.select(
            [
                F.col("`" + known.name.replace("`", "``") + "`").alias(field.name)
                for field, known in zip(wanted, columns, strict=True)
            ]
        )
    return frame


def _opened(spark: Any, options: SourceOptions) -> tuple[Engine, Snapshot]:
    """The version that is asked for; the latest one by what is known of the table already."""
    if _travels(options):
        return open_pinned(options, None)
    engine = for_path(options.path, options.storage)
    return engine, latest_snapshot(engine, options.path, spark)


def _travels(options: SourceOptions) -> bool:
    """Whether a version or a time is asked for."""
    asked = options.version is not None or options.timestamp is not None
    return asked or path_travel(options.path) is not None


def _impossible(snapshot: Snapshot) -> str | None:
    """Why Spark's Parquet reader can't read the table."""
    for field in snapshot.schema:
        if field.data_type != VOID and _has_void(field.data_type):
            return f"column {field.name} has a field without a type"
    if any(name.lower() == "_metadata" for name in snapshot.schema.names):
        return "it has a column _metadata, by which Spark names where rows are from"
    return None


def _out_of_reach(spark: Any, snapshot: Snapshot, options: Mapping[str, str]) -> str | None:
    """Why Spark's Hadoop can't reach the files of the table.

    Args:
        options: of the read, with what the session says of the store.
    """
    if snapshot.path.startswith("/"):
        return None
    scheme = urlsplit(snapshot.path).scheme
    scheme = "s3a" if scheme in ("s3", "s3n") else scheme
    given = {key.lower() for key in options}
    if any(key.startswith(_NOT_HADOOP) for key in given):
        return "its credentials are in options that Hadoop doesn't know"
    if scheme == "s3a" and "fs.s3a.endpoint" not in given and _ENDPOINTS & os.environ.keys():
        return "its endpoint is in the environment, where Hadoop doesn't look"
    jvm, context = spark._jvm, spark._jsc  # noqa: SLF001  # published nowhere
    try:
        java_class(jvm, "org.apache.hadoop.fs.FileSystem").getFileSystemClass(
            scheme, context.hadoopConfiguration()
        )
    except Py4JError:
        return f"Spark's Hadoop has no file system for {scheme}:"
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
        else checked_time_zone(zone)
    )


def _heap(spark: Any) -> int:
    return int(java_class(spark._jvm, "java.lang.Runtime").getRuntime().maxMemory())  # noqa: SLF001


def _say_once(text: str) -> None:
    if text not in _warned:
        _warned.add(text)
        _LOG.warning(text)
