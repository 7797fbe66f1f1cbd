"""`sql`: queries over tables, executed by DuckDB."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bayou.api.datasets.dataset import to_duckdb_dataset
from bayou.api.optional_packages import missing_extra
from bayou.api.queries.sources import TableSource, open_snapshot
from bayou.api.snapshot import SnapshotHandle
from bayou.api.table import TableHandle
from bayou.errors import ArgumentError, BayouError, StatementError

if TYPE_CHECKING:
    import duckdb

_DATA_FILES = (".parquet", ".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".gz", ".zst", ".xlsx")
"""Suffixes of file names. A name in FROM that ends with one of them is read by DuckDB as a file."""

_DUCKDB_SCHEMES = ("http://", "https://", "hf://")

_KERNEL_ERROR = re.compile(
    r"reading the stream .* failed: Unknown error: (.*?)\.? Detail: Python exc", re.DOTALL
)


def sql(
    query: str,
    tables: Mapping[str, TableSource | Any] | None = None,
    /,
    *,
    params: Sequence[Any] | Mapping[str, Any] | None = None,
    connection: duckdb.DuckDBPyConnection | None = None,
    storage_options: Mapping[str, str] | None = None,
    **named_tables: TableSource | Any,
) -> duckdb.DuckDBPyRelation:
    """Query tables with SQL in DuckDB's dialect, without Spark.

    The result is lazy: the query runs when rows are requested, with `fetchall()`, `df()`, `pl()`,
    `to_arrow_table()` or `show()`. DuckDB passes columns and filters to Bayou, which skips
    files and row groups. DuckDB then filters the rows. Rows are streamed.

        orders = bayou.table("lake/orders")
        bayou.sql("SELECT day, count(*) FROM orders GROUP BY day", orders=orders).show()

    Args:
        query: one SELECT statement. A table in FROM is a name in `tables` or `named_tables`, or a
            path or URI in quotes, such as `FROM 's3://lake/events'` or `FROM './events'`.
        tables: tables by name, like `named_tables`, for names that aren't Python identifiers.
        params: values of the parameters `?` or `$name` in the query. A query with parameters isn't
            lazy: it runs immediately.
        connection: DuckDB connection that runs the query; the tables are registered in it. By
            default, each call has its own connection in memory with the time zone UTC.
        storage_options: see `bayou.table`; used for paths of tables.
        named_tables: tables by name: a path, a handle of a table or of a version, or an object that
            DuckDB can register, such as a DataFrame or an Arrow table.

    Raises:
        PrerequisiteError: DuckDB isn't installed.
        ArgumentError: the query isn't one SELECT statement.
        TableNotFoundError: there is no table at a path.
        duckdb.Error: the query isn't valid, or fails.

    Examples:
        >>> orders = bayou.table("lake/orders")
        >>> bayou.sql("SELECT count(*) FROM orders", orders=orders).fetchall()
    """
    if connection is None:
        connection = _connect("bayou.sql")
    _check_statement(connection, query)
    given = {**(tables or {}), **named_tables}
    for name, source in given.items():
        connection.register(name, _registrable(source, storage_options))
    for path in _paths(connection, query, given):
        connection.register(path, _registrable(path, storage_options))
    if params is None:
        return connection.sql(query)
    return connection.sql(query, params=params)


def query_batches(
    query: str, tables: Mapping[str, TableSource | Any], limit: int | None = None
) -> pa.RecordBatchReader:
    """Run a query and stream its rows. Errors of DuckDB are raised as errors of Bayou.

    Args:
        limit: maximum number of rows.

    Raises:
        PrerequisiteError: DuckDB isn't installed.
        ArgumentError: the query isn't valid, or isn't one SELECT statement.
        TableNotFoundError: there is no table at a path.
        StatementError: the query fails, in this call or while the returned reader is read.
    """
    with _bayou_errors(query):
        relation = sql(query, tables)
        limited: Any = relation if limit is None else relation.limit(limit)
        reader = pa.RecordBatchReader.from_stream(limited)

    def batches() -> Iterator[pa.RecordBatch]:
        with _bayou_errors(query):
            yield from reader

    return pa.RecordBatchReader.from_batches(reader.schema, batches())


def table_names(query: str) -> list[str]:
    """Return the names in the FROM clauses of a query.

    Names that WITH clauses define, and names with a schema (`main.orders`), are omitted. If the
    query is invalid, no names are returned.

    Raises:
        PrerequisiteError: DuckDB isn't installed.
    """
    with _connect("bayou sql") as connection:
        return _table_names(connection, query)


def _connect(feature: str) -> duckdb.DuckDBPyConnection:
    try:
        import duckdb
    except ImportError as error:
        raise missing_extra("duckdb", feature) from error
    connection = duckdb.connect(":memory:", config={"python_enable_replacements": False})
    connection.execute("SET TimeZone = 'UTC'")
    return connection


@contextlib.contextmanager
def _bayou_errors(query: str) -> Iterator[None]:
    """Context manager that raises DuckDB's errors as errors of Bayou."""
    try:
        yield
    except BayouError:
        raise
    except Exception as error:
        import duckdb

        invalid = (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException)
        if isinstance(error, invalid):
            raise ArgumentError(f"query: {_sentence(error)}", argument="query") from error
        if isinstance(error, duckdb.Error | pa.ArrowException):
            raise StatementError(f"query: {_sentence(error)}", statement=query) from error
        raise


def _sentence(error: Exception) -> str:
    """Return the message of an error of DuckDB as one line."""
    message = str(error)
    kernel = _KERNEL_ERROR.search(message)
    if kernel is not None:
        return kernel.group(1)
    text, _, excerpt = message.partition("\n\nLINE ")
    text = " ".join(text.split("\nDid you mean")[0].split())
    line = excerpt.partition(": ")[2].split("\n")[0].strip()
    return f"{text.rstrip('.!')}, in {line!r}." if line else f"{text.rstrip('.!')}."


def _check_statement(connection: duckdb.DuckDBPyConnection, query: str) -> None:
    import duckdb

    unchecked: object = query
    if not isinstance(unchecked, str):
        raise ArgumentError(f"query: {unchecked!r} isn't a string. Give SQL.", argument="query")
    statements = connection.extract_statements(query)
    kinds = duckdb.StatementType
    readers = (kinds.SELECT, kinds.EXPLAIN, kinds.MULTI)  # PIVOT has the type MULTI
    if len(statements) != 1 or statements[0].type not in readers:
        raise ArgumentError(
            "query: the SQL isn't one SELECT statement. Give one SELECT; to write to a table, "
            "use bayou.write.",
            argument="query",
        )


def _registrable(source: Any, storage_options: Mapping[str, str] | None) -> Any:
    """Convert a table argument to an object that DuckDB can register."""
    if isinstance(source, TableHandle | SnapshotHandle):
        snapshot = open_snapshot(source)
    elif isinstance(source, str) or hasattr(source, "__fspath__"):
        snapshot = open_snapshot(source, storage_options)
    else:
        return source
    return to_duckdb_dataset(snapshot._engine, snapshot.kernel)  # noqa: SLF001


def _paths(
    connection: duckdb.DuckDBPyConnection, query: str, given: Mapping[str, object]
) -> Iterator[str]:
    """Yield the names in FROM that are paths of tables; names in `given` are skipped."""
    known = {name.lower() for name in given}
    for name in _table_names(connection, query):
        if name.lower() not in known and is_table_path(name):
            yield name


def is_table_path(name: str) -> bool:
    """Whether a name in FROM is read as the path of a Delta table.

    DuckDB reads other names itself: URLs, names with `*`, and names of data files such as `.csv`.
    """
    folded = name.lower()
    is_file = folded.endswith(_DATA_FILES) or folded.startswith(_DUCKDB_SCHEMES) or "*" in folded
    return "/" in name and not is_file


def _table_names(connection: duckdb.DuckDBPyConnection, query: str) -> list[str]:
    """Return the names in the FROM clauses of a query, as DuckDB parses it; see `table_names`."""
    result = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [query]).fetchall()
    trees: list[Any] = [json.loads(tree) for (tree,) in result]
    names: dict[str, None] = {}
    with_names: set[str] = set()
    while trees:
        match trees.pop():
            case {"type": "BASE_TABLE", "table_name": str(name), "schema_name": ""}:
                names[name] = None
            case {"cte_map": {"map": list(entries)}, **rest}:
                with_names.update(entry["key"].lower() for entry in entries)
                trees += [rest, entries]
            case dict(node):
                trees.extend(node.values())
            case list(nodes):
                trees.extend(nodes)
    return [name for name in names if name.lower() not in with_names]
