"""What `DataFrame.writeTo` was asked for, kept beside Spark's own writer.

Its writer tells nobody what was set on it, so the methods that set something are hooked, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from bayou.spark.hooks.requests import WriteToRequest

__all__ = ["write_to_wrappers"]

_ASKED = "_bayou_asked"
_LAST = ("create", "replace", "createOrReplace", "append", "overwrite", "overwritePartitions")


@dataclass(slots=True)
class _Asked:
    """What was set on one writer so far."""

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
            self.options[key] = _text(value)

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
    "using": _Asked.using,
    "option": _Asked.option,
    "options": _Asked.options_,
    "tableProperty": _Asked.table_property,
    "partitionedBy": _Asked.partitioned,
    "clusterBy": _Asked.clustered,
}


def write_to_wrappers(
    answer: Callable[[WriteToRequest], Any],
) -> dict[str, Callable[[Any], Any]]:
    """Hooks for the methods of `DataFrameWriterV2`, by their names.

    Args:
        answer: is asked when the last method is called; `NotImplemented` lets Spark's own run.
    """
    setters = {name: _setter(record) for name, record in _SETTERS.items()}
    return {"__init__": _begun, **setters, **{name: _last(name, answer) for name in _LAST}}


def _begun(original: Callable[..., Any]) -> Callable[..., Any]:
    def begin(self: Any, *arguments: Any) -> None:
        original(self, *arguments)
        if len(arguments) == 2:
            df, table = arguments
            asked = _Asked(df.sparkSession, df, table)
        else:  # Connect's has the plan, the session, the table, and more
            asked = _Asked(arguments[1], None, arguments[2])
        setattr(self, _ASKED, asked)

    return begin


def _setter(record: Callable[..., None]) -> Callable[[Any], Any]:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def set_it(self: Any, *arguments: Any, **named: Any) -> Any:
            result = original(self, *arguments, **named)
            if hasattr(self, _ASKED):  # the writer was made when hooks were there
                record(getattr(self, _ASKED), *arguments, **named)
            return result

        return set_it

    return wrap


def _last(method: str, answer: Callable[[WriteToRequest], Any]) -> Callable[[Any], Any]:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def write(self: Any, *arguments: Any, **named: Any) -> Any:
            asked: _Asked | None = getattr(self, _ASKED, None)
            if asked is not None:
                request = WriteToRequest(
                    spark=asked.spark,
                    df=asked.df,
                    connect=not isinstance(asked.spark, SparkSession),
                    method=method,
                    table=asked.table,
                    provider=asked.provider,
                    options=dict(asked.options),
                    properties=dict(asked.properties),
                    partitioned_by=asked.partitioned_by,
                    cluster_by=asked.cluster_by,
                    condition=next(iter((*arguments, *named.values())), None),
                )
                if answer(request) is not NotImplemented:
                    return None
            return original(self, *arguments, **named)

        return write

    return wrap


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
