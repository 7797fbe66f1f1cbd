"""Finds the Delta tables that a query reads, and creates their DataFrames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.errors import DateTimeException

from bayou.errors import StatementError
from bayou.spark.hooks.hooks import plain_sql
from bayou.spark.sql_statements.context import location_of
from bayou.spark.sql_statements.table_references import (
    TableReference,
    table_candidates,
    table_references,
)
from bayou.spark.sql_statements.token_cursor import is_path_name


def delta_references(spark: Any, text: str) -> list[tuple[TableReference, str]]:
    """Return each reference to a Delta table in a query, with the path of the table."""
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


def may_name_delta_tables(spark: Any, text: str) -> bool:
    """Whether a statement possibly reads or changes a Delta table.

    This check is faster than `delta_references`, because it doesn't parse the statement.
    """
    return any(_candidate_locations(spark, text).values())


def _candidate_locations(spark: Any, text: str) -> dict[tuple[str, ...], str | None]:
    """Map each name that `table_candidates` finds in a statement to the Delta table's path.

    The value is None if the name isn't a Delta table. For `table_changes` and
    `table_changes_by_path`, the value is the function's name.
    """
    return {
        parts: parts[-1] if _is_delta_syntax(parts) else location_of(spark, parts)
        for parts in table_candidates(text)
    }


def _is_delta_syntax(parts: Sequence[str]) -> bool:
    """Whether a name is ``delta.`/path` ``, `table_changes` or `table_changes_by_path`.

    Args:
        parts: the parts of the name; `("delta", path)` for a path.
    """
    if len(parts) == 1:
        return parts[0].lower() in ("table_changes", "table_changes_by_path")
    return is_path_name(parts)


def read_reference(spark: Any, reference: TableReference, location: str) -> Any:
    """Return a DataFrame of the table that a query refers to.

    The reference can set a version, a timestamp and read options. For `table_changes(table,
    start[, end])`, the DataFrame has the changes between the two versions.

    Args:
        location: the table's path.
    """
    reader = spark.read.format("delta").options(**reference.options)
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
    """Add the read option for the first or last version of a change data feed.

    Args:
        prefix: `starting` for the first version, `ending` for the last version.
        boundary: a version, or a timestamp expression in SQL.
    """
    if boundary.rstrip("lL").isdecimal():
        return reader.option(f"{prefix}Version", boundary.rstrip("lL"))
    return reader.option(f"{prefix}Timestamp", _timestamp(spark, boundary))


def _timestamp(spark: Any, expression: str) -> str:
    """Evaluate a timestamp expression in the session's time zone; the result has a UTC offset."""
    value = f"date_format(CAST({expression} AS TIMESTAMP_LTZ), 'yyyy-MM-dd HH:mm:ss.SSSXXX')"
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
