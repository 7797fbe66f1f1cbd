"""`df.writeTo(name)` for Delta tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bayou.errors import ArgumentError, TableAlreadyExistsError, TableNotFoundError
from bayou.kernel import Operation, Table
from bayou.kernel.commands.write import WriteMode
from bayou.spark.catalog_tables import NamedTable, named_table
from bayou.spark.expressions.column_string import column_sql, connect_column_sql
from bayou.spark.expressions.session_settings import changed_rule
from bayou.spark.hooks.requests import WriteToRequest
from bayou.spark.session.hadoop_storage import session_engine
from bayou.spark.write import WriteOptions
from bayou.spark.write.dataframes import write_rows
from bayou.spark.write.options import with_session_defaults

_DEFINING_METHODS = ("create", "replace", "createOrReplace")


def write_to(request: WriteToRequest) -> Any:
    """Handler of the hook `write_to`: write a DataFrame to a Delta table with a name or path.

    `append`, `overwrite` and `overwritePartitions` match columns by name, and cast values as in an
    `INSERT`. `replace` and `createOrReplace` replace the schema, the partitioning, the properties
    and the comment of an existing table.

    Returns NotImplemented for tables that aren't Delta tables.
    """
    if request.provider not in (None, "delta"):
        return NotImplemented
    defines = request.method in _DEFINING_METHODS
    table = named_table(request.spark, request.table, behind_views=defines)
    if table is None:
        return NotImplemented
    exists = table.exists
    if table.is_path:
        engine = session_engine(request.spark, table.path, request.options)
        exists = Table.for_path(engine, table.path).exists(engine)
    elif not exists and not (defines and _is_delta(request)):
        return NotImplemented  # Spark raises an error, or creates a table of another format
    if defines:
        _define(request, table, exists=exists)
    else:
        _write_existing(request, table)
    return None


def _define(request: WriteToRequest, table: NamedTable, *, exists: bool) -> None:
    if exists and request.method == "create":
        raise TableAlreadyExistsError(
            f"{request.table}: the table already exists, at {table.path} "
            "(TABLE_OR_VIEW_ALREADY_EXISTS). Use append, overwrite or createOrReplace.",
            table=table.path,
        )
    if not exists and request.method == "replace":
        raise TableNotFoundError(
            f"{request.table}: the table cannot be found, so it can't be replaced "
            "(TABLE_OR_VIEW_NOT_FOUND). Use create or createOrReplace.",
            table=table.path,
        )
    _check_properties(request)
    if exists:
        lower_case = {key.lower(): value for key, value in request.options.items()}
        table.check_location(lower_case.get("path"))
    options = _options(request, table).defining(request.properties, None)
    options = replace(options, overwrite_schema=exists)
    operation = {
        "create": Operation.CREATE_TABLE_AS_SELECT,
        "replace": Operation.REPLACE_TABLE_AS_SELECT,
        "createOrReplace": Operation.CREATE_OR_REPLACE_TABLE_AS_SELECT,
    }[request.method]
    write_rows(
        request.df,
        options,
        WriteMode.OVERWRITE if exists else WriteMode.ERROR,
        tuple(_column_name(column) for column in request.partitioned_by),
        request.cluster_by or None,
        None,
        operation,
        is_managed=not table.is_path and options.path == table.path,
    )
    if not table.exists:
        table.register(request.spark, options.path)


def _check_properties(request: WriteToRequest) -> None:
    """Raise `ArgumentError` if an option contradicts a property that `tableProperty` sets.

    An option contradicts a property if both have the same name, but different values.
    """
    lower_case = {key.lower(): (key, value) for key, value in request.options.items()}
    for key, value in request.properties.items():
        name, other = lower_case.get(key.lower(), (key, value))
        if other.lower() != value.lower():
            raise ArgumentError(
                f"{request.table}: the option {name} = {other!r} contradicts the value "
                f"{value!r} of the same table property (DELTA_INCOMPATIBLE_DATAFRAME_OPTIONS). "
                "Set one of them.",
                argument=name,
            )


def _write_existing(request: WriteToRequest, table: NamedTable) -> None:
    options = _options(request, table)
    mode = WriteMode.APPEND if request.method == "append" else WriteMode.OVERWRITE
    if request.method == "overwritePartitions":
        options = replace(options, dynamic_partitions=True, replace_where=None)
    elif request.method == "overwrite":
        options = replace(
            options,
            dynamic_partitions=False,
            replace_where=_condition(request),
            session_rule=changed_rule(request.spark),
        )
    write_rows(
        request.df,
        options,
        mode,
        None,
        None,
        "name",
        requires_partition_columns=request.method == "overwritePartitions",
    )


def _options(request: WriteToRequest, table: NamedTable) -> WriteOptions:
    lower_case = {key.lower(): value for key, value in request.options.items()}
    path = table.path if table.exists else lower_case.get("path") or table.path
    defaults = with_session_defaults(request.spark, path, {**request.options, "path": path})
    return WriteOptions.parse(defaults)


def _condition(request: WriteToRequest) -> str | None:
    condition = request.condition
    if isinstance(condition, str):
        sql: str | None = condition
    elif request.connect:
        sql = connect_column_sql(condition)
    else:
        sql = column_sql(request.spark, condition)
    if sql is None:
        raise ArgumentError(
            "condition: overwrite doesn't support Python functions. Give a condition on columns, "
            "such as col('day') == '2024-01-05'.",
            argument="condition",
        )
    return None if sql.strip("() ").lower() == "true" else sql


def _column_name(column: Any) -> str:
    name = column if isinstance(column, str) else str(column).removeprefix("Column<'")[:-2]
    if "(" in name:
        raise ArgumentError(
            f"partitionedBy: {name} is an expression, but Delta tables are partitioned by columns. "
            "Create the table with a generated column for the expression, and partition by this "
            "column.",
            argument="partitionedBy",
        )
    return name.strip("`")


def _is_delta(request: WriteToRequest) -> bool:
    default = request.spark.conf.get("spark.sql.sources.default", "parquet")
    return (request.provider or str(default).lower()) == "delta"
