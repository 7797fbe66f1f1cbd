"""What commands print, behind one interface: for people, and as JSON for machines."""

from bayou.cli.output.interface import Output
from bayou.cli.output.selection import output_for

__all__ = ["Output", "output_for"]
