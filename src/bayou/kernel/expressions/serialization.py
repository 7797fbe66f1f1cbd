"""Serialization of expressions for other processes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from bayou.errors import SerializationError
from bayou.kernel.arrow.serialization import WireFormat
from bayou.kernel.expressions.model import (
    And,
    Cast,
    Column,
    Comparison,
    Expression,
    Function,
    In,
    InExpressions,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    Predicate,
    StartsWith,
)
from bayou.protocol.schema import data_type_from_json, data_type_to_json

_WIRE: WireFormat[list[Any]] = WireFormat("expression", 1, list[Any])


def to_bytes(expression: Expression) -> bytes:
    """Serialize an expression; `from_bytes` is the inverse."""
    return _WIRE.encode(to_tree(expression))


def from_bytes(data: bytes) -> Expression:
    """Deserialize an expression from the bytes that `to_bytes` returned.

    Raises:
        SerializationError: the bytes are malformed, or a newer version of Bayou wrote them.
    """
    expression: Expression = _WIRE.decode(data, from_tree)
    return expression


def to_tree(expression: Expression) -> list[Any]:
    """Return the expression as nested lists of plain values; `from_tree` is the inverse."""
    match expression:
        case Column(path):
            return ["column", *path]
        case Literal(value, data_type):
            kind, plain_value = _value_to_wire(value)
            return [
                "literal",
                kind,
                plain_value,
                None if data_type is None else data_type_to_json(data_type),
            ]
        case Comparison(op, left, right):
            return ["compare", op, to_tree(left), to_tree(right)]
        case And(operands):
            return ["and", *map(to_tree, operands)]
        case Or(operands):
            return ["or", *map(to_tree, operands)]
        case Not(operand):
            return ["not", to_tree(operand)]
        case IsNull(operand):
            return ["is_null", to_tree(operand)]
        case In(operand, values):
            return ["in", to_tree(operand), *map(to_tree, values)]
        case InExpressions(operand, expressions):
            return ["in_expressions", to_tree(operand), *map(to_tree, expressions)]
        case StartsWith(operand, prefix):
            return ["starts_with", to_tree(operand), prefix]
        case Like(operand, pattern, escape):
            return ["like", to_tree(operand), pattern, escape]
        case Cast(operand, target, safe):
            return ["cast", to_tree(operand), data_type_to_json(target), safe]
        case Function(name, arguments):
            return ["call", name, *map(to_tree, arguments)]
        case _:
            raise SerializationError(
                f"Expressions of type {type(expression).__name__} can't be serialized. Use the "
                "classes of bayou.kernel.expressions."
            )


def from_tree(tree: Sequence[Any]) -> Any:
    """Create an expression from the nested lists that `to_tree` returned."""
    match tree:
        case ["column", *path]:
            return Column(tuple(path))
        case ["literal", kind, plain_value, data_type]:
            return Literal(
                _value_from_wire(kind, plain_value),
                None if data_type is None else data_type_from_json(data_type),
            )
        case ["compare", op, left, right]:
            return Comparison(op, from_tree(left), from_tree(right))
        case ["and", *operands]:
            return And(_predicates(operands))
        case ["or", *operands]:
            return Or(_predicates(operands))
        case ["not", operand]:
            return Not(from_tree(operand))
        case ["is_null", operand]:
            return IsNull(from_tree(operand))
        case ["in", operand, *values]:
            return In(from_tree(operand), tuple(from_tree(v) for v in values))
        case ["in_expressions", operand, *values]:
            return InExpressions(from_tree(operand), tuple(from_tree(v) for v in values))
        case ["starts_with", operand, prefix]:
            return StartsWith(from_tree(operand), prefix)
        case ["like", operand, str(pattern), str(escape)]:
            return Like(from_tree(operand), pattern, escape)
        case ["cast", operand, data_type, bool(safe)]:
            return Cast(from_tree(operand), data_type_from_json(data_type), safe)
        case ["call", str(name), *arguments]:
            return Function(name, tuple(from_tree(a) for a in arguments))
        case _:
            raise SerializationError(
                f"{tree!r} isn't an expression that this version of Bayou supports. Use the same "
                "version of Bayou in every process."
            )


def _predicates(trees: Sequence[Any]) -> tuple[Predicate, ...]:
    return tuple(from_tree(t) for t in trees)


def _value_to_wire(value: Any) -> tuple[str, Any]:
    match value:
        case None | bool() | int() | float() | str() | bytes():
            # Integers may exceed the range of msgpack integers.
            return ("int", str(value)) if type(value) is int else ("plain", value)
        case Decimal():
            return "decimal", str(value)
        case dt.datetime():
            return "timestamp", value.isoformat()
        case dt.date():
            return "date", value.isoformat()
        case _:
            raise SerializationError(
                f"The literal {value!r} can't be serialized: values of type "
                f"{type(value).__name__} aren't supported. Use a number, string, date or timestamp."
            )


def _value_from_wire(kind: str, value: Any) -> Any:
    match kind:
        case "plain":
            return value
        case "int":
            return int(value)
        case "decimal":
            return Decimal(value)
        case "timestamp":
            return dt.datetime.fromisoformat(value)
        case "date":
            return dt.date.fromisoformat(value)
        case _:
            raise SerializationError(
                f"{kind!r} isn't a kind of literal that this version of Bayou supports. Use the "
                "same version of Bayou in every process."
            )
