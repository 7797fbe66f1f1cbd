"""What a shell is answered: commands, topics, tables, columns, versions."""

from __future__ import annotations

import io
import sys

import pyarrow as pa
import pytest

import bayou
from bayou.cli.commands.completion import prepare_completion
from bayou.cli.main import command_line


@pytest.fixture
def complete(tmp_path, monkeypatch):
    """Return a function that completes the last word of a command line, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text(
        "connector:\n  kafka: {bootstrap-servers: '${UNSET}'}\n  topics:\n"
        "    orders: {kafka-topic: o, destination: {table-path: lake/orders, table-name: sales}}\n"
        "    users: {kafka-topic: u, destination: {table-path: lake/users}}\n"
    )
    (tmp_path / "broken.yaml").write_text("connector: [")
    for number in range(2):
        rows = pa.table({"id": [number], "amount": [1.5], "at": ["x"]})
        bayou.write("lake/orders", rows, mode="append")
    (tmp_path / "lake" / "deep").mkdir()

    def complete(line):
        words = line.split(" ")
        monkeypatch.setenv("_BAYOU_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        stdout = io.StringIO()
        monkeypatch.setattr(sys, "stdout", stdout)
        prepare_completion()
        with pytest.raises(SystemExit):
            command_line()(prog_name="bayou")
        return stdout.getvalue().split()

    return complete


@pytest.mark.parametrize(
    ("line", "answers"),
    [
        ("bayou di", ["diff"]),
        ("bayou validate ", ["broken.yaml", "p.yaml"]),
        ("bayou status p.yaml --topic ", ["orders", "users"]),
        ("bayou dlq show p.yaml o", ["orders"]),
        ("bayou read la", ["lake/", "lake/orders", "lake/users"]),
        ("bayou read lake/", ["lake/deep/", "lake/orders", "lake/users"]),
        ("bayou read --config p.yaml s", ["sales"]),
        ("bayou read lake/orders --columns a", ["amount", "at"]),
        ("bayou read lake/orders --columns id,am", ["id,amount"]),
        ("bayou read --config p.yaml orders --columns i", ["id"]),
        ("bayou diff lake/orders@", ["lake/orders@0", "lake/orders@1"]),
        ("bayou optimize lake/orders --zorder a", ["amount", "at"]),
        ("bayou read lake/nowhere --columns a", []),
    ],
)
def test_a_word_is_completed(complete, line, answers):
    assert complete(line) == answers
