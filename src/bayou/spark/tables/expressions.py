"""Conditions and values as users give them: SQL text, or Columns of Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column

from bayou.errors import ArgumentError
from bayou.spark.tables.column_text import column_text
from bayou.spark.tables.target import is_classic

__all__ = ["condition_text", "value_texts"]


def condition_text(spark: Any, condition: Any, argument: str = "condition") -> str | None:
    """A condition as SQL text, None for none.

    Raises:
        ArgumentError: neither text nor a Column.
    """
    return None if condition is None else _text(spark, condition, argument)


def value_texts(spark: Any, values: Any, argument: str) -> dict[str, str]:
    """New values by column, as SQL texts.

    Raises:
        ArgumentError: no dictionary of texts and Columns by name.
    """
    if values is None:
        raise ArgumentError(f"{argument!r} cannot be None.", argument=argument)
    if not isinstance(values, Mapping):
        raise ArgumentError(
            f"{argument!r} must be a dict, found to be {type(values).__name__}.",
            argument=argument,
        )
    found: dict[str, str] = {}
    for name, value in values.items():
        if not isinstance(name, str):
            raise ArgumentError(
                f"Keys of dict in {argument!r} must contain only strings with column names, found "
                f"{name!r}.",
                argument=argument,
            )
        found[name] = _text(spark, value, argument)
    return found


def _text(spark: Any, value: Any, argument: str) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, Column):
        raise ArgumentError(
            f"{argument!r} takes Columns of Spark or SQL texts, not {value!r}.", argument=argument
        )
    if not is_classic(spark):
        raise ArgumentError(
            f"Under Spark Connect {argument!r} takes SQL text: a Column can't be looked into "
            "there.",
            argument=argument,
        )
    found = column_text(spark, value)
    if found is None:
        raise ArgumentError(
            f"{argument!r} has a part that only Spark can run (a function of yours, or a "
            f"subquery): {value}.",
            argument=argument,
        )
    return found
