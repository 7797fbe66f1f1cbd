"""Records calls of `DataFrameWriterV2` methods: Spark doesn't expose the state of this writer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from bayou.spark.hooks.requests import WriteToRequest

_RECORDED = "_bayou_recorded"
_FINAL_METHODS = (
    "create",
    "replace",
    "createOrReplace",
    "append",
    "overwrite",
    "overwritePartitions",
)


@dataclass(slots=True)
class _RecordedWriter:
    """The arguments of all calls on one `DataFrameWriterV2`."""

    spark: Any
    df: Any
    table: str
    provider: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)
    partitioned_by: tuple[Any, ...] = ()
    cluster_by: tuple[str, ...] = ()

    def using(self, provider: str) -> None:
        self.provider = provider.lower()

    def option(self, key: str, value: Any) -> None:
        if value is not None:
            self.options[key] = _option_string(value)

    def options_(self, **options: Any) -> None:
        for key, value in options.items():
            self.option(key, value)

    def table_property(self, property: str, value: str) -> None:
        self.properties[property] = value

    def partitioned(self, col: Any, *cols: Any) -> None:
        self.partitioned_by = (col, *cols)

    def clustered(self, col: str, *cols: str) -> None:
        self.cluster_by = (col, *cols)


_SETTERS: Mapping[str, Callable[..., None]] = {
    "using": _RecordedWriter.using,
    "option": _RecordedWriter.option,
    "options": _RecordedWriter.options_,
    "tableProperty": _RecordedWriter.table_property,
    "partitionedBy": _RecordedWriter.partitioned,
    "clusterBy": _RecordedWriter.clustered,
}


def write_to_wrappers(
    handle: Callable[[WriteToRequest], Any],
) -> dict[str, Callable[[Any], Any]]:
    """Return functions that wrap the methods of `DataFrameWriterV2`, by method name.

    Args:
        handle: function that handles the last call of a `writeTo` chain, such as `append`. If it
            returns `NotImplemented`, Spark's own method is called.
    """
    setters = {name: _setter(record) for name, record in _SETTERS.items()}
    final_methods = {name: _final_method(name, handle) for name in _FINAL_METHODS}
    return {"__init__": _initializer, **setters, **final_methods}


def _initializer(original: Callable[..., Any]) -> Callable[..., Any]:
    def init(self: Any, *arguments: Any) -> None:
        original(self, *arguments)
        if len(arguments) == 2:
            df, table = arguments
            recorded = _RecordedWriter(df.sparkSession, df, table)
        else:  # Connect passes the plan, the session, the table, and more
            from pyspark.sql.connect.dataframe import DataFrame as ConnectDataFrame

            plan, spark, table = arguments[:3]
            recorded = _RecordedWriter(spark, ConnectDataFrame(plan, spark), table)
        setattr(self, _RECORDED, recorded)

    return init


def _setter(record: Callable[..., None]) -> Callable[[Any], Any]:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def setter(self: Any, *arguments: Any, **keywords: Any) -> Any:
            result = original(self, *arguments, **keywords)
            if hasattr(self, _RECORDED):  # the writer was created after the hooks were installed
                record(getattr(self, _RECORDED), *arguments, **keywords)
            return result

        return setter

    return wrap


def _final_method(method: str, handle: Callable[[WriteToRequest], Any]) -> Callable[[Any], Any]:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def write(self: Any, *arguments: Any, **keywords: Any) -> Any:
            recorded: _RecordedWriter | None = getattr(self, _RECORDED, None)
            if recorded is not None:
                request = WriteToRequest(
                    spark=recorded.spark,
                    df=recorded.df,
                    connect=not isinstance(recorded.spark, SparkSession),
                    method=method,
                    table=recorded.table,
                    provider=recorded.provider,
                    options=dict(recorded.options),
                    properties=dict(recorded.properties),
                    partitioned_by=recorded.partitioned_by,
                    cluster_by=recorded.cluster_by,
                    condition=next(iter((*arguments, *keywords.values())), None),
                )
                if handle(request) is not NotImplemented:
                    return None
            return original(self, *arguments, **keywords)

        return write

    return wrap


def _option_string(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
