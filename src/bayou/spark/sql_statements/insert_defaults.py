"""`DEFAULT` among the values of `INSERT INTO ... VALUES`."""

from __future__ import annotations

from bayou.errors import StatementError
from bayou.protocol.column_metadata import generation_expressions, identity_columns
from bayou.protocol.schema import StructType
from bayou.spark.expressions.column_defaults import default_literal
from bayou.spark.sql_statements.token_cursor import Words

__all__ = ["without_defaults"]


def without_defaults(
    query: str, names: tuple[str, ...], schema: StructType, *, table: str
) -> tuple[str, tuple[str, ...]]:
    """A query whose `VALUES` say no `DEFAULT`, and the columns that it still gives.

    A column of which all rows say `DEFAULT` is left out, so that the writer fills it; of others the
    value takes the word's place.

    Args:
        table: its path, for errors.

    Raises:
        UnsupportedFeatureError: a default that the kernel can't evaluate.
        StatementError: some rows, but not all, have `DEFAULT` for a column that only the writer
            can fill.
    """
    words = Words(query)
    if not words.take("VALUES") or not words.has_ahead("DEFAULT"):
        return query, names
    rows = [_row(words)]
    while words.take(","):
        rows.append(_row(words))
    if not words.ended or any(len(row) != len(names) for row in rows):
        return query, names  # Spark, or the count of columns, says what is wrong

    def default(name: str) -> str:
        field = schema.get(name)
        return "(NULL)" if field is None else default_literal(schema, field, table=table)

    made = {n.lower() for n in (*generation_expressions(schema), *identity_columns(schema))}
    kept = []
    for number, name in enumerate(names):
        asked = [_is_default(row[number]) for row in rows]
        if all(asked):
            continue
        if any(asked) and name.lower() in made:
            raise StatementError(
                f"Values of column {name!r} are made by the table: give DEFAULT in all rows, or in "
                "none.",
                statement=query,
            )
        for row in rows:
            if _is_default(row[number]):
                row[number] = default(name)
        kept.append(number)
    if not kept:
        kept = [0]
        for row in rows:
            row[0] = default(names[0])
    shown = (", ".join(row[number] for number in kept) for row in rows)
    return f"VALUES {', '.join(f'({row})' for row in shown)}", tuple(names[n] for n in kept)


def _row(words: Words) -> list[str]:
    if not words.begin_with("("):
        return [words.until_words(",", what="a value")]
    return list(words.several(lambda: words.until_words(",", what="a value")))


def _is_default(value: str) -> bool:
    return value.strip().upper() == "DEFAULT"
