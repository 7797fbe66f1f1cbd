"""Rows sorted into partitions; PROTOCOL.md, Partition Value Serialization."""

from __future__ import annotations

import pyarrow as pa
import pytest

from bayou.errors import SchemaError
from bayou.kernel import TransactionState
from bayou.kernel.arrow.types import from_arrow_schema
from bayou.kernel.data_writer.partitioner import PartitionSplitter, split_batch


def splitter(table: pa.Table, *columns: str) -> PartitionSplitter:
    state = TransactionState(
        table="/lake/t",
        schema=from_arrow_schema(table.schema),
        partition_columns=columns,
        configuration={},
    )
    return PartitionSplitter(state)


def split(table: pa.Table, *columns: str) -> dict[tuple[str | None, ...], list]:
    found: dict[tuple[str | None, ...], list] = {}
    for batch in table.to_batches(max_chunksize=4):
        parts = splitter(table, *columns).split(batch)
        assert len({part.key for part in parts}) == len(parts)
        for part in parts:
            found.setdefault(part.key, []).extend(part.rows.to_pylist())
    return found


def test_each_combination_of_values_is_a_partition_and_rows_keep_their_order():
    table = pa.table(
        {
            "n": list(range(8)),
            "a": ["x", "y", "x", "x", "y", "x", "x", "y"],
            "b": pa.array([1, 1, 1, 2, None, 1, 2, 1], pa.int32()),
        }
    )
    assert split(table, "b", "a") == {
        ("1", "x"): [{"n": 0}, {"n": 2}, {"n": 5}],
        ("1", "y"): [{"n": 1}, {"n": 7}],
        ("2", "x"): [{"n": 3}, {"n": 6}],
        (None, "y"): [{"n": 4}],
    }


def test_null_and_the_empty_string_are_one_partition():
    table = pa.table({"n": [0, 1, 2, 3], "p": ["", None, "x", ""]})
    assert split(table, "p") == {(None,): [{"n": 0}, {"n": 1}, {"n": 3}], ("x",): [{"n": 2}]}


def test_many_values_of_many_columns_are_kept_apart():
    rows = [{"n": n, "a": n % 7, "b": n % 5, "c": str(n % 3), "d": n % 2 == 0} for n in range(210)]
    found = split(pa.Table.from_pylist(rows), "a", "b", "c", "d")
    assert len(found) == 210
    for (a, b, c, d), (row,) in found.items():
        n = row["n"]
        assert (a, b, c, d) == (str(n % 7), str(n % 5), str(n % 3), str(n % 2 == 0).lower())


def test_parts_say_about_how_many_bytes_they_take():
    rows = pa.table({"n": [1, 2, 3], "p": ["x", "y", "y"]})
    (batch,) = rows.to_batches()
    sizes = {part.key: part.nbytes for part in splitter(rows, "p").split(batch)}
    assert sizes == {("x",): 8, ("y",): 16}


def test_batches_without_rows_make_no_partition():
    rows = pa.table({"n": [1], "p": ["x"]})
    assert splitter(rows, "p").split(rows.to_batches()[0].slice(0, 0)) == []


def test_a_large_batch_is_sorted_in_pieces():
    batch = pa.record_batch({"n": range(300_000)})
    pieces = list(split_batch(batch))
    assert [piece.num_rows for piece in pieces] == [131_072, 131_072, 37_856]
    assert pa.Table.from_batches(pieces)["n"].to_pylist() == list(range(300_000))


def test_a_value_that_has_no_text_is_refused_with_its_column():
    table = pa.table({"n": [1], "p": pa.array([b"\xff"])})
    with pytest.raises(SchemaError, match="partition column 'p'") as caught:
        split(table, "p")
    assert caught.value.column == "p"
