"""Conditions and values as users give them: SQL text, or Columns of Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

from bayou.errors import ArgumentError
from bayou.kernel.expressions.model import Predicate
from bayou.kernel.expressions.sql.parser import parse_conjuncts
from bayou.spark.expressions.column_string import column_text, conjunct_texts, connect_column_text
from bayou.spark.target import is_classic

__all__ = ["RowExpression", "condition_of", "values_of"]


_SUBQUERY = re.compile(r"\bselect\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RowExpression:
    """An expression over rows.

    Attributes:
        text: SQL; None where it has a part that only Spark can run, such as a function of Python.
        given: the Column, None where it was given as text.
        parts: of a Column without a text, texts of the operands of its ANDs that have one.
    """

    text: str | None
    given: Any = None
    parts: tuple[str, ...] = ()

    @property
    def column(self) -> Any:
        """For Spark."""
        return F.expr(self.text or "") if self.given is None else self.given

    @property
    def shown(self) -> str:
        """For the history."""
        return str(self.given) if self.text is None else self.text

    @property
    def conjuncts(self) -> list[Predicate]:
        """Operands of its ANDs as far as they can be understood: true wherever it is.

        None where there is a subquery, which may read the very rows that are asked for.
        """
        texts = self.parts if self.text is None else (self.text,)
        if any(_SUBQUERY.search(text) for text in texts):
            return []
        return [part for text in texts for part in parse_conjuncts(text)]

    @property
    def is_default(self) -> bool:
        """Whether it stands for the column's default."""
        return self.text is not None and self.text.strip().upper() == "DEFAULT"


def condition_of(spark: Any, condition: Any, argument: str = "condition") -> RowExpression | None:
    """A condition; None for none.

    Raises:
        ArgumentError: neither text nor a Column.
    """
    return None if condition is None else _expression(spark, condition, argument)


def values_of(spark: Any, values: Any, argument: str) -> dict[str, RowExpression]:
    """New values by column.

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
    found: dict[str, RowExpression] = {}
    for name, value in values.items():
        if not isinstance(name, str):
            raise ArgumentError(
                f"Keys of dict in {argument!r} must contain only strings with column names, found "
                f"{name!r}.",
                argument=argument,
            )
        found[name] = _expression(spark, value, argument)
    return found


def _expression(spark: Any, value: Any, argument: str) -> RowExpression:
    if isinstance(value, str):
        return RowExpression(value)
    if not isinstance(value, Column):
        raise ArgumentError(
            f"{argument!r} takes Columns of Spark or SQL texts, not {value!r}.", argument=argument
        )
    if not is_classic(spark):
        told = connect_column_text(value)
        if told is None:
            raise ArgumentError(
                f"Under Spark Connect {argument!r} takes SQL text, or Columns that have one: "
                "functions of Python and columns taken from a DataFrame have none. Name columns as "
                "in F.col('t.id').",
                argument=argument,
            )
        return RowExpression(told, value)
    written = column_text(spark, value)
    parts = conjunct_texts(spark, value) if written is None else ()
    return RowExpression(written, value, tuple(parts))
