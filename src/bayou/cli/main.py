"""Entry point of the `bayou` command."""

from __future__ import annotations

import importlib
import io
import logging
import os
import sys
from typing import Annotated

import typer

from bayou.cli.commands.completion import COMPLETE_VARIABLE, prepare_completion
from bayou.cli.usage import Command, Group
from bayou.version import VERSION

_COMMANDS = {
    "Pipelines": (
        "init", "validate", "plan", "run", "status", "topics", "migrate", "dlq",
    ),
    "Tables": (
        "tables.read", "tables.sql", "tables.history", "tables.diff", "verify", "tables.restore",
        "tables.optimize", "tables.vacuum", "schema", "tables.uniform",
    ),
    "Other": ("demo", "completion"),
}  # fmt: skip
"""Modules of the commands by section of the help text. The names are relative to
`bayou.cli.commands`."""


def command_line(only: str | None = None) -> typer.Typer:
    """Return the Typer app of the command `bayou`.

    Args:
        only: name of a command. The other commands are omitted, because importing their modules
            takes longer than reading a small table. If `only` is None or not the name of a
            command, all commands are included.
    """
    app = typer.Typer(
        name="bayou",
        cls=Group,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    modules = [(title, module) for title, names in _COMMANDS.items() for module in names]
    selected = [(title, module) for title, module in modules if _name(module) == only]
    for title, module in selected or modules:
        name = _name(module)
        command = getattr(importlib.import_module(f"bayou.cli.commands.{module}"), name)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, rich_help_panel=title)
        else:
            app.command(cls=Command, rich_help_panel=title)(command)
    return app


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
    command_line(sys.argv[1] if len(sys.argv) > 1 else None)(prog_name="bayou")


def _name(module: str) -> str:
    return module.rpartition(".")[2]


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"bayou {VERSION}")
        raise typer.Exit


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
