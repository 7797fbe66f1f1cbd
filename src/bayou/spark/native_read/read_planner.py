"""Chooses between a native scan and the Python data source for each read."""

from __future__ import annotations

import logging
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # PySpark's convention

from bayou.engines import for_path
from bayou.errors import ArgumentError, BayouError
from bayou.kernel import Engine, Snapshot
from bayou.kernel.expressions.literals import normalize_time_zone
from bayou.protocol.schema import VOID, nested_types
from bayou.protocol.sql import quote_identifier
from bayou.spark.errors import readable_errors
from bayou.spark.expressions.session_semantics import is_utc
from bayou.spark.hooks.requests import ReadRequest
from bayou.spark.jvm.objects import JvmError, error_reason
from bayou.spark.jvm.session import max_heap_bytes
from bayou.spark.log_replay.snapshot_cache import latest_snapshot
from bayou.spark.native_read.file_index import too_many_files
from bayou.spark.native_read.relation import native_frame
from bayou.spark.native_read.store_access import Unreachable, store_access
from bayou.spark.read.filters import table_columns
from bayou.spark.read.options import SourceOptions, open_pinned
from bayou.spark.read.time_travel import path_travel
from bayou.spark.session.hadoop_storage import with_session_storage
from bayou.spark.session.read_version_options import (
    LOADED_VERSION,
    WHOLE_TABLE,
    loaded_version,
    whole_table,
)
from bayou.spark.session.settings import TIME_ZONE
from bayou.spark.session.storage_options import boolean_option
from bayou.spark.types import from_spark

_LOG = logging.getLogger(__name__)

READER = "spark.bayou.reader"
"""Name of the setting that selects the reader: `native`, `source` (the data source), or `auto`.

`auto` chooses a reader for each table.
"""

_READERS = ("auto", "native", "source")

MAX_FILES = 4_000_000
"""Maximum number of files of a table that is read natively with the reader `auto`.

A native scan stores the list of a query's files in the JVM's memory. The limit applies to all files
of the table, although a query with a filter lists fewer files.
"""

_BYTES_A_DELETED_ROW = 200
_CHANGES = ("readChangeFeed", "readChangeData")
"""Names of options for the change data feed, which only the data source supports."""

_warned: set[str] = set()


def load(request: ReadRequest) -> Any:
    """Handler of the hook `load`: return the DataFrame of a native scan.

    Returns NotImplemented if the Python data source must read the table.
    """
    values = {k.lower(): v for k, v in request.options.items()}
    spark = request.spark
    reader = _reader(spark)
    if request.connect or len(request.paths) != 1:
        return NotImplemented
    if any(boolean_option(values, name) for name in _CHANGES):
        return NotImplemented
    session_zones = (None, spark.conf.get("spark.sql.session.timeZone"))
    if (
        reader == "source"
        or boolean_option(values, "metadataColumn")
        # Spark's own reader supports only the session's time zone.
        or TIME_ZONE.string(values) not in session_zones
    ):
        _record_version(request)
        return NotImplemented
    with readable_errors():
        path = request.paths[0]
        read_options = with_session_storage(spark, path, request.options)
        session_zone = str(spark.conf.get("spark.sql.session.timeZone"))
        options = SourceOptions.parse({**read_options, TIME_ZONE.name: session_zone, "path": path})
        zone = _time_zone(spark)
        engine, snapshot = _open(spark, options)
        has_time_travel = _has_time_travel(options)
        loaded = "" if has_time_travel else loaded_version(snapshot.path, snapshot.version)
        recorded = {LOADED_VERSION: loaded, **_whole_table(request, options, snapshot)}
        unreachable = store_access(spark, snapshot.path, read_options)
        if unreachable is not None:
            _report_unreachable(snapshot.path, unreachable)
            request.reader.options(**recorded)
            return NotImplemented
        reason = _unsupported_reason(snapshot)
        if reason is None and reader == "auto":
            reason = too_many_files(snapshot, MAX_FILES)
        if reason is not None:
            _warn_once(
                f"Table {snapshot.path}: the Python data source is used instead of Spark's Parquet "
                f"reader, because {reason}."
            )
            request.reader.options(**recorded)
            return NotImplemented
        try:
            frame = native_frame(
                spark,
                engine,
                snapshot,
                time_zone=zone,
                max_deleted_rows=max_heap_bytes(spark) // _BYTES_A_DELETED_ROW,
                options={
                    **recorded,
                    **{k: v for k, v in request.options.items() if k.startswith("fs.")},
                },
                follows_streams=not has_time_travel,
            )
        except JvmError as error:
            _warn_once(
                "Spark: the Python data source is used instead of Spark's Parquet reader, because "
                "internals of this Spark version differ from versions 4.1 to 4.3 "
                f"({error_reason(error)}). Use a supported version for faster reads."
            )
            request.reader.options(**recorded)
            return NotImplemented
        return _with_filter_and_schema(frame, request, options, snapshot)


def _reader(spark: Any) -> str:
    reader = str(spark.conf.get(READER, "auto")).strip().lower()
    if reader not in _READERS:
        raise ArgumentError(
            f"Setting {READER}: {reader!r} isn't valid. It must be {', '.join(_READERS[:-1])} or "
            f"{_READERS[-1]}.",
            argument=READER,
        )
    return reader


def _record_version(request: ReadRequest) -> None:
    """Record the table's latest version in the option `LOADED_VERSION` of a read.

    If the rows of this read are written to the same table, the recorded version is the read version
    of the write. The Python data source opens the table later. It may then read a newer version
    than the recorded one.
    """
    spark, path = request.spark, request.paths[0]
    try:
        read_options = with_session_storage(spark, path, request.options)
        options = SourceOptions.parse({**read_options, "path": path})
        if _has_time_travel(options):
            request.reader.option(LOADED_VERSION, "")
            return
        _, snapshot = _open(spark, options)
    except BayouError:
        return  # the data source will raise the error
    request.reader.option(LOADED_VERSION, loaded_version(snapshot.path, snapshot.version))
    request.reader.options(**_whole_table(request, options, snapshot))


def _whole_table(
    request: ReadRequest, options: SourceOptions, snapshot: Snapshot
) -> dict[str, str]:
    """Return the option `WHOLE_TABLE` for a read of all rows and columns of the latest version.

    For all other reads, an empty mapping is returned.
    """
    if request.schema is not None or options.filter is not None or _has_time_travel(options):
        return {}
    return {WHOLE_TABLE: whole_table(snapshot.table_id, snapshot.path, snapshot.version)}


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
    """Return the engine and the requested snapshot; a cache provides the latest snapshot."""
    if _has_time_travel(options):
        return open_pinned(options, None)
    engine = for_path(options.path, options.storage)
    return engine, latest_snapshot(engine, options.path, spark)


def _has_time_travel(options: SourceOptions) -> bool:
    """Whether the options or the path specify a version or timestamp for time travel."""
    in_options = options.version is not None or options.timestamp is not None
    return in_options or path_travel(options.path) is not None


def _unsupported_reason(snapshot: Snapshot) -> str | None:
    """Return the reason why Spark's Parquet reader can't read a table; None if it can."""
    for field in snapshot.schema:
        if any(inner == VOID for _, inner, _ in nested_types(field.data_type)):
            return f"column {field.name} has a field of type void"
    if any(name.lower() == "_metadata" for name in snapshot.schema.names):
        return "it has a column _metadata, a name that Spark reserves for file metadata"
    return None


def _time_zone(spark: Any) -> str:
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    return "UTC" if is_utc(zone) else normalize_time_zone(zone)


def _report_unreachable(path: str, unreachable: Unreachable) -> None:
    """Log the reason why a read uses the Python data source.

    If a package is missing, the log message is a warning, and is logged only once for each package.
    """
    if unreachable.package is None:
        _LOG.info(
            "Table %s: the Python data source is used instead of Spark's Parquet reader, because "
            "%s.",
            path,
            unreachable.reason,
        )
        return
    _warn_once(
        f"Tables on {unreachable.scheme}: the Python data source is used instead of Spark's "
        f"Parquet reader, because {unreachable.reason}. To read the tables natively, start the "
        f"session with the package {unreachable.package}."
    )


def _warn_once(message: str) -> None:
    if message not in _warned:
        _warned.add(message)
        _LOG.warning(message)
