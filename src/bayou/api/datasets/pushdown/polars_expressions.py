"""Converts a Polars expression to a tree of calls.

Polars has no public functions to inspect an expression, so this module parses its JSON form.
Parameters called `tree` are parts of the JSON form. Unknown expressions become calls that data
skipping ignores.
"""

from __future__ import annotations

import io
import json
import warnings
from typing import Any

import polars as pl
import pyarrow as pa

from bayou.api.datasets.pushdown.filter_calls import Call, Constant, FieldPath, FilterNode

_OPERATORS = {
    "Eq": "equal",
    "NotEq": "not_equal",
    "Lt": "less",
    "LtEq": "less_equal",
    "Gt": "greater",
    "GtEq": "greater_equal",
    "EqValidity": "equal_missing",
    "And": "and_kleene",
    "LogicalAnd": "and_kleene",
    "Or": "or_kleene",
    "LogicalOr": "or_kleene",
}
_BOOLEAN_FUNCTIONS = {"Not": "invert", "IsNull": "is_null", "IsNotNull": "is_valid"}
_BETWEEN = {
    "Both": ("greater_equal", "less_equal"),
    "Left": ("greater_equal", "less"),
    "Right": ("greater", "less_equal"),
    "None": ("greater", "less"),
}
_UNKNOWN = Call(name="unknown")


def read_expression(expression: pl.Expr) -> FilterNode:
    """Return the tree of calls for an expression."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # JSON isn't stable between versions of Polars
            tree = json.loads(expression.meta.serialize(format="json"))
    except (pl.exceptions.PolarsError, ValueError, TypeError):
        return _UNKNOWN
    return _node(tree)


def _node(tree: Any) -> FilterNode:
    match tree:
        case {"Column": str(name)}:
            return FieldPath(names=(name,))
        case _ if _is_constant(tree):
            scalar = _scalar(tree)
            return _UNKNOWN if scalar is None else Constant(scalar=scalar)
        case {"BinaryExpr": {"left": left, "op": "NotEqValidity", "right": right}}:
            return Call(name="invert", arguments=(_call("equal_missing", left, right),))
        case {"BinaryExpr": {"left": left, "op": str(op), "right": right}} if op in _OPERATORS:
            return _call(_OPERATORS[op], left, right)
        case {"Function": {"input": list(inputs), "function": function}}:
            return _function(function, inputs)
        case _:
            return _UNKNOWN


def _function(function: Any, inputs: list[Any]) -> FilterNode:
    match function, inputs:
        case {"Boolean": str(name)}, [operand] if name in _BOOLEAN_FUNCTIONS:
            return _call(_BOOLEAN_FUNCTIONS[name], operand)
        case {"Boolean": {"IsBetween": {"closed": str(closed)}}}, [operand, low, high] if (
            closed in _BETWEEN
        ):
            lower, upper = _BETWEEN[closed]
            bounds = (_call(lower, operand, low), _call(upper, operand, high))
            return Call(name="and_kleene", arguments=bounds)
        case {"Boolean": {"IsIn": _}}, [operand, values]:
            return _is_in(operand, values)
        case {"StringExpr": "StartsWith"}, [operand, prefix]:
            scalar = _scalar(prefix)
            if scalar is None or not scalar.is_valid:
                return _UNKNOWN
            return Call(
                name="starts_with", arguments=(_node(operand),), options={"pattern": scalar}
            )
        case {"StructExpr": {"FieldByName": str(name)}}, [operand]:
            parent = _node(operand)
            if isinstance(parent, FieldPath):
                return FieldPath(names=(*parent.names, name))
            return _UNKNOWN
        case _:
            return _UNKNOWN


def _call(name: str, *operands: Any) -> Call:
    return Call(name=name, arguments=tuple(map(_node, operands)))


def _is_in(operand: Any, values: Any) -> FilterNode:
    items = _values(values)
    if items is None:
        return _UNKNOWN
    value_set: Any = pa.scalar(items.to_pylist(), pa.list_(items.type))
    return Call(name="is_in", arguments=(_node(operand),), options={"value_set": value_set})


def _values(tree: Any) -> Any:
    """Return the values of a constant list or series; None if `tree` isn't a constant."""
    series = _series(tree)
    if series is None:
        return None
    if isinstance(series.dtype, pl.List | pl.Array):
        series = series.explode()
    values: Any = series.to_arrow()
    return values


def _scalar(tree: Any) -> Any:
    """Return a constant as a pyarrow scalar; None if `tree` isn't a single constant."""
    series = _series(tree)
    return series.to_arrow()[0] if series is not None and len(series) == 1 else None


def _series(tree: Any) -> pl.Series | None:
    """Evaluate a constant with Polars; return None if `tree` isn't a constant."""
    if not _is_constant(tree):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            literal = pl.Expr.deserialize(io.StringIO(json.dumps(tree)), format="json")
            return pl.select(literal).to_series()
    except (pl.exceptions.PolarsError, ValueError, TypeError):
        return None


def _is_constant(tree: Any) -> bool:
    match tree:
        case {"Literal": _}:
            return True
        case {"Cast": {"expr": operand}}:
            return _is_constant(operand)
        case {"Function": {"input": list(inputs), "function": {"TemporalExpr": dict(function)}}}:
            return list(function) == ["ReplaceTimeZone"] and all(map(_is_constant, inputs))
        case _:
            return False
