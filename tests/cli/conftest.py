"""What tests of commands share."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import bayou
from bayou.cli.main import command_line


@pytest.fixture(scope="session")
def invoke():
    """Run a command; gives its result."""
    runner = CliRunner()

    def run(*arguments):
        return runner.invoke(command_line(), [str(a) for a in arguments])

    return run


@pytest.fixture(scope="session")
def events(invoke):
    """Run a command with --json; gives the exit code and what it printed, errors last."""

    def run(*arguments):
        result = invoke(*arguments, "--json")
        lines = [*result.stdout.splitlines(), *result.stderr.splitlines()]
        return result.exit_code, [json.loads(line) for line in lines]

    return run


@pytest.fixture
def table(tmp_path):
    """A table of three commits, a row each."""
    path = tmp_path / "table"
    for number in range(3):
        rows = pa.table({"id": [number], "name": [f"n{number}"]})
        bayou.write(str(path), rows, mode="append")
    return path
