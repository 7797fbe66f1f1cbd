"""Strings are read in other Arrow types where that is faster, and returned as strings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayou.engines.arrow import ArrowEngine
from bayou.engines.arrow.parquet_files.reader import OpenParquet
from bayou.engines.arrow.parquet_files.string_decoding import decoding_options, fitting_batches
from bayou.engines.arrow.storage.local_files import LocalFiles
from bayou.kernel.engine import FileSplit, FileStatus

ROWS = 120_000

COLUMNS: dict[str, pa.Array[Any]] = {
    "id": pa.array(range(ROWS), pa.int64()),
    "kind": pa.array([None if i % 11 == 0 else f"kind {i % 7}" for i in range(ROWS)]),
    "name": pa.array([None if i % 13 == 0 else f"näme {i}" for i in range(ROWS)]),
    "data": pa.array([b"\xff%d" % i for i in range(ROWS)], pa.binary()),
    "nested": pa.array(
        [None if i % 5 == 0 else {"s": f"s{i}", "n": i} for i in range(ROWS)],
        pa.struct([("s", pa.string()), ("n", pa.int64())]),
    ),
    "list": pa.array([[f"a{i}", None] if i % 3 else None for i in range(ROWS)]),
    "map": pa.array(
        [[(f"k{i}", f"v{i}")] if i % 3 else [] for i in range(ROWS)],
        pa.map_(pa.string(), pa.string()),
    ),
    "empty": pa.nulls(ROWS, pa.string()),
}


def _file(folder: Path, table: pa.Table, **options: Any) -> FileSplit:
    path = folder / "file.parquet"
    with pq.ParquetWriter(path, table.schema, store_schema=False, **options) as writer:
        for start in range(0, table.num_rows, 50_000):
            writer.write_table(table.slice(start, 50_000))
    return FileSplit(path=str(path), size=path.stat().st_size)


def _read(split: FileSplit, schema: pa.Schema) -> pa.Table:
    with ArrowEngine().parquet.read_parquet_files([split], schema, batch_size=7_000) as batches:
        return pa.Table.from_batches(batches, schema)


def _options(split: FileSplit, schema: pa.Schema) -> dict[str, Any] | None:
    with OpenParquet(LocalFiles(), split.path, split.size) as file:
        paths = [file.metadata.schema.column(i).path for i in range(file.metadata.num_columns)]
        leaves = [i for i, path in enumerate(paths) if path.split(".")[0] in schema.names]
        groups = range(file.metadata.num_row_groups)
        return decoding_options(file, file.schema(), leaves, groups)


@pytest.mark.parametrize(
    ("names", "options"),
    [
        (["id", "kind", "name"], {"read_dictionary": [1]}),
        (["kind"], {"read_dictionary": [1]}),
        (["name", "kind", "data", "id"], {"binary_type": pa.large_binary()}),
        (["name"], {"binary_type": pa.large_binary()}),
        (["nested", "name"], None),
        (["nested", "name", "kind"], {"read_dictionary": [1]}),
        (["map", "list"], None),
        (["empty", "kind"], {"read_dictionary": [1, 9]}),
        (["id"], None),
    ],
    ids=str,
)
def test_decoded_strings_equal_the_written_strings(
    tmp_path: Path, names: list[str], options: dict[str, Any] | None
) -> None:
    dictionaries = ["kind", "empty", "list.list.element", "map.key_value.key"]
    split = _file(tmp_path, pa.table(COLUMNS), use_dictionary=dictionaries)
    expected = pa.table(COLUMNS).select(names)
    assert _options(split, expected.schema) == options
    assert _read(split, expected.schema).equals(expected)


@pytest.mark.parametrize("names", [["kind"], ["name"], ["empty", "id", "name", "kind"]], ids=str)
def test_strings_are_returned_as_requested_dictionary_arrays(
    tmp_path: Path, names: list[str]
) -> None:
    split = _file(tmp_path, pa.table(COLUMNS), use_dictionary=["kind", "empty"])
    expected = pa.table(COLUMNS).select(names)
    encoded = pa.dictionary(pa.int32(), pa.string())
    fields = [pa.field(n, encoded if n != "id" else pa.int64()) for n in [*names, "lacking"]]
    rows = _read(split, pa.schema(fields))
    assert rows["lacking"].null_count == ROWS
    assert rows.select(names).cast(expected.schema).equals(expected)


def test_columns_with_a_small_dictionary_are_in_the_footer(tmp_path: Path) -> None:
    split = _file(tmp_path, pa.table(COLUMNS), use_dictionary=["kind", "empty", "id", "name"])
    status = FileStatus(path=split.path, size=split.size or 0, modification_time=0)
    parquet = ArrowEngine().parquet
    assert parquet.read_footer(status).dictionary_columns == {"kind", "empty"}
    short = _file(tmp_path, pa.table({"kind": COLUMNS["kind"]}).slice(0, 1000))
    status = FileStatus(path=short.path, size=short.size or 0, modification_time=0)
    assert parquet.read_footer(status).dictionary_columns == set()


def test_a_column_whose_dictionary_was_full_is_not_read_as_a_dictionary(tmp_path: Path) -> None:
    table = pa.table({"name": pa.chunked_array([COLUMNS["name"]])})
    split = _file(tmp_path, table, dictionary_pagesize_limit=1_000)
    assert pq.ParquetFile(split.path).metadata.row_group(0).column(0).has_dictionary_page
    assert _options(split, table.schema) == {"binary_type": pa.large_binary()}
    assert _read(split, table.schema).equals(table)


def test_binary_columns_without_a_string_type_are_returned_as_requested(tmp_path: Path) -> None:
    strings = COLUMNS["name"]
    split = _file(tmp_path, pa.table({"name": strings.cast(pa.binary())}))
    schema = pa.schema([("name", pa.string())])
    assert _read(split, schema).equals(pa.table({"name": strings}))


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["abc", None, "de", "", "f" * 30] * 20, pa.large_string()),
        pa.array(["a", "b" * 30, None] * 30).dictionary_encode(),
        pa.array([["ab", None], None, [], ["c" * 30]] * 20, pa.list_(pa.large_string())),
    ],
    ids=lambda column: str(column.type),
)
def test_a_batch_whose_strings_do_not_fit_is_split(column: pa.Array[Any]) -> None:
    batch = pa.record_batch({"s": column, "i": pa.array(range(len(column)))})
    parts = list(fitting_batches(batch, max_bytes=500))
    assert len(parts) > 1
    assert pa.Table.from_batches(parts).equals(pa.Table.from_batches([batch]))
    if pa.types.is_large_string(column.type):
        assert max(part.column("s").cast(pa.string()).nbytes for part in parts) <= 500
    assert list(fitting_batches(batch)) == [batch]


def test_a_wide_footer_is_not_validated_for_one_column(tmp_path):
    columns = {f"n{i}": pa.nulls(ROWS, pa.int8()) for i in range(60)}
    split = _file(tmp_path, pa.table({"kind": COLUMNS["kind"], **columns}))
    leaves, groups = [0], range(3)
    with OpenParquet(LocalFiles(), split.path, split.size) as file:
        assert decoding_options(file, file.schema(), leaves, groups) is None
        assert not file.has_checked_footer
        file.checked_footer()  # as for remote files
        assert decoding_options(file, file.schema(), leaves, groups) is not None
