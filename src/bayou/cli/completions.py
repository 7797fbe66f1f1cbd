"""Completions of topics, tables and columns, from the configurations in the current folder.

A configuration is read as plain YAML, without connecting to brokers or resolving variables. Errors
are ignored, because a message would appear in the command line that the user is typing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from bayou.cli.tables import open_table, split_reference
from bayou.errors import ArgumentError

_MAX_FILES = 50
_MAX_FOLDERS = 1_000


def configurations(incomplete: str) -> list[str]:
    """Return the YAML files whose path begins with `incomplete`."""
    folder = Path(incomplete).parent if "/" in incomplete else Path()
    files = [*folder.glob("*.yaml"), *folder.glob("*.yml")]
    return _starting(map(str, files), incomplete)


def topics(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the keys of configured topics that begin with `incomplete`."""
    return _starting((key for key, _ in _sections(ctx)), incomplete)


def tables(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return names of tables that begin with `incomplete`.

    These are paths of topics' tables, and folders. With `--config`, they also include the keys of
    topics and the configured table names.
    """
    names: list[str] = []
    for key, section in _sections(ctx):
        destination = section.get("destination")
        found = destination if isinstance(destination, dict) else {}
        if ctx.params.get("config") is not None:
            names += [key, str(found.get("table-name") or "")]
        names.append(str(found.get("table-path") or ""))
    return _starting([*names, *_folders(incomplete)], incomplete)


def versions(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return completions of `TABLE`, or of `TABLE@VERSION` if `incomplete` contains `@`."""
    table, separator, _ = incomplete.rpartition("@")
    if not separator:
        return tables(ctx, incomplete)
    with contextlib.suppress(Exception):
        commits = _handle(ctx, table).history(limit=20)
        return _starting((f"{table}@{commit['version']}" for commit in commits), incomplete)
    return []


def columns(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return completions for the last name in a comma-separated list of columns."""
    before, comma, last = incomplete.rpartition(",")
    # If the option to complete has no value yet, click leaves the arguments in `args`.
    table = str(ctx.params.get("table") or ctx.params.get("before") or next(iter(ctx.args), ""))
    with contextlib.suppress(Exception):
        names = _handle(ctx, table).snapshot().schema.names
        return _starting((f"{before}{comma}{name}" for name in names), f"{before}{comma}{last}")
    return []


def _handle(ctx: typer.Context, table: str) -> Any:
    """Open a local table.

    Args:
        table: path of the table, key of its topic, or table name in the configuration.

    Raises:
        ArgumentError: the table isn't on the local disk.
    """
    path, _, _ = split_reference(table)
    for key, section in _sections(ctx):
        destination = section.get("destination") or {}
        if path in (key, destination.get("table-name")):
            folder = Path(ctx.params.get("config") or ".").parent
            path = str(destination["table-path"])
            path = path if "://" in path else str(folder / path)
            break
    if "://" in path:
        raise ArgumentError(f"{path}: not a local table.", argument="table")
    return open_table(path)


def _starting(names: Any, incomplete: str) -> list[str]:
    return sorted({name for name in names if name and name.startswith(incomplete)})


def _sections(ctx: typer.Context) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (key, settings) of each topic, from `--config` or the current folder's YAML files."""
    named = ctx.params.get("config")
    files = [Path(named)] if named else sorted(Path().glob("*.y*ml"))[:_MAX_FILES]
    for file in files:
        with contextlib.suppress(Exception):
            sections = _plain_yaml(file)["connector"]["topics"]
            for key, section in sections.items():
                if isinstance(section, dict):
                    yield str(key), section


def _plain_yaml(file: Path) -> Any:
    from ruamel.yaml import YAML

    return YAML(typ="safe").load(file)


def _folders(incomplete: str) -> Iterator[str]:
    """Yield the paths of the folders that have the same parent folder as the path `incomplete`.

    A yielded path ends with `/` if the folder isn't a table.
    """
    if "://" in incomplete:
        return
    parent, slash, _ = incomplete.rpartition("/")
    with contextlib.suppress(OSError):
        for number, folder in enumerate(Path(f"{parent}{slash}" or ".").iterdir()):
            if number == _MAX_FOLDERS:
                return
            if folder.is_dir() and not folder.name.startswith((".", "_")):
                is_table = (folder / "_delta_log").is_dir()
                yield f"{parent}{slash}{folder.name}{'' if is_table else '/'}"
