"""Session settings that change the results of expressions."""

from __future__ import annotations

from typing import Any

from bayou.protocol.schema import TIMESTAMP, TIMESTAMP_NTZ, DataType

ANSI_MODE = "spark.sql.ansi.enabled"
_TIMESTAMP_TYPE = "spark.sql.timestampType"
_RULES = {
    ANSI_MODE: "true",
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
    _TIMESTAMP_TYPE: "timestamp_ltz",
}
"""Settings that change the results of expressions, with the values that the kernel supports."""

_TIME_PARSER = "spark.sql.legacy.timeParserPolicy"


def changed_rule(spark: Any) -> str | None:
    """Return the name of a setting whose value the kernel doesn't support; None if there is none.

    With such a value, Spark and the kernel can evaluate an expression to different results.
    """
    for name, value in _RULES.items():
        if str(spark.conf.get(name, value)).strip().lower() != value:
            return name
    legacy = str(spark.conf.get(_TIME_PARSER, "exception")).strip().lower() == "legacy"
    return _TIME_PARSER if legacy else None


def timestamp_type(spark: Any) -> DataType:
    """Return the type that `TIMESTAMP` names in the definitions of columns in the session's SQL."""
    name = str(spark.conf.get(_TIMESTAMP_TYPE, "TIMESTAMP_LTZ")).strip().upper()
    return TIMESTAMP_NTZ if name == "TIMESTAMP_NTZ" else TIMESTAMP
