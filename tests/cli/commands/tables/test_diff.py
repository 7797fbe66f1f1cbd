"""`bayou diff`: what differs, in each format, and the exit code."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import bayou
from bayou.cli.tables import split_reference


def test_different_rows_are_exit_code_1(invoke, table):
    result = invoke("diff", f"{table}@0", f"{table}@2")
    assert result.exit_code == 1
    header, *rows = result.stdout.splitlines()
    assert header == "_change\tid\tname"
    assert sorted(rows) == ["+\t1\tn1", "+\t2\tn2"]
    result = invoke("diff", table, f"{table}@2", "--output", "table")
    assert (result.exit_code, result.stdout) == (0, "no difference\n")


def test_differences_of_schema_and_properties_are_shown(invoke, table):
    wider = pa.table({"id": [3], "name": ["n3"], "more": [1.5]})
    bayou.write(str(table), wider, mode="append", merge_schema=True)
    bayou.table(table).alter.set_table_properties({"delta.appendOnly": "true"})
    shown = invoke("diff", f"{table}@2", table, "--where", "id < 3", "--output", "table")
    assert shown.exit_code == 1
    lines = [line.split() for line in shown.stdout.splitlines()]
    assert ["more", "double"] in lines
    assert ["delta.appendOnly", "true"] in lines
    data = invoke("diff", f"{table}@2", table, "--json")
    assert [json.loads(line)["id"] for line in data.stdout.splitlines()] == [3]
    assert "schema: more: absent became double" in data.stderr


def test_a_limit_ends_the_rows_and_keeps_the_exit_code(invoke, table):
    for form in ("tsv", "table"):
        result = invoke("diff", f"{table}@0", table, "--limit", 1, "--output", form)
        assert result.exit_code == 1
        assert ("n1" in result.stdout) is not ("n2" in result.stdout)


def test_a_misspelled_column_is_wrong_usage(invoke, table):
    result = invoke("diff", f"{table}@0", table, "--key", "idd")
    assert result.exit_code == 2
    assert "--key: column 'idd' isn't in both schemas" in result.stderr
    assert "Did you mean 'id'?" in result.stderr


@pytest.mark.parametrize(
    ("reference", "parts"),
    [
        ("lake/t", ("lake/t", None, None)),
        ("lake/t@3", ("lake/t", 3, None)),
        ("lake/t@2024-01-05", ("lake/t", None, "2024-01-05")),
        ("lake/t@2024-01-05T10:00:00Z", ("lake/t", None, "2024-01-05T10:00:00Z")),
        ("abfss://c@a.dfs.core.windows.net/t", ("abfss://c@a.dfs.core.windows.net/t", None, None)),
        ("abfss://c@a.dfs.core.windows.net/t@7", ("abfss://c@a.dfs.core.windows.net/t", 7, None)),
        ("@3", ("@3", None, None)),
    ],
)
def test_a_version_follows_the_last_at_sign(reference, parts):
    assert split_reference(reference) == parts
