"""Arguments that several commands have.

The table that a command is about: by its path, or as a topic of a configuration.

Moments as commands show them.

`bayou completion`: the script that lets a shell complete commands and options.

What is said of masks whose field nobody has seen.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from bayou.errors import ArgumentError

if TYPE_CHECKING:
    from bayou.api import TableHandle
    from bayou.ingest.config import Configuration, Topic

__all__ = [
    "COMPLETE_VARIABLE",
    "AsJson",
    "AtTime",
    "AtVersion",
    "Config",
    "FromConfig",
    "OnlyTopics",
    "Settings",
    "Shell",
    "TablePath",
    "completion",
    "named_topics",
    "of_topic",
    "opened_table",
    "prepare_completion",
    "told_unseen",
    "utc_text",
]


Config: TypeAlias = Annotated[
    Path, typer.Argument(metavar="CONFIG", help="The YAML file.", show_default=False)
]

OnlyTopics: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--topic", metavar="TOPIC", help="Only this one; repeatable.", show_default=False),
]

Settings: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a key, such as connector.kafka.bootstrap-servers=host:9092; repeatable.",
        show_default=False,
    ),
]

AsJson: TypeAlias = Annotated[
    bool, typer.Option("--json", help="One JSON object a line, for machines.")
]

AtVersion: TypeAlias = Annotated[
    int | None,
    typer.Option("--version", "-V", min=0, help="A version of the table.", show_default=False),
]

AtTime: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--timestamp",
        "-t",
        help="The last version at or before this time, such as 2024-01-05T10:00:00Z.",
        show_default=False,
    ),
]


TablePath: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="A folder or s3://...; with --config also a topic of it.",
        show_default=False,
    ),
]

FromConfig: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        help="A YAML file: TABLE may be one of its topics, its storage settings are used.",
        show_default=False,
    ),
]


def opened_table(
    table: str, config: Path | None = None, settings: Sequence[str] | None = None
) -> TableHandle:
    """A handle on a table; nothing is read yet.

    Args:
        table: a path, or where there is a configuration the name of a topic or table of it.
        config: the YAML file that names topics and says how to reach their store.
        settings: overrides of it.

    Raises:
        ArgumentError: settings without a configuration.
    """
    import bayou

    if config is None:
        if settings:
            raise ArgumentError("--set needs --config: there is nothing to set.", argument="set")
        return bayou.table(table)
    from bayou.ingest.config import load_configuration

    configuration = load_configuration(config, settings=settings or ())
    topic = configuration.find_topic(table)
    options = configuration.connector.storage.storage_options()
    return bayou.table(table if topic is None else topic.table_path, options)


def named_topics(configuration: Configuration, names: Sequence[str] | None) -> tuple[Topic, ...]:
    """The topics of these names, or of tables of these names or paths; all where none are given.

    Raises:
        ArgumentError: a name that isn't one.
    """
    if not names:
        return configuration.topics
    return tuple(configuration.topic(name) for name in names)


def of_topic(topic: str, message: str) -> str:
    """A message that names its topic, as many do by themselves."""
    return message if message.startswith(f"topic {topic!r}") else f"topic {topic!r}: {message}"


def utc_text(milliseconds: int | None) -> str:
    """A moment since the epoch in UTC, to the second; empty for None."""
    if milliseconds is None:
        return ""
    return f"{dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC):%Y-%m-%d %H:%M:%S}"


COMPLETE_VARIABLE = "_BAYOU_COMPLETE"
"""Set by the script when the shell asks what may follow."""


class Shell(StrEnum):
    """Shells that completion is there for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[
        Shell, typer.Argument(metavar="SHELL", help="Which shell.", show_default=False)
    ],
) -> None:
    """Print the script that completes commands in a shell.

    bayou completion bash >> ~/.bashrc
    """
    from typer._completion_shared import get_completion_script

    typer.echo(
        get_completion_script(prog_name="bayou", complete_var=COMPLETE_VARIABLE, shell=shell.value)
    )


def prepare_completion() -> None:
    """Have typer answer the script; it does so by itself only with options of its own."""
    from typer._completion_classes import completion_init

    completion_init()


def told_unseen(paths: Sequence[str]) -> str:
    """A warning, for a misspelt mask leaves its field in clear."""
    return (
        f"masks: no field is called {', '.join(repr(path) for path in paths)}; if that is "
        "misspelt, the field that was meant stays in clear"
    )
