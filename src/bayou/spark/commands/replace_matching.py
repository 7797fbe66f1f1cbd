"""`REPLACE USING` and `REPLACE ON`: writes that replace the matching rows of the table.

The write is a MERGE that deletes the matching rows and inserts all written rows, in one commit.
The source of the MERGE contains each written row twice: one copy deletes the matching rows,
the other copy is inserted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bayou.errors import ArgumentError, SchemaError
from bayou.protocol.schema import STRING, StructField, StructType
from bayou.protocol.sql import has_char, quote_identifier, tokenize
from bayou.spark.catalog_tables import named_table
from bayou.spark.commands.merge import run_merge, source_alias
from bayou.spark.commands.merge_request import MergeRequest, RequestedClause
from bayou.spark.expressions.expressions import RowExpression
from bayou.spark.expressions.session_grammar import session_sql
from bayou.spark.hooks.requests import WriteRequest
from bayou.spark.session.storage_options import boolean_option
from bayou.spark.target_table import TargetTable
from bayou.spark.types import unused_name
from bayou.spark.write import writer_hooks
from bayou.spark.write.dataframes import check_number_of_columns

_MATCHES = "_bayou_matches"
_OPTIONS = {"replaceon": "replaceOn", "replaceusing": "replaceUsing", "targetalias": "targetAlias"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """The clause `REPLACE USING` or `REPLACE ON`, which selects the rows to replace.

    Attributes:
        using: columns of `REPLACE USING`. A row of the table is replaced if a written row has the
            same values in these columns. NULL isn't equal to NULL.
        on: SQL condition of `REPLACE ON`, over a row of the table and a written row. A row of the
            table is replaced if the condition is true for at least one written row.
        target_alias: alias of the table in `on`; by default the table's name.
        source_alias: alias of the written rows in `on`. If None, the alias is the first qualifier
            in `on` that is neither the target's alias nor the name of a column.
    """

    using: tuple[str, ...] = ()
    on: str | None = None
    target_alias: str | None = None
    source_alias: str | None = None
    schema_evolution: bool = False


def replace_matching(
    target: TargetTable, rows: Any, columns: Mapping[str, str], replacement: Replacement
) -> None:
    """Delete the table's rows that match a row of a DataFrame, and insert the DataFrame's rows.

    Args:
        columns: maps each column name of the table to a column name of `rows`.

    Raises:
        SchemaError: a column of `REPLACE USING` doesn't exist.
        PredicateError: the condition isn't valid.
        ConstraintViolationError: a new row violates a constraint, or the table is append-only.
        CommitConflictError: a concurrent commit conflicts with this one.
    """
    schema = target.table.latest_snapshot(target.engine).schema
    target_alias = replacement.target_alias or _name(target) or "target"
    if replacement.on is None:
        source = unused_name("source", [target_alias])
        pairs = _pairs(target, schema, columns, replacement.using)
        sides = (quote_identifier(target_alias), quote_identifier(source))
        condition = " AND ".join(
            _equality(field, f"{sides[0]}.{of_target}", f"{sides[1]}.{c}")
            for field, of_target, c in pairs
        )
        parameters = {"replaceUsingCols": f"({', '.join(replacement.using)})"}
    else:
        condition = f"({replacement.on})"
        known = {target_alias, *schema.names, *rows.columns}
        source = (
            replacement.source_alias
            or _other_qualifier(replacement.on, known)
            or unused_name("source", known)
        )
        parameters = {"replaceOnCond": replacement.on}
    matches = f"{quote_identifier(source)}.{_MATCHES}"
    values = {
        name: RowExpression(f"{quote_identifier(source)}.{quote_identifier(column)}")
        for name, column in columns.items()
    }
    request = MergeRequest(
        on=RowExpression(f"{matches} AND {condition}"),
        clauses=(
            RequestedClause(kind="MATCHED", action="delete"),
            RequestedClause(
                kind="NOT MATCHED",
                action="insert",
                condition=RowExpression(f"NOT {matches}"),
                values=values,
            ),
        ),
        target_alias=target_alias,
        source_alias=source,
        schema_evolution=replacement.schema_evolution,
        write_parameters={"mode": "Overwrite", "partitionBy": [], **parameters},
    )
    duplicated = rows.selectExpr("*", f"explode(array(true, false)) AS {_MATCHES}")
    run_merge(target, duplicated, request)


def save(request: WriteRequest) -> Any:
    """Handler of the hook `save`: run a write with the option `replaceOn` or `replaceUsing`.

    If the table doesn't exist, the write creates the table. For writes without these options, the
    handler returns NotImplemented.
    """
    lower_case = {key.lower(): value for key, value in request.options.items()}
    if request.format != "delta" and request.method == "saveAsTable":
        return NotImplemented
    if not lower_case.keys() & {"replaceon", "replaceusing"}:
        return NotImplemented
    name = "replaceOn" if "replaceon" in lower_case else "replaceUsing"
    check_options(request.options, name)
    _check_mode(request, name)
    target = _target(request)
    if target is None or not target.exists():
        others = {k: v for k, v in request.options.items() if k.lower() not in _OPTIONS}
        return writer_hooks.save(replace(request, options=others))
    rows = request.df
    on = lower_case.get("replaceon")
    replacement = Replacement(
        using=_column_list(lower_case.get("replaceusing")),
        on=None if on is None else session_sql(request.spark, on),
        target_alias=lower_case.get("targetalias"),
        source_alias=source_alias(rows),
        schema_evolution=boolean_option(lower_case, "mergeSchema"),
    )
    columns = {name: name for name in rows.columns}
    if request.method == "insertInto":
        columns = _columns_by_position(target, rows, replacement)
    replace_matching(target, rows, columns, replacement)
    return None


def _columns_by_position(
    target: TargetTable, rows: Any, replacement: Replacement
) -> dict[str, str]:
    """Map each column name of the table to the name of the column at the same position in `rows`.

    Used for `insertInto`, which matches columns by position. If schema evolution is enabled,
    additional columns of `rows` are mapped to themselves.
    """
    names = target.table.latest_snapshot(target.engine).schema.names
    check_number_of_columns(
        target.path, names, rows.columns, merge_schema=replacement.schema_evolution
    )
    check_aligned(target.path, replacement.using, names, rows.columns)
    added = rows.columns[len(names) :]
    known = {name.lower() for name in names}
    for name in added:
        if name.lower() in known:
            raise SchemaError(
                f"{target.path}: column {name!r} is defined twice; insertInto matches the other "
                "columns by position (DELTA_DUPLICATE_COLUMNS_FOUND). Rename or drop the column.",
                table=target.path,
                column=name,
            )
    return dict(zip((*names, *added), rows.columns, strict=True))


def check_aligned(
    table: str, using: Sequence[str], table_columns: Sequence[str], query_columns: Sequence[str]
) -> None:
    """Check that the columns of `REPLACE USING` have the same positions in table and query.

    Args:
        using: the columns of `REPLACE USING`.
        table_columns: the columns of the table, in order.
        query_columns: the columns of the query, in order.

    Raises:
        SchemaError: a column has different positions.
    """
    positions = {name.lower(): n for n, name in enumerate(table_columns)}
    lower_case = [name.lower() for name in query_columns]
    for column in using:
        key = column.lower()
        if key in lower_case and lower_case.index(key) != positions.get(key, -1):
            raise SchemaError(
                f"Table {table}: column {column!r} of REPLACE USING has another position in the "
                "query than in the table (INSERT_REPLACE_USING_DISALLOW_MISALIGNED_COLUMNS). Use "
                "BY NAME, or select the columns in the order of the table.",
                table=table,
                column=column,
            )


def _pairs(
    target: TargetTable, schema: StructType, columns: Mapping[str, str], using: Sequence[str]
) -> list[tuple[StructField, str, str]]:
    """Return (field, name in the table, name in the written rows) for each column of `using`.

    Both names are quoted.
    """
    assigned = {name.lower(): column for name, column in columns.items()}
    pairs = []
    for name in using:
        field = schema.get(name)
        if field is None or name.lower() not in assigned:
            side, names = ("table", schema.names) if field is None else ("rows", list(columns))
            raise SchemaError(
                f"{target.path}: column {name!r} of REPLACE USING isn't a column of the {side}, "
                f"whose columns are {', '.join(names)} (UNRESOLVED_INSERT_REPLACE_USING_COLUMN). "
                "Use columns that exist in the table and in the rows.",
                table=target.path,
                column=name,
            )
        source = quote_identifier(assigned[name.lower()])
        pairs.append((field, quote_identifier(field.name), source))
    return pairs


def _equality(field: StructField, of_target: str, of_rows: str) -> str:
    """Return SQL that compares a column of the table with a column of the written rows.

    CHAR values are compared without trailing spaces, because Spark pads the values of the table.
    """
    if field.data_type == STRING and has_char(field):
        return f"rtrim({of_target}) = rtrim(CAST({of_rows} AS STRING))"
    return f"{of_target} = {of_rows}"


def _other_qualifier(condition: str, known: set[str]) -> str | None:
    """Return the first qualifier in a condition that isn't in `known`; None if there is none."""
    tokens, names = list(tokenize(condition)), {name.lower() for name in known}
    for before, token, following in zip([None, *tokens], tokens, tokens[1:], strict=False):
        starts = before is None or not before.is_keyword(".")
        if (
            starts
            and token.is_name
            and following.is_keyword(".")
            and token.text.lower() not in names
        ):
            return token.text
    return None


def check_options(options: Mapping[str, str], name: str) -> None:
    """Check the write options of a write with `REPLACE ON` or `REPLACE USING`.

    Args:
        name: the option or the clause that requests the replacement, for messages.

    Raises:
        ArgumentError: an option can't be combined with the replacement.
    """
    lower_case = {key.lower(): value for key, value in options.items()}
    for option in ("replaceOn", "replaceUsing", "replaceWhere", "overwriteSchema"):
        value = lower_case.get(option.lower(), "false")
        if option != name and value.lower() != "false":
            raise _incompatible(option, name)
    if lower_case.get("partitionoverwritemode", "static").lower() == "dynamic":
        raise ArgumentError(
            f"{name}: the option can't be combined with partitionOverwriteMode=dynamic "
            "(DELTA_DYNAMIC_PARTITION_OVERWRITE_INCOMPATIBLE_REPLACE_ON_OR_USING). Set one of "
            "them.",
            argument=name,
        )
    for option in ("compression", "dataChange", "maxRecordsPerFile", "txnAppId", "userMetadata"):
        if option.lower() in lower_case:
            raise ArgumentError(
                f"{option}: the option isn't supported together with {name}. Remove {option}.",
                argument=option,
            )


def _check_mode(request: WriteRequest, name: str) -> None:
    if request.mode != "overwrite":
        raise ArgumentError(
            f"{name}: the mode is {request.mode!r}, but the option requires mode 'overwrite'. Call "
            "mode('overwrite').",
            argument=name,
        )


def _incompatible(first: str, second: str) -> ArgumentError:
    return ArgumentError(
        f"{first}: the option can't be combined with {second} "
        "(DELTA_INCOMPATIBLE_DATAFRAME_OPTIONS). Set one of them.",
        argument=first,
    )


def _target(request: WriteRequest) -> TargetTable | None:
    """Return the target table of a write; None if the name isn't the name of a Delta table."""
    if request.table is None:
        return TargetTable(spark=request.spark, location=request.path or "")
    named = named_table(
        request.spark, request.table, behind_views=writer_hooks.ignores_views(request)
    )
    if named is None or not named.exists:
        return None
    if request.method == "saveAsTable":
        named.check_location(request.path)
    name = None if named.is_path else named.name
    return TargetTable(spark=request.spark, location=named.path, name=name)


def _column_list(columns: str | None) -> tuple[str, ...]:
    if columns is None:
        return ()
    names = tuple(dict.fromkeys(name.strip().strip("`") for name in columns.split(",")))
    if not all(names):
        raise ArgumentError(
            f"replaceUsing: {columns!r} has an empty column name (DELTA_ILLEGAL_OPTION). Set names "
            "separated by commas.",
            argument="replaceUsing",
        )
    return names


def _name(target: TargetTable) -> str | None:
    return None if target.name is None else target.name.rpartition(".")[2].strip("`")
