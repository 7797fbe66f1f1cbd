"""The table's schema behind a merge with schema evolution.

Columns, and fields of structs, come in that a clause puts a value of the source into. Columns that
the table has keep their type, and what is put into them is cast, unless the table widens types.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayou.kernel.transaction.schema_evolution import SchemaMerge
from bayou.protocol.schema import StructField, StructType

__all__ = ["grown_schema"]


def grown_schema(
    table: str,
    target: StructType,
    source: StructType,
    assigned: Sequence[tuple[str, ...]],
    *,
    all_columns: bool,
    widens: bool = False,
) -> StructType:
    """The schema of the target with what clauses bring of the source.

    Args:
        assigned: paths that clauses assign to by name.
        all_columns: a clause takes all of the source's columns.
        widens: columns take wider types of the source (`delta.enableTypeWidening`).

    Raises:
        SchemaError: a new column of nothing but nulls, without a type.
    """
    paths = [tuple(name.lower() for name in path) for path in assigned]
    brought = _brought(source, (), paths, all_columns=all_columns)
    return SchemaMerge(table=table, widens=widens, casts=True).merged(target, brought)


def _brought(
    fields: StructType,
    prefix: tuple[str, ...],
    assigned: Sequence[tuple[str, ...]],
    *,
    all_columns: bool,
) -> StructType:
    kept: list[StructField] = []
    for field in fields:
        path = (*prefix, field.name.lower())
        below = any(other[: len(path)] == path for other in assigned)
        if path in assigned:
            kept.append(field)
        elif isinstance(field.data_type, StructType) and (below or all_columns):
            inner = _brought(field.data_type, path, assigned, all_columns=all_columns)
            kept.append(field.with_data_type(inner))
        elif all_columns:
            kept.append(field)
    return StructType(tuple(kept))
