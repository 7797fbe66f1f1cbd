"""The table that a command is about: by its path, or as a topic of a configuration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from bayou.errors import ArgumentError

if TYPE_CHECKING:
    from bayou.api import TableHandle
    from bayou.ingest.config import Configuration, Topic

__all__ = ["FromConfig", "TablePath", "named_topics", "of_topic", "opened_table"]

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
