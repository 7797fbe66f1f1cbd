"""A pipeline whose output nobody reads, or that has nowhere to go."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import pytest
import typer

from bayou.cli.exit_on_error import exit_on_error
from bayou.cli.output.console import ConsoleOutput
from bayou.cli.output.interface import ReaderClosedError, ResilientReporter
from bayou.cli.output.json import JsonOutput
from bayou.cli.output.log_lines import LogReporter
from bayou.ingest.events import BatchReport


def told(error):
    """How often a run is ended by a listener that fails like that at each event."""
    ended = []

    def write(line):
        raise error

    listener = ResilientReporter(LogReporter(write), lambda: ended.append(1))
    listener.batch_committed(BatchReport(topic="a"))
    return len(ended)


def test_a_reader_that_went_away_ends_the_run_and_fails_no_batch():
    assert told(ReaderClosedError()) == 1


@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device"),
        ValueError("I/O operation on closed file"),
        UnicodeEncodeError("ascii", "ü", 0, 1, "not in range"),
    ],
)
def test_a_line_that_can_not_be_written_neither_ends_the_run_nor_fails_a_batch(error):
    assert told(error) == 0


def test_a_pipe_that_nobody_reads_is_an_error_and_not_the_end_of_a_thread(monkeypatch):
    class Unread(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Unread())
    with pytest.raises(ReaderClosedError):
        ConsoleOutput().text("", "a line")
    with pytest.raises(ReaderClosedError):
        JsonOutput().text("", "a line")


def test_the_end_of_another_pipe_is_said(capsys):
    with pytest.raises(typer.Exit) as ended, exit_on_error(ConsoleOutput()):
        raise BrokenPipeError(32, "Broken pipe")  # such as that of a process
    assert ended.value.exit_code == 1
    assert "Broken pipe" in capsys.readouterr().err


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A table of more rows than a pipe holds."""
    import pyarrow as pa

    import bayou

    path = str(tmp_path_factory.mktemp("tables") / "tüñ")
    bayou.write(path, pa.table({"id": range(2_000), "text": ["x" * 50] * 2_000}))
    return path


def command(*arguments, stdout, **environment):
    """Run the command with its output there; gives its exit code and what it said on stderr."""
    ended = subprocess.run(
        [sys.executable, "-m", "bayou.cli", *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        env={**os.environ, **environment},
        check=False,
    )
    return ended.returncode, ended.stderr.decode(errors="replace")


FORMS = [[], pytest.param(["--json"], marks=pytest.mark.slow)]


@pytest.mark.process
@pytest.mark.parametrize("form", FORMS)
def test_a_pipe_that_closes_early_is_no_error_to_tell(table, form):
    reader, writer = os.pipe()
    os.close(reader)
    assert command("read", table, "-n", "0", *form, stdout=writer) == (1, "")
    os.close(writer)


@pytest.mark.process
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
def test_a_full_disk_is_said_where_there_is_room(table, form):
    with open("/dev/full", "wb") as full:
        code, said = command("read", table, *form, stdout=full)
    assert (code, said.count("\n")) == (1, 1)
    assert "no space left on the disk" in said


@pytest.mark.process
@pytest.mark.parametrize("form", FORMS)
def test_any_encoding_of_the_locale_will_do(table, form, tmp_path):
    with (tmp_path / "out").open("wb") as out:
        code, said = command("verify", table, *form, stdout=out, PYTHONIOENCODING="ascii")
    assert (code, said) == (0, "")
    assert ("tüñ" if form else r"t\xfc\xf1") in (tmp_path / "out").read_text("utf-8")
