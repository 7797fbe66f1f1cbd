"""Hooks in PySpark's readers and writers; they let Bayou handle the calls for Delta tables.

A hook replaces a method of a PySpark class, such as `DataFrameReader.load`, once for the process.
Therefore hooks also work in `foreachBatch` and in new sessions of the application. A hook is active
in sessions whose conf `spark.bayou.enabled` is true.

When the method is called, the hook creates a request that describes the call
(`bayou.spark.hooks.requests`). The hook passes the request to its handlers, one after another. A
handler returns the result of the call, or `NotImplemented` to pass the request to the next handler.
If all handlers return `NotImplemented`, Spark's own method is called.
"""

from __future__ import annotations

import functools
import importlib
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, TypeAlias, get_args

from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from bayou.errors import ArgumentError
from bayou.spark.exceptions import raise_spark_exceptions
from bayou.spark.hooks.recorded_writer_v2 import write_to_wrappers
from bayou.spark.hooks.requests import (
    CountRequest,
    QueryRequest,
    ReadRequest,
    SqlRequest,
    TableReadRequest,
    WriteToRequest,
    create_table_request,
    read_request,
    restored_request_options,
    stream_write_request,
    write_request,
)
from bayou.spark.jvm.objects import JvmError, error_reason
from bayou.spark.session.hadoop_storage import with_session_storage
from bayou.spark.session.settings import conf_as_options, conf_flag

_LOG = logging.getLogger(__name__)

ENABLED = "spark.bayou.enabled"
"""The conf that enables the hooks in a session."""

HookName: TypeAlias = Literal[
    "load",
    "save",
    "stream_load",
    "stream_start",
    "query_start",
    "sql",
    "query",
    "count",
    "table",
    "create_table",
    "write_to",
    "subqueries",
]
"""Names of the hooks. The handlers of each hook get this argument:

- `load`: a `ReadRequest` of `DataFrameReader.load`.
- `save`: a `WriteRequest` of `save`, `saveAsTable` or `insertInto`.
- `stream_load`: a `ReadRequest` of `DataStreamReader.load`.
- `query_start`, then `stream_start`: a `StreamWriteRequest` of `start` or `toTable`.
- `sql`: a `SqlRequest` of `SparkSession.sql`, before the statement is executed.
- `query`: a `QueryRequest` of `SparkSession.sql`, after the statement was executed. Classic only.
- `count`: a `CountRequest` of `DataFrame.count`. Classic only.
- `table`: a `TableReadRequest` of `SparkSession.table`, `DataFrameReader.table` or
  `DataStreamReader.table`.
- `create_table`: a `CreateTableRequest` of `Catalog.createTable` or `.createExternalTable`.
- `write_to`: a `WriteToRequest` of the last method of a `writeTo` chain.
- `subqueries`: a session. The handler returns the context manager that `subquery_resolver`
  describes.
"""

Handler: TypeAlias = Callable[[Any], Any]

_handlers: dict[HookName, list[Handler]] = {name: [] for name in get_args(HookName)}
_TABLE_METHODS = ("insertInto", "saveAsTable", "toTable")
"""Methods that write to a catalog table. The table's format can differ from the writer's format."""

_hooked: set[tuple[type, str]] = set()


def register(hook: HookName, handler: Handler) -> None:
    """Add a handler to a hook, after the hook's other handlers.

    The function does nothing if the hook already has the handler.

    Handlers of `load`, `save`, `stream_load` and `stream_start` are called only for the format
    `delta`. There is one exception: `insertInto`, `saveAsTable` and `toTable` call the handlers for
    every format, because the table may be a Delta table. Handlers of all other hooks are called for
    every format.
    """
    if handler not in _handlers[hook]:
        _handlers[hook].append(handler)


def install(spark: Any) -> None:
    """Install the hooks in the classes of a session's readers and writers, once per process."""
    if isinstance(spark, SparkSession):
        session = "pyspark.sql.session"
        catalog = "pyspark.sql.catalog"
        batch, stream = "pyspark.sql.readwriter", "pyspark.sql.streaming.readwriter"
        _hook(ClassicDataFrame, {"count": _count})
    else:
        session = "pyspark.sql.connect.session"
        catalog = "pyspark.sql.connect.catalog"
        batch = "pyspark.sql.connect.readwriter"
        stream = "pyspark.sql.connect.streaming.readwriter"
    batch_module, stream_module = importlib.import_module(batch), importlib.import_module(stream)
    for target_class, wrappers in (
        (batch_module.DataFrameReader, {"load": _load, "table": _table}),
        (
            batch_module.DataFrameWriter,
            {"save": _save, "saveAsTable": _save_as_table, "insertInto": _insert_into},
        ),
        (batch_module.DataFrameWriterV2, write_to_wrappers(_handle_write_to)),
        (stream_module.DataStreamReader, {"load": _stream_load, "table": _table}),
        (stream_module.DataStreamWriter, {"start": _start, "toTable": _to_table}),
        (importlib.import_module(session).SparkSession, {"sql": _sql, "table": _table}),
        (importlib.import_module(catalog).Catalog, {"createTable": _create_table}),
    ):
        _hook(target_class, wrappers)


def _hook(target_class: type, wrappers: Mapping[str, Callable[[Any], Any]]) -> None:
    for name, wrap in wrappers.items():
        if (target_class, name) not in _hooked:
            _hooked.add((target_class, name))
            original = getattr(target_class, name)
            hooked = raise_spark_exceptions(wrap(original))
            setattr(target_class, name, functools.wraps(original)(hooked))


def check_session(spark: Any) -> None:
    """Raise `ArgumentError` if an object isn't a session, classic or Connect."""
    if not (hasattr(spark, "conf") and hasattr(spark, "sql")):
        raise ArgumentError(
            f"spark: a {type(spark).__name__} isn't a session. Give a SparkSession.",
            argument="spark",
        )


def is_enabled(spark: Any) -> bool:
    """Whether the hooks are enabled in a session."""
    return conf_flag(spark, ENABLED)


def plain_sql(spark: Any, text: str, args: Any = None, **frames: Any) -> Any:
    """Call Spark's own `sql`, bypassing the hook."""
    method = type(spark).sql
    return getattr(method, "__wrapped__", method)(spark, text, args, **frames)


def plain_save(writer: Any) -> None:
    """Call Spark's own `save` of a `DataFrameWriter`, bypassing the hook."""
    method = type(writer).save
    getattr(method, "__wrapped__", method)(writer)


def _load(original: Callable[..., Any], hook: HookName = "load") -> Callable[..., Any]:
    def load(
        self: Any,
        path: str | list[str] | None = None,
        format: str | None = None,
        schema: Any = None,
        **options: Any,
    ) -> Any:
        spark = _session_of(self)
        if not is_enabled(spark):
            return original(self, path, format, schema, **options)
        if format is not None:
            self.format(format)
        if schema is not None:
            self.schema(schema)
        self.options(**options)
        return _handle(
            hook,
            functools.partial(
                read_request, self, path, spark=spark, streaming=hook == "stream_load"
            ),
            functools.partial(original, self, path),
        )

    return load


def _session_of(reader: Any) -> Any:
    """The session of a reader, classic or Connect."""
    return reader._spark if hasattr(reader, "_spark") else reader._client  # noqa: SLF001


def _table(original: Callable[..., Any]) -> Callable[..., Any]:
    def table(self: Any, tableName: str) -> Any:  # noqa: N803
        reader = None if hasattr(self, "sql") else self
        spark = self if reader is None else _session_of(self)
        if is_enabled(spark):
            request = TableReadRequest(spark=spark, reader=reader, table=tableName)
            result = _call_handlers("table", request)
            if result is not NotImplemented:
                return result
        return original(self, tableName)

    return table


def _create_table(original: Callable[..., Any]) -> Callable[..., Any]:
    def create_table(  # noqa: PLR0917  # Spark's signature
        self: Any,
        tableName: str,  # noqa: N803
        path: str | None = None,
        source: str | None = None,
        schema: Any = None,
        description: str | None = None,
        **options: Any,
    ) -> Any:
        spark = self._sparkSession
        if is_enabled(spark):
            request = create_table_request(
                spark, tableName, path, source, schema, description, options
            )
            result = _call_handlers("create_table", request)
            if result is not NotImplemented:
                return result
        return original(self, tableName, path, source, schema, description, **options)

    return create_table


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
        return _handle(
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
        return _handle(
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
        return _handle(
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
            result = _call_handlers("sql", request)
            if result is NotImplemented:
                result = original(self, sqlQuery, args, **kwargs)
            return _query_result(self, sqlQuery, result)
        return original(self, sqlQuery, args, **kwargs)

    return sql


def _query_result(spark: Any, text: str, frame: Any) -> Any:
    """Call the handlers of the hook `query` for the result of a SQL statement.

    Args:
        text: the statement.
        frame: the result of the statement.

    Returns:
        The DataFrame of the first handler that replaces `frame`. If no handler replaces it,
        `frame`. Under Spark Connect, always `frame`.
    """
    if not isinstance(frame, ClassicDataFrame):
        return frame
    result = _call_handlers("query", QueryRequest(spark=spark, text=text, frame=frame))
    return frame if result is NotImplemented else result


def _count(original: Callable[..., Any]) -> Callable[..., Any]:
    def count(self: Any) -> Any:
        spark = self.sparkSession
        if is_enabled(spark):
            result = _call_handlers("count", CountRequest(spark=spark, frame=self))
            if result is not NotImplemented:
                return result
        return original(self)

    return count


def _handle_write_to(request: WriteToRequest) -> Any:
    return _call_handlers("write_to", request) if is_enabled(request.spark) else NotImplemented


def subquery_resolver(spark: Any) -> AbstractContextManager[Callable[[Any], Any]]:
    """Return a context manager for a row operation whose expressions may have subqueries.

    The context manager provides a function that takes a `RowExpression` and returns another one.
    Subqueries of the returned expression can read Delta tables by name or path until the `with`
    block ends.
    """
    result = _call_handlers("subqueries", spark) if is_enabled(spark) else NotImplemented
    return nullcontext(lambda expression: expression) if result is NotImplemented else result


def _call_handlers(hook: HookName, request: Any) -> Any:
    """Call a hook's handlers until one returns a result other than `NotImplemented`."""
    for handler in tuple(_handlers[hook]):
        result = handler(request)
        if result is not NotImplemented:
            return result
    return NotImplemented


def _handle(hook: HookName, create_request: Callable[..., Any], proceed: Callable[[], Any]) -> Any:
    """Call a hook's handlers, or Spark's own method if all handlers return `NotImplemented`.

    Args:
        create_request: function that creates the request; gets `proceed` as a keyword argument.
        proceed: function that calls Spark's own method.
    """
    try:
        request = create_request(proceed=proceed)
    except JvmError as error:
        _LOG.warning(
            "Spark: Bayou can't read the settings of a DataFrame reader or writer in this Spark "
            "version (%s). This call runs without Bayou's hooks. Use a supported Spark version.",
            error_reason(error),
        )
        return proceed()
    with restored_request_options(request):
        if hook == "stream_start":
            for handler in tuple(_handlers["query_start"]):
                handler(request)
        if request.format != "delta" and getattr(request, "method", "") not in _TABLE_METHODS:
            return proceed()
        result = _call_handlers(hook, request)
        return proceed() if result is NotImplemented else result


def pass_settings_as_options(request: ReadRequest) -> Any:
    """Handler of reads: copy settings from the session's conf to the options of the read.

    The data source plans the read in a process that can't access the conf. Options that the user
    has set take precedence. Returns `NotImplemented`, so that the next handler is called.
    """
    options = conf_as_options(request.spark, request.options)
    for path in request.paths:
        options |= with_session_storage(request.spark, path, request.options)
    for name, value in options.items():
        if name not in request.options:
            request.reader.option(name, value)
    return NotImplemented
