"""`bayou completion`: the script that lets a shell complete commands and options."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

__all__ = ["COMPLETE_VARIABLE", "Shell", "completion", "prepare_completion"]

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
