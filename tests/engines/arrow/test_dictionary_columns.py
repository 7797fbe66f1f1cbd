"""Which columns get a dictionary."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

import bayou
from bayou.engines.arrow.parquet_files.reader import dictionary_columns

N = 10_000
ROWS = pa.table(
    {
        "id": range(N),
        "kind": [f"kind {i % 7}" for i in range(N)],
        "a.b": [i / 7 for i in range(N)],
        "flag": [i % 2 == 0 for i in range(N)],
        "tags": [[str(i)] for i in range(N)],
        "s": [{"id": i} for i in range(N)],
        "nulls": [i if i % 100 == 0 else None for i in range(N)],
    }
)


def test_columns_whose_values_hardly_repeat_get_none():
    assert dictionary_columns(ROWS) == [
        "kind",
        "flag",
        "tags.list.element",
        "s.id",
        "nulls",
    ]


def test_short_files_and_files_of_repeating_values_have_dictionaries_for_all():
    assert dictionary_columns(ROWS.slice(0, 100)) is True
    assert dictionary_columns(ROWS.select(["kind", "flag"])) is True


def test_a_written_file_has_them_where_they_are_worth_it(tmp_path):
    bayou.write(str(tmp_path), ROWS)
    (file,) = tmp_path.glob("*.parquet")
    group = pq.ParquetFile(file).metadata.row_group(0)
    by_path = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert {p for p, c in by_path.items() if c.has_dictionary_page} == {
        "kind",
        "tags.list.element",
        "s.id",
        "nulls",
    }
    assert bayou.table(str(tmp_path)).to_arrow().equals(ROWS)
