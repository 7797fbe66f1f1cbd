"""Checks for dependencies on a column before it is dropped, renamed or changed.

Also checks the columns named in `delta.dataSkippingStatsColumns`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from bayou.errors import PredicateError, SchemaError, TablePropertyError
from bayou.kernel.expressions.model import referenced_columns
from bayou.kernel.expressions.sql.parser import parse_expression
from bayou.kernel.log.table_state import TableState
from bayou.protocol import column_rules
from bayou.protocol.column_rules import GENERATION_EXPRESSION_KEY
from bayou.protocol.properties import SKIPPING_COLUMNS
from bayou.protocol.property_strings import column_paths
from bayou.protocol.schema import (
    BINARY,
    BOOLEAN,
    VARIANT,
    VOID,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
)

__all__ = [
    "ColumnPath",
    "check_not_in_layout",
    "check_not_referenced",
    "check_statistics_columns",
    "quote_path",
]


ColumnPath: TypeAlias = tuple[str, ...]


def quote_path(path: ColumnPath) -> str:
    """A path as delta-spark writes it into the history: names with a dot in backticks."""
    return ".".join(f"`{name}`" if "." in name else name for name in path)


def check_not_referenced(state: TableState, path: ColumnPath, what: str) -> None:
    """Check that no constraint, invariant or generated column references a column or its fields.

    Args:
        path: the column, spelled as in the schema.
        what: the change, a participle for the error message, such as `renamed`.

    Raises:
        SchemaError: an expression references the column. The message quotes it.
    """
    for owner, sql in _expressions(state):
        try:
            references = list(referenced_columns(parse_expression(sql)))
        except PredicateError:
            # An expression that can't be parsed may reference the column.
            references = [path]
        if any(_overlap(path, other) for other in references):
            raise SchemaError(
                f"Column {quote_path(path)!r} of {state.path} can't be {what}: {owner} ({sql}) "
                "references it. Drop that first.",
                table=state.path,
                column=quote_path(path),
            )


def check_not_in_layout(state: TableState, path: ColumnPath, what: str) -> None:
    """Check that a column is neither a partition column nor a clustering column.

    Raises:
        SchemaError: the table is partitioned or clustered by the column.
    """
    layout = "partitioned" if path[0] in state.partition_columns and len(path) == 1 else None
    if layout is None and any(p[: len(path)] == path for p in state.clustering_columns):
        layout = "clustered"
    if layout is not None:
        raise SchemaError(
            f"Column {quote_path(path)!r} of {state.path} can't be {what}: the table is {layout} "
            "by "
            "it. "
            + (
                "Change the clustering first."
                if layout == "clustered"
                else "Create a new table without it."
            ),
            table=state.path,
            column=quote_path(path),
        )


def _expressions(state: TableState) -> Iterator[tuple[str, str]]:
    """The expressions of a table: what each belongs to, and its SQL."""
    for name, sql in column_rules.check_constraints(state.properties).items():
        yield f"CHECK constraint {name}", sql
    for field in _fields(state.schema):
        generated = field.metadata.get(GENERATION_EXPRESSION_KEY)
        if generated is not None:
            yield f"generated column {field.name}", str(generated)
        try:
            invariant = column_rules.column_invariant(field)
        except ValueError:
            invariant = None
        if invariant is not None:
            yield f"the invariant of column {field.name}", invariant


def _fields(schema: StructType) -> Iterator[StructField]:
    for field in schema:
        yield field
        if isinstance(field.data_type, StructType):
            yield from _fields(field.data_type)


def _overlap(path: ColumnPath, other: ColumnPath) -> bool:
    """Whether one path is a prefix of the other."""
    length = min(len(path), len(other))
    return [s.lower() for s in path[:length]] == [s.lower() for s in other[:length]]


_WITHOUT_BOUNDS: tuple[DataType, ...] = (BINARY, BOOLEAN, VARIANT, VOID)


def check_statistics_columns(
    table: str,
    schema: StructType,
    partition_columns: Sequence[str],
    configuration: Mapping[str, str],
) -> None:
    """Check the columns in `delta.dataSkippingStatsColumns` as delta-spark does.

    Fields of structs may have any type: a type without an order has a null count only.

    Raises:
        TablePropertyError: a column is unknown, is a partition column, has a type without bounds,
            or is listed twice (by name or within a listed struct).
    """
    value = SKIPPING_COLUMNS.read(configuration)
    columns: list[tuple[str, ...]] = []
    for path in () if value is None else column_paths(value):
        name = ".".join(path)
        match = schema.find(path)
        if match is None:
            raise _invalid(
                table,
                f"column {name!r} doesn't exist or is inside an array or a map; the table's "
                f"columns are {', '.join(schema.names)}",
            )
        names, data_type = match
        if len(names) == 1 and names[0] in partition_columns:
            raise _invalid(
                table, f"{name!r} is a partition column, and the log has its values already"
            )
        if len(names) == 1 and (
            isinstance(data_type, ArrayType | MapType) or data_type in _WITHOUT_BOUNDS
        ):
            raise _invalid(table, f"{name!r} has type {data_type}, which has no bounds")
        if any(names[: len(p)] == p or p[: len(names)] == names for p in columns):
            raise _invalid(table, f"{name!r} is listed twice")
        columns.append(names)


def _invalid(table: str, reason: str) -> TablePropertyError:
    key = SKIPPING_COLUMNS.key
    return TablePropertyError(
        f"{table}: table property {key!r} has an invalid value: {reason}.", table=table, key=key
    )
