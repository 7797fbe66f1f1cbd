"""`bayou demo` runs, fits a terminal of 80 columns, and the commands that it ends with work."""

from __future__ import annotations

import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import bayou

pytestmark = [pytest.mark.process, pytest.mark.slow]

COLUMNS = 80
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def on_terminal(folder: Path, *command: str) -> str:
    """Run a command on a terminal of 80 columns; return what it shows at its end."""
    environment = {
        **os.environ,
        "COLUMNS": str(COLUMNS),
        "TERM": "xterm",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": ":".join(path for path in sys.path if path),
    }
    parent, child = pty.openpty()
    output = bytearray()
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdin=child, stdout=child, stderr=child
    ) as process:
        os.close(child)
        while True:
            try:
                part = os.read(parent, 65536)
            except OSError:  # Linux: the last process has closed the terminal
                break
            if not part:
                break
            output += part
    os.close(parent)
    text = _ESCAPE.sub("", output.decode())
    assert process.returncode == 0, text[-4000:]
    return text.replace("\r\n", "\n")


def test_the_demo_fits_a_terminal_and_what_it_proposes_works(tmp_path: Path) -> None:
    text = on_terminal(tmp_path, "bayou", "demo")
    shown, _, proposed = text.rpartition("Try next")
    result = shown[shown.rindex("Result") :]
    assert "336,776 rows have 336,776 distinct offsets" in result
    assert max(map(len, result.splitlines())) <= COLUMNS
    assert bayou.table(str(tmp_path / "demo" / "lake" / "flights")).count() == 336_776
    commands = [line.strip() for line in proposed.splitlines() if line.strip()]
    assert commands[-1].endswith("bayou demo --open")
    for command in commands[:-1]:
        if not command.startswith("#"):
            assert on_terminal(tmp_path, *shlex.split(command))
