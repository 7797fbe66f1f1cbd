"""How values are cast to columns: the settings of Spark and delta-spark for assignments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from bayou.errors import PredicateError, UnsupportedFeatureError
from bayou.protocol.schema import (
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructType,
)
from bayou.spark.jvm.expressions import ansi_cast, legacy_cast
from bayou.spark.session.settings import conf_flag
from bayou.spark.types import contains_type

CastFunction: TypeAlias = Callable[[Any, Any], Any]
"""Function that casts a Column (first argument) to a type of Spark (second argument)."""

STRUCTS_BY_NAME = "spark.databricks.delta.resolveMergeUpdateStructsByName.enabled"
_FOLLOWS_ANSI = "spark.databricks.delta.updateAndMergeCastingFollowsAnsiEnabledFlag"

_NULL_STRUCTS = {
    "insert": ("spark.databricks.delta.insert.preserveNullSourceStructs",),
    "merge": (
        "spark.databricks.delta.merge.preserveNullSourceStructs",
        "spark.databricks.delta.merge.preserveNullSourceStructs.updateStar",
    ),
}
"""delta-spark's settings for NULL structs, by command. UPDATE uses the settings of MERGE."""

_NUMBERS = (BYTE, SHORT, INTEGER, LONG, FLOAT, DOUBLE)
"""Numeric types; each type can be cast to all later types without an overflow."""

_INTEGER_DIGITS = {BYTE: 3, SHORT: 5, INTEGER: 10, LONG: 20}
_AS_DECIMAL: dict[DataType, DecimalType] = {
    **{t: DecimalType(digits, 0) for t, digits in _INTEGER_DIGITS.items()},
    FLOAT: DecimalType(14, 7),
    DOUBLE: DecimalType(30, 15),
}


def store_assignment_policy(spark: Any) -> str:
    """Return the session's store assignment policy: `ANSI`, `LEGACY` or `STRICT`."""
    return str(spark.conf.get("spark.sql.storeAssignmentPolicy", "ANSI")).upper()


def row_operation_policy(spark: Any) -> str:
    """Return the store assignment policy of UPDATE and MERGE: `ANSI`, `LEGACY` or `STRICT`.

    By default, this is the session's store assignment policy. If delta-spark's setting
    `updateAndMergeCastingFollowsAnsiEnabledFlag` is true, `spark.sql.ansi.enabled` decides: the
    policy is `ANSI` if this setting is true, otherwise `LEGACY`.
    """
    if not conf_flag(spark, _FOLLOWS_ANSI):
        return store_assignment_policy(spark)
    return "ANSI" if conf_flag(spark, "spark.sql.ansi.enabled", default=True) else "LEGACY"


def structs_by_name(spark: Any) -> bool:
    """Whether UPDATE and MERGE match the fields of structs by name instead of by position."""
    return conf_flag(spark, STRUCTS_BY_NAME, default=True)


def check_null_structs(
    spark: Any, schema: StructType, *, operation: Literal["insert", "merge"], table: str
) -> None:
    """Check that delta-spark's settings `preserveNullSourceStructs` are true.

    If one of these settings is false, delta-spark writes a NULL struct as a struct whose fields are
    all NULL. Bayou always writes NULL.

    Raises:
        UnsupportedFeatureError: a setting for `operation` is false, and the table has structs.
    """
    for setting in _NULL_STRUCTS[operation]:
        if conf_flag(spark, setting, default=True):
            continue
        if any(contains_type(f.data_type, lambda t: isinstance(t, StructType)) for f in schema):
            raise UnsupportedFeatureError(
                f"{table}: the setting {setting} is false. The table has structs, and Bayou writes "
                "a NULL struct as if the setting were true. Unset this setting.",
                table=table,
                features=[setting],
            )


def assignment_cast(policy: str) -> CastFunction:
    """Return the function that casts a Column to a column's type under a store assignment policy.

    If a value doesn't fit the type, the function for LEGACY returns NULL or a wrapped number. The
    function for ANSI and STRICT raises an error.
    """
    return legacy_cast if policy == "LEGACY" else ansi_cast


def check_assignment(
    policy: str, source: DataType, target: DataType, *, column: str, table: str
) -> None:
    """Raise `PredicateError` if the policy is STRICT and `source` can't be up-cast to `target`.

    In an up-cast, all values of `source` fit into `target`. Fields of structs are compared by name.
    Fields that only one of the types has are ignored.
    """
    if policy == "STRICT":
        _check(source, target, column, table)


def _check(source: DataType, target: DataType, column: str, table: str) -> None:
    match source, target:
        case StructType(), StructType():
            for field in source:
                known = target.get(field.name)
                if known is not None:
                    _check(field.data_type, known.data_type, f"{column}.{known.name}", table)
        case ArrayType(), ArrayType():
            _check(source.element_type, target.element_type, f"{column}.element", table)
        case MapType(), MapType():
            _check(source.key_type, target.key_type, f"{column}.key", table)
            _check(source.value_type, target.value_type, f"{column}.value", table)
        case _ if target != VOID and not _can_up_cast(source, target):
            raise PredicateError(
                f"{table}: cannot up cast the value of column {column} from {source} to {target}, "
                "because spark.sql.storeAssignmentPolicy is STRICT (CANNOT_UP_CAST_DATATYPE). Cast "
                "the value explicitly, or set the policy to ANSI.",
                expression=column,
            )


def _can_up_cast(source: DataType, target: DataType) -> bool:
    """Whether each value of a type fits another type, as Spark's `Cast.canUpCast` decides."""
    if source in (target, VOID):
        return True
    if source in _NUMBERS and target in _NUMBERS:
        return _NUMBERS.index(source) < _NUMBERS.index(target)
    if isinstance(target, DecimalType):
        decimal = source if isinstance(source, DecimalType) else _AS_DECIMAL.get(source)
        return decimal is not None and _contains(target, decimal)
    if isinstance(source, DecimalType) and target in _INTEGER_DIGITS:
        return _contains(_AS_DECIMAL[target], source)
    if target in (TIMESTAMP, TIMESTAMP_NTZ):
        return source in (DATE, TIMESTAMP, TIMESTAMP_NTZ)
    return target == STRING and isinstance(source, PrimitiveType | DecimalType)


def _contains(wide: DecimalType, narrow: DecimalType) -> bool:
    digits = wide.precision - wide.scale, narrow.precision - narrow.scale
    return digits[0] >= digits[1] and wide.scale >= narrow.scale
