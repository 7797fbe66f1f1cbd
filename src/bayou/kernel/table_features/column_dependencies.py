"""What of a table rests on a column: then the column can't go, nor change its name or type.

Which columns a table may name for statistics: `delta.dataSkippingStatsColumns`.
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
    "check_statistics_columns",
    "path_text",
    "refuse_if_used",
    "refuse_if_used_for_layout",
]


ColumnPath: TypeAlias = tuple[str, ...]


def path_text(path: ColumnPath) -> str:
    """A path as delta-spark writes it into the history: names with a dot in quotes."""
    return ".".join(f"`{name}`" if "." in name else name for name in path)


def refuse_if_used(state: TableState, path: ColumnPath, what: str) -> None:
    """Check that no constraint, invariant or generated column names a column or what is in it.

    Args:
        path: as the schema spells it.
        what: what is to be done to it: `renamed`.

    Raises:
        SchemaError: one does; names it.
    """
    for user, text in _expressions(state):
        try:
            named = list(referenced_columns(parse_expression(text)))
        except PredicateError:
            # What can't be understood may well name the column.
            named = [path]
        if any(_touch(path, other) for other in named):
            raise SchemaError(
                f"Column {path_text(path)!r} of {state.path} can't be {what}: {user} ({text}) "
                "uses it. Drop that first.",
                table=state.path,
                column=path_text(path),
            )


def refuse_if_used_for_layout(state: TableState, path: ColumnPath, what: str) -> None:
    """Check that a column neither partitions nor clusters the table.

    Raises:
        SchemaError: it does.
    """
    used = "partitioned" if path[0] in state.partition_columns and len(path) == 1 else None
    if used is None and any(p[: len(path)] == path for p in state.clustering_columns):
        used = "clustered"
    if used is not None:
        raise SchemaError(
            f"Column {path_text(path)!r} of {state.path} can't be {what}: the table is {used} by "
            "it. "
            + ("Change the clustering first." if used == "clustered" else "Make a new table."),
            table=state.path,
            column=path_text(path),
        )


def _expressions(state: TableState) -> Iterator[tuple[str, str]]:
    for name, text in column_rules.check_constraints(state.properties).items():
        yield f"CHECK constraint {name}", text
    for field in _fields(state.schema):
        generated = field.metadata.get(GENERATION_EXPRESSION_KEY)
        if generated is not None:
            yield f"generated column {field.name}", str(generated)
        try:
            invariant = column_rules.invariant_of(field)
        except ValueError:
            invariant = None
        if invariant is not None:
            yield f"the invariant of column {field.name}", invariant


def _fields(schema: StructType) -> Iterator[StructField]:
    for field in schema:
        yield field
        if isinstance(field.data_type, StructType):
            yield from _fields(field.data_type)


def _touch(path: ColumnPath, other: ColumnPath) -> bool:
    """Whether one of two paths leads to the other."""
    length = min(len(path), len(other))
    return [s.lower() for s in path[:length]] == [s.lower() for s in other[:length]]


_WITHOUT_BOUNDS: tuple[DataType, ...] = (BINARY, BOOLEAN, VARIANT, VOID)


def check_statistics_columns(
    table: str,
    schema: StructType,
    partition_columns: Sequence[str],
    configuration: Mapping[str, str],
) -> None:
    """Check the columns that a table names for statistics, as delta-spark does.

    Within a struct any type is taken: of those without an order nulls are counted.

    Raises:
        TablePropertyError: an unknown column, a partition column, one of a type that has no
            bounds, or one that is named twice (itself, or a struct around it).
    """
    text = SKIPPING_COLUMNS.read(configuration)
    found: list[tuple[str, ...]] = []
    for path in () if text is None else column_paths(text):
        name = ".".join(path)
        known = schema.find(path)
        if known is None:
            raise _refused(
                table,
                f"there is no column {name!r} outside of arrays and maps; the table has "
                f"{', '.join(schema.names)}",
            )
        names, data_type = known
        if len(names) == 1 and names[0] in partition_columns:
            raise _refused(
                table, f"{name!r} is a partition column, whose values the log has anyway"
            )
        if len(names) == 1 and (
            isinstance(data_type, ArrayType | MapType) or data_type in _WITHOUT_BOUNDS
        ):
            raise _refused(table, f"{name!r} has type {data_type}, which has no bounds")
        if any(names[: len(p)] == p or p[: len(names)] == names for p in found):
            raise _refused(table, f"{name!r} is named twice")
        found.append(names)


def _refused(table: str, reason: str) -> TablePropertyError:
    key = SKIPPING_COLUMNS.key
    return TablePropertyError(
        f"{table}: table property {key!r} can't be set so: {reason}.", table=table, key=key
    )
