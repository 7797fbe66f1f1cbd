"""`bayou.spark.sql`: Delta's statements, and queries of Delta tables by path, version and time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pyspark.errors import DateTimeException
from pyspark.sql import DataFrame

from bayou.errors import StatementError
from bayou.spark.hooks.hooks import check_session, plain_sql
from bayou.spark.hooks.requests import SqlRequest
from bayou.spark.sql_statements.context import Statement, StatementContext, location_of
from bayou.spark.sql_statements.parser import (
    NotUnderstood,
    changes_rows,
    first_word,
    is_ours,
    is_query,
    parse_statement,
    with_parameters,
)
from bayou.spark.sql_statements.table_references import (
    TableReference,
    table_candidates,
    table_references,
)
from bayou.spark.sql_statements.token_cursor import glanced_tokens

__all__ = ["answer_sql", "sql"]


def sql(spark: Any, text: str, args: Any = None, **frames: Any) -> Any:
    """Run a SQL statement: what `spark.sql` takes, and what Spark refuses for Delta tables.

    Queries may name tables as ``delta.`/path` ``, with `VERSION AS OF 12` or `TIMESTAMP AS OF
    expression` behind them (also behind a name of the session catalog that stands for a Delta
    table), and as `table_changes(table, start, end)`. Delta's statements (INSERT, DELETE, UPDATE,
    MERGE, OPTIMIZE, VACUUM, RESTORE, CREATE TABLE, ALTER TABLE, ...) give the frames that
    delta-spark gives. `table` is ``delta.`/path` ``, `'/path'` or a name. A temporary view over
    such a query keeps its versions. Everything else goes to Spark as it is.

    Args:
        spark: a session, classic or Connect; names of Delta tables resolve in a classic one only.
        text: one statement.
        args: values of `?` or `:name`, as of `spark.sql`.
        frames: DataFrames and values for `{name}` in the text, as of `spark.sql`.

    Returns:
        A DataFrame.

    Raises:
        StatementError: a statement of ours that can't be understood, or a name in it that stands
            for no Delta table.
        BayouError: the statement can't be; see the methods of `DeltaTable`.
    """
    check_session(spark)
    answer = _answered(spark, text, args, frames)
    return plain_sql(spark, text, args, **frames) if answer is NotImplemented else answer


def answer_sql(request: SqlRequest) -> Any:
    """`spark.sql` of an enabled session: statements that Spark would refuse, as `sql` runs them."""
    text, first = request.text, first_word(request.text)
    if not (is_query(first) or is_ours(first) or "delta" in text.lower()):
        return NotImplemented
    looked_at = changes_rows(first) and len(text) > _LONG
    if (looked_at or not is_ours(first)) and not _names_ours(request.spark, text):
        return NotImplemented
    try:
        glanced_tokens(request.text)
    except StatementError:  # Spark says it better: it knows the line
        return NotImplemented
    return _answered(request.spark, request.text, request.args, dict(request.frames))


_LONG = 1000
"""Characters from which on it is quicker to look the names of a statement's tables up, than to take
it apart and see then that its table is Spark's."""


def _answered(spark: Any, text: str, args: Any, frames: dict[str, Any]) -> Any:
    if is_ours(first_word(text)):
        answer = _stated(spark, text, args, frames)
        if answer is not NotImplemented:
            return answer
    references = _ours(spark, text)
    if not references:
        return NotImplemented
    return _query(spark, text, references, args, frames)


def _stated(spark: Any, text: str, args: Any, frames: dict[str, Any]) -> Any:
    """What a statement of ours gives; NotImplemented for any other."""
    statement = parse_statement(text)
    if statement is None:
        return NotImplemented
    values = {k: v for k, v in frames.items() if not isinstance(v, DataFrame)}
    if args or values:
        statement, text = _bound(statement, text, args, values)
    given = {k: v for k, v in frames.items() if isinstance(v, DataFrame)}
    context = StatementContext(
        spark=spark,
        text=text,
        query=partial(_frame, spark, frames=given),
        names_tables=lambda query: bool(_ours(spark, query)),
    )
    return statement.run(context)


def _bound(
    statement: Statement, text: str, args: Any, values: Mapping[str, Any]
) -> tuple[Statement, str]:
    """The statement with its parameters filled in."""
    try:
        filled = with_parameters(text, args, values)
        again = parse_statement(filled)
    except StatementError as error:
        table = getattr(statement, "table", None)
        return NotUnderstood(table=table, error=error), text
    assert again is not None  # it begins as before
    return again, filled


def _frame(spark: Any, text: str, frames: Mapping[str, Any]) -> Any:
    """A query's DataFrame."""
    references = _ours(spark, text)
    if references:
        return _query(spark, text, references, None, dict(frames))
    return plain_sql(spark, text, None, **frames)


def _ours(spark: Any, text: str) -> list[tuple[TableReference, str]]:
    """References to Delta tables, and where each is; names only where Spark couldn't read them."""
    places = _places(spark, text)
    if not any(places.values()):
        return []
    found = []
    for reference in table_references(text):
        location = reference.path
        if location is None and reference.parts in places:
            location = places[reference.parts]
        elif location is None:
            location = location_of(spark, reference.parts)
        if location is not None:
            found.append((reference, location))
    return found


def _names_ours(spark: Any, text: str) -> bool:
    """Whether a Delta table may be named anywhere."""
    return any(_places(spark, text).values())


def _places(spark: Any, text: str) -> dict[tuple[str, ...], str | None]:
    """Where the tables are that a text may name; None for what is no Delta table."""
    return {
        parts: parts[-1] if _is_ours_anyway(parts) else location_of(spark, parts)
        for parts in table_candidates(text)
    }


def _is_ours_anyway(parts: Sequence[str]) -> bool:
    """A path, or a function that reads changes."""
    if len(parts) == 1:
        return parts[0].lower() in ("table_changes", "table_changes_by_path")
    return len(parts) == 2 and parts[0].lower() == "delta"


def _query(
    spark: Any,
    text: str,
    references: Sequence[tuple[TableReference, str]],
    args: Any,
    frames: dict[str, Any],
) -> Any:
    """The query with each reference replaced by a DataFrame that reads the table."""
    pieces, at = [], 0
    added: dict[str, Any] = {}
    for number, (reference, location) in enumerate(references):
        name = f"bayou_{number}"
        added[name] = _read(spark, reference, location)
        alias = "" if reference.named or reference.path else f" AS `{reference.parts[-1]}`"
        pieces += [_literal(text[at : reference.start], frames), "{", name, "}", alias]
        at = reference.end
    pieces.append(_literal(text[at:], frames))
    return plain_sql(spark, "".join(pieces), args, **frames, **added)


def _literal(text: str, frames: dict[str, Any]) -> str:
    """Text in which braces mean nothing, unless the caller's own stand in it."""
    return text if frames else text.replace("{", "{{").replace("}", "}}")


def _read(spark: Any, reference: TableReference, location: str) -> Any:
    reader = spark.read.format("delta")
    changes = reference.changes
    if changes is not None:
        reader = reader.option("readChangeFeed", "true")
        for place, text in zip(("starting", "ending"), changes, strict=False):
            reader = _boundary(spark, reader, place, text)
    if reference.version is not None:
        reader = reader.option("versionAsOf", str(reference.version))
    if reference.timestamp is not None:
        reader = reader.option("timestampAsOf", _moment(spark, reference.timestamp))
    return reader.load(location)


def _boundary(spark: Any, reader: Any, place: str, text: str) -> Any:
    """The start or the end of a range of changes: a version, else an expression of a time."""
    if text.rstrip("lL").isdecimal():
        return reader.option(f"{place}Version", text.rstrip("lL"))
    return reader.option(f"{place}Timestamp", _moment(spark, text))


def _moment(spark: Any, expression: str) -> str:
    """The value of an expression, as a time with its offset, in the session's time zone."""
    value = f"date_format(CAST({expression} AS TIMESTAMP), \"yyyy-MM-dd'T'HH:mm:ss.SSSXXX\")"
    try:
        found = plain_sql(spark, f"SELECT {value} AS value").first()["value"]
    except DateTimeException:
        found = None
    if found is None:
        raise StatementError(
            f"TIMESTAMP AS OF {expression} isn't a time: give '2024-01-05 10:00:00' or an "
            "expression of that type.",
            statement=expression,
        )
    return str(found)
