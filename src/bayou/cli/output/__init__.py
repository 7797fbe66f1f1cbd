"""Output of commands, for people and for programs.

Commands that print rows use `rows_output`, which prints a text table or the format that `--output`
selects. Other commands use `output_for`, which prints text or JSON lines.
"""

from bayou.cli.output.interface import Output, RowsOutput
from bayou.cli.output.selection import output_for, row_limit, rows_output

__all__ = ["Output", "RowsOutput", "output_for", "row_limit", "rows_output"]
