"""Generates docs/reference/command-line.md from the commands and their help."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from bayou.cli.main import command_line
from bayou.cli.usage import argument_name, description, option_name, parameter_help, usage

_INTRODUCTION = Path(__file__).with_name("command_line_introduction.md")

_NOT_RUN = {
    "demo": "takes a minute; tests/integration/test_demo.py runs the demo",
    "register": "needs an Iceberg catalog; tests/api/test_iceberg_metadata.py has one",
    "sync": "needs a table with Iceberg metadata; docs/guide/iceberg.md runs the command",
}
"""Commands whose examples the tests of pages don't run, and why."""


def page() -> str:
    """Return the page."""
    root = typer.main.get_command(command_line())
    commands = "".join(f"| `{path}` | {text} |\n" for path, text in _summaries(root, "bayou"))
    return (
        f"{_INTRODUCTION.read_text(encoding='utf-8')}\n## Commands\n\n"
        f"| command | does |\n|---|---|\n{commands}\n{''.join(_sections(root, 'bayou'))}"
    )


def _summaries(group: Any, path: str) -> Iterator[tuple[str, str]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _summaries(command, f"{path} {name}")
        else:
            yield f"{path} {name}", description(command)[0].split("\n")[0]


def _sections(group: Any, path: str) -> Iterator[str]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _sections(command, f"{path} {name}")
            continue
        text, example = description(command)
        yield f"## {path} {name}\n\n{text}\n\n"
        yield f"```text\n{usage(command, f'{path} {name}')}\n```\n\n"
        if name in _NOT_RUN:
            yield f"<!-- not run: {_NOT_RUN[name]} -->\n"
        yield f"```sh\n{example}\n```\n\n"
        yield "| argument or option | |\n|---|---|\n"
        for parameter in command.params:
            is_argument = parameter.param_type_name == "argument"
            shown = argument_name(parameter) if is_argument else option_name(parameter)
            cells = (f"`{shown}`", parameter_help(parameter))
            yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"
        yield "\n"
