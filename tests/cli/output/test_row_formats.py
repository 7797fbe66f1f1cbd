"""`--output`: rows as data on stdout or in a file."""

from __future__ import annotations

import io
import json

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import bayou
from bayou.cli.output.row_formats import RowFormat, parse_destination, row_writer
from bayou.errors import ArgumentError

ROWS = pa.table({"id": [1, 2, 3], "x": [0.5, float("nan"), None], "text": ["a,b", "c\nd", ""]})


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows"
    bayou.write(str(path), ROWS)
    return path


def test_what_is_piped_is_tab_separated_and_whole(invoke, tmp_path):
    path = tmp_path / "wide"
    bayou.write(str(path), pa.table({"id": range(30), "text": ["x" * 500] * 30}))
    lines = invoke("read", path).stdout.splitlines()
    assert lines[0] == "id\ttext"
    assert lines[1] == f"0\t{'x' * 500}"
    assert len(lines) == 31


def test_json_is_an_array_and_jsonl_an_object_per_line(invoke, rows):
    expected = [
        {"id": 1, "x": 0.5, "text": "a,b"},
        {"id": 2, "x": "NaN", "text": "c\nd"},
        {"id": 3, "x": None, "text": ""},
    ]
    assert json.loads(invoke("read", rows, "--output", "json").stdout) == expected
    for option in (("--output", "jsonl"), ("--json",)):
        lines = invoke("read", rows, *option).stdout.splitlines()
        assert [json.loads(line) for line in lines] == expected


def test_csv_tells_null_from_an_empty_string(invoke, rows):
    text = invoke("read", rows, "-o", "csv").stdout
    assert text == 'id,x,text\n1,0.5,"a,b"\n2,NaN,"c\nd"\n3,,""\n'
    options = pyarrow.csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
    parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
    read = pyarrow.csv.read_csv(io.BytesIO(text.encode()), None, parse, options)
    assert read["text"].to_pylist() == ["a,b", "c\nd", ""]


@pytest.mark.parametrize("ending", ["csv", "json", "jsonl", "ndjson", "tsv", "parquet"])
def test_a_file_has_the_format_of_its_ending(invoke, rows, tmp_path, ending):
    file = tmp_path / f"out.{ending}"
    result = invoke("read", rows, "--output", file)
    assert (result.exit_code, result.output) == (0, "")
    if ending == "parquet":
        assert pq.read_table(file).schema.names == ["id", "x", "text"]
        assert pq.read_table(file)["x"].null_count == 1
    else:
        shown = invoke("read", rows, "--output", ending.replace("ndjson", "jsonl")).stdout
        assert file.read_text() == shown


def test_parquet_can_be_piped(invoke, rows):
    result = invoke("read", rows, "--output", "parquet")
    assert pq.read_table(io.BytesIO(result.stdout_bytes)).column("id").to_pylist() == [1, 2, 3]


def test_a_failed_command_leaves_the_file_as_it_was(invoke, rows, tmp_path):
    file = tmp_path / "out.csv"
    file.write_text("mine")
    for data in rows.glob("*.parquet"):
        data.unlink()
    assert invoke("read", rows, "--output", file).exit_code == 1
    assert file.read_text() == "mine"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.csv", "rows"]


def test_a_file_in_a_folder_that_does_not_exist_is_wrong_usage(invoke, rows, tmp_path):
    result = invoke("read", rows, "--output", tmp_path / "nowhere" / "out.csv")
    assert result.exit_code == 2
    assert f"--output: the folder {tmp_path / 'nowhere'} doesn't exist" in result.stderr


def test_rows_of_reports_are_written_in_every_format(invoke, rows, tmp_path):
    for command in (("history", rows), ("schema", "show", rows)):
        for name in ("tsv", "csv", "json", "jsonl", "table"):
            result = invoke(*command, "--output", name)
            assert result.exit_code == 0
            assert result.stdout
        file = tmp_path / "report.parquet"
        assert invoke(*command, "--output", file).exit_code == 0
        assert pq.read_table(file).num_rows > 0
    (commit,) = json.loads(invoke("history", rows, "--output", "json").stdout)
    assert commit["operationMetrics"]["numOutputRows"] == "3"


def test_a_table_can_be_piped_on_request(invoke, rows):
    lines = invoke("read", rows, "--output", "table").stdout.splitlines()
    assert lines[0].split() == ["id", "x", "text"]
    assert "NULL" in lines[-1]
    assert "c\\nd" in lines[-2]


def test_an_unknown_format_is_wrong_usage_with_a_suggestion(invoke, rows):
    result = invoke("read", rows, "--output", "jsn")
    assert result.exit_code == 2
    assert "--output: 'jsn' is neither" in result.stderr
    assert "Did you mean 'json'?" in result.stderr
    result = invoke("read", rows, "--output", "csv", "--json")
    assert result.exit_code == 2
    assert "--json: the option means --output jsonl" in result.stderr


def test_a_destination_is_a_format_or_a_file():
    assert parse_destination("CSV").format is RowFormat.CSV
    assert parse_destination("a/b.PARQUET").format is RowFormat.PARQUET
    for value in ("", ".csv", "a/b", "rows.xml"):
        with pytest.raises(ArgumentError):
            parse_destination(value)


@pytest.mark.parametrize("name", ["csv", "tsv", "json", "jsonl"])
def test_large_batches_are_written_in_parts(monkeypatch, name):
    monkeypatch.setattr("bayou.cli.output.row_formats._MAX_BYTES", 64)
    batch = pa.record_batch({"id": range(100), "text": ["x" * 10] * 100})
    stream = io.BytesIO()
    writer = row_writer(RowFormat(name), stream, batch.schema)
    writer.write(batch)
    writer.close()
    assert stream.getvalue().count(b"xxxxxxxxxx") == 100
    if name == "json":
        assert len(json.loads(stream.getvalue())) == 100


@pytest.mark.parametrize("name", list(RowFormat)[1:])
def test_no_rows_are_a_valid_output(invoke, rows, name):
    result = invoke("read", rows, "--where", "id > 9", "--output", name)
    expected = {"csv": "id,x,text\n", "tsv": "id\tx\ttext\n", "json": "[]\n", "jsonl": ""}
    assert result.exit_code == 0
    if name == "parquet":
        assert pq.read_table(io.BytesIO(result.stdout_bytes)).num_rows == 0
    else:
        assert result.stdout == expected[name]
