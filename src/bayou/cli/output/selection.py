"""Selects console or JSON output."""

from __future__ import annotations

from bayou.cli.output.interface import Output


def output_for(*, as_json: bool) -> Output:
    """Return the JSON or console output. Only its class is imported, which keeps `--help` fast."""
    if as_json:
        from bayou.cli.output.json import JsonOutput

        return JsonOutput()
    from bayou.cli.output.console import ConsoleOutput

    return ConsoleOutput()
