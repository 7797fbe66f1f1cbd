"""`bayou.spark.sql`: Delta's SQL statements, and queries of Delta tables by path and version."""

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
    InvalidStatement,
    bind_parameters,
    changes_rows,
    first_keyword,
    may_be_delta_statement,
    parse_statement,
    reads_tables,
)
from bayou.spark.sql_statements.table_references import (
    TableReference,
    table_candidates,
    table_references,
)
from bayou.spark.sql_statements.token_cursor import fast_tokens

__all__ = ["sql", "sql_hook"]


def sql(spark: Any, text: str, args: Any = None, **frames: Any) -> Any:
    """Run a SQL statement, including Delta statements that Spark alone can't execute.

    Queries can name tables as ``delta.`/path` `` and read changes with `table_changes(table, start,
    end)`. `VERSION AS OF 12` or `TIMESTAMP AS OF expression` can follow a path or the catalog name
    of a Delta table. Delta's statements (INSERT, DELETE, UPDATE, MERGE, OPTIMIZE, VACUUM, RESTORE,
    CREATE TABLE, ALTER TABLE, ...) return the same DataFrames as in delta-spark. In them a table is
    ``delta.`/path` ``, `'/path'` or a name. A temporary view over a query with time travel keeps
    its versions. All other statements are passed to Spark unchanged.

    Args:
        spark: a session, classic or Connect; names of Delta tables resolve only in a classic one.
        text: one statement.
        args: values of `?` or `:name`, as in `spark.sql`.
        frames: DataFrames and values of `{name}` in the statement, as in `spark.sql`.

    Returns:
        A DataFrame.

    Raises:
        StatementError: a Delta statement can't be parsed, or names a table that isn't a Delta
            table.
        BayouError: the statement fails; see the methods of `DeltaTable`.
    """
    check_session(spark)
    result = _run(spark, text, args, frames)
    return plain_sql(spark, text, args, **frames) if result is NotImplemented else result


def sql_hook(request: SqlRequest) -> Any:
    """Hook of `spark.sql`: run statements about Delta tables; NotImplemented for all others."""
    text, first = request.text, first_keyword(request.text)
    if not (reads_tables(first) or may_be_delta_statement(first) or "delta" in text.lower()):
        return NotImplemented
    scan_first = changes_rows(first) and len(text) > _LONG_STATEMENT
    if (scan_first or not may_be_delta_statement(first)) and not _may_name_delta_tables(
        request.spark, text
    ):
        return NotImplemented
    try:
        fast_tokens(request.text)
    except StatementError:  # Spark's error for an open quote names the line
        return NotImplemented
    return _run(request.spark, request.text, request.args, dict(request.frames))


_LONG_STATEMENT = 1000
"""Length in characters from which table names are looked up before the statement is parsed.

For a long statement about a table that isn't a Delta table, the lookup is faster than the parser.
"""


def _run(spark: Any, text: str, args: Any, frames: dict[str, Any]) -> Any:
    if may_be_delta_statement(first_keyword(text)):
        result = _run_statement(spark, text, args, frames)
        if result is not NotImplemented:
            return result
    references = _delta_references(spark, text)
    if not references:
        return NotImplemented
    return _query(spark, text, references, args, frames)


def _run_statement(spark: Any, text: str, args: Any, frames: dict[str, Any]) -> Any:
    """The result of a Delta statement; NotImplemented for any other statement."""
    statement = parse_statement(text)
    if statement is None:
        return NotImplemented
    values = {k: v for k, v in frames.items() if not isinstance(v, DataFrame)}
    if args or values:
        statement, text = _bind(statement, text, args, values)
    dataframes = {k: v for k, v in frames.items() if isinstance(v, DataFrame)}
    context = StatementContext(
        spark=spark,
        text=text,
        query=partial(_frame, spark, frames=dataframes),
        names_tables=lambda query: bool(_delta_references(spark, query)),
    )
    return statement.run(context)


def _bind(
    statement: Statement, text: str, args: Any, values: Mapping[str, Any]
) -> tuple[Statement, str]:
    """The statement and its SQL with parameters replaced by literals."""
    try:
        bound_text = bind_parameters(text, args, values)
        bound = parse_statement(bound_text)
    except StatementError as error:
        table = getattr(statement, "table", None)
        return InvalidStatement(table=table, error=error), text
    assert bound is not None  # parameters don't change the first word
    return bound, bound_text


def _frame(spark: Any, text: str, frames: Mapping[str, Any]) -> Any:
    """The DataFrame of a query that may read Delta tables."""
    references = _delta_references(spark, text)
    if references:
        return _query(spark, text, references, None, dict(frames))
    return plain_sql(spark, text, None, **frames)


def _delta_references(spark: Any, text: str) -> list[tuple[TableReference, str]]:
    """References to Delta tables in a query, each with the location of its table."""
    locations = _candidate_locations(spark, text)
    if not any(locations.values()):
        return []
    references = []
    for reference in table_references(text):
        location = reference.path
        if location is None and reference.parts in locations:
            location = locations[reference.parts]
        elif location is None:
            location = location_of(spark, reference.parts)
        if location is not None:
            references.append((reference, location))
    return references


def _may_name_delta_tables(spark: Any, text: str) -> bool:
    return any(_candidate_locations(spark, text).values())


def _candidate_locations(spark: Any, text: str) -> dict[tuple[str, ...], str | None]:
    """Locations of the names that may be tables; None for names that aren't Delta tables."""
    return {
        parts: parts[-1] if _is_delta_syntax(parts) else location_of(spark, parts)
        for parts in table_candidates(text)
    }


def _is_delta_syntax(parts: Sequence[str]) -> bool:
    """Whether the name is a path, or a table function that reads changes."""
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
        alias = "" if reference.has_alias or reference.path else f" AS `{reference.parts[-1]}`"
        pieces += [_literal(text[at : reference.start], frames), "{", name, "}", alias]
        at = reference.end
    pieces.append(_literal(text[at:], frames))
    return plain_sql(spark, "".join(pieces), args, **frames, **added)


def _literal(text: str, frames: dict[str, Any]) -> str:
    """SQL with its braces escaped, unless the caller passes DataFrames for `{name}`."""
    return text if frames else text.replace("{", "{{").replace("}", "}}")


def _read(spark: Any, reference: TableReference, location: str) -> Any:
    reader = spark.read.format("delta")
    changes = reference.changes
    if changes is not None:
        reader = reader.option("readChangeFeed", "true")
        for prefix, boundary in zip(("starting", "ending"), changes, strict=False):
            reader = _with_boundary(spark, reader, prefix, boundary)
    if reference.version is not None:
        reader = reader.option("versionAsOf", str(reference.version))
    if reference.timestamp is not None:
        reader = reader.option("timestampAsOf", _timestamp(spark, reference.timestamp))
    return reader.load(location)


def _with_boundary(spark: Any, reader: Any, prefix: str, boundary: str) -> Any:
    """Set the first or last version of a change read: a version, or a timestamp expression."""
    if boundary.rstrip("lL").isdecimal():
        return reader.option(f"{prefix}Version", boundary.rstrip("lL"))
    return reader.option(f"{prefix}Timestamp", _timestamp(spark, boundary))


def _timestamp(spark: Any, expression: str) -> str:
    """The value of a timestamp expression, with the UTC offset of the session's time zone."""
    value = f"date_format(CAST({expression} AS TIMESTAMP), \"yyyy-MM-dd'T'HH:mm:ss.SSSXXX\")"
    try:
        timestamp = plain_sql(spark, f"SELECT {value} AS value").first()["value"]
    except DateTimeException:
        timestamp = None
    if timestamp is None:
        raise StatementError(
            f"TIMESTAMP AS OF {expression}: the expression isn't a timestamp. Use a string such as "
            "'2024-01-05 10:00:00', or an expression of type TIMESTAMP.",
            statement=expression,
        )
    return str(timestamp)
