"""Whether the kernel evaluates an expression as Spark does in a session.

The kernel evaluates expressions as Spark does in ANSI mode and in UTC. Inexact functions, whose
results may differ in the last digit, are evaluated by Spark. If the session has ANSI mode off, or
a setting of `_RULES` with another value than the kernel's, Spark also evaluates expressions that
may depend on these settings. If the session's time zone isn't UTC, Spark also evaluates expressions
that depend on the time zone, and values whose cast to the type of the assigned column depends on
it. The condition of an overwrite is passed to the kernel as a string, so `with_zone` adds the
session's time zone to timestamps in the string.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
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
from bayou.spark.types import contains_type, same_type

_DATETIME_FUNCTIONS = frozenset(
    name
    for function in all_functions()["Dates and timestamps"]
    for name in (function.name, *function.aliases)
)
_COMPARISONS = (Column, Literal, Comparison, In, InExpressions, IsNull, And, Or, Not)
_UTC = frozenset({"UTC", "GMT", "Z", "ETC/UTC", "+00:00"})


def is_utc(zone: str) -> bool:
    """Whether a time zone is UTC, under any of Spark's names for it."""
    return zone.upper() in _UTC


def depends_on_zone(expression: Expression, schemas: Iterable[StructType]) -> bool:
    """Whether an expression's value may depend on the time zone."""
    if not _all(expression, _is_timeless):
        return True
    fields = {f.name.lower(): f.data_type for schema in schemas for f in schema}
    return any(name in fields and has_timestamps(fields[name]) for name in _names(expression))


def has_timestamps(data_type: DataType) -> bool:
    """Whether a type is or contains TIMESTAMP, the type of timestamps with time zone semantics."""
    return contains_type(data_type, lambda t: t == TIMESTAMP)


def with_zone(condition: str, schema: StructType, zone: str, *, name: str) -> str:
    """Add the session's time zone to those timestamps of a condition that have no time zone.

    Raises:
        ArgumentError: the condition can't be converted. It uses timestamp functions, compares a
            timestamp with a date, a TIMESTAMP_NTZ or a string column, or compares a string that
            looks like a timestamp with a column of another type.
    """
    try:
        expression = parse_predicate(condition)
    except PredicateError:
        return condition  # the caller reports the error with the table
    if is_utc(zone) or not depends_on_zone(expression, [schema]):
        return condition
    if not _all(expression, lambda e: isinstance(e, _COMPARISONS)) or _converts_timestamps(
        expression, schema
    ):
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

    pieces, at, typed = [], 0, ""
    for token in tokenize(condition):
        value = token.text
        if (
            token.is_string
            and typed not in ("DATE", "TIMESTAMP_NTZ")
            and _is_timestamp_without_zone(value)
        ):
            if not typed.startswith("TIMESTAMP") and not only_datetimes:
                raise ArgumentError(
                    f"{name}: the time zone of {value!r} in {condition!r} is ambiguous. Write "
                    f"TIMESTAMP'{value}' for the session's time zone {zone}, or '{value}Z' for "
                    "UTC.",
                    argument=name,
                )
            pieces += [condition[at : token.end - 1], " ", zone_name]
            at = token.end - 1
        typed = value.upper() if token.kind == "word" else ""
    return "".join((*pieces, condition[at:]))


def _converts_timestamps(condition: Predicate, schema: StructType) -> bool:
    """Whether a comparison converts a date, a TIMESTAMP_NTZ or a string column to a timestamp.

    The result of the conversion depends on the time zone.
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


def _is_timeless(expression: Expression) -> bool:
    match expression:
        case Literal(data_type=data_type) | Cast(data_type=data_type):
            return data_type is None or not has_timestamps(data_type)
        case Function(name=name):
            return name.lower() not in _DATETIME_FUNCTIONS
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
"""Expressions whose value doesn't depend on ANSI mode if all their operands have one type."""

_SPECIAL_COMPARISON = re.compile(
    r'"__COLLATIONS"|"__CHAR_VARCHAR_TYPE_STRING":"[^"]*\bchar\(', re.IGNORECASE
)
_KINDS: dict[type, str] = {bool: "boolean", int: "integer", str: "string", bytes: "binary"}
_TYPED_OPERANDS = (Comparison, In, InExpressions, StartsWith, Like)


def session_matches_kernel(spark: Any, schemas: Iterable[StructType] = ()) -> bool:
    """Whether the kernel evaluates expressions over these columns as the session does.

    The answer doesn't hold for expressions with inexact functions; check them with
    `inexact_function`.
    """
    special = any(_has_special_comparison(field) for schema in schemas for field in schema)
    return not special and changed_rule(spark) is None and _is_utc(spark)


def check_kernel_compares(condition: str, schema: StructType, *, name: str) -> None:
    """Raise `ArgumentError` if a condition uses a column that is a CHAR or has a collation.

    Spark doesn't compare the values of these columns by their bytes, but the kernel does.
    """
    try:
        names = _names(parse_predicate(condition))
    except PredicateError:
        return  # the caller reports the error with the table
    for field in schema:
        if field.name.lower() in names and _has_special_comparison(field):
            raise ArgumentError(
                f"{name}: {condition!r} compares column {field.name!r}, which is a CHAR or has a "
                "collation. Spark and Bayou compare its strings by different rules. Use DELETE and "
                "an append, or a condition on other columns.",
                argument=name,
            )


def check_session_rules(condition: str, schema: StructType, rule: str, *, name: str) -> None:
    """Raise `ArgumentError` if a condition may depend on a setting that the session has changed.

    A string that is compared with a date or timestamp column is a value of the column's type by
    every setting, provided that it can be cast.

    Args:
        rule: the setting, as `changed_rule` returns it.
    """
    try:
        expression = parse_predicate(condition)
        resolved = resolve(expression, schema)
    except PredicateError:
        return  # the caller reports the error with the table
    if _is_ansi_independent(expression, [schema]) or _compares_datetimes(resolved, schema):
        return
    problem = "ANSI mode, which is off" if rule == _ANSI else f"the session's setting {rule}"
    action = "Set it to true" if rule == _ANSI else "Unset it"
    raise ArgumentError(
        f"{name}: {condition!r} may depend on {problem}, but Bayou evaluates it in ANSI mode. "
        f"{action}, use DELETE and an append, or compare columns only with values of their own "
        "types.",
        argument=name,
    )


def _compares_datetimes(resolved: Predicate, schema: StructType) -> bool:
    """Whether a condition only compares dates and timestamps with constants, as resolved."""
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
    """Whether the kernel evaluates an expression as the session does.

    Args:
        assigned: type of the column to which the value is assigned; None for a condition.
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
    """Return the type of the column or nested field that a SET clause names; None if unknown.

    Args:
        name: as the user wrote it: with or without backticks, and with or without `alias`.
        alias: the target's alias.
        schemas: the table's schema, then schemas of columns that the command may add.
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
    """Raise `PredicateError` if kernel and session may evaluate an expression differently.

    With Spark Connect, row operations run in the client's process, where Spark can't evaluate
    their expressions instead of the kernel. Inexact functions are permitted.

    Args:
        sql: the string from which `expression` was parsed.
        assigned: type of the column to which the value is assigned; None for a condition.
    """
    schemas = tuple(schemas)
    names = set() if isinstance(expression, Column) else _names(expression)
    for field in (field for schema in schemas for field in schema):
        if field.name.lower() in names and _has_special_comparison(field):
            raise _not_as_in_session(
                sql,
                f"uses column {field.name!r}, which is a CHAR or has a collation",
                "Use another column, or a classic session.",
            )
    rule = None if _is_ansi_independent(expression, schemas) else changed_rule(spark)
    if rule == _ANSI:
        raise _not_as_in_session(
            sql, "depends on ANSI mode, which is off", "Set spark.sql.ansi.enabled to true."
        )
    if rule is not None:
        raise _not_as_in_session(sql, f"may depend on {rule}", "Unset this setting.")
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    if is_utc(zone):
        return
    casts = assigned is not None and _is_cast_in_zone(expression, assigned, schemas)
    if casts or _uses_zone(sql, expression, schemas):
        raise _not_as_in_session(
            sql,
            f"depends on the session's time zone {zone}",
            "Compare timestamps only with timestamps that have an offset, such as "
            "TIMESTAMP'2024-01-05 00:00:00+02:00', or set spark.sql.session.timeZone to UTC.",
        )


def _not_as_in_session(sql: str, problem: str, action: str) -> PredicateError:
    return PredicateError(
        f"{sql}: it {problem}, but with Spark Connect Bayou evaluates it in the client, in ANSI "
        f"mode and in UTC. {action}",
        expression=sql,
    )


def _uses_zone(sql: str, expression: Expression, schemas: Sequence[StructType]) -> bool:
    """Whether an expression's value may depend on the time zone; more exact than `depends_on_zone`.

    Comparing timestamps with each other, or with literals that have a time zone, doesn't depend
    on the session's time zone.
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
    """Whether all operands of AND, OR and NOT, at any depth, satisfy `condition`."""
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
    """Whether assigning a value casts it to or from a timestamp, which depends on the time zone.

    A value that isn't a column or a literal counts as a timestamp only if the column has them.
    """
    if _has_type(expression, assigned, schemas):
        return False
    if isinstance(expression, Column | Literal) and depends_on_zone(expression, schemas):
        return True
    return has_timestamps(assigned)


def _has_type(expression: Expression, data_type: DataType, schemas: Sequence[StructType]) -> bool:
    """Whether an expression needs no cast to `data_type`, a type that contains timestamps."""
    match expression:
        case Literal(value=None):
            return True
        case Literal(data_type=own):
            return own == data_type
        case Column(path=path):
            found = [_field(s, names) for s in schemas for names in (path, path[1:])]
            fields = [field for field in found if field is not None]
            return bool(fields) and all(same_type(f.data_type, data_type) for f in fields)
        case _:
            return False


def _has_special_comparison(field: StructField) -> bool:
    """Whether Spark compares a column's values by a collation, or as padded strings (CHAR)."""
    return _SPECIAL_COMPARISON.search(StructType((field,)).to_json()) is not None


def _is_ansi_independent(expression: Expression, schemas: Sequence[StructType]) -> bool:
    if not isinstance(expression, _ANSI_INDEPENDENT):
        return False
    if isinstance(expression, _TYPED_OPERANDS) and not _have_one_type(expression, schemas):
        return False  # ANSI mode has other rules to cast one operand to the other's type
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
    """Kinds (`kind_of`) of the columns that a path may refer to; `{None}` if there is no column.

    The first name of the path may be a table alias.
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
    within: DataType = schema
    for name in names:
        if not isinstance(within, StructType):
            return None
        field = next((f for f in within if f.name.lower() == name.lower()), None)
        if field is None:
            return None
        within = field.data_type
    return field


_ANSI = "spark.sql.ansi.enabled"
_RULES = {
    _ANSI: "true",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.function.concatBinaryAsString": "false",
    "spark.sql.function.eltOutputAsString": "false",
    "spark.sql.legacy.castComplexTypesToString.enabled": "false",
    "spark.sql.legacy.decimal.retainFractionDigitsOnTruncate": "false",
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled": "false",
    "spark.sql.legacy.integralDivide.returnBigint": "true",
    "spark.sql.legacy.literal.pickMinimumPrecision": "true",
    "spark.sql.legacy.lpadRpadAlwaysReturnString": "false",
    "spark.sql.mapKeyDedupPolicy": "exception",
}
"""Settings that change the results of expressions, and the values with which the kernel agrees."""

_TIME_PARSER = "spark.sql.legacy.timeParserPolicy"


def changed_rule(spark: Any) -> str | None:
    """Return a setting with which the session's results may differ from the kernel's, or None."""
    for name, value in _RULES.items():
        if str(spark.conf.get(name, value)).strip().lower() != value:
            return name
    legacy = str(spark.conf.get(_TIME_PARSER, "exception")).strip().lower() == "legacy"
    return _TIME_PARSER if legacy else None


def _is_utc(spark: Any) -> bool:
    return is_utc(str(spark.conf.get("spark.sql.session.timeZone")))
