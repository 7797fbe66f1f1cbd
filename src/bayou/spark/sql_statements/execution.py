"""`bayou.spark.sql`: executes Delta's SQL statements, and queries that read Delta tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pyspark.sql import DataFrame

from bayou.errors import StatementError
from bayou.spark.exceptions import raise_spark_exceptions
from bayou.spark.expressions.session_grammar import session_literal, session_sql
from bayou.spark.expressions.session_settings import timestamp_type
from bayou.spark.hooks.hooks import check_session, plain_sql
from bayou.spark.hooks.requests import SqlRequest
from bayou.spark.sql_statements.context import RowStatement, Statement, StatementContext
from bayou.spark.sql_statements.delta_references import (
    delta_references,
    may_name_delta_tables,
    read_reference,
)
from bayou.spark.sql_statements.parser import (
    InvalidStatement,
    bind_parameters,
    changes_rows,
    first_keyword,
    may_be_delta_statement,
    parse_statement,
    reads_tables,
)
from bayou.spark.sql_statements.schema_qualifiers import replace_tables, without_schemas
from bayou.spark.sql_statements.subquery_tables import SubqueryTables
from bayou.spark.sql_statements.table_references import TableReference, is_insert_target
from bayou.spark.sql_statements.token_cursor import ParserSettings, statement_tokens


@raise_spark_exceptions
def sql(spark: Any, text: str, args: Any = None, **frames: Any) -> Any:
    """Run an SQL statement, including Delta statements that Spark alone can't execute.

    Queries can name tables as ``delta.`/path` `` and read changes with `table_changes(table, start,
    end)`. `VERSION AS OF 12` or `TIMESTAMP AS OF expression` can follow a path or the catalog name
    of a Delta table. A temporary view with time travel in its query always reads the same version.

    Delta's statements (INSERT, DELETE, UPDATE, MERGE, OPTIMIZE, VACUUM, RESTORE, CREATE TABLE,
    ALTER TABLE, ...) return the same DataFrames as in delta-spark. They accept tables as
    ``delta.`/path` ``, `'/path'` or a catalog name. All other statements are passed to Spark
    unchanged.

    Args:
        spark: a session, classic or Connect.
        text: one statement.
        args: values of the parameters `?` or `:name`, as in `spark.sql`.
        frames: DataFrames and other values of the placeholders `{name}`, as in `spark.sql`.

    Raises:
        StatementError: a Delta statement can't be parsed, or names a table that isn't a Delta
            table.
        BayouError: the statement fails; see the methods of `DeltaTable`.

    Examples:
        >>> sql(spark, "DESCRIBE HISTORY delta.`lake/orders`").select("version").show()
    """
    check_session(spark)
    result = _run(spark, _in_default_grammar(spark, text, frames), args, frames)
    return plain_sql(spark, text, args, **frames) if result is NotImplemented else result


def sql_hook(request: SqlRequest) -> Any:
    """Handler of the hook `sql`: execute a statement that reads or changes Delta tables.

    Returns NotImplemented for other statements.
    """
    text = _in_default_grammar(request.spark, request.text, request.frames)
    first = first_keyword(text)
    if not (reads_tables(first) or may_be_delta_statement(first) or "delta" in text.lower()):
        return NotImplemented
    scan_first = changes_rows(first) and len(text) > _LONG_STATEMENT
    if (scan_first or not may_be_delta_statement(first)) and not may_name_delta_tables(
        request.spark, text
    ):
        return NotImplemented
    try:
        statement_tokens(text)
    except StatementError:  # Spark's error for an open quote names the line
        return NotImplemented
    return _run(request.spark, text, request.args, dict(request.frames))


def _in_default_grammar(spark: Any, text: str, frames: Mapping[str, Any]) -> str:
    """Rewrite a statement from the session's SQL grammar to Spark's default grammar.

    For example, variables such as `${name}` are replaced by their values. If `frames` isn't empty,
    a statement that contains `${` isn't changed: PySpark reads `${name}` as the character `$` and
    the placeholder `{name}`.
    """
    return text if frames and "${" in text else session_sql(spark, text)


_LONG_STATEMENT = 1000
"""Minimum length in characters of a long INSERT, UPDATE, DELETE or MERGE.

For a long statement, `may_name_delta_tables` first checks whether a Delta table may occur in it. If
not, the statement isn't parsed, because parsing is slower than this check.
"""


def _run(spark: Any, text: str, args: Any, frames: dict[str, Any]) -> Any:
    if may_be_delta_statement(first_keyword(text)):
        result = _run_statement(spark, text, args, frames)
        if result is not NotImplemented:
            return result
    references = delta_references(spark, text)
    if not references:
        return NotImplemented
    return _run_delta_query(spark, text, references, args, frames)


def _run_statement(spark: Any, text: str, args: Any, frames: dict[str, Any]) -> Any:
    """Run a Delta statement and return its result; return NotImplemented for other statements."""
    settings = _parser_settings(spark, text)
    statement = parse_statement(text, settings)
    if statement is None:
        return NotImplemented
    values = {k: v for k, v in frames.items() if not isinstance(v, DataFrame)}
    if args or values:
        statement, text = _bind(spark, statement, text, args, values, settings)
    if isinstance(statement, RowStatement):
        unqualified = without_schemas(spark, text, statement.unaliased_tables)
        if unqualified != text:
            statement, text = parse_statement(unqualified), unqualified
            assert statement is not None  # the first word hasn't changed
    dataframes = {k: v for k, v in frames.items() if isinstance(v, DataFrame)}
    with SubqueryTables(spark) as resolve:
        context = StatementContext(
            spark=spark,
            text=text,
            query=partial(_run_query, spark, frames=dataframes),
            reads_delta_tables=lambda query: bool(delta_references(spark, query)),
            resolve_subqueries=resolve,
        )
        return statement.run(context)


def _parser_settings(spark: Any, text: str) -> ParserSettings:
    """Return the session's settings for parsing a statement."""
    if first_keyword(text) not in _DEFINITIONS:
        return ParserSettings()
    default_format = str(spark.conf.get("spark.sql.sources.default", "parquet"))
    return ParserSettings(timestamp=timestamp_type(spark), default_format=default_format.lower())


_DEFINITIONS = ("ALTER", "CONVERT", "CREATE", "REPLACE")
"""First keywords of statements that define columns."""


def _bind(  # noqa: PLR0917
    spark: Any,
    statement: Statement,
    text: str,
    args: Any,
    values: Mapping[str, Any],
    settings: ParserSettings,
) -> tuple[Statement, str]:
    """Replace the parameters in `text` by literals; return the parsed statement and its SQL.

    Args:
        statement: the statement before the replacement. If the replacement fails, the result is an
            `InvalidStatement` for the table of this statement.
        args: values of the parameters `?` or `:name`.
        values: values of the placeholders `{name}`, without DataFrames.
    """
    try:
        bound_text = bind_parameters(text, args, values, partial(session_literal, spark))
        bound = parse_statement(bound_text, settings)
    except StatementError as error:
        table = getattr(statement, "table", None)
        return InvalidStatement(table=table, error=error), text
    assert bound is not None  # parameters don't change the first word
    return bound, bound_text


def _run_query(spark: Any, text: str, frames: Mapping[str, Any]) -> Any:
    """Run a query, with or without Delta tables, and return its DataFrame."""
    references = delta_references(spark, text)
    if references:
        return _run_delta_query(spark, text, references, None, dict(frames))
    return plain_sql(spark, text, None, **frames)


def _run_delta_query(
    spark: Any,
    text: str,
    references: Sequence[tuple[TableReference, str]],
    args: Any,
    frames: dict[str, Any],
) -> Any:
    """Run a query after replacing each table reference by a DataFrame of the Delta table."""
    replacements: list[tuple[TableReference, str]] = []
    added: dict[str, Any] = {}
    for number, (reference, location) in enumerate(references):
        if is_insert_target(text, reference):
            raise StatementError(
                f"Table {'.'.join(reference.parts)}: the statement has WITH or FROM before "
                "INSERT INTO, which isn't supported. Start with INSERT, and move the clause "
                "into the query: INSERT INTO table WITH ... SELECT ...",
                statement=text,
            )
        name = f"bayou_{number}"
        added[name] = read_reference(spark, reference, location)
        replacements.append((reference, f"{{{name}}}"))
    query = replace_tables(spark, text, replacements, lambda sql: _escape_braces(sql, frames))
    return plain_sql(spark, query, args, **frames, **added)


def _escape_braces(text: str, frames: dict[str, Any]) -> str:
    """Double the braces in SQL, so that PySpark doesn't read them as placeholders.

    If the user has passed `frames`, the braces are placeholders, and the SQL isn't changed.
    """
    return text if frames else text.replace("{", "{{").replace("}", "}}")
