"""What people see, where the output is no terminal and narrow."""

from __future__ import annotations

import re

from bayou.cli.output.console import ConsoleOutput


def test_a_command_to_copy_stays_whole_on_a_narrow_console(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    command = f'python -c "{"x" * 200}"'
    ConsoleOutput().text("Try next", f"bayou history t\n{command}")
    assert capsys.readouterr().out.splitlines() == [
        "Try next",
        "  bayou history t",
        f"  {command}",
    ]


def test_what_goes_to_a_pipe_is_neither_folded_nor_padded(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    path = "/a/long/path" * 9
    ConsoleOutput().rows("Tables", [{"table": path, "rows": 3}], event="table")
    ConsoleOutput().facts("Facts", {"where": path}, event="table")
    lines = capsys.readouterr().out.splitlines()
    assert sum(path in line for line in lines) == 2
    assert max(map(len, lines)) < len(path) + 20


def test_a_terminal_too_narrow_for_a_table_has_a_line_for_each_value(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    rows = [{"topic": name, "rows": 1234, "last commit": "2024-01-05 10:00:00"} for name in "ab"]
    for width, below in ((80, False), (24, True)):
        monkeypatch.setenv("COLUMNS", str(width))
        ConsoleOutput().rows("", rows, event="row")
        shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
        lines = [line.split() for line in shown.splitlines()]
        assert (["topic", "rows", "last", "commit"] in lines) is not below
        assert (["rows", "1,234"] in lines) is below


def test_text_without_a_title_is_printed_as_it_stands(capsys):
    ConsoleOutput().text("", "one\n  two")
    assert capsys.readouterr().out == "one\n  two\n"


def test_what_a_terminal_obeys_is_shown_and_not_sent(capsys):
    output, command = ConsoleOutput(), "\x1b]52;c;cm0gLXJmIH4=\x07"
    output.rows("", [{"value": command, command: "a\tb"}], event="row")
    output.facts("", {"value": f"one\n{command}", f"header {command}": "\x9b31m"}, event="row")
    output.error(command, kind="Error")
    output.notice(command)
    told = capsys.readouterr()
    assert not set(told.out + told.err) & {"\x1b", "\x07", "\x9b"}
    assert told.out.count(r"\x1b]52;c;cm0gLXJmIH4=\x07") == 4
    assert "\\x9b31m" in told.out
