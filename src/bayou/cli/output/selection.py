"""Which output the user asked for."""

from __future__ import annotations

from bayou.cli.output.interface import Output

__all__ = ["output_for"]


def output_for(*, as_json: bool) -> Output:
    """The output for people, or for machines; loaded on use, so that --help is quick."""
    if as_json:
        from bayou.cli.output.json import JsonOutput

        return JsonOutput()
    from bayou.cli.output.console import ConsoleOutput

    return ConsoleOutput()
