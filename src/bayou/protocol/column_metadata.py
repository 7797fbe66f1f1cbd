"""Column declarations in the schema and table properties, as read-only values.

PROTOCOL.md, Generated Columns, Default Columns, Identity Columns, Column Invariants, CHECK
Constraints, Clustered Table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from bayou.protocol.json_decoding import decode_json
from bayou.protocol.schema import StructField, StructType

__all__ = [
    "CLUSTERING_DOMAIN",
    "IdentityColumn",
    "check_constraints",
    "clustering_columns",
    "column_defaults",
    "column_invariants",
    "generation_expressions",
    "identity_columns",
    "physical_clustering_columns",
]

CLUSTERING_DOMAIN = "delta.clustering"

_CONSTRAINT_PREFIX = "delta.constraints."
_GENERATION_EXPRESSION = "delta.generationExpression"
_CURRENT_DEFAULT = "CURRENT_DEFAULT"
_INVARIANTS = "delta.invariants"
_IDENTITY_START = "delta.identity.start"
_IDENTITY_STEP = "delta.identity.step"
_IDENTITY_HIGH_WATER_MARK = "delta.identity.highWaterMark"
_IDENTITY_EXPLICIT = "delta.identity.allowExplicitInsert"
_PHYSICAL_NAME = "delta.columnMapping.physicalName"


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityColumn:
    """How the values of an identity column are generated.

    Attributes:
        start: the first value.
        step: the difference between two values, never 0.
        high_water_mark: the last generated value, None before the first.
        allow_explicit_insert: whether rows may bring their own values.
    """

    start: int
    step: int
    high_water_mark: int | None
    allow_explicit_insert: bool


def check_constraints(configuration: Mapping[str, str]) -> dict[str, str]:
    """SQL of each CHECK constraint by constraint name."""
    return {
        key.removeprefix(_CONSTRAINT_PREFIX): sql
        for key, sql in configuration.items()
        if key.lower().startswith(_CONSTRAINT_PREFIX)
    }


def generation_expressions(schema: StructType) -> dict[str, str]:
    """SQL of each generated column by column name."""
    return {f.name: str(value) for f, value in _with_metadata(schema, _GENERATION_EXPRESSION)}


def column_defaults(schema: StructType) -> dict[str, str]:
    """SQL of each column's current default by column name."""
    return {f.name: str(value) for f, value in _with_metadata(schema, _CURRENT_DEFAULT)}


def column_invariants(schema: StructType) -> dict[str, str]:
    """SQL of each column's invariant by column name, without malformed invariants."""
    invariants = {}
    for field, value in _with_metadata(schema, _INVARIANTS):
        try:
            wire = decode_json(str(value), _Invariant)
        except msgspec.DecodeError:
            continue
        invariants[field.name] = wire.expression.expression
    return invariants


def identity_columns(schema: StructType) -> dict[str, IdentityColumn]:
    """Identity columns by name, without those whose metadata isn't numeric."""
    identities = {}
    for field, start in _with_metadata(schema, _IDENTITY_START):
        step = field.metadata.get(_IDENTITY_STEP)
        mark = field.metadata.get(_IDENTITY_HIGH_WATER_MARK)
        if isinstance(start, int) and isinstance(step, int):
            identities[field.name] = IdentityColumn(
                start=start,
                step=step,
                high_water_mark=mark if isinstance(mark, int) else None,
                allow_explicit_insert=field.metadata.get(_IDENTITY_EXPLICIT) is True,
            )
    return identities


def clustering_columns(schema: StructType, configuration: str) -> tuple[tuple[str, ...], ...]:
    """Logical paths of the clustering columns, in order.

    Args:
        schema: the table's schema.
        configuration: configuration of the domain `delta.clustering`. It names columns by their
            physical names: one name, or the path of a nested column.

    Raises:
        ValueError: the configuration is malformed, or names a column that the schema lacks.
    """
    columns = physical_clustering_columns(configuration)
    return tuple(_logical_path(schema, column) for column in columns)


def physical_clustering_columns(configuration: str) -> tuple[tuple[str, ...], ...]:
    """Physical paths of the clustering columns, in order, from `delta.clustering`.

    Raises:
        ValueError: the configuration is malformed.
    """
    try:
        wire = decode_json(configuration, _Clustering)
    except msgspec.DecodeError as error:
        raise ValueError(
            f"configuration of domain {CLUSTERING_DOMAIN} is malformed: {error}"
        ) from error
    return tuple(
        (column,) if isinstance(column, str) else tuple(column)
        for column in wire.clustering_columns
    )


class _InvariantExpression(msgspec.Struct):
    expression: str


class _Invariant(msgspec.Struct):
    expression: _InvariantExpression


class _Clustering(msgspec.Struct, rename="camel"):
    clustering_columns: list[str | list[str]] = []


def _with_metadata(schema: StructType, key: str) -> Iterator[tuple[StructField, Any]]:
    """Top-level columns whose metadata has a key, with the key's value."""
    for field in schema:
        if key in field.metadata:
            yield field, field.metadata[key]


def _logical_path(schema: StructType, physical: tuple[str, ...]) -> tuple[str, ...]:
    names: list[str] = []
    level: Any = schema
    for name in physical:
        fields = level if isinstance(level, StructType) else ()
        field = next((f for f in fields if f.metadata.get(_PHYSICAL_NAME, f.name) == name), None)
        if field is None:
            raise ValueError(f"no column has the physical name {'.'.join(physical)}")
        names.append(field.name)
        level = field.data_type
    return tuple(names)
