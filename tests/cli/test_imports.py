"""Which modules a command imports: the start of a process is most of the time of a small read."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

import bayou

pytestmark = pytest.mark.process

SLOW = {
    "bayou.ingest.config",
    "confluent_kafka",
    "duckdb",
    "pandas",
    "polars",
    "pyarrow.dataset",
    "pyarrow.fs",
    "pydantic",
    "pyspark",
    "sqlglot",
    "ssl",
}
COMMAND = """
import atexit, sys
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
from bayou.cli.script import main
main()
"""


CONFIGURATION = """
connector:
  kafka:
    bootstrap-servers: "127.0.0.1:9"
  topics:
    numbers:
      kafka-topic: "numbers"
      destination:
        table-path: "{table}"
"""


def _modules(*arguments, code=0):
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    return set(done.stderr.split())


@pytest.fixture
def table(tmp_path):
    path = str(tmp_path / "table")
    bayou.write(path, pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}))
    return path


@pytest.mark.parametrize("command", [("read",), ("history",), ("schema", "show"), ("verify",)])
@pytest.mark.parametrize("output", [(), ("--json",)])
def test_a_look_at_a_table_imports_no_slow_module(table, command, output):
    assert SLOW.isdisjoint(_modules(*command, table, *output))


@pytest.mark.parametrize("command", ["read", "history"])
def test_data_is_printed_without_rich(table, command):
    assert "rich" not in _modules(command, table, "--output", "tsv")


def test_only_the_module_of_the_command_is_imported(table):
    commands = {name for name in _modules("read", table) if name.startswith("bayou.cli.commands.")}
    assert commands == {
        "bayou.cli.commands.completion",
        "bayou.cli.commands.tables",
        "bayou.cli.commands.tables.read",
    }


def test_the_status_of_a_topic_imports_no_spark(table, tmp_path):
    configuration = tmp_path / "pipeline.yaml"
    configuration.write_text(CONFIGURATION.format(table=table))
    modules = _modules("status", str(configuration), "--json", code=1)  # no broker answers
    assert "confluent_kafka" in modules
    assert SLOW & modules <= {"bayou.ingest.config", "confluent_kafka", "pydantic", "ssl"}
