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


def test_text_without_a_title_is_printed_as_it_stands(capsys):
    ConsoleOutput().text("", "one\n  two")
    assert capsys.readouterr().out == "one\n  two\n"
