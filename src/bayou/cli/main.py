"""Entry point of the `bayou` command."""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from bayou.cli.commands.completion import COMPLETE_VARIABLE, completion, prepare_completion
from bayou.cli.commands.demo import demo
from bayou.cli.commands.dlq import dlq
from bayou.cli.commands.init import init
from bayou.cli.commands.migrate import migrate
from bayou.cli.commands.plan import plan
from bayou.cli.commands.run import run
from bayou.cli.commands.schema import schema
from bayou.cli.commands.status import status
from bayou.cli.commands.tables.diff import diff
from bayou.cli.commands.tables.history import history
from bayou.cli.commands.tables.optimize import optimize
from bayou.cli.commands.tables.read import read
from bayou.cli.commands.tables.restore import restore
from bayou.cli.commands.tables.sql import sql
from bayou.cli.commands.tables.uniform import uniform
from bayou.cli.commands.tables.vacuum import vacuum
from bayou.cli.commands.topics import topics
from bayou.cli.commands.validate import validate
from bayou.cli.commands.verify import verify
from bayou.cli.usage import Command, Group
from bayou.version import VERSION

app = typer.Typer(
    name="bayou",
    cls=Group,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_PIPELINES: tuple[Callable[..., None], ...] = (init, validate, plan, run, status, topics, migrate)
_TABLES: tuple[Callable[..., None], ...] = (
    read, sql, history, diff, verify, restore, optimize, vacuum,
)  # fmt: skip
_OTHER: tuple[Callable[..., None], ...] = (demo, completion)
for title, commands in (("Pipelines", _PIPELINES), ("Tables", _TABLES), ("Other", _OTHER)):
    for command in commands:
        app.command(cls=Command, rich_help_panel=title)(command)
app.add_typer(dlq, name="dlq", rich_help_panel="Pipelines")
app.add_typer(schema, name="schema", rich_help_panel="Tables")
app.add_typer(uniform, name="uniform", rich_help_panel="Tables")


def main() -> None:
    """Run the `bayou` command with the arguments of the process, and exit."""
    if sys.version_info < (3, 11):  # noqa: UP036  # pip checks it, a copied source tree doesn't
        sys.stderr.write("error: Bayou needs Python 3.11 or newer.\n")
        raise SystemExit(1)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # for characters outside the encoding
    if not os.environ.get("BAYOU_DEBUG"):
        # Commands print errors themselves: suppress the logs of libraries.
        logging.basicConfig(handlers=[logging.NullHandler()])
    if COMPLETE_VARIABLE in os.environ:
        prepare_completion()
    app(prog_name="bayou")


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"bayou {VERSION}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Ingest Kafka topics into Delta tables, exactly once, without JARs.

    `bayou init TOPIC` writes a configuration; `bayou demo` needs none. Exit codes: 0 success, 1
    failed, 2 wrong usage or configuration, 130 stopped by Ctrl-C.
    """
