"""The page of expressions: what filters, constraints and generated columns may say."""

from __future__ import annotations

from collections.abc import Iterator

from bayou.kernel.expressions.functions import ALL

__all__ = ["page"]

_HEAD = """# Expressions

Filters (`filter="day = '2024-01-05' AND id > 10"`), CHECK constraints and generated columns are
expressions: SQL text in Spark's dialect, parsed by `bayou.kernel.expressions.sql.parser`, or values
of [bayou.kernel.expressions.model](bayou.kernel.expressions.model.md) built by hand. One evaluator,
in the kernel, gives them their values; it is the default `ExpressionHandler` of every engine.

They mean what they mean in Spark 4 with its defaults:

- ANSI mode: an overflow, a division by zero, a text that isn't a number, a value that a cast can't
  take are errors (`EvaluationError`), not NULL. `TRY_CAST` gives NULL instead. What stands behind a
  FALSE of `AND`, or in a branch of `CASE` that isn't taken, isn't evaluated.
- Logic has three values. A filter takes the rows for which it is TRUE.
- The time zone is UTC: for timestamps without zone in literals, for casts, for `hour` and its like.
- NaN equals itself and is above every other number; -0.0 equals 0.0.
- Names match without regard to case; `a.b` reaches into structs.
- Strings compare by their UTF-8 bytes. A string beside a number, date or timestamp is read as one.

Where they differ from Spark: the session's time zone is always UTC; texts are read as times of
the years 1 to 9999; bytes that aren't UTF-8 become U+FFFD in a string; a decimal of 38 digits and
another are compared exactly. `tests/kernel/expressions/recorded` has some 1,900 expressions with
what Spark made of them, which tests compare with the evaluator.

## Conditions

`=`, `==`, `<>`, `!=`, `<`, `<=`, `>`, `>=`, `<=>`, `IS [NOT] DISTINCT FROM`, `AND`, `OR`, `NOT`,
`IN (...)` of constants or expressions, `BETWEEN`, `IS [NOT] NULL`, `IS [NOT] TRUE`, `IS [NOT]
FALSE`, `LIKE` and `ILIKE` with a constant pattern, `ESCAPE`, `LIKE ANY`, `LIKE ALL`, `RLIKE`.

## Constants

Strings (`'it''s'`, `"..."`, `r'...'`, with Spark's escapes), `X'00ff'`, `5`, `5L`, `5S`, `5Y`,
`1.50`, `1.5BD`, `1e3`, `2.5D`, `2.5F`, `TRUE`, `FALSE`, `NULL`, `DATE'2024-01-05'`,
`TIMESTAMP'2024-01-05 10:00:00'` (with a zone if you like), `TIMESTAMP_NTZ'...'`; `INTERVAL 1 DAY`,
`INTERVAL '1-2' YEAR TO MONTH` and the like beside `+` and `-` with a date or timestamp only.

## Casts

`CAST(a AS type)`, `a::type` and `TRY_CAST(a AS type)` between `BOOLEAN`, `TINYINT`, `SMALLINT`,
`INT`, `BIGINT`, `FLOAT`, `DOUBLE`, `DECIMAL(p, s)`, `STRING`, `BINARY`, `DATE`, `TIMESTAMP` and
`TIMESTAMP_NTZ`, where Spark's ANSI mode has such a cast.

## What skips files

A comparison, `IN`, `IS NULL` or `LIKE 'prefix%'` on a column skips files by their statistics,
under `NOT`, `AND` and `OR` too. So does one on a function of a column that keeps its order (marked
below), with constants as the other arguments, and on a cast that keeps it. Expressions over
partition columns alone are evaluated for every file, whatever they are. Conditions on the source of
a generated partition column (`day DATE GENERATED ALWAYS AS (CAST(ts AS DATE))`) skip partitions;
because a writer may have had another time zone, for timestamps they leave room for it.
"""


def page() -> str:
    """The text of `docs/reference/expressions.md`."""
    return "".join(_parts())


def _parts() -> Iterator[str]:
    yield _HEAD
    yield "\n## Functions\n\nThere are these and no others. An unknown one is a `PredicateError`.\n"
    for heading, functions in ALL.items():
        yield f"\n### {heading}\n\n| function | gives | keeps order |\n|---|---|---|\n"
        for function in functions:
            ordered = "yes" if getattr(function, "directions", None) is not None else ""
            yield f"| {_code(function.signature)} | {_cell(function.summary)} | {ordered} |\n"


def _code(signature: str) -> str:
    return f"`{_cell(signature)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
