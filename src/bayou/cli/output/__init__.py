"""Output of commands: one interface with a console and a JSON implementation."""

from bayou.cli.output.interface import Output
from bayou.cli.output.selection import output_for

__all__ = ["Output", "output_for"]
