"""Arguments that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

__all__ = ["AsJson", "AtTime", "AtVersion", "Config", "OnlyTopics", "Settings"]

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
