"""Resolution of names and types in expressions, and replacement of columns and literals.

The rules follow Spark SQL in ANSI mode. A string that is compared with a number, date or timestamp
is cast to the type of the other operand, or to a wider type. Two numbers that are compared are cast
to the wider type; a decimal and a float are both cast to double.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeVar

from bayou.errors import PredicateError
from bayou.kernel.expressions.casts import can_cast
from bayou.kernel.expressions.functions import Call, Macro, find
from bayou.kernel.expressions.functions import Function as Definition
from bayou.kernel.expressions.functions.regular_expressions import (
    like_to_re2,
    string_without_wildcards,
)
from bayou.kernel.expressions.literals import resolve_literal
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
    call,
)
from bayou.kernel.expressions.types import (
    common_type,
    comparison_type,
    is_integral,
    kind_of,
)
from bayou.protocol.schema import (
    BOOLEAN,
    DATE,
    DOUBLE,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    DataType,
    DecimalType,
    StructField,
    StructType,
)

COMPARISON_OPERATORS = ("=", "<>", "<", "<=", ">", ">=", "<=>")


def resolve(predicate: Predicate, schema: StructType) -> Predicate:
    """Look up a predicate's columns in the schema, set the types of literals, and insert casts.

    Column names are case-insensitive; the result has the names as spelled in the schema. Resolving
    a resolved predicate again doesn't change it.
    """
    match predicate:
        case And(operands):
            return And(tuple(resolve(o, schema) for o in operands))
        case Or(operands):
            return Or(tuple(resolve(o, schema) for o in operands))
        case Not(operand):
            return Not(resolve(operand, schema))
        case IsNull(operand):
            return IsNull(_value(operand, schema, None))
        case Comparison(op, left, right):
            return _comparison(op, left, right, schema)
        case In(operand, values):
            return _in(operand, values, schema)
        case InExpressions(operand, expressions):
            return _in(operand, expressions, schema)
        case StartsWith(operand, prefix):
            purpose = f"compared with the prefix {prefix!r}"
            return StartsWith(_string(operand, schema, purpose), prefix)
        case Like(operand, pattern, escape):
            like_to_re2(pattern, escape)
            purpose = f"matched with the pattern {pattern!r}"
            value = _string(operand, schema, purpose)
            string = string_without_wildcards(pattern, escape)
            if string is not None:  # data skipping and pruning use equalities better
                return Comparison("=", value, Literal(string, STRING))
            return Like(value, pattern, escape)
        case Column() | Literal() | Cast() | Function():
            value = _value(predicate, schema, BOOLEAN)
            if type_of(value, schema) not in (BOOLEAN, VOID):
                raise PredicateError(
                    f"{_name(predicate)} has type {type_of(value, schema)} and isn't a condition. "
                    "Compare it with a value.",
                    expression=_name(predicate),
                )
            assert isinstance(value, Predicate)
            return value
        case _:
            raise PredicateError(
                f"{type(predicate).__name__} isn't a supported class of predicates. Use the "
                "classes of bayou.kernel.expressions.",
                expression=repr(predicate),
            )


def resolve_expression(expression: Expression, schema: StructType) -> Expression:
    """Resolve an expression that needn't be a predicate; see `resolve`."""
    return _value(expression, schema, None)


def type_of(expression: Expression, schema: StructType) -> DataType:
    """Return the type of a resolved expression."""
    match expression:
        case Column(path):
            return field_at(path, schema).data_type
        case Literal(_, data_type):
            return VOID if data_type is None else data_type
        case Cast(_, data_type, _):
            return data_type
        case Function(name, arguments):
            definition = find(name)
            assert isinstance(definition, Definition)  # `resolve` expands macros
            types = tuple(type_of(a, schema) for a in arguments)
            return definition.bind(Call(name=name, arguments=arguments, types=types)).result
        case _:
            return BOOLEAN


def field_at(path: tuple[str, ...], schema: StructType) -> StructField:
    """Return the field at a path of names."""
    names, field = _find(path, schema)
    assert names
    return field


def _comparison(op: str, left: Expression, right: Expression, schema: StructType) -> Comparison:
    if op not in COMPARISON_OPERATORS:
        raise PredicateError(
            f"{op!r} isn't a comparison operator. Use one of {', '.join(COMPARISON_OPERATORS)}.",
            expression=op,
        )
    if isinstance(left, Literal):
        right = _value(right, schema, None)
        left = _value(left, schema, type_of(right, schema))
    else:
        left = _value(left, schema, None)
        right = _value(right, schema, type_of(left, schema))
    one, other = type_of(left, schema), type_of(right, schema)
    left, right = _cast_string(left, one, other), _cast_string(right, other, one)
    _check_comparable(left, right, schema)
    return Comparison(op, left, right)


def _cast_string(expression: Expression, data_type: DataType, other: DataType) -> Expression:
    if data_type != STRING or other in (STRING, VOID) or kind_of(other) is None:
        return expression
    target = common_type((data_type, other))
    return expression if target is None else Cast(expression, target)


def _in(operand: Expression, values: tuple[Expression, ...], schema: StructType) -> Predicate:
    """Resolve `IN` as Spark does: the operand and all values are compared in their common type."""
    operand = _value(operand, schema, None)
    operand_type = type_of(operand, schema)
    literals = tuple(resolve_literal(v, operand_type) for v in values if isinstance(v, Literal))
    resolved = tuple(_value(value, schema, None) for value in values)
    types = [operand_type, *(type_of(value, schema) for value in resolved)]
    if len(literals) == len(values) and _is_comparable_one_by_one(types):
        for value in literals:
            _check_comparable(operand, value, schema)
        return In(operand, literals)
    target = common_type(sorted(types, key=lambda data_type: data_type != STRING))
    if target is None or kind_of(target) is None:
        if len({t for t in types if t != VOID}) > 1:
            names = ", ".join(dict.fromkeys(map(str, types)))
            raise PredicateError(
                f"{_name(operand)} IN (...): the types of the operand and the values ({names}) "
                "have no common type. Cast the operand or the values.",
                expression=_name(operand),
            )
    elif operand_type != target:
        operand = _cast(operand, operand_type, target)
    checks = tuple(
        _comparison(
            "=",
            operand,
            value
            if target is None or data_type in (VOID, target)
            else _cast(value, data_type, target),
            schema,
        )
        for value, data_type in zip(resolved, types[1:], strict=True)
    )
    return checks[0] if len(checks) == 1 else Or(checks)


def _is_comparable_one_by_one(types: list[DataType]) -> bool:
    """Whether Spark's `IN` gives the same result as separate comparisons with each value.

    Spark casts the operand and all values of `IN` to one common type. A separate comparison uses
    the common type of the operand and one value, so the result may differ.

    Args:
        types: the type of the operand, followed by the types of the values.
    """
    kinds = [kind_of(data_type) for data_type in types if data_type != VOID] or [None]
    kind, given = kinds[0], set(kinds[1:])
    match kind:
        case "integer":
            return given <= {"integer", "string"} or given <= {"integer", "decimal"}
        case "decimal":
            return given <= {"integer", "decimal"}
        case "float":
            return given <= {"integer", "decimal", "float", "string"}
        case "timestamp":
            return given <= {"date", "timestamp", "timestamp_ntz", "string"}
        case "timestamp_ntz":
            return given <= {"date", "timestamp_ntz", "string"}
        case "date" | "boolean" | "binary":
            return given <= {kind, "string"}
        case _:
            return given <= {kind}


def _string(operand: Expression, schema: StructType, purpose: str) -> Expression:
    value = _value(operand, schema, STRING)
    data_type = type_of(value, schema)
    if data_type in (STRING, VOID):
        return value
    raise PredicateError(
        f"{_name(operand)} has type {data_type} and can't be {purpose}. Cast it to string.",
        expression=_name(operand),
    )


def _check_comparable(left: Expression, right: Expression, schema: StructType) -> None:
    one, other = type_of(left, schema), type_of(right, schema)
    if comparison_type(one, other) is None:
        raise PredicateError(
            f"{_name(left)} and {_name(right)} can't be compared: their types are {one} and "
            f"{other}. Cast one of them.",
            expression=f"{_name(left)}, {_name(right)}",
        )


def _value(expression: Expression, schema: StructType, other: DataType | None) -> Expression:
    match expression:
        case Column(path):
            return Column(_find(path, schema)[0])
        case Literal():
            return resolve_literal(expression, other)
        case Cast(operand, data_type, safe):
            value = _value(operand, schema, None)
            source_type = type_of(value, schema)
            if not can_cast(source_type, data_type):
                raise PredicateError(
                    f"{_name(operand)} has type {source_type} and can't be cast to {data_type}. "
                    "Use an expression of another type.",
                    expression=_name(operand),
                )
            return Cast(value, data_type, safe)
        case Function(name, arguments):
            return _function(name, tuple(_value(a, schema, None) for a in arguments), schema)
        case Predicate():
            return resolve(expression, schema)
        case _:
            raise PredicateError(
                f"{type(expression).__name__} isn't a supported class of expressions. Use the "
                "classes of bayou.kernel.expressions.",
                expression=repr(expression),
            )


def _function(name: str, arguments: tuple[Expression, ...], schema: StructType) -> Expression:
    definition = find(name)
    if isinstance(definition, Macro):
        minimum, maximum = definition.count
        if not minimum <= len(arguments) <= maximum:
            count = str(minimum) if minimum == maximum else f"{minimum} to {maximum}"
            raise PredicateError(f"{name} takes {count} arguments.", expression=name)
        return _value(definition.expand(*arguments), schema, None)
    types = tuple(type_of(a, schema) for a in arguments)
    if definition.name in ("+", "-") and len(types) == 2 and _TIMES.intersection(types):
        return _value(_date_arithmetic(definition.name, arguments, types), schema, None)
    binding = definition.bind(Call(name=name, arguments=arguments, types=types))
    converted = tuple(
        _cast(argument, source, target)
        for argument, source, target in zip(arguments, types, binding.arguments, strict=True)
    )
    if definition.name == "startswith" and isinstance(converted[1], Literal):
        prefix = converted[1].value
        if isinstance(prefix, str):
            return StartsWith(converted[0], prefix)
    return Function(definition.name, converted)


_TIMES: frozenset[DataType] = frozenset({DATE, TIMESTAMP, TIMESTAMP_NTZ})


def _date_arithmetic(
    sign: str, arguments: tuple[Expression, ...], types: tuple[DataType, ...]
) -> Expression:
    left, right = arguments
    if types[0] == DATE and is_integral(types[1]):
        return call("date_add" if sign == "+" else "date_sub", left, right)
    if sign == "+" and types[1] == DATE and is_integral(types[0]):
        return call("date_add", right, left)
    raise PredicateError(
        f"{types[0]} {sign} {types[1]} isn't supported. Add days or a constant INTERVAL to a date, "
        "or an INTERVAL to a timestamp. Use datediff for the days between two dates.",
        expression=sign,
    )


def _cast(argument: Expression, source: DataType, target: DataType) -> Expression:
    if source == target:
        return argument
    if isinstance(argument, Literal):
        value = argument.value
        if value is None:
            return Literal(None, target)
        if type(value) is int and isinstance(target, DecimalType):
            return Literal(Decimal(value), target)
        if type(value) is int and target == LONG:
            return Literal(value, LONG)
        if type(value) is int and target == DOUBLE and abs(value) < 1 << 53:
            return Literal(float(value), DOUBLE)
    return Cast(argument, target)


def _find(path: tuple[str, ...], schema: StructType) -> tuple[tuple[str, ...], StructField]:
    names: tuple[str, ...] = ()
    level: DataType = schema
    field: StructField | None = None
    for name in path:
        field = level.get(name) if isinstance(level, StructType) else None
        if field is None:
            raise _unknown_column(path, name, names, level)
        names = (*names, field.name)
        level = field.data_type
    if field is None:
        raise PredicateError(
            "A column of the expression has an empty path. Add the name of the column to the path.",
            expression="",
        )
    return names, field


def _unknown_column(
    path: tuple[str, ...], name: str, parents: tuple[str, ...], level: DataType
) -> PredicateError:
    column = ".".join(path)
    if not isinstance(level, StructType):
        return PredicateError(
            f"Column {column!r} doesn't exist: {'.'.join(parents)!r} has type {level}, which has "
            "no fields. Correct the column's path.",
            expression=column,
        )
    by_lower_name = {field_name.lower(): field_name for field_name in level.names}
    close = difflib.get_close_matches(name.lower(), by_lower_name, n=1)
    if close:
        hint = f"Did you mean {'.'.join((*parents, by_lower_name[close[0]]))!r}?"
    else:
        names = ", ".join(level.names[:20]) + (", ..." if len(level) > 20 else "")
        owner = f"{'.'.join(parents)!r}" if parents else "The table"
        hint = f"{owner} has {names or 'no columns'}."
    return PredicateError(f"Column {column!r} doesn't exist. {hint}", expression=column)


def _name(expression: Expression) -> str:
    match expression:
        case Column(path):
            return ".".join(path)
        case Literal(value, _):
            return "NULL" if value is None else repr(value)
        case Cast(operand, data_type, _):
            return f"CAST({_name(operand)} AS {data_type})"
        case Function(name, arguments):
            return f"{name}({', '.join(map(_name, arguments))})"
        case _:
            return "The condition"


_ExpressionT = TypeVar("_ExpressionT", bound=Expression)


def map_columns(
    expression: _ExpressionT, rename: Callable[[tuple[str, ...]], tuple[str, ...]]
) -> _ExpressionT:
    """Replace the path of each column in an expression by the result of `rename`."""
    renamed: Any = _replaced(expression, Column, lambda column: Column(rename(column.path)))
    assert isinstance(renamed, type(expression))
    return renamed


def replace_columns(expression: Expression, replace: Callable[[Column], Expression]) -> Expression:
    """Replace each column in an expression by the result of `replace`."""
    replaced: Any = _replaced(expression, Column, replace)
    assert isinstance(replaced, Expression)
    return replaced


def map_operands(
    expression: Expression, function: Callable[[Expression], Expression]
) -> Expression:
    """Return an expression in which each operand is replaced by the result of `function`."""
    node: Any = type(expression)
    parts = {f.name: getattr(expression, f.name) for f in dataclasses.fields(node)}
    mapped: Expression = node(**{n: _mapped(part, function) for n, part in parts.items()})
    return mapped


def _mapped(part: Any, function: Callable[[Expression], Expression]) -> Any:
    if isinstance(part, tuple):
        return tuple(_mapped(item, function) for item in part)
    return function(part) if isinstance(part, Expression) else part


def map_literals(expression: _ExpressionT, replace: Callable[[Literal], Literal]) -> _ExpressionT:
    """Replace each literal in an expression by the result of `replace`."""
    replaced: Any = _replaced(expression, Literal, replace)
    assert isinstance(replaced, type(expression))
    return replaced


def _replaced(value: Any, kind: type[Expression], replace: Callable[[Any], Expression]) -> Any:
    if isinstance(value, kind):
        return replace(value)
    if isinstance(value, tuple):
        return tuple(_replaced(item, kind, replace) for item in value)
    if isinstance(value, Expression):
        node: Any = type(value)
        parts = {f.name: getattr(value, f.name) for f in dataclasses.fields(node)}
        return node(**{name: _replaced(part, kind, replace) for name, part in parts.items()})
    return value
