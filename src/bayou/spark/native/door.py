"""Which way a read takes: Spark's own scan over the kernel's list of files, or the data source."""

from __future__ import annotations

import logging
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

from bayou.kernel import Snapshot
from bayou.protocol.schema import VOID, ArrayType, DataType, MapType, StructType
from bayou.spark.errors import readable_errors
from bayou.spark.native.relation import native_frame
from bayou.spark.requests import ReadRequest
from bayou.spark.settings import TIME_ZONE
from bayou.spark.source.columns import table_columns
from bayou.spark.source.options import SourceOptions
from bayou.spark.source.snapshots import open_pinned
from bayou.spark.types import from_spark

__all__ = ["DOOR", "load"]

_LOG = logging.getLogger(__name__)

DOOR = "spark.bayou.read.door"
"""`auto`, `native` or `source`: who reads; `auto` decides by the table."""

MAX_FILES = 4_000_000
_BYTES_A_DELETED_ROW = 200
_OF_THE_SOURCE = ("readchangefeed", "readchangedata", "metadatacolumn")
"""Options, in lower case, for what only the data source gives."""

_warned: set[str] = set()


def load(request: ReadRequest) -> Any:
    """The DataFrame of a native scan; `NotImplemented` leaves the read to the data source."""
    given = {k.lower(): v for k, v in request.options.items()}
    spark = request.spark
    door = str(spark.conf.get(DOOR, "auto")).lower()
    if request.connect or len(request.paths) != 1 or door == "source":
        return NotImplemented
    if any(given.get(name, "false").strip().lower() == "true" for name in _OF_THE_SOURCE):
        return NotImplemented
    if TIME_ZONE.text(given) not in (None, spark.conf.get("spark.sql.session.timeZone")):
        return NotImplemented  # Spark's own reader knows the session's only
    with readable_errors():
        options = SourceOptions.parse({**request.options, "path": request.paths[0]})
        engine, snapshot = open_pinned(options, None)
        reason = _unsuitable(snapshot) if door == "auto" else _impossible(snapshot)
        if reason is not None:
            _say_once(f"{snapshot.path} is read by the data source: {reason}.")
            return NotImplemented
        try:
            frame = native_frame(
                spark,
                engine,
                snapshot,
                time_zone=_time_zone(spark),
                max_deleted_rows=_heap(spark) // _BYTES_A_DELETED_ROW,
                file_system={},
            )
        except Py4JError as error:
            _say_once(
                "This Spark's internals aren't those of versions 4.0 to 4.3, so tables are read by "
                f"the data source: {str(error).splitlines()[0]}"
            )
            return NotImplemented
        return _narrowed(frame, request, options, snapshot)


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


def _unsuitable(snapshot: Snapshot) -> str | None:
    """Why the data source should read, None where a native scan should."""
    stated = snapshot.stated_totals
    if stated is not None and stated.files > MAX_FILES:
        return f"it has {stated.files} files"
    return _impossible(snapshot)


def _impossible(snapshot: Snapshot) -> str | None:
    """What Spark's Parquet reader can't do of what the table needs."""
    for field in snapshot.schema:
        if field.data_type != VOID and _has_void(field.data_type):
            return f"column {field.name} has a field without a type"
    if not snapshot.path.startswith("/"):
        return "it is in an object store"
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
    return "UTC" if zone.upper() in ("UTC", "GMT", "Z", "ETC/UTC", "+00:00") else zone


def _heap(spark: Any) -> int:
    return int(spark._jvm.java.lang.Runtime.getRuntime().maxMemory())  # noqa: SLF001


def _say_once(text: str) -> None:
    if text not in _warned:
        _warned.add(text)
        _LOG.warning(text)
