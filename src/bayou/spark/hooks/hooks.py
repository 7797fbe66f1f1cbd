"""Hooks in PySpark's readers and writers, by which Bayou answers before Spark does.

They sit on PySpark's classes, are installed once, and do nothing unless the session's conf says
`spark.bayou.enabled`: so they hold in `foreachBatch` and in new sessions of the application, where
the session is another object, and nowhere else.

A handler takes a request (`bayou.spark.hooks.requests`) and answers it, or returns
`NotImplemented`: then the next one is asked, and Spark's own method runs unchanged after the last.

What a session's conf says, handed to data sources, which plan where no conf is seen.
"""

from __future__ import annotations

import functools
import importlib
import logging
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from py4j.protocol import Py4JError
from pyspark.sql import DataFrameReader, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from bayou.errors import ArgumentError
from bayou.spark.hooks.requests import (
    ReadRequest,
    SqlRequest,
    TableReadRequest,
    WriteToRequest,
    read_request,
    stream_write_request,
    write_request,
)
from bayou.spark.hooks.write_to_recording import write_to_wrappers
from bayou.spark.session.hadoop_storage import with_session_storage
from bayou.spark.session.settings import conf_as_options

__all__ = [
    "ENABLED",
    "Handler",
    "HookName",
    "check_session",
    "hand_over_settings",
    "install",
    "is_enabled",
    "plain_sql",
    "register",
]


_LOG = logging.getLogger(__name__)

ENABLED = "spark.bayou.enabled"
"""The conf by which a session has its hooks on."""

HookName: TypeAlias = Literal[
    "load", "save", "stream_load", "stream_start", "query_start", "sql", "table", "write_to"
]
"""`load`: a `ReadRequest` of `DataFrameReader.load`. `save`: a `WriteRequest` of `save`,
`saveAsTable` or `insertInto`. `stream_load`: a `ReadRequest` of `DataStreamReader.load`.
`stream_start`: a `StreamWriteRequest` of `start` or `toTable`. `query_start`: the same, before
that. `sql`: a `SqlRequest` of `SparkSession.sql`. `table`: a `TableReadRequest` of
`SparkSession.table`, `DataFrameReader.table` or `DataStreamReader.table`. `write_to`: a
`WriteToRequest` of the last method of `writeTo`."""

Handler: TypeAlias = Callable[[Any], Any]

_handlers: dict[HookName, list[Handler]] = {
    "load": [],
    "save": [],
    "stream_load": [],
    "stream_start": [],
    "query_start": [],
    "sql": [],
    "table": [],
    "write_to": [],
}
_hooked: set[tuple[type, str]] = set()


def register(hook: HookName, handler: Handler) -> None:
    """Ask a handler too, after those that are registered already; once only.

    Handlers of `load`, `stream_load` and `stream_start`, and those of `save` for `save` and
    `saveAsTable`, are asked for the format `delta` only; for `insertInto` and `sql`, which have
    none, and of `query_start` always.
    """
    if handler not in _handlers[hook]:
        _handlers[hook].append(handler)


def install(spark: Any) -> None:
    """Put the hooks on the classes that a session's readers and writers have; once only."""
    if isinstance(spark, SparkSession):
        session = "pyspark.sql.session"
        batch, stream = "pyspark.sql.readwriter", "pyspark.sql.streaming.readwriter"
        _hook(DataFrameReader, {"table": _table})
        _hook(DataStreamReader, {"table": _table})
        _hook(SparkSession, {"table": _table})
    else:
        session = "pyspark.sql.connect.session"
        batch = "pyspark.sql.connect.readwriter"
        stream = "pyspark.sql.connect.streaming.readwriter"
    batch_module, stream_module = importlib.import_module(batch), importlib.import_module(stream)
    for hooked, wrappers in (
        (batch_module.DataFrameReader, {"load": _load}),
        (
            batch_module.DataFrameWriter,
            {"save": _save, "saveAsTable": _save_as_table, "insertInto": _insert_into},
        ),
        (batch_module.DataFrameWriterV2, write_to_wrappers(_asked_to_write)),
        (stream_module.DataStreamReader, {"load": _stream_load}),
        (stream_module.DataStreamWriter, {"start": _start, "toTable": _to_table}),
        (importlib.import_module(session).SparkSession, {"sql": _sql}),
    ):
        _hook(hooked, wrappers)


def _hook(hooked: type, wrappers: Mapping[str, Callable[[Any], Any]]) -> None:
    for name, wrap in wrappers.items():
        if (hooked, name) not in _hooked:
            _hooked.add((hooked, name))
            original = getattr(hooked, name)
            setattr(hooked, name, functools.wraps(original)(wrap(original)))


def check_session(spark: Any) -> None:
    """Refuse what isn't a session, classic or Connect.

    Raises:
        ArgumentError: it isn't.
    """
    if not (hasattr(spark, "conf") and hasattr(spark, "sql")):
        raise ArgumentError(
            f"The first argument is a {type(spark).__name__}; it must be a SparkSession.",
            argument="spark",
        )


def is_enabled(spark: Any) -> bool:
    """Whether a session has its hooks on."""
    return str(spark.conf.get(ENABLED, "false")).lower() == "true"


def plain_sql(spark: Any, text: str, args: Any = None, **frames: Any) -> Any:
    """Spark's own `sql`, also where `spark.sql` is hooked."""
    method = type(spark).sql
    return getattr(method, "__wrapped__", method)(spark, text, args, **frames)


def _load(original: Callable[..., Any], hook: HookName = "load") -> Callable[..., Any]:
    def load(
        self: Any,
        path: str | list[str] | None = None,
        format: str | None = None,
        schema: Any = None,
        **options: Any,
    ) -> Any:
        spark = self._spark if hasattr(self, "_spark") else self._client
        if not is_enabled(spark):
            return original(self, path, format, schema, **options)
        if format is not None:
            self.format(format)
        if schema is not None:
            self.schema(schema)
        self.options(**options)
        return _answer(
            hook,
            functools.partial(
                read_request, self, path, spark=spark, streaming=hook == "stream_load"
            ),
            functools.partial(original, self, path),
        )

    return load


def _table(original: Callable[..., Any]) -> Callable[..., Any]:
    def table(self: Any, tableName: str) -> Any:  # noqa: N803
        reader = None if isinstance(self, SparkSession) else self
        spark = self if reader is None else self._spark
        if is_enabled(spark):
            request = TableReadRequest(spark=spark, reader=reader, table=tableName)
            for handler in tuple(_handlers["table"]):
                answer = handler(request)
                if answer is not NotImplemented:
                    return answer
        return original(self, tableName)

    return table


def _stream_load(original: Callable[..., Any]) -> Callable[..., Any]:
    return _load(original, "stream_load")


def _save(original: Callable[..., Any], method: str = "save") -> Callable[..., Any]:
    def save(
        self: Any,
        path: str | None = None,
        format: str | None = None,
        mode: str | None = None,
        partitionBy: str | list[str] | None = None,  # noqa: N803  # Spark's name, as below
        **options: Any,
    ) -> Any:
        if not is_enabled(self._spark):
            return original(self, path, format, mode, partitionBy, **options)
        self.mode(mode).options(**options)
        if partitionBy is not None:
            self.partitionBy(partitionBy)
        if format is not None:
            self.format(format)
        return _answer(
            "save",
            functools.partial(write_request, self, method, path),
            functools.partial(original, self, path),
        )

    return save


def _save_as_table(original: Callable[..., Any]) -> Callable[..., Any]:
    save = _save(original, "saveAsTable")

    def save_as_table(self: Any, name: str, *arguments: Any, **options: Any) -> Any:
        return save(self, name, *arguments, **options)

    return save_as_table


def _insert_into(original: Callable[..., Any]) -> Callable[..., Any]:
    def insert_into(self: Any, tableName: str, overwrite: bool | None = None) -> Any:  # noqa: N803
        if not is_enabled(self._spark):
            return original(self, tableName, overwrite)
        if overwrite is not None:
            self.mode("overwrite" if overwrite else "append")
        return _answer(
            "save",
            functools.partial(write_request, self, "insertInto", tableName),
            functools.partial(original, self, tableName),
        )

    return insert_into


def _start(original: Callable[..., Any], method: str = "start") -> Callable[..., Any]:
    def start(  # noqa: PLR0917  # Spark's signature
        self: Any,
        path: str | None = None,
        format: str | None = None,
        outputMode: str | None = None,  # noqa: N803
        partitionBy: str | list[str] | None = None,  # noqa: N803
        queryName: str | None = None,  # noqa: N803
        **options: Any,
    ) -> Any:
        spark = self._spark if hasattr(self, "_spark") else self._session
        if not is_enabled(spark):
            return original(self, path, format, outputMode, partitionBy, queryName, **options)
        self.options(**options)
        if outputMode is not None:
            self.outputMode(outputMode)
        if partitionBy is not None:
            self.partitionBy(partitionBy)
        if format is not None:
            self.format(format)
        if queryName is not None:
            self.queryName(queryName)
        return _answer(
            "stream_start",
            functools.partial(stream_write_request, self, method, path, spark=spark),
            functools.partial(original, self, path),
        )

    return start


def _to_table(original: Callable[..., Any]) -> Callable[..., Any]:
    start = _start(original, "toTable")

    def to_table(self: Any, tableName: str, *arguments: Any, **options: Any) -> Any:  # noqa: N803
        return start(self, tableName, *arguments, **options)

    return to_table


def _sql(original: Callable[..., Any]) -> Callable[..., Any]:
    def sql(self: Any, sqlQuery: str, args: Any = None, **kwargs: Any) -> Any:  # noqa: N803
        if is_enabled(self):
            request = SqlRequest(spark=self, text=sqlQuery, args=args, frames=kwargs)
            for handler in tuple(_handlers["sql"]):
                answer = handler(request)
                if answer is not NotImplemented:
                    return answer
        return original(self, sqlQuery, args, **kwargs)

    return sql


def _asked_to_write(request: WriteToRequest) -> Any:
    if is_enabled(request.spark):
        for handler in tuple(_handlers["write_to"]):
            answer = handler(request)
            if answer is not NotImplemented:
                return answer
    return NotImplemented


def _answer(hook: HookName, make: Callable[..., Any], proceed: Callable[[], Any]) -> Any:
    """What the first handler says that doesn't decline, else Spark's own method."""
    try:
        request = make(proceed=proceed)
    except Py4JError as error:
        _LOG.warning(
            "This Spark keeps what is set on readers and writers in another way than Bayou knows; "
            "it reads and writes as without bayou.spark.enable (%s).",
            str(error).splitlines()[0],
        )
        return proceed()
    if hook == "stream_start":
        for handler in tuple(_handlers["query_start"]):
            handler(request)
    if request.format != "delta" and getattr(request, "method", "") != "insertInto":
        return proceed()
    for handler in tuple(_handlers[hook]):
        answer = handler(request)
        if answer is not NotImplemented:
            return answer
    return proceed()


def hand_over_settings(request: ReadRequest) -> Any:
    """Set what the conf says as options of a read, unless the user has set them; declines."""
    found = conf_as_options(request.spark, request.options)
    for path in request.paths:
        found |= with_session_storage(request.spark, path, request.options)
    for name, value in found.items():
        if name not in request.options:
            request.reader.option(name, value)
    return NotImplemented
