"""Decides whether the kernel and a Spark session give the same result for an expression.

The kernel evaluates expressions as Spark does in ANSI mode and in UTC. Results can differ for:

- inexact functions, whose results can differ in the last digit
- expressions that depend on a setting such as ANSI mode, if the session has changed the setting
- expressions and casts that depend on the time zone, if the session's time zone isn't UTC
- comparisons of CHAR columns, and of columns with a collation

In a classic session, Spark evaluates these expressions. Two kinds of conditions are exceptions: the
kernel always evaluates the condition of an overwrite and the read option `filter`. `with_zone` adds
the session's time zone to the timestamp strings in these conditions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

from bayou.errors import ArgumentError, PredicateError
from bayou.kernel.expressions.functions import all_functions, inexact_function
from bayou.kernel.expressions.literals import normalize_time_zone, parse_timestamp
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
    operands_of,
    referenced_columns,
)
from bayou.kernel.expressions.resolution import resolve, type_of
from bayou.kernel.expressions.sql.parser import parse_expression, parse_predicate
from bayou.kernel.expressions.types import kind_of
from bayou.protocol.schema import (
    DATE,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    StructField,
    StructType,
)
from bayou.protocol.sql import tokenize
from bayou.spark.expressions.session_settings import ANSI_MODE, changed_rule
from bayou.spark.types import contains_type, same_type

_DATETIME_FUNCTIONS = frozenset(
    name
    for function in all_functions()["Dates and timestamps"]
    for name in (function.name, *function.aliases)
)
_DATE_FUNCTION = re.compile(
    r"year|quarter|month|day(of(month|week|year))?|weekday|weekofyear|last_day|add_months|trunc|"
    r"date_?(add|diff)|date_sub|make_date|to_date|unix_date"
)
"""Regular expression that matches the names of functions of dates.

The results of these functions depend on the time zone only if an argument is a timestamp.
"""
_COMPARISONS = (Column, Literal, Comparison, In, InExpressions, IsNull, And, Or, Not)
_UTC = frozenset({"UTC", "GMT", "Z", "ETC/UTC", "+00:00"})


def is_utc(zone: str) -> bool:
    """Whether a time zone is UTC, in one of Spark's spellings."""
    return zone.upper() in _UTC


def depends_on_zone(expression: Expression, schemas: Iterable[StructType]) -> bool:
    """Whether an expression's value may depend on the time zone."""
    if not _all(expression, _is_zone_independent):
        return True
    fields = {f.name.lower(): f.data_type for schema in schemas for f in schema}
    return any(name in fields and has_timestamps(fields[name]) for name in _names(expression))


def has_timestamps(data_type: DataType) -> bool:
    """Whether a type is or contains TIMESTAMP (not TIMESTAMP_NTZ)."""
    return contains_type(data_type, lambda t: t == TIMESTAMP)


def is_nan_test(expression: Expression) -> bool:
    """Whether an expression is `isnan(x)`.

    If `x` is a float or double, no setting changes the result of `isnan(x)`.
    """
    return isinstance(expression, Function) and expression.name == "isnan"


def with_zone(condition: str, schema: StructType, zone: str, *, name: str) -> str:
    """Add a time zone to timestamp strings without a time zone in the SQL of a condition.

    Args:
        zone: the session's time zone, which is added.
        name: name of the option that contains the condition, for errors.

    Raises:
        ArgumentError: `zone` isn't UTC, the condition depends on the time zone, and one of these is
            true:

            - A part of the condition has an operator or function other than comparisons and
              `isnan`. Parts are the operands of AND, OR and NOT. A part that doesn't depend on the
              time zone is exempt if it has columns, and none of them is a date or timestamp.
            - The condition compares a timestamp with a date, a TIMESTAMP_NTZ or a string column.
            - The condition contains a column that is neither a date nor a timestamp, and a
              timestamp string without a time zone that doesn't follow the word TIMESTAMP. It is
              then unclear whether the string is meant as a timestamp.
    """
    try:
        expression = parse_predicate(condition)
    except PredicateError:
        return condition  # the caller reports the error with the table
    if is_utc(zone) or not depends_on_zone(expression, [schema]):
        return condition
    compares = _compares_times(expression, schema)
    if not compares or _converts_timestamps(expression, schema):
        raise ArgumentError(
            f"{name}: {condition!r} depends on the session's time zone {zone}, but Bayou evaluates "
            "it in UTC. Compare the column with timestamps, such as "
            "ts >= TIMESTAMP'2024-01-05 00:00:00', or set the session's time zone to UTC.",
            argument=name,
        )
    datetime_types = {DATE, TIMESTAMP, TIMESTAMP_NTZ}
    types = {f.name.lower(): f.data_type for f in schema}
    only_datetimes = all(types.get(column) in datetime_types for column in _names(expression))
    zone_name = normalize_time_zone(zone)

    sql_parts, at, typed = [], 0, ""
    for token in tokenize(condition):
        value = token.text
        if (
            token.is_string
            and typed not in ("DATE", "TIMESTAMP_NTZ")
            and _is_timestamp_without_zone(value)
        ):
            time = parse_timestamp(value).isoformat(sep=" ")  # a zone follows complete times only
            if not typed.startswith("TIMESTAMP") and not only_datetimes:
                raise ArgumentError(
                    f"{name}: the time zone of {value!r} in {condition!r} is ambiguous. Write "
                    f"TIMESTAMP'{value}' for the session's time zone {zone}, or '{time}Z' for "
                    "UTC.",
                    argument=name,
                )
            quote = condition[token.end - 1]
            sql_parts += [condition[at : token.start], f"{quote}{time} {zone_name}{quote}"]
            at = token.end
        typed = value.upper() if token.kind == "word" else ""
    return "".join((*sql_parts, condition[at:]))


def _compares_times(condition: Expression, schema: StructType) -> bool:
    """Whether the parts of a condition that may depend on the time zone are only comparisons.

    The parts are the operands of AND, OR and NOT. `isnan` counts as a comparison.
    """
    if isinstance(condition, And | Or | Not):
        return all(_compares_times(operand, schema) for operand in operands_of(condition))
    if _all(condition, lambda e: isinstance(e, _COMPARISONS) or is_nan_test(e)):
        return True
    types = {f.name.lower(): f.data_type for f in schema}
    read = [types.get(name) for name in _names(condition)]
    return (
        bool(read)
        and not any(kind in (DATE, TIMESTAMP, TIMESTAMP_NTZ) for kind in read)
        and not depends_on_zone(condition, [schema])
    )


def _converts_timestamps(condition: Predicate, schema: StructType) -> bool:
    """Whether a condition converts dates, TIMESTAMP_NTZ values or string columns to timestamps.

    The result of such a conversion depends on the time zone.
    """

    def converts(expression: Expression) -> bool:
        match expression:
            case Cast(_, data_type, _):
                return has_timestamps(data_type)
            case Comparison() | In():
                types = {type_of(operand, schema) for operand in operands_of(expression)}
                return TIMESTAMP in types and bool(types & {DATE, TIMESTAMP_NTZ})
            case _:
                return False

    try:
        resolved = resolve(condition, schema)
    except PredicateError:
        return False  # the caller reports the error with the table
    return not _all(resolved, lambda expression: not converts(expression))


def _is_timestamp_without_zone(string: str) -> bool:
    try:
        return parse_timestamp(string).tzinfo is None
    except ValueError:
        return False


def _is_zone_independent(expression: Expression) -> bool:
    match expression:
        case Literal(data_type=data_type) | Cast(data_type=data_type):
            return data_type is None or not has_timestamps(data_type)
        case Function(name=name):
            folded = name.lower()
            return folded not in _DATETIME_FUNCTIONS or _DATE_FUNCTION.fullmatch(folded) is not None
        case _:
            return True


def _names(expression: Expression) -> set[str]:
    return {name.lower() for path in referenced_columns(expression) for name in path}


def _all(expression: Expression, condition: Callable[[Expression], bool]) -> bool:
    return condition(expression) and all(_all(o, condition) for o in operands_of(expression))


_ANSI_INDEPENDENT = (
    Column,
    Literal,
    Comparison,
    In,
    InExpressions,
    IsNull,
    And,
    Or,
    Not,
    StartsWith,
    Like,
)
"""Expressions that don't depend on ANSI mode if each comparison's operands have the same type."""

_SPECIAL_COMPARISON = re.compile(
    r'"__COLLATIONS"|"__CHAR_VARCHAR_TYPE_STRING":"[^"]*\bchar\(', re.IGNORECASE
)
_KINDS: dict[type, str] = {bool: "boolean", int: "integer", str: "string", bytes: "binary"}
_TYPED_OPERANDS = (Comparison, In, InExpressions, StartsWith, Like)


def session_matches_kernel(spark: Any, schemas: Iterable[StructType] = ()) -> bool:
    """Whether kernel and session give the same result for all expressions over these columns.

    Expressions with inexact functions are exempt. Callers check them with `inexact_function`.
    """
    special = any(_has_special_comparison(field) for schema in schemas for field in schema)
    return not special and changed_rule(spark) is None and _is_utc(spark)


def has_subquery(condition: str) -> bool:
    """Whether a condition contains a subquery: a parenthesis that is followed by SELECT."""
    tokens = list(tokenize(condition))
    return any(a.is_keyword("(") and b.is_keyword("SELECT") for a, b in pairwise(tokens))


def check_kernel_compares(condition: str, schema: StructType, *, name: str) -> None:
    """Raise `ArgumentError` if a condition uses a CHAR column or a column with a collation.

    The kernel compares the bytes of strings. Spark compares these columns by other rules.

    Args:
        name: name of the option that contains the condition, for errors.
    """
    try:
        names = _names(parse_predicate(condition))
    except PredicateError:
        return  # the caller reports the error with the table
    for field in schema:
        if field.name.lower() in names and _has_special_comparison(field):
            raise ArgumentError(
                f"{name}: {condition!r} compares column {field.name!r}, which is a CHAR or has a "
                "collation. Spark and Bayou compare the strings of this column by different "
                "rules. Use a condition on other columns, or don't use the option: replace filter "
                "by DataFrame.filter, or replaceWhere by DELETE and an append.",
                argument=name,
            )


def check_session_rules(condition: str, schema: StructType, rule: str, *, name: str) -> None:
    """Raise `ArgumentError` if a condition may depend on a setting that the session has changed.

    Comparisons of date and timestamp columns with constants don't depend on any setting.

    Args:
        rule: name of the changed setting, as returned by `changed_rule`.
        name: name of the option that contains the condition, for errors.
    """
    try:
        expression = parse_predicate(condition)
        resolved = resolve(expression, schema)
    except PredicateError:
        return  # the caller reports the error with the table
    if _is_ansi_independent(expression, [schema]) or _compares_datetimes(resolved, schema):
        return
    problem = "ANSI mode, which is off" if rule == ANSI_MODE else f"the session's setting {rule}"
    action = "set spark.sql.ansi.enabled to true" if rule == ANSI_MODE else "unset this setting"
    raise ArgumentError(
        f"{name}: {condition!r} may depend on {problem}, but Bayou evaluates the condition with "
        "Spark's default settings. Compare columns only with values of their own types, "
        f"{action}, or use DELETE and an append instead of {name}.",
        argument=name,
    )


def _compares_datetimes(resolved: Predicate, schema: StructType) -> bool:
    """Whether a condition contains only comparisons of dates and timestamps with constants."""
    if isinstance(resolved, And | Or | Not):
        operands = operands_of(resolved)
        return all(
            isinstance(operand, Predicate)
            and (_is_ansi_independent(operand, [schema]) or _compares_datetimes(operand, schema))
            for operand in operands
        )
    operands = operands_of(resolved)
    return isinstance(resolved, Comparison | In) and all(
        isinstance(operand, Column | Literal)
        and type_of(operand, schema) in (DATE, TIMESTAMP, TIMESTAMP_NTZ)
        for operand in operands
    )


def matches_session(
    spark: Any,
    expression: Expression,
    schemas: Iterable[StructType],
    *,
    assigned: DataType | None = None,
) -> bool:
    """Whether the kernel and the session give the same value for an expression.

    Args:
        expression: a condition, or a value that UPDATE or MERGE assigns to a column.
        schemas: schemas with the columns of the expression.
        assigned: the type of the column to which the value is assigned; None for a condition.
    """
    schemas = tuple(schemas)
    if inexact_function(expression) is not None:
        return False
    names = _names(expression)
    fields = [field for schema in schemas for field in schema]
    if any(_has_special_comparison(f) and f.name.lower() in names for f in fields):
        return False
    if not _is_ansi_independent(expression, schemas) and changed_rule(spark) is not None:
        return False
    if _is_utc(spark):
        return True
    if assigned is not None and _is_cast_in_zone(expression, assigned, schemas):
        return False
    return isinstance(expression, Column) or not depends_on_zone(expression, schemas)


def assigned_type(name: str, alias: str | None, schemas: Iterable[StructType]) -> DataType | None:
    """Return the type of the column or nested field in a SET clause; None if it doesn't exist.

    Args:
        name: the name in the SET clause; may contain backticks and the alias.
        alias: the target's alias.
        schemas: the table's schema, and schemas of columns that the command may add.
    """
    paths: list[tuple[str, ...]] = [(name,)]
    try:
        column = parse_expression(name)
    except PredicateError:
        column = Literal(None)
    if isinstance(column, Column):
        paths.insert(0, column.path)
        if alias is not None and column.path[0].lower() == alias.lower():
            paths.insert(0, column.path[1:])
    fields = (_field(schema, path) for schema in schemas for path in paths if path)
    return next((field.data_type for field in fields if field is not None), None)


def check_client_evaluates(
    spark: Any,
    sql: str,
    expression: Expression,
    schemas: Iterable[StructType],
    *,
    assigned: DataType | None = None,
) -> None:
    """Raise `PredicateError` if the kernel and the session may give different values.

    Under Spark Connect, row operations run in the client's process, where only the kernel can
    evaluate expressions. Inexact functions don't raise the error, although the last digit of their
    results can differ.

    Args:
        sql: the SQL of the expression.
        expression: a condition, or a value that UPDATE or MERGE assigns to a column.
        assigned: the type of the column to which the value is assigned; None for a condition.
    """
    schemas = tuple(schemas)
    names = set() if isinstance(expression, Column) else _names(expression)
    for field in (field for schema in schemas for field in schema):
        if field.name.lower() in names and _has_special_comparison(field):
            raise _client_error(
                sql,
                f"uses column {field.name!r}, which is a CHAR or has a collation",
                "Use another column, or a classic session.",
            )
    rule = None if _is_ansi_independent(expression, schemas) else changed_rule(spark)
    if rule == ANSI_MODE:
        raise _client_error(
            sql, "depends on ANSI mode, which is off", "Set spark.sql.ansi.enabled to true."
        )
    if rule is not None:
        raise _client_error(sql, f"may depend on {rule}", "Unset this setting.")
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    if is_utc(zone):
        return
    casts = assigned is not None and _is_cast_in_zone(expression, assigned, schemas)
    if casts or _uses_zone(sql, expression, schemas):
        raise _client_error(
            sql,
            f"depends on the session's time zone {zone}",
            "Compare timestamps only with timestamps that have an offset, such as "
            "TIMESTAMP'2024-01-05 00:00:00+02:00', or set spark.sql.session.timeZone to UTC.",
        )


def _client_error(sql: str, problem: str, action: str) -> PredicateError:
    return PredicateError(
        f"{sql}: it {problem}, but under Spark Connect, Bayou evaluates it in the client, in ANSI "
        f"mode and in UTC. {action}",
        expression=sql,
    )


def _uses_zone(sql: str, expression: Expression, schemas: Sequence[StructType]) -> bool:
    """Whether an expression's value may depend on the session's time zone.

    This check is more precise than `depends_on_zone`. It returns False for comparisons of
    timestamps with each other, and with literals that have a time zone.
    """
    if not depends_on_zone(expression, schemas):
        return False
    if not _all_parts(expression, lambda part: _is_zone_free(part, schemas)):
        return True
    typed = ""
    for token in tokenize(sql):
        if (
            token.is_string
            and typed not in ("DATE", "TIMESTAMP_NTZ")
            and _is_timestamp_without_zone(token.text)
        ):
            return True
        typed = token.text.upper() if token.kind == "word" else ""
    return False


def _all_parts(expression: Expression, condition: Callable[[Expression], bool]) -> bool:
    """Whether all parts of an expression satisfy `condition`.

    AND, OR and NOT divide an expression into parts, at any depth.
    """
    if isinstance(expression, And | Or | Not):
        return all(_all_parts(operand, condition) for operand in operands_of(expression))
    return condition(expression)


def _is_zone_free(expression: Expression, schemas: Sequence[StructType]) -> bool:
    if not depends_on_zone(expression, schemas) or isinstance(expression, Column | Literal):
        return True
    operands = operands_of(expression)
    if not isinstance(expression, Comparison | In | InExpressions | IsNull):
        return False
    kinds: set[str | None] = set()
    for operand in operands:
        match operand:
            case Column(path=path):
                kinds |= _kinds_of(path, schemas)
            case Literal(data_type=data_type):
                kinds |= set() if data_type is None else {kind_of(data_type)}
            case _:
                return False
    return isinstance(expression, IsNull) or kinds == {"timestamp"}


def _is_cast_in_zone(
    expression: Expression, assigned: DataType, schemas: Sequence[StructType]
) -> bool:
    """Whether assigning a value to a column needs a cast that depends on the time zone.

    Casts to and from timestamps depend on the time zone. If the value isn't a column or a literal,
    its type is unknown. The result is then True if the column's type contains timestamps.
    """
    if _has_type(expression, assigned, schemas):
        return False
    if isinstance(expression, Column | Literal) and depends_on_zone(expression, schemas):
        return True
    return has_timestamps(assigned)


def _has_type(expression: Expression, data_type: DataType, schemas: Sequence[StructType]) -> bool:
    """Whether an expression is NULL, or is known to have the type `data_type`."""
    match expression:
        case Literal(value=None):
            return True
        case Literal(data_type=literal_type):
            return literal_type == data_type
        case Column(path=path):
            matches = [_field(s, names) for s in schemas for names in (path, path[1:])]
            fields = [field for field in matches if field is not None]
            return bool(fields) and all(same_type(f.data_type, data_type) for f in fields)
        case _:
            return False


def _has_special_comparison(field: StructField) -> bool:
    """Whether a column or one of its nested fields is a CHAR or has a collation."""
    return _SPECIAL_COMPARISON.search(StructType((field,)).to_json()) is not None


def _is_ansi_independent(expression: Expression, schemas: Sequence[StructType]) -> bool:
    if is_nan_test(expression):
        return all(
            isinstance(operand, Column) and _kinds_of(operand.path, schemas) == {"float"}
            for operand in operands_of(expression)
        )
    if not isinstance(expression, _ANSI_INDEPENDENT):
        return False
    if isinstance(expression, _TYPED_OPERANDS) and not _have_one_type(expression, schemas):
        return False  # ANSI mode changes how one operand is cast to the type of the other
    return all(_is_ansi_independent(operand, schemas) for operand in operands_of(expression))


def _have_one_type(expression: Expression, schemas: Sequence[StructType]) -> bool:
    kinds: set[str | None] = set()
    if isinstance(expression, StartsWith | Like):
        kinds.add("string")
    for operand in operands_of(expression):
        match operand:
            case Literal(value=None):
                continue
            case Literal(value=value, data_type=None):
                kinds.add(_KINDS.get(type(value)))
            case Literal(data_type=data_type):
                kinds.add(None if data_type is None else kind_of(data_type))
            case Column(path=path):
                kinds |= _kinds_of(path, schemas)
            case _:
                return False
    return len(kinds) <= 1 and None not in kinds


def _kinds_of(path: tuple[str, ...], schemas: Sequence[StructType]) -> set[str | None]:
    """Return the kinds (`timestamp`, ...; see `kind_of`) of the columns that match a path.

    The first name of the path can be a table's alias. If no column matches, the result is `{None}`.
    """
    kinds = {
        kind_of(field.data_type)
        for schema in schemas
        for names in (path, path[1:])
        if (field := _field(schema, names)) is not None
    }
    return kinds or {None}


def _field(schema: StructType, names: tuple[str, ...]) -> StructField | None:
    field = None
    parent_type: DataType = schema
    for name in names:
        if not isinstance(parent_type, StructType):
            return None
        field = next((f for f in parent_type if f.name.lower() == name.lower()), None)
        if field is None:
            return None
        parent_type = field.data_type
    return field


def _is_utc(spark: Any) -> bool:
    return is_utc(str(spark.conf.get("spark.sql.session.timeZone")))
