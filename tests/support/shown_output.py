"""Output that a page shows, and its comparison with what a block prints.

With the environment variable `BAYOU_RECORD_OUTPUT`, the output is written into the page instead.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

__all__ = ["Terminal", "compare_or_record", "on_terminal"]

COLUMNS = 160
"""Width of the terminal: the paths of tests are longer than those of readers."""

_VARIES = (
    (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|\+\d\d:\d\d)?", "TIME"),
    (r"\d[\d,.]*(?=(?: ms| s| min| rows/s| bytes| KB| MB)\b)", "N"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}", "UUID"),
    (r"(?:localhost|127\.0\.0\.1):\d+", "ADDRESS"),
    (r"[─━]+", "─"),
    (r"-{3,}", "---"),
    (r" +", " "),
)
"""Parts of an output that differ from run to run."""

_CONTROL = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\r|\n")


def compare_or_record(page: Path, line: int, expected: str, printed: str) -> None:
    """Compare what a block printed with its output on the page.

    Args:
        line: number of the block's first line of code.
    """
    if _comparable(printed) == _comparable(expected):
        return
    lines = [text.rstrip() for text in printed.splitlines()]
    text = textwrap.dedent("\n".join(lines).strip("\n")) + "\n"
    assert "BAYOU_RECORD_OUTPUT" in os.environ, f"the page shows:\n{expected}\nprinted:\n{text}"
    before, after = page.read_text(), ""
    start = sum(map(len, before.splitlines(keepends=True)[: line - 1]))
    before, after = before[:start], before[start:]
    page.write_text(before + after.replace(f"```text\n{expected}", f"```text\n{text}", 1))


def _comparable(text: str) -> list[str]:
    """Return the lines of an output without blank lines, times, durations and widths of columns."""
    for pattern, name in _VARIES:
        text = re.sub(pattern, name, text)
    return [line.strip() for line in text.splitlines() if line.strip()]


class Terminal(io.StringIO):
    """A terminal that shows text, whose lines can be overwritten by a live display."""

    def isatty(self) -> bool:
        return True

    def screen(self) -> str:
        """Return what the terminal shows at the end, without colors."""
        lines, row, start = [""], 0, 0
        text = self.getvalue()
        for control in (*_CONTROL.finditer(text), None):
            written = text[start : control.start() if control else len(text)]
            lines[row] += written
            if control is None:
                break
            start = control.end()
            if control[0] == "\n":
                row += 1
                lines += [""] * (row == len(lines))
            elif control[2] == "A":
                row -= int(control[1] or 1)
            elif control[2] == "K":
                lines[row] = ""
        return "\n".join(lines)


@contextlib.contextmanager
def on_terminal(setenv: Callable[[str, str], None]) -> Iterator[Terminal]:
    """Context manager that returns the terminal to which stdout and stderr are redirected."""
    terminal = Terminal()
    setenv("COLUMNS", str(COLUMNS))
    setenv("TERM", "xterm")
    with contextlib.redirect_stdout(terminal), contextlib.redirect_stderr(terminal):
        yield terminal
