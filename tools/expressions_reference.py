"""Generates the reference page of expressions in filters, constraints and generated columns."""

from __future__ import annotations

from collections.abc import Iterator

from bayou.kernel.expressions.functions import all_functions

__all__ = ["page"]

_HEAD = """# Expressions

Filters (`filter="day = '2024-01-05' AND id > 10"`), CHECK constraints and generated columns are
expressions. They are SQL in Spark's dialect, parsed by `bayou.kernel.expressions.sql.parser`, or
objects of [bayou.kernel.expressions.model](bayou.kernel.expressions.model.md). The kernel's
evaluator is the default `ExpressionHandler` of every engine.

Expressions have the semantics of Spark 4 with its default settings:

- ANSI mode: an overflow, a division by zero, a string that isn't a number, and an invalid cast are
  errors (`EvaluationError`), not NULL. `TRY_CAST` returns NULL instead. Operands after a FALSE of
  `AND` and branches of `CASE` that aren't taken aren't evaluated.
- Logic has three values. A filter selects the rows for which it is TRUE.
- The time zone is UTC: for literals of timestamps without a time zone, casts, `hour` and similar
  functions.
- NaN equals itself and is greater than every other number; -0.0 equals 0.0.
- Names are case-insensitive; `a.b` is a field of a struct.
- Strings are compared by their UTF-8 bytes. A string that is compared with a number, date or
  timestamp is converted to its type.

Differences from Spark: the session's time zone is always UTC; strings are converted to timestamps
of the years 1 to 9999 only; bytes that aren't UTF-8 become U+FFFD in a string; decimals of 38
digits are compared exactly; `repeat`, `space`, `lpad`, `rpad` and `replace` don't return more than
16,777,216 characters from a shorter string. `tests/kernel/expressions/recorded` has about 1,900
expressions with their results in Spark, which tests compare with the evaluator.

Results of these functions may differ from Java's in the last digit: INEXACT.
In a Spark session, Spark evaluates the conditions and values of DELETE, UPDATE and MERGE that use
them. Generated columns, CHECK constraints and column invariants must have the same value in every
engine: a table that uses one of these functions there can be read but not written
(`UnsupportedFeatureError`).

## Conditions

`=`, `==`, `<>`, `!=`, `<`, `<=`, `>`, `>=`, `<=>`, `IS [NOT] DISTINCT FROM`, `AND`, `OR`, `NOT`,
`IN (...)` of constants or expressions, `BETWEEN`, `IS [NOT] NULL`, `IS [NOT] TRUE`, `IS [NOT]
FALSE`, `LIKE` and `ILIKE` with a constant pattern, `ESCAPE`, `LIKE ANY`, `LIKE ALL`, `RLIKE`.
In a comparison, put another comparison, `IN`, `BETWEEN` or `LIKE` on the right side in parentheses.
After `||`, put `+` and `-` in parentheses.

## Constants

Strings (`'it''s'`, `"..."`, `r'...'`, with Spark's escapes), `X'00ff'`, `5`, `5L`, `5S`, `5Y`,
`1.50`, `1.5BD`, `1e3`, `2.5D`, `2.5F`, `TRUE`, `FALSE`, `NULL`, `DATE'2024-01-05'`,
`TIMESTAMP'2024-01-05 10:00:00'` (optionally with a time zone), `TIMESTAMP_NTZ'...'`. Intervals
such as `INTERVAL 1 DAY` and `INTERVAL '1-2' YEAR TO MONTH` can only be added to or subtracted from
a date or timestamp.

## Casts

`CAST(a AS type)`, `a::type` and `TRY_CAST(a AS type)` between `BOOLEAN`, `TINYINT`, `SMALLINT`,
`INT`, `BIGINT`, `FLOAT`, `DOUBLE`, `DECIMAL(p, s)`, `STRING`, `BINARY`, `DATE`, `TIMESTAMP` and
`TIMESTAMP_NTZ`, if Spark's ANSI mode supports the cast.

## Data skipping

A comparison, `IN`, `IS NULL` or `LIKE 'prefix%'` on a column skips files by their statistics, also
under `NOT`, `AND` and `OR`. So does a condition on an order-preserving function of a column (marked
below) whose other arguments are constants, and on an order-preserving cast. Any expression on
partition columns only is evaluated for every file. Conditions on the source of a generated
partition column (`day DATE GENERATED ALWAYS AS (CAST(ts AS DATE))`) skip partitions; for timestamps
the condition allows for other time zones, because the writer may have used one.
"""


def page() -> str:
    """Return the content of `docs/reference/expressions.md`."""
    return "".join(_parts())


def _parts() -> Iterator[str]:
    inexact = [
        f"`{f.name}`"
        for fs in all_functions().values()
        for f in fs
        if not getattr(f, "exact", True)
    ]
    yield _HEAD.replace("INEXACT", ", ".join(inexact))
    yield "\n## Functions\n\nAn unknown function is a `PredicateError`.\n"
    for heading, functions in all_functions().items():
        yield f"\n### {heading}\n\n| function | returns | preserves order |\n|---|---|---|\n"
        for function in functions:
            ordered = "yes" if getattr(function, "monotonicity", None) is not None else ""
            yield f"| {_code(function.signature)} | {_cell(function.summary)} | {ordered} |\n"


def _code(signature: str) -> str:
    return f"`{_cell(signature)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
