"""`bayou sql`: print the rows of a query over tables."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayou.cli.exit_on_error import exit_on_error
from bayou.cli.output import row_limit, rows_output
from bayou.cli.shared_arguments import FromConfig, Limit, RowsAsJson, RowsTo, Settings
from bayou.cli.tables import open_table, split_reference
from bayou.errors import ArgumentError, ConfigurationError
from bayou.suggestions import did_you_mean

if TYPE_CHECKING:
    from bayou.api import SnapshotHandle, TableHandle
    from bayou.ingest.config import Configuration

_SYSTEM_TABLES = ("duckdb_", "pg_", "pragma_", "sqlite_")
"""Prefixes of the names of DuckDB's own tables."""


def sql(
    query: Annotated[
        str,
        typer.Argument(
            metavar="QUERY",
            help="A SELECT statement in DuckDB's dialect, or - to read it from standard input. "
            "After FROM, write a NAME from --table, a topic, or a path or URI in quotes. Add @3 to "
            "a path to read version 3: 'lake/events@3'.",
            show_default=False,
        ),
    ],
    tables: Annotated[
        list[str] | None,
        typer.Option(
            "--table",
            "-t",
            metavar="NAME=TABLE",
            help="A name for a table in the query. TABLE is a folder or URI, such as "
            "events=lake/events. Add @3 to read version 3: before=lake/events@3; repeatable.",
            show_default=False,
        ),
    ] = None,
    limit: Limit = None,
    config: FromConfig = None,
    settings: Settings = None,
    output: RowsTo = None,
    as_json: RowsAsJson = False,
) -> None:
    """Print the rows of a SQL query over tables; DuckDB runs it, without Spark.

    The query can read the table of a topic. The topic is looked up in --config, or without this
    option, in the configurations (`*.yaml`) in the current folder.

    Example:
        bayou sql "SELECT day, count(*) FROM 'lake/events' GROUP BY day" --output days.csv
    """
    printed = rows_output(output, as_json=as_json)
    with exit_on_error(printed):
        from bayou.api.argument_checks import check_encodable
        from bayou.api.queries.duckdb_query import query_batches

        if query == "-":
            try:
                query = sys.stdin.read()
            except UnicodeDecodeError as error:
                raise ArgumentError(
                    f"query: byte {error.start + 1} of the input isn't UTF-8. Convert the query to "
                    "UTF-8.",
                    argument="query",
                ) from None
        check_encodable(query, "query")
        opened = _open_tables(query, tables or (), config, settings)
        rows_limit = row_limit(printed, limit)
        printed.batches(
            query_batches(query, opened, rows_limit.read),
            empty="the query has no rows",
            max_rows=rows_limit.shown,
        )


def _open_tables(
    query: str, options: Sequence[str], config: Path | None, settings: Sequence[str] | None
) -> dict[str, SnapshotHandle]:
    """Open the tables of a query; return them by their names in the query.

    Args:
        options: values of the option `--table`, such as `events=lake/events`.
    """
    from bayou.api.queries.duckdb_query import is_table_path, table_names

    tables: dict[str, SnapshotHandle] = {}
    for option in options:
        name, _, path = option.partition("=")
        if not name or not path:
            raise ArgumentError(
                f"--table: {option!r} isn't NAME=TABLE. Use a name and a folder or URI, such as "
                "events=lake/events.",
                argument="table",
            )
        tables[name] = _open_version(path, config, settings)
    named = {name.lower() for name in tables}
    for name in table_names(query):
        if name.lower() in named or name.lower().startswith(_SYSTEM_TABLES):
            continue
        if is_table_path(name):
            tables[name] = _open_version(name, config, settings)
        elif "/" not in name and "." not in name:
            tables[name] = _topic_table(name, list(tables), config, settings).snapshot()
    return tables


def _open_version(
    reference: str, config: Path | None, settings: Sequence[str] | None
) -> SnapshotHandle:
    path, version, as_of = split_reference(reference)
    return open_table(path, config, settings).snapshot(version, as_of)


def _topic_table(
    name: str, named: Sequence[str], config: Path | None, settings: Sequence[str] | None
) -> TableHandle:
    """Return the table of the topic `name`, from `config` or from the current folder.

    Args:
        named: names of the tables that `--table` defines, for suggestions in the error.
        config: the configuration; None to search the YAML files in the current folder.
    """
    if config is not None:
        return open_table(name, config, settings)
    known = list(named)
    for file, configuration in _configurations():
        if configuration.find_table(name) is not None:
            return open_table(name, file, settings)
        known += [topic.key for topic in configuration.topics]
    raise ArgumentError(
        f"query: there is no table {name!r}.{did_you_mean(name, known)} Add --table {name}=PATH, "
        "or write the table's path in quotes, such as FROM 'lake/events'.",
        argument="query",
    )


def _configurations() -> Iterator[tuple[Path, Configuration]]:
    """Yield the valid configurations in the current folder."""
    from bayou.ingest.config import load_configuration

    for file in sorted(Path().glob("*.y*ml")):
        try:
            yield file, load_configuration(file)
        except ConfigurationError:
            continue
