"""Arguments, checks and messages that several commands share."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from bayou.cli import completions
from bayou.errors import ArgumentError

if TYPE_CHECKING:
    from bayou.ingest.config import Configuration, Topic

Config: TypeAlias = Annotated[
    Path,
    typer.Argument(
        metavar="CONFIG",
        help="The YAML file.",
        show_default=False,
        autocompletion=completions.configurations,
    ),
]

OnlyTopics: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        metavar="TOPIC",
        help="Only this topic; repeatable.",
        show_default=False,
        autocompletion=completions.topics,
    ),
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
    bool, typer.Option("--json", help="Print one JSON object per line, for programs.")
]

RowsAsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Same as --output jsonl.")]

RowsTo: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FORMAT|FILE",
        help="table, tsv, csv, json, jsonl or parquet, or a file such as rows.parquet. "
        "Default: table on a terminal, otherwise tsv.",
        show_default=False,
    ),
]

Limit: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--limit",
        "-n",
        metavar="N",
        min=0,
        help="Maximum number of rows; 0 for all. Default: 20 on a terminal, otherwise all.",
        show_default=False,
    ),
]

AtVersion: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--version", "-V", metavar="N", min=0, help="A version of the table.", show_default=False
    ),
]

AsOf: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="TIME",
        help="The last version at or before this time, such as 2024-01-05T10:00:00Z.",
        show_default=False,
    ),
]

Where: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--where",
        "-w",
        metavar="SQL",
        help="SQL condition on rows, such as \"day = '05' AND id > 3\".",
        show_default=False,
    ),
]

Columns: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="COLUMN,...",
        help="Comma-separated columns; all by default.",
        show_default=False,
        autocompletion=completions.columns,
    ),
]

TablePath: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="A folder or URI (s3://..., uc://catalog.schema.table); with --config also a topic of "
        "the configuration.",
        show_default=False,
        autocompletion=completions.tables,
    ),
]

FromConfig: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        metavar="CONFIG",
        help="A YAML file whose storage and catalog settings are used; TABLE may be one of its "
        "topics.",
        show_default=False,
        autocompletion=completions.configurations,
    ),
]


DryRun: TypeAlias = Annotated[
    bool, typer.Option("--dry-run", help="Print what would be done, without changing anything.")
]

Yes: TypeAlias = Annotated[
    bool, typer.Option("--yes", "-y", help="Don't ask for a confirmation on a terminal.")
]


def confirm(question: str, *, yes: bool) -> None:
    """Ask for confirmation on a terminal; exit with code 1 if the answer isn't yes.

    Without a terminal, or with `--yes`, the command continues without asking.
    """
    if yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    if not typer.confirm(question, err=True):
        typer.echo("Nothing was changed.", err=True)
        raise typer.Exit(1)


def check_time(as_of: str | None) -> str | None:
    """Check a value of `--as-of`.

    Raises:
        ArgumentError: the value isn't an ISO 8601 time.
    """
    if as_of is not None:
        try:
            dt.datetime.fromisoformat(as_of)
        except ValueError as error:
            raise ArgumentError(
                f"--as-of: {as_of!r} isn't a time. Use ISO 8601, such as 2024-01-05T10:00:00Z.",
                argument="as_of",
            ) from error
    return as_of


def split_names(names: str | None) -> list[str] | None:
    """Split comma-separated names, such as the value of `--columns`. None is returned as None."""
    return None if names is None else [name.strip() for name in names.split(",")]


def select_topics(configuration: Configuration, names: Sequence[str] | None) -> tuple[Topic, ...]:
    """Return the topics with the names that the user passed; all topics if `names` is empty.

    A name is the key of a topic, or the name or path of a topic's table. It can also be the key of
    a section in the configuration, and then selects all topics of the section.
    """
    if not names:
        return configuration.topics
    selected: dict[str, Topic] = {}
    for name in names:
        topics = configuration.find_topics(name) or (configuration.topic(name),)
        selected |= {topic.key: topic for topic in topics}
    return tuple(selected.values())


def load_topics(file: Path, settings: Sequence[str] | None) -> Configuration:
    """Load a configuration, and add the brokers' topics that match a `kafka-topic-pattern`."""
    from bayou.ingest.config import load_configuration

    configuration = load_configuration(file, settings=settings or ())
    if configuration.patterns:
        from bayou.ingest.broker import with_matching_topics

        return with_matching_topics(configuration)
    return configuration


def with_topic(topic: str, message: str) -> str:
    """Prefix a message with the topic's key; a message that already has the prefix is unchanged."""
    return message if message.startswith(f"topic {topic!r}") else f"topic {topic!r}: {message}"


def format_utc(milliseconds: int | None) -> str:
    """Format ms since the epoch as `2024-01-05 13:00:00` in UTC; None gives an empty string."""
    if milliseconds is None:
        return ""
    return f"{dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC):%Y-%m-%d %H:%M:%S}"


def table_differences_warning(differences: Sequence[str], *, changed: bool) -> str:
    """Return a warning that lists differences between the settings of the YAML file and a table.

    Args:
        changed: whether the pipeline changes the table to match the settings
            (`apply-table-changes`).
    """
    listed = "; ".join(differences)
    if changed:
        return f"apply-table-changes: the table is changed to match the configuration: {listed}"
    return (
        f"the table differs from the configuration: {listed}. Set apply-table-changes: true in "
        "destination to change the table, or correct the configuration"
    )


def unseen_fields_warning(paths: Sequence[str]) -> str:
    """Return a warning about fields that expressions read but that no record contains."""
    return (
        f"processing: no record has the field {', '.join(repr(path) for path in paths)}. Check the "
        "spelling: in the expressions of columns, where and route-by, the field is NULL"
    )


def unseen_masks_warning(paths: Sequence[str]) -> str:
    """Return a warning about fields that the YAML file masks but that no record contains."""
    return (
        f"masks: no record has the field {', '.join(repr(path) for path in paths)}. Check the "
        "spelling: a field isn't masked if its path is misspelled"
    )
