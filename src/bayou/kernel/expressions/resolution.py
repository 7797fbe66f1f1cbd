"""Names and types of expressions: what a column, a constant and a function mean to each other.

The rules are those of Spark SQL in its ANSI mode: a string beside a number, date or timestamp is
read as one, numbers meet in the wider type, a decimal beside a float as double.

Expressions with other columns or constants in the places of theirs.
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
from bayou.kernel.expressions.functions.regular_expressions import like_to_re2
from bayou.kernel.expressions.literals import coerce
from bayou.kernel.expressions.model import (
    And,
    Cast,
    Column,
    Comparison,
    Expression,
    Function,
    In,
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

__all__ = ["field_at", "resolve", "resolve_expression", "type_of", "with_literals", "with_paths"]


COMPARISON_OPERATORS = ("=", "<>", "<", "<=", ">", ">=", "<=>")


def resolve(predicate: Predicate, schema: StructType) -> Predicate:
    """The same predicate with the schema's spelling of names, and a type on every literal.

    Names match without regard to case. Where Spark would cast by itself there are casts. Resolving
    twice changes nothing.

    Raises:
        PredicateError: an unknown column or function, or types that don't go together; names it.
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
        case StartsWith(operand, prefix):
            what = f"searched for the prefix {prefix!r}"
            return StartsWith(_text(operand, schema, what), prefix)
        case Like(operand, pattern, escape):
            like_to_re2(pattern, escape)
            what = f"matched with the pattern {pattern!r}"
            return Like(_text(operand, schema, what), pattern, escape)
        case Column() | Literal() | Cast() | Function():
            value = _value(predicate, schema, BOOLEAN)
            if type_of(value, schema) not in (BOOLEAN, VOID):
                raise PredicateError(
                    f"{_name(predicate)} is a {type_of(value, schema)}, not a condition. Compare "
                    "it with something.",
                    expression=_name(predicate),
                )
            assert isinstance(value, Predicate)
            return value
        case _:
            raise PredicateError(
                f"{type(predicate).__name__} isn't a predicate that is known.",
                expression=repr(predicate),
            )


def resolve_expression(expression: Expression, schema: StructType) -> Expression:
    """`resolve` for any expression."""
    return _value(expression, schema, None)


def type_of(expression: Expression, schema: StructType) -> DataType:
    """Type of a resolved expression."""
    match expression:
        case Column(path):
            return field_at(path, schema).data_type
        case Literal(_, data_type):
            return VOID if data_type is None else data_type
        case Cast(_, data_type, _):
            return data_type
        case Function(name, arguments):
            definition = find(name)
            assert isinstance(definition, Definition)  # macros are gone once it is resolved
            types = tuple(type_of(a, schema) for a in arguments)
            return definition.bind(Call(name=name, arguments=arguments, types=types)).result
        case _:
            return BOOLEAN


def field_at(path: tuple[str, ...], schema: StructType) -> StructField:
    """The field of a path of names.

    Raises:
        PredicateError: there is none.
    """
    names, field = _find(path, schema)
    assert names
    return field


def _comparison(op: str, left: Expression, right: Expression, schema: StructType) -> Comparison:
    if op not in COMPARISON_OPERATORS:
        raise PredicateError(
            f"{op!r} isn't a comparison; there are {', '.join(COMPARISON_OPERATORS)}.",
            expression=op,
        )
    if isinstance(left, Literal):
        right = _value(right, schema, None)
        left = _value(left, schema, type_of(right, schema))
    else:
        left = _value(left, schema, None)
        right = _value(right, schema, type_of(left, schema))
    one, other = type_of(left, schema), type_of(right, schema)
    left, right = _read_text(left, one, other), _read_text(right, other, one)
    _check_comparable(left, right, schema)
    return Comparison(op, left, right)


def _read_text(expression: Expression, data_type: DataType, beside: DataType) -> Expression:
    """A string is read as what it is compared with."""
    if data_type != STRING or beside in (STRING, VOID) or kind_of(beside) is None:
        return expression
    wanted = common_type((data_type, beside))
    return expression if wanted is None else Cast(expression, wanted)


def _in(operand: Expression, values: tuple[Literal, ...], schema: StructType) -> Predicate:
    operand = _value(operand, schema, None)
    wanted = type_of(operand, schema)
    resolved = tuple(coerce(value, wanted) for value in values)
    if wanted == STRING and any(type_of(v, schema) not in (STRING, VOID) for v in resolved):
        checks = tuple(_comparison("=", operand, value, schema) for value in resolved)
        return checks[0] if len(checks) == 1 else Or(checks)
    for value in resolved:
        _check_comparable(operand, value, schema)
    return In(operand, resolved)


def _text(operand: Expression, schema: StructType, what: str) -> Expression:
    value = _value(operand, schema, STRING)
    given = type_of(value, schema)
    if given in (STRING, VOID):
        return value
    raise PredicateError(
        f"{_name(operand)} is a {given}, not a string: it can't be {what}. Cast it to a string.",
        expression=_name(operand),
    )


def _check_comparable(left: Expression, right: Expression, schema: StructType) -> None:
    one, other = type_of(left, schema), type_of(right, schema)
    if comparison_type(one, other) is None:
        raise PredicateError(
            f"{_name(left)} is a {one} and {_name(right)} a {other}: they can't be compared.",
            expression=f"{_name(left)}, {_name(right)}",
        )


def _value(expression: Expression, schema: StructType, other: DataType | None) -> Expression:
    match expression:
        case Column(path):
            return Column(_find(path, schema)[0])
        case Literal():
            return coerce(expression, other)
        case Cast(operand, data_type, safe):
            value = _value(operand, schema, None)
            given = type_of(value, schema)
            if not can_cast(given, data_type):
                raise PredicateError(
                    f"{_name(operand)} is a {given}: it can't be cast to a {data_type}.",
                    expression=_name(operand),
                )
            return Cast(value, data_type, safe)
        case Function(name, arguments):
            return _function(name, tuple(_value(a, schema, None) for a in arguments), schema)
        case Predicate():
            return resolve(expression, schema)
        case _:
            raise PredicateError(
                f"{type(expression).__name__} isn't an expression that is known.",
                expression=repr(expression),
            )


def _function(name: str, arguments: tuple[Expression, ...], schema: StructType) -> Expression:
    definition = find(name)
    if isinstance(definition, Macro):
        least, most = definition.count
        if not least <= len(arguments) <= most:
            count = str(least) if least == most else f"{least} to {most}"
            raise PredicateError(f"{name} takes {count} arguments.", expression=name)
        return _value(definition.expand(*arguments), schema, None)
    types = tuple(type_of(a, schema) for a in arguments)
    if definition.name in ("+", "-") and len(types) == 2 and _TIMES.intersection(types):
        return _value(_moved(definition.name, arguments, types), schema, None)
    binding = definition.bind(Call(name=name, arguments=arguments, types=types))
    converted = tuple(
        _as(argument, given, wanted)
        for argument, given, wanted in zip(arguments, types, binding.arguments, strict=True)
    )
    if definition.name == "startswith" and isinstance(converted[1], Literal):
        prefix = converted[1].value
        if isinstance(prefix, str):
            return StartsWith(converted[0], prefix)
    return Function(definition.name, converted)


_TIMES: frozenset[DataType] = frozenset({DATE, TIMESTAMP, TIMESTAMP_NTZ})


def _moved(sign: str, arguments: tuple[Expression, ...], types: tuple[DataType, ...]) -> Expression:
    """A date plus or minus a number of days."""
    left, right = arguments
    if types[0] == DATE and is_integral(types[1]):
        return call("date_add" if sign == "+" else "date_sub", left, right)
    if sign == "+" and types[1] == DATE and is_integral(types[0]):
        return call("date_add", right, left)
    raise PredicateError(
        f"{types[0]} {sign} {types[1]} isn't supported: days or a constant INTERVAL are added to a "
        "date, an INTERVAL to a timestamp, and datediff gives the days between two.",
        expression=sign,
    )


def _as(argument: Expression, given: DataType, wanted: DataType) -> Expression:
    if given == wanted:
        return argument
    if isinstance(argument, Literal):
        value = argument.value
        if value is None:
            return Literal(None, wanted)
        if type(value) is int and isinstance(wanted, DecimalType):
            return Literal(Decimal(value), wanted)
        if type(value) is int and wanted == LONG:
            return Literal(value, LONG)
        if type(value) is int and wanted == DOUBLE and abs(value) < 1 << 53:
            return Literal(float(value), DOUBLE)
    return Cast(argument, wanted)


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
        raise PredicateError("A column needs a name.", expression="")
    return names, field


def _unknown_column(
    path: tuple[str, ...], name: str, parents: tuple[str, ...], level: DataType
) -> PredicateError:
    text = ".".join(path)
    if not isinstance(level, StructType):
        return PredicateError(
            f"There is no column {text!r}: {'.'.join(parents)!r} is a {level}, it has no fields.",
            expression=text,
        )
    folded = {known.lower(): known for known in level.names}
    close = difflib.get_close_matches(name.lower(), folded, n=1)
    if close:
        hint = f"Did you mean {'.'.join((*parents, folded[close[0]]))!r}?"
    else:
        shown = ", ".join(level.names[:20]) + (", ..." if len(level) > 20 else "")
        where = f"{'.'.join(parents)!r}" if parents else "The table"
        hint = f"{where} has {shown or 'no columns'}."
    return PredicateError(f"There is no column {text!r}. {hint}", expression=text)


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


def with_paths(
    expression: _ExpressionT, rename: Callable[[tuple[str, ...]], tuple[str, ...]]
) -> _ExpressionT:
    """The same expression with what `rename` gives for the path of each column."""
    renamed: Any = _replaced(expression, Column, lambda column: Column(rename(column.path)))
    assert isinstance(renamed, type(expression))
    return renamed


def with_literals(expression: _ExpressionT, replace: Callable[[Literal], Literal]) -> _ExpressionT:
    """The same expression with what `replace` gives for each constant."""
    replaced: Any = _replaced(expression, Literal, replace)
    assert isinstance(replaced, type(expression))
    return replaced


def _replaced(value: Any, kind: type[Expression], replace: Callable[[Any], Expression]) -> Any:
    """Whatever kinds of expressions there are: they are dataclasses of expressions and tuples."""
    if isinstance(value, kind):
        return replace(value)
    if isinstance(value, tuple):
        return tuple(_replaced(item, kind, replace) for item in value)
    if isinstance(value, Expression):
        node: Any = type(value)
        parts = {f.name: getattr(value, f.name) for f in dataclasses.fields(node)}
        return node(**{name: _replaced(part, kind, replace) for name, part in parts.items()})
    return value
