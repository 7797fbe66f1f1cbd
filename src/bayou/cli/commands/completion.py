"""`bayou completion`: print the script that completes commands in a shell."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

COMPLETE_VARIABLE = "_BAYOU_COMPLETE"
"""Environment variable that the completion script sets to request completions."""


class Shell(StrEnum):
    """The shells that `bayou completion` supports."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[
        Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.", show_default=False)
    ],
) -> None:
    """Print the script that completes commands in a shell.

    Topics, tables and columns are completed from the configurations (`*.yaml`) in the current
    folder.

    Example:
        bayou completion bash >> ~/.bashrc
    """
    from typer._completion_shared import get_completion_script

    typer.echo(
        get_completion_script(prog_name="bayou", complete_var=COMPLETE_VARIABLE, shell=shell.value)
    )


def prepare_completion() -> None:
    """Enable shell completion. Typer enables it only for apps with `--install-completion`."""
    from typer._completion_classes import completion_init

    completion_init()
