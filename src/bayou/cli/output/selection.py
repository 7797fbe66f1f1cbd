"""Choice of the output form."""

from __future__ import annotations

from bayou.cli.output.interface import Output

__all__ = ["output_for"]


def output_for(*, as_json: bool) -> Output:
    """The console or the JSON output, imported on demand so that --help is fast."""
    if as_json:
        from bayou.cli.output.json import JsonOutput

        return JsonOutput()
    from bayou.cli.output.console import ConsoleOutput

    return ConsoleOutput()
