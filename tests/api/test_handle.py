"""`TableHandle` as a table: its version, metadata, files and partitions, and how it is shown."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

import bayou
from bayou.errors import ArgumentError, TableNotFoundError
from bayou.kernel.table_features import column_mapping
from bayou.protocol.schema import StructType

ROWS = pa.table({"id": [1, 2, 3], "day": ["a", "b", None], "x": [1.5, None, 2.5]})


@pytest.fixture
def table(path) -> bayou.api.TableHandle:
    bayou.write(path, ROWS, partition_by="day", name="visits")
    return bayou.table(path)


def test_the_handle_tells_version_schema_metadata_and_protocol(table):
    assert table.version() == 0
    assert table.schema().names == ("id", "day", "x")
    assert table.metadata().name == "visits"
    assert table.metadata().partition_columns == ["day"]
    assert table.protocol().min_reader_version == 1
    bayou.write(table.table_uri, ROWS)
    assert table.version() == 1
    assert table.snapshot(0).version == 0


def test_the_schema_is_an_arrow_schema_for_other_libraries(table):
    schema = table.schema()
    assert schema.to_arrow() == table.snapshot().arrow_schema == pa.schema(schema)
    assert schema == StructType(schema.fields)
    assert StructType(schema.fields) == schema
    assert hash(schema) == hash(StructType(schema.fields))
    assert schema != StructType(schema.fields[:1])
    assert pickle.loads(pickle.dumps(schema)) == schema


def test_rows_are_counted_without_and_with_statistics(table):
    assert (table.count(), table.snapshot().count()) == (3, 3)
    table.alter.set_table_properties({"delta.dataSkippingNumIndexedCols": "0"})
    bayou.write(table.table_uri, ROWS)
    assert table.count() == 6


def test_partitions_are_values_by_column(table):
    assert table.partitions() == [{"day": "a"}, {"day": "b"}, {"day": None}]
    assert table.partitions([("day", "=", "a")]) == [{"day": "a"}]
    assert table.snapshot().partitions("day IS NULL") == [{"day": None}]
    bayou.write(f"{table.table_uri}2", ROWS)
    assert bayou.table(f"{table.table_uri}2").partitions() == []


def test_partitions_of_a_mapped_table_have_logical_names(path):
    mapped = {"delta.columnMapping.mode": "name"}
    bayou.write(path, ROWS, partition_by="day", configuration=mapped)
    bayou.table(path).alter.rename_column("day", "the day")
    assert {"the day": "b"} in bayou.table(path).partitions()
    field = bayou.table(path).schema().select(["the day"]).fields[0]
    assert column_mapping.physical_name(field) != "the day"


def test_files_have_the_requested_columns(table):
    files = table.files(["size", "path"], filter="day = 'a'")
    assert files.column_names == ["size", "path"]
    assert files.num_rows == 1
    assert table.files().column("num_records").to_pylist() == [1, 1, 1]
    reader = table.file_batches(["num_records"])
    assert isinstance(reader, pa.RecordBatchReader)
    assert sum(batch.num_rows for batch in reader) == 3
    with pytest.raises(ArgumentError, match="no column 'paths'"):
        table.files(["paths"])


def test_file_uris_are_absolute(table):
    uris = table.file_uris()
    assert len(uris) == 3
    assert all(uri.startswith(table.table_uri) for uri in uris)
    assert len(table.file_uris([("day", "in", ["a", "b"])])) == 2


def test_the_representation_shows_what_is_there(table):
    text = repr(table)
    assert text.startswith(f"bayou.table({table.table_uri!r})")
    for part in ("visits", "rows        3", "files       3, ", "0 (20", "WRITE", "day  string"):
        assert part in text
    html = table._repr_html_()
    assert "<b>visits</b>" in html
    assert "<td>string (partition)</td>" in html


def test_many_columns_are_cut_and_names_are_escaped(path):
    bayou.write(path, pa.table({f"<c{i}>": [i] for i in range(30)}))
    assert "... 10 more" in repr(bayou.table(path))
    assert "&lt;c0&gt;" in bayou.table(path)._repr_html_()


def test_a_missing_table_has_a_representation(path):
    assert "no Delta table" in repr(bayou.table(path))
    assert "no Delta table" in bayou.table(path)._repr_html_()
    with pytest.raises(TableNotFoundError):
        bayou.table(path).version()


def test_dir_lists_the_public_names(table):
    assert "to_pandas" in dir(table)
    assert "optimize" in dir(table)
    assert not [name for name in dir(table) if name.startswith("_")]
    assert dir(bayou) == sorted(bayou.__all__)


def test_the_log_is_kept_by_calls(table):
    for _ in range(3):
        bayou.write(table.table_uri, ROWS)
    assert table.compact_logs(0, 2) is None
    assert table.create_checkpoint() == 3
    assert table.cleanup_metadata() == 0
    assert table.generate() == 3
    with pytest.raises(ArgumentError, match="ending_version"):
        table.compact_logs(0, -1)
