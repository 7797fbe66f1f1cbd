"""Values of `?` and `:name` in statements that Spark doesn't get to see."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from bayou.errors import StatementError
from bayou.spark.sql_statements.lexer import Token, tokens
from bayou.spark.sql_statements.token_cursor import quoted_text

__all__ = ["with_parameters"]


def with_parameters(text: str, args: Any, values: Mapping[str, Any]) -> str:
    """A statement with literals in the places of its parameters.

    Args:
        text: the statement.
        args: a list for `?`, a dictionary for `:name`, as of `spark.sql`; None for none.
        values: what stands for `{name}`, DataFrames left out.

    Raises:
        StatementError: a parameter without a value, or a value that has no literal.
    """
    if not args and not values:
        return text
    words = tokens(text)
    pieces, at, number = [], 0, 0
    for index, word in enumerate(words):
        following = words[index + 1] if index + 1 < len(words) else None
        value, end = _UNKNOWN, word.end
        if word.says("?") and isinstance(args, Sequence):
            if number >= len(args):
                raise StatementError(
                    f"The statement has more than the {len(args)} parameters that are given.",
                    statement=text,
                )
            value, number = args[number], number + 1
        elif following is not None and _is_marker(words, index):
            value, end = _named(args, following.text, text), following.end
        elif word.says("{") and following is not None and following.text in values:
            value, end = values[following.text], words[index + 2].end
        if value is not _UNKNOWN:
            pieces += [text[at : word.start], _literal(value, text)]
            at = end
    return "".join((*pieces, text[at:]))


_UNKNOWN: Any = object()


def _is_marker(words: Sequence[Token], index: int) -> bool:
    """`:name`, and not the `a: int` of a struct's type."""
    word, following = words[index], words[index + 1]
    touches = word.end == following.start and following.text.isidentifier()
    if not (word.says(":") and touches):
        return False
    before = words[index - 1] if index else None
    return (
        before is None or before.end < word.start or not (before.is_name or before.says(")", "]"))
    )


def _named(args: Any, name: str, text: str) -> Any:
    if not isinstance(args, Mapping) or name not in args:
        raise StatementError(
            f"The statement has a parameter :{name} that no value is given for: "
            f"sql(text, {{{name!r}: value}}).",
            statement=text,
        )
    return args[name]


def _literal(value: Any, text: str) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case int():
            return str(value)
        case float() if math.isfinite(value):
            return f"CAST('{value!r}' AS DOUBLE)"
        case float():
            return f"CAST('{value}' AS DOUBLE)"
        case Decimal():
            return f"{value:f}"
        case str():
            return quoted_text(value)
        case dt.datetime():
            return f"TIMESTAMP{quoted_text(value.isoformat(sep=' '))}"
        case dt.date():
            return f"DATE'{value.isoformat()}'"
        case bytes() | bytearray():
            return f"X'{value.hex()}'"
        case _:
            raise StatementError(
                f"A parameter is {value!r}, which has no literal in SQL: write it into the "
                "statement.",
                statement=text,
            )
