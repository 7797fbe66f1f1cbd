"""`bayou sql`: rows of queries over tables, paths and topics."""

from __future__ import annotations

import json
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bayou


@pytest.fixture
def lake(tmp_path, monkeypatch):
    """A folder with the tables `orders` and `customers`, as the current folder."""
    orders = {"id": range(30), "customer": [i % 2 for i in range(30)], "price": [1.5] * 30}
    bayou.write(str(tmp_path / "orders"), pa.table(orders))
    bayou.write(str(tmp_path / "customers"), pa.table({"id": [0, 1], "name": ["Ada", "Bo"]}))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_paths_and_named_tables_are_joined(invoke, lake):
    query = """
        SELECT name, count(*) AS n FROM './orders' o JOIN c ON c.id = o.customer
        GROUP BY name ORDER BY name
    """
    result = invoke("sql", query, "--table", "c=customers")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == "name\tn\nAda\t15\nBo\t15\n"


def test_rows_are_written_in_a_format_or_to_a_file(invoke, lake):
    query = "SELECT id, price FROM './orders' WHERE id < 2 ORDER BY id"
    lines = invoke("sql", query, "--json").stdout.splitlines()
    assert [json.loads(line) for line in lines] == [
        {"id": 0, "price": 1.5},
        {"id": 1, "price": 1.5},
    ]
    assert invoke("sql", query, "--output", "rows.parquet").exit_code == 0
    assert pq.read_table("rows.parquet").num_rows == 2


def test_a_table_for_people_is_limited(invoke, lake):
    result = invoke("sql", "FROM './orders'", "--output", "table", "--limit", 3)
    assert result.exit_code == 0
    assert "only 3 rows" in result.stderr
    assert len(invoke("sql", "FROM './orders'").stdout.splitlines()) == 31
    assert len(invoke("sql", "FROM './orders'", "--limit", 2).stdout.splitlines()) == 3


@pytest.mark.parametrize("name", ["things", "all_orders"])
def test_a_name_is_a_topic_of_a_configuration_in_the_folder(invoke, lake, name):
    (lake / "other.yaml").write_text("services: {}\n")
    (lake / "p.yaml").write_text(
        "connector:\n  topics:\n    things:\n      kafka-topic: things\n"
        f"      destination: {{table-path: '{lake / 'orders'}', table-name: all_orders}}\n"
    )
    result = invoke("sql", f"SELECT max(id) AS m FROM {name}")
    assert result.stdout == "m\n29\n", result.stderr
    result = invoke("sql", f"SELECT max(id) AS m FROM {name}", "--config", "p.yaml")
    assert result.stdout == "m\n29\n", result.stderr
    result = invoke("sql", "FROM thing")
    assert result.exit_code == 2
    assert "Did you mean 'things'?" in result.stderr


def test_versions_are_compared(invoke, lake):
    bayou.table("orders").delete("id = 7")
    query = "SELECT id FROM './orders@0' ANTI JOIN now USING (id)"
    assert invoke("sql", query, "--table", "now=orders@1").stdout == "id\n7\n"


def test_a_query_is_read_from_standard_input(lake):
    from typer.testing import CliRunner

    from bayou.cli.main import command_line

    result = CliRunner().invoke(
        command_line(), ["sql", "-"], input="SELECT count(*) AS n FROM './orders'"
    )
    assert result.stdout == "n\n30\n"


def test_names_of_with_clauses_and_of_duckdb_arent_tables(invoke, lake):
    result = invoke("sql", "WITH o AS (FROM './orders') SELECT count(*) AS n FROM o")
    assert result.stdout == "n\n30\n", result.stderr
    assert invoke("sql", "SELECT count(*) FROM duckdb_settings()").exit_code == 0
    assert invoke("sql", "SELECT count(*) FROM duckdb_columns").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["SELEC 1"], 2, "syntax error"),
        (["SELECT nope FROM './orders'"], 2, "nope"),
        (["FROM nothing"], 2, "Add --table nothing=PATH"),
        (["DROP TABLE x"], 2, "isn't one SELECT"),
        (["FROM o", "--table", "orders"], 2, "isn't NAME=TABLE"),
        (["FROM './order'"], 1, "Did you mean"),
        (["SELECT 'a'::INT"], 1, "Could not convert string"),
        (["FROM o", "--config", "nothing.yaml"], 2, "nothing.yaml"),
    ],
    ids=str,
)
def test_an_error_is_one_line(invoke, lake, arguments, code, message):
    result = invoke("sql", *arguments)
    assert result.exit_code == code, result.stderr
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert "bug" not in result.stderr
    assert result.stdout == ""


def test_a_missing_data_file_is_the_error_of_the_kernel(invoke, lake):
    for file in (lake / "orders").glob("*.parquet"):
        file.unlink()
    result = invoke("sql", "SELECT sum(id) FROM './orders'")
    assert result.exit_code == 1
    assert "is missing, although the log references it" in result.stderr
    assert "Traceback" not in result.stderr


def test_without_duckdb_the_error_says_what_to_install(invoke, lake, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    result = invoke("sql", "SELECT 1")
    assert result.exit_code == 1
    assert "pip install 'bayou[duckdb]'" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_query_that_is_not_utf_8_is_wrong_usage(invoke):
    result = invoke("sql", "SELECT '\udcff'")
    assert result.exit_code == 2
    assert "query: character 9 of a string" in result.stderr


def test_a_query_from_a_pipe_that_is_not_utf_8_is_wrong_usage():
    from typer.testing import CliRunner

    from bayou.cli.main import command_line

    result = CliRunner().invoke(command_line(), ["sql", "-"], input=b"SELECT '\xff'")
    assert result.exit_code == 2
    assert "query: byte 9 of the input isn't UTF-8" in result.stderr
