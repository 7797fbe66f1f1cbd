"""Checks that nothing in a table depends on a column that is to be dropped or changed.

Constraints, generated columns, invariants, partitioning and clustering can depend on a column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from bayou.errors import PredicateError, SchemaError, TablePropertyError
from bayou.kernel.expressions.model import referenced_columns
from bayou.kernel.expressions.sql.parser import parse_expression
from bayou.kernel.log.table_state import TableState
from bayou.protocol import column_metadata
from bayou.protocol.column_metadata import GENERATION_EXPRESSION_KEY
from bayou.protocol.properties import SKIPPING_COLUMNS
from bayou.protocol.property_strings import column_paths
from bayou.protocol.schema import (
    BINARY,
    BOOLEAN,
    VARIANT,
    VOID,
    ArrayType,
    DataType,
    GeographyType,
    GeometryType,
    MapType,
    StructField,
    StructType,
)

ColumnPath: TypeAlias = tuple[str, ...]


def quote_path(path: ColumnPath) -> str:
    """Join a path with dots, as in delta-spark's history. Names with a dot get backticks."""
    return ".".join(f"`{name}`" if "." in name else name for name in path)


def check_not_referenced(
    state: TableState,
    path: ColumnPath,
    change: str,
    problem: Literal["DEPENDENT_COLUMN_CHANGE", "DATA_TYPE_MISMATCH"] = "DEPENDENT_COLUMN_CHANGE",
) -> None:
    """Check that no constraint, invariant or generated column references a column or its fields.

    Args:
        change: participle of the change for error messages, such as "dropped".
        problem: end of the error condition in the message, such as `DEPENDENT_COLUMN_CHANGE` in
            `DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE`. Schema evolution passes
            `DATA_TYPE_MISMATCH`.
    """
    for owner, sql in _expressions(state):
        try:
            references = list(referenced_columns(parse_expression(sql)))
        except PredicateError:
            # An expression that can't be parsed may reference the column.
            references = [path]
        if any(_overlap(path, other) for other in references):
            is_generated = owner.startswith("generated")
            dependent = "DELTA_GENERATED_COLUMNS" if is_generated else "DELTA_CONSTRAINT"
            raise SchemaError(
                f"{state.path}: column {quote_path(path)!r} can't be {change}, because {owner} "
                f"({sql}) references it ({dependent}_{problem}). Drop the "
                f"{owner.removeprefix('the ')} first.",
                table=state.path,
                column=quote_path(path),
            )


def check_not_in_layout(state: TableState, path: ColumnPath, change: str) -> None:
    """Check that a column is neither a partition column nor a clustering column.

    Args:
        change: participle of the change for error messages, such as "dropped".
    """
    layout = "partitioned" if path[0] in state.partition_columns and len(path) == 1 else None
    if layout is None and any(p[: len(path)] == path for p in state.clustering_columns):
        layout = "clustered"
    if layout is not None:
        raise SchemaError(
            f"{state.path}: column {quote_path(path)!r} can't be {change}, because the table is "
            f"{layout} by this column. "
            + (
                "Change the clustering columns first."
                if layout == "clustered"
                else "Create a new table without this partition column."
            ),
            table=state.path,
            column=quote_path(path),
        )


def _expressions(state: TableState) -> Iterator[tuple[str, str]]:
    """Yield (description, SQL) of all constraints, generated columns and invariants of a table."""
    for name, sql in column_metadata.check_constraints(state.properties).items():
        yield f"CHECK constraint {name}", sql
    for field in _fields(state.schema):
        generated = field.metadata.get(GENERATION_EXPRESSION_KEY)
        if generated is not None:
            yield f"generated column {field.name}", str(generated)
        try:
            invariant = column_metadata.column_invariant(field)
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
    length = min(len(path), len(other))
    return [s.lower() for s in path[:length]] == [s.lower() for s in other[:length]]


_WITHOUT_BOUNDS: tuple[DataType, ...] = (BINARY, BOOLEAN, VARIANT, VOID)


def check_statistics_columns(
    table: str,
    schema: StructType,
    partition_columns: Sequence[str],
    configuration: Mapping[str, str],
) -> None:
    """Check the columns in `delta.dataSkippingStatsColumns` by delta-spark's rules.

    A top-level column must not be a partition column, and its type must support minimum and
    maximum. A nested field may have any type.
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
                table, f"{name!r} is a partition column, and its values are already in the log"
            )
        if len(names) == 1 and (
            isinstance(data_type, ArrayType | MapType | GeometryType | GeographyType)
            or data_type in _WITHOUT_BOUNDS
        ):
            raise _invalid(
                table,
                f"{name!r} has type {data_type}, for which statistics have no minimum and maximum",
            )
        if any(names[: len(p)] == p or p[: len(names)] == names for p in columns):
            raise _invalid(table, f"{name!r} is listed twice")
        columns.append(names)


def _invalid(table: str, reason: str) -> TablePropertyError:
    key = SKIPPING_COLUMNS.key
    return TablePropertyError(
        f"{table}: table property {key!r} has an invalid value: {reason}. Correct the property.",
        table=table,
        key=key,
    )
