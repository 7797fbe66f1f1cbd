"""Wrong usage and help: one style of messages, exit code 2, suggestions."""

from __future__ import annotations

import pytest
import typer

from bayou.cli.main import command_line
from bayou.cli.usage import description, option_name


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("completion pwsh", "SHELL: 'pwsh' isn't one of bash, zsh, fish."),
        ("completion bsh", "SHELL: 'bsh' isn't one of bash, zsh, fish. Did you mean 'bash'?"),
        ("read t --version -1", "--version: '-1' is too small. Give 0 or more."),
        ("read t --version x", "--version: 'x' isn't a whole number."),
        ("vacuum t --retention-hours x", "--retention-hours: 'x' isn't a number."),
        ("read t --wher x", "--wher: bayou read has no such option. Did you mean '--where'?"),
        ("reed t", "reed: bayou has no such command. Did you mean 'read'?"),
        ("dlq lst x", "lst: bayou dlq has no such command. Did you mean 'list'?"),
        ("read", "bayou read: TABLE is missing."),
        ("read a b", "bayou read: unexpected argument 'b'."),
        ("read t --limit", "--limit: a value is missing."),
        ("optimize t --dry-run=3", "--dry-run: has no value."),
        ("migrate a b", "bayou migrate: the option --config is missing."),
        ("read t --as-of yesterday", "--as-of: 'yesterday' isn't a time. Use ISO 8601"),
    ],
)
def test_wrong_usage_is_one_sentence_and_exit_code_2(invoke, arguments, message):
    result = invoke(*arguments.split())
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {message}")
    assert result.stdout == ""


@pytest.mark.parametrize(
    "arguments",
    [
        "run p.yaml --set connector.storage.secret-key hunter2",
        "run p.yaml --set hunter2",
        "read t --config p.yaml --set hunter2",
        "init t --security key-password hunter2",
        "init t --security hunter2",
        "run p.yaml --set connector.kafka.security.password hunter2 --once",
    ],
)
def test_a_value_without_its_key_is_not_repeated(invoke, tmp_path, monkeypatch, arguments):
    """It may be a secret, such as a password that follows its key after a space."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text("connector: {}\n")
    result = invoke(*arguments.split())
    assert result.exit_code == 2
    assert "KEY=VALUE" in result.stderr
    assert "hunter2" not in result.stderr + result.stdout


def test_a_misspelled_column_or_table_is_suggested(invoke, table):
    result = invoke("read", table, "--columns", "id,nam")
    assert result.exit_code == 2
    assert "has no column 'nam'. Did you mean 'name'?" in result.stderr
    result = invoke("optimize", table, "--zorder", "idd")
    assert result.exit_code == 2
    assert "Did you mean 'id'?" in result.stderr
    result = invoke("read", table.with_name("tabel"))
    assert result.exit_code == 1
    assert f"Did you mean '{table}'?" in result.stderr


def test_a_misspelled_topic_is_suggested(invoke, tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text(
        "connector:\n  kafka: {bootstrap-servers: 'h:1'}\n  topics:\n    orders:\n"
        "      kafka-topic: orders\n      destination: {table-path: lake/orders}\n"
    )
    for command in (
        ("read", "ordrs", "--config", file),
        ("dlq", "show", file, "ordrs"),
        ("status", file, "--topic", "ordrs"),
        ("verify", "ordrs", "--config", file),
    ):
        result = invoke(*command)
        assert result.exit_code == 2
        assert "Did you mean 'orders'?" in result.stderr


def _commands(command, path="bayou"):
    for name, sub in getattr(command, "commands", {}).items():
        if hasattr(sub, "commands"):
            yield from _commands(sub, f"{path} {name}")
        else:
            yield f"{path} {name}", sub


COMMANDS = dict(_commands(typer.main.get_command(command_line())))


@pytest.mark.parametrize("path", COMMANDS)
def test_help_has_a_description_an_example_and_named_values(invoke, path):
    command = COMMANDS[path]
    text, example = description(command)
    assert text.split("\n")[0].endswith(".")
    assert all(line.startswith(path) for line in example.splitlines())
    assert example
    for option in command.params:
        assert option.help, (path, option.name)
        if option.param_type_name == "option" and not option.is_flag:
            assert option.metavar, (path, option.name)
            assert option.metavar == option.metavar.upper(), option_name(option)


@pytest.mark.parametrize("columns", ["72", "80", "200"])
def test_help_fits_the_terminal(invoke, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    for arguments in ((), ("read",), ("dlq", "replay"), ("init",)):
        result = invoke(*arguments, "--help")
        assert result.exit_code == 0
        limit = min(100, int(columns))
        long = [line for line in result.stdout.splitlines() if len(line) > limit]
        assert all(line.startswith("  bayou") for line in long)  # examples stay whole


def test_nothing_is_the_help_and_wrong_usage(invoke):
    result = invoke()
    assert result.exit_code == 2
    assert "Usage: bayou [OPTIONS] COMMAND" in result.stderr
