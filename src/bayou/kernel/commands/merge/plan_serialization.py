"""Serialization of merge plans as plain values that msgspec can encode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from bayou.errors import SerializationError
from bayou.kernel.commands.merge.assignments import (
    Assigned,
    ColumnValue,
    Fields,
    Generated,
    Null,
    Unchanged,
)
from bayou.kernel.commands.merge.clauses import ClauseAction, JoinedColumns
from bayou.kernel.commands.merge.condition import MergeCondition
from bayou.kernel.commands.merge.plan import MergePlan, PlannedClause
from bayou.kernel.expressions.serialization import from_tree, to_tree
from bayou.protocol.schema import StructType, data_type_from_json, data_type_to_json

__all__ = ["WirePlan", "plan_from_wire", "plan_to_wire"]


class _WireClause(msgspec.Struct, frozen=True, array_like=True):
    action: ClauseAction
    condition: list[Any] | None
    values: list[list[Any]]


class WirePlan(msgspec.Struct, frozen=True, array_like=True):
    """Serialized form of a `MergePlan`."""

    table: str
    target: str
    source: str
    target_alias: str
    source_alias: str
    schema: str
    joined: str
    on: list[Any]
    matched: list[_WireClause]
    not_matched: list[_WireClause]
    not_matched_by_source: list[_WireClause]
    explicit_identity: list[str]


def plan_to_wire(plan: MergePlan) -> WirePlan:
    """Convert a plan to its serialized form.

    Raises:
        SerializationError: the plan has an expression of a custom class.
    """
    return WirePlan(
        plan.table,
        plan.names.target.to_json(),
        plan.names.source.to_json(),
        plan.names.target_alias,
        plan.names.source_alias,
        plan.schema.to_json(),
        plan.joined.to_json(),
        to_tree(plan.condition.predicate),
        _clauses_to_wire(plan.matched),
        _clauses_to_wire(plan.not_matched),
        _clauses_to_wire(plan.not_matched_by_source),
        sorted(plan.explicit_identity),
    )


def plan_from_wire(wire: WirePlan) -> MergePlan:
    """The inverse of `plan_to_wire`.

    Raises:
        SerializationError, SchemaError, ValueError: the value is malformed.
    """
    names = JoinedColumns(
        target=StructType.from_json(wire.target),
        source=StructType.from_json(wire.source),
        target_alias=wire.target_alias,
        source_alias=wire.source_alias,
    )
    return MergePlan(
        table=wire.table,
        names=names,
        schema=StructType.from_json(wire.schema),
        joined=StructType.from_json(wire.joined),
        condition=MergeCondition.of(from_tree(wire.on), names.schema),
        matched=_clauses_from_wire(wire.matched),
        not_matched=_clauses_from_wire(wire.not_matched),
        not_matched_by_source=_clauses_from_wire(wire.not_matched_by_source),
        explicit_identity=frozenset(wire.explicit_identity),
    )


def _clauses_to_wire(clauses: Sequence[PlannedClause]) -> list[_WireClause]:
    return [
        _WireClause(
            clause.action,
            None if clause.condition is None else to_tree(clause.condition),
            [_value_to_wire(value) for value in clause.values],
        )
        for clause in clauses
    ]


def _clauses_from_wire(clauses: Sequence[_WireClause]) -> tuple[PlannedClause, ...]:
    return tuple(
        PlannedClause(
            action=wire.action,
            condition=None if wire.condition is None else from_tree(wire.condition),
            values=tuple(_value_from_wire(value) for value in wire.values),
        )
        for wire in clauses
    )


def _value_to_wire(value: ColumnValue) -> list[Any]:
    match value:
        case Assigned(expression, data_type, keeps_fields):
            return ["given", to_tree(expression), data_type_to_json(data_type), keeps_fields]
        case Unchanged():
            return ["kept"]
        case Null():
            return ["nothing"]
        case Generated():
            return ["made"]
        case Fields(children):
            return ["fields", *map(_value_to_wire, children)]


def _value_from_wire(wire: Sequence[Any]) -> ColumnValue:
    match wire:
        case ["given", expression, data_type, bool(keeps_fields)]:
            return Assigned(from_tree(expression), data_type_from_json(data_type), keeps_fields)
        case ["kept"]:
            return Unchanged()
        case ["nothing"]:
            return Null()
        case ["made"]:
            return Generated()
        case ["fields", *children]:
            return Fields(tuple(_value_from_wire(child) for child in children))
        case _:
            raise SerializationError(
                f"Merge plan: unknown column value {wire!r}. Use the same package version on the "
                "driver and on all workers."
            )
