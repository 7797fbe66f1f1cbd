"""What can't be undone is confirmed on a terminal, and never asked elsewhere."""

from __future__ import annotations

import os
import pty
import signal
import sys
from select import select

import pytest

import bayou

pytestmark = pytest.mark.process


@pytest.fixture
def stray(table):
    """An old file that no version needs, in the folder of a table."""
    bayou.table(table)
    file = table / "stray.parquet"
    file.write_bytes(b"x" * 1_000)
    os.utime(file, (0, 0))
    return file


def on_a_terminal(*arguments, answer):
    """Run a command on a terminal of its own; return its exit code and what it showed."""
    process, terminal = pty.fork()
    if process == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background job ignores it
        os.execv(sys.executable, [sys.executable, "-m", "bayou.cli", *map(str, arguments)])
    shown = b""
    answered = False
    while True:
        # Ctrl-C between the prompt and the read has no effect in Python: press it again.
        while answered and answer == b"\x03" and not select([terminal], [], [], 2)[0]:
            os.write(terminal, answer)
        try:
            data = os.read(terminal, 4096)
        except OSError:  # the terminal is closed
            break
        if not data:
            break
        shown += data
        if b"[y/N]" in shown and not answered:
            answered = True
            os.write(terminal, answer)
    _, status = os.waitpid(process, 0)
    os.close(terminal)
    return os.waitstatus_to_exitcode(status), shown.decode()


@pytest.mark.parametrize(
    ("answer", "code", "stays"), [(b"n\n", 1, True), (b"\x03", 130, True), (b"y\n", 0, False)]
)
def test_a_vacuum_is_confirmed_on_a_terminal(table, stray, answer, code, stays):
    found, shown = on_a_terminal("vacuum", table, answer=answer)
    assert found == code
    assert "Delete 1 files and folders, 0.0 MB, permanently?" in shown
    assert ("Nothing was changed." in shown) is stays
    assert stray.exists() is stays


def test_yes_answers_in_advance(table, stray):
    code, shown = on_a_terminal("vacuum", table, "--yes", answer=b"")
    assert code == 0
    assert "[y/N]" not in shown
    assert not stray.exists()


def test_without_a_terminal_nothing_is_asked(invoke, table, stray):
    assert invoke("vacuum", table).exit_code == 0
    assert not stray.exists()
