"""`bayou.spark.sql`: SQL that reads Delta tables by path, version and time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from bayou.errors import ArgumentError, StatementError
from bayou.kernel import Table
from bayou.spark.named_tables import named_table
from bayou.spark.requests import SqlRequest
from bayou.spark.session_storage import session_engine
from bayou.spark.statements.describe import detail_frame, history_frame
from bayou.spark.statements.lexer import tokens
from bayou.spark.statements.parser import (
    CreateTemporaryView,
    DescribeDetail,
    DescribeHistory,
    parse_statement,
)
from bayou.spark.statements.table_references import TableReference, table_references

__all__ = ["answer_sql", "sql"]


def sql(spark: Any, text: str, args: Any = None, **frames: Any) -> Any:
    """Run a SQL statement: what `spark.sql` takes, and what Spark refuses for Delta tables.

    Queries may name tables as ``delta.`/path` ``, with `VERSION AS OF 12` or `TIMESTAMP AS OF
    expression` behind them (also behind a name of the session catalog that stands for a Delta
    table). `DESCRIBE HISTORY table [LIMIT n]` and `DESCRIBE DETAIL table` give the frames that
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
        TableNotFoundError, VersionNotFoundError: there is no such table or version.
    """
    answer = _answered(spark, text, args, frames)
    return _plain_sql(spark, text, args, **frames) if answer is NotImplemented else answer


def answer_sql(request: SqlRequest) -> Any:
    """`spark.sql` of an enabled session: statements that Spark would refuse, as `sql` runs them."""
    try:
        tokens(request.text)
    except StatementError:  # Spark says it better: it knows the line
        return NotImplemented
    return _answered(request.spark, request.text, request.args, dict(request.frames))


def _answered(spark: Any, text: str, args: Any, frames: dict[str, Any]) -> Any:
    statement = parse_statement(text)
    if isinstance(statement, DescribeHistory | DescribeDetail):
        return _described(spark, text, statement)
    if isinstance(statement, CreateTemporaryView):
        references = _ours(spark, statement.query)
        if references:
            frame = _query(spark, statement.query, references, args, frames)
            return _viewed(spark, statement, frame)
    references = [] if statement is not None else _ours(spark, text)
    if not references:
        return NotImplemented
    return _query(spark, text, references, args, frames)


def _ours(spark: Any, text: str) -> list[tuple[TableReference, str]]:
    """References to Delta tables, and where each is; names only where Spark couldn't read them."""
    found = []
    for reference in table_references(text):
        location = reference.path or _location(spark, reference.parts)
        if location is not None:
            found.append((reference, location))
    return found


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
    return _plain_sql(spark, "".join(pieces), args, **frames, **added)


def _plain_sql(spark: Any, text: str, args: Any = None, **frames: Any) -> Any:
    """Spark's own `sql`, also where `spark.sql` is hooked."""
    method = type(spark).sql
    return getattr(method, "__wrapped__", method)(spark, text, args, **frames)


def _literal(text: str, frames: dict[str, Any]) -> str:
    """Text in which braces mean nothing, unless the caller's own stand in it."""
    return text if frames else text.replace("{", "{{").replace("}", "}}")


def _read(spark: Any, reference: TableReference, location: str) -> Any:
    reader = spark.read.format("delta")
    if reference.version is not None:
        reader = reader.option("versionAsOf", str(reference.version))
    if reference.timestamp is not None:
        reader = reader.option("timestampAsOf", _moment(spark, reference.timestamp))
    return reader.load(location)


def _moment(spark: Any, expression: str) -> str:
    """The value of an expression, as a time with its offset, in the session's time zone."""
    value = f"date_format(CAST({expression} AS TIMESTAMP), \"yyyy-MM-dd'T'HH:mm:ss.SSSXXX\")"
    found = _plain_sql(spark, f"SELECT {value} AS value").first()["value"]
    if found is None:
        raise StatementError(
            f"TIMESTAMP AS OF {expression} isn't a time: give '2024-01-05 10:00:00' or an "
            "expression of that type.",
            statement=expression,
        )
    return str(found)


def _described(spark: Any, text: str, statement: DescribeHistory | DescribeDetail) -> Any:
    location, name = _located(spark, text, statement.table)
    engine = session_engine(spark, location)
    table = Table.for_path(engine, location)
    if isinstance(statement, DescribeHistory):
        return history_frame(spark, engine, table, statement.limit)
    return detail_frame(spark, engine, table.latest_snapshot(engine), name)


def _located(spark: Any, text: str, table: Sequence[str]) -> tuple[str, str | None]:
    """Where a table is; and its name in the catalog, None for a path."""
    if len(table) == 2 and table[0].lower() == "delta":
        return table[1], None
    name = ".".join(table)
    location = _location(spark, table)
    if location is None:
        raise StatementError(
            f"{name} isn't a Delta table that the session catalog knows the place of. Name it by "
            "its path: delta.`/path`.",
            statement=text,
        )
    return location, name


def _location(spark: Any, parts: Sequence[str]) -> str | None:
    """Where the table of a name is; None where it is no Delta table, and under Spark Connect.

    A client of Spark Connect can't see where the server's tables are.
    """
    if not isinstance(spark, SparkSession) or len(parts) > 3:
        return None
    try:
        table = named_table(spark, ".".join("`" + p.replace("`", "``") + "`" for p in parts))
    except ArgumentError:
        return None
    return table.path if table is not None and table.exists else None


def _viewed(spark: Any, statement: CreateTemporaryView, frame: Any) -> Any:
    if statement.columns:
        frame = frame.toDF(*statement.columns)
    if statement.is_global and statement.replace:
        frame.createOrReplaceGlobalTempView(statement.name)
    elif statement.is_global:
        frame.createGlobalTempView(statement.name)
    elif statement.replace:
        frame.createOrReplaceTempView(statement.name)
    else:
        frame.createTempView(statement.name)
    return _plain_sql(spark, "SELECT 1").limit(0).select()
