"""What people see, where the output is no terminal and narrow."""

from __future__ import annotations

from bayou.cli.output.console import ConsoleOutput


def test_a_command_to_copy_stays_whole_on_a_narrow_console(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    command = f'python -c "{"x" * 200}"'
    ConsoleOutput().text("Try next", f"bayou history t\n{command}")
    assert capsys.readouterr().out.splitlines() == [
        "",
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


def test_text_without_a_title_is_printed_as_it_stands(capsys):
    ConsoleOutput().text("", "one\n  two")
    assert capsys.readouterr().out == "one\n  two\n"
