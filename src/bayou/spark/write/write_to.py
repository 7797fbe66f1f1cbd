"""`df.writeTo(name)` for Delta tables, after `bayou.spark.enable`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bayou.errors import ArgumentError, TableAlreadyExistsError, TableNotFoundError
from bayou.kernel import Operation, Table
from bayou.kernel.commands.write import WriteMode
from bayou.spark.catalog_tables import NamedTable, named_table
from bayou.spark.expressions.column_string import column_text
from bayou.spark.hooks.requests import WriteToRequest
from bayou.spark.session.hadoop_storage import session_engine
from bayou.spark.write import WriteOptions
from bayou.spark.write.dataframes import write_rows
from bayou.spark.write.options import with_session_defaults

__all__ = ["write_to"]

_MAKING = ("create", "replace", "createOrReplace")


def write_to(request: WriteToRequest) -> Any:
    """Write a DataFrame to a table by its name, or to ``delta.`/path` ``.

    Columns go by their names, cast as `INSERT` casts them, to a table that is there; `replace`
    gives it the schema and partitioning of the rows and keeps its properties.

    Raises:
        BayouError: the write can't be, or its rows break a rule of the table.
    """
    if request.connect:
        return _refused_under_connect(request)
    if request.provider not in (None, "delta"):
        return NotImplemented
    table = named_table(request.spark, request.table)
    if table is None:
        return NotImplemented
    exists = table.exists
    if table.is_path:
        engine = session_engine(request.spark, table.path, request.options)
        exists = Table.for_path(engine, table.path).exists(engine)
    elif not exists and (request.method not in _MAKING or not _is_ours(request)):
        return (
            NotImplemented  # Spark says that there is no such table, or makes one of another kind
        )
    if request.method in _MAKING:
        _make(request, table, exists=exists)
    else:
        _change(request, table)
    return None


def _make(request: WriteToRequest, table: NamedTable, *, exists: bool) -> None:
    if exists and request.method == "create":
        raise TableAlreadyExistsError(
            f"There is a table {request.table} already, at {table.path}. Use append, overwrite or "
            "createOrReplace.",
            table=table.path,
        )
    if not exists and request.method == "replace":
        raise TableNotFoundError(
            f"There is no table {request.table} to replace. Use create or createOrReplace.",
            table=table.path,
        )
    if exists and request.properties:
        raise ArgumentError(
            f"{request.method} keeps the properties of {request.table}: leave tableProperty out "
            "and change them by ALTER TABLE or DeltaTable.",
            argument="tableProperty",
        )
    options = _options(request, table)
    options = replace(
        options,
        overwrite_schema=exists,
        properties={**options.properties, **request.properties},
    )
    operation = {
        "create": Operation.CREATE_TABLE_AS_SELECT,
        "replace": Operation.REPLACE_TABLE_AS_SELECT,
        "createOrReplace": Operation.CREATE_OR_REPLACE_TABLE_AS_SELECT,
    }[request.method]
    write_rows(
        request.df,
        options,
        WriteMode.OVERWRITE if exists else WriteMode.ERROR,
        tuple(_name(column) for column in request.partitioned_by),
        request.cluster_by or None,
        None,
        operation,
        is_managed=not table.is_path and options.path == table.path,
    )
    if not table.exists:
        table.register(request.spark, options.path)


def _change(request: WriteToRequest, table: NamedTable) -> None:
    options = _options(request, table)
    mode = WriteMode.APPEND if request.method == "append" else WriteMode.OVERWRITE
    if request.method == "overwritePartitions":
        options = replace(options, dynamic_partitions=True, replace_where=None)
    elif request.method == "overwrite":
        options = replace(options, dynamic_partitions=False, replace_where=_condition(request))
    write_rows(request.df, options, mode, None, None, "name")


def _options(request: WriteToRequest, table: NamedTable) -> WriteOptions:
    given = {key.lower(): value for key, value in request.options.items()}
    path = table.path if table.exists else given.get("path") or table.path
    defaults = with_session_defaults(request.spark, path, {**request.options, "path": path})
    return WriteOptions.parse(defaults)


def _condition(request: WriteToRequest) -> str | None:
    condition = request.condition
    text = condition if isinstance(condition, str) else column_text(request.spark, condition)
    if text is None:
        raise ArgumentError(
            "overwrite takes a condition on columns that has a SQL text, such as "
            "col('day') == '2024-01-05'; a function of Python hasn't.",
            argument="condition",
        )
    return None if text.strip("() ").lower() == "true" else text


def _name(column: Any) -> str:
    text = column if isinstance(column, str) else str(column).removeprefix("Column<'")[:-2]
    if "(" in text:
        raise ArgumentError(
            f"Delta tables are partitioned by columns, not by {text}: add a generated column.",
            argument="partitionedBy",
        )
    return text.strip("`")


def _is_ours(request: WriteToRequest) -> bool:
    default = request.spark.conf.get("spark.sql.sources.default", "parquet")
    return (request.provider or str(default).lower()) == "delta"


def _refused_under_connect(request: WriteToRequest) -> Any:
    if request.provider != "delta" and not request.table.lower().startswith("delta."):
        return NotImplemented
    raise ArgumentError(
        "Under Spark Connect the place of a table can't be seen, and a data source gets no path "
        "from writeTo: use df.write.format('delta').mode('append').save(path).",
        argument="writeTo",
    )
