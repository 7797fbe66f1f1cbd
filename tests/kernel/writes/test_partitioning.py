"""Rows sorted into partitions; PROTOCOL.md, Partition Value Serialization."""

from __future__ import annotations

import pyarrow as pa
import pytest

from bayou.errors import SchemaError
from bayou.kernel import TransactionState
from bayou.kernel.arrow_types import from_arrow_schema
from bayou.kernel.writes.partitioning import PartitionBuffers


def buffers(table: pa.Table, *columns: str) -> PartitionBuffers:
    state = TransactionState(
        table="/lake/t",
        schema=from_arrow_schema(table.schema),
        partition_columns=columns,
        configuration={},
    )
    return PartitionBuffers(state)


def split(table: pa.Table, *columns: str) -> dict[tuple[str | None, ...], list]:
    waiting = buffers(table, *columns)
    for batch in table.to_batches(max_chunksize=4):
        waiting.add(batch)
    found = {}
    while waiting.nbytes:
        key, rows = waiting.pop_largest()
        assert key not in found
        found[key] = [row for batch in rows.together() for row in batch.to_pylist()]
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


def test_the_largest_partition_comes_first_and_what_waits_is_counted():
    waiting = buffers(pa.table({"n": [1], "p": ["x"]}), "p")
    waiting.add(pa.record_batch({"n": [1, 2, 3], "p": ["x", "y", "y"]}))
    assert waiting.nbytes > 0
    assert [waiting.pop_largest()[0], waiting.pop_largest()[0]] == [("y",), ("x",)]
    assert waiting.nbytes == 0


def test_batches_without_rows_make_no_partition():
    waiting = buffers(pa.table({"n": [1], "p": ["x"]}), "p")
    waiting.add(pa.record_batch({"n": pa.array([], pa.int64()), "p": pa.array([], pa.string())}))
    assert waiting.nbytes == 0


def test_a_value_that_has_no_text_is_refused_with_its_column():
    table = pa.table({"n": [1], "p": pa.array([b"\xff"])})
    with pytest.raises(SchemaError, match="partition column 'p'") as caught:
        split(table, "p")
    assert caught.value.column == "p"


def test_what_waits_can_be_copied_out_of_the_batches_it_came_in():
    parts = [pa.table({"p": ["a", "b"] * 500, "n": [value] * 1000}) for value in range(3)]
    waiting = buffers(parts[0], "p")
    for part in parts:
        waiting.add(part.to_batches()[0])
    waiting.pop_largest()
    assert waiting.held > 1.5 * waiting.nbytes
    before = pa.total_allocated_bytes()
    waiting.compact()
    assert waiting.held == waiting.nbytes
    assert pa.total_allocated_bytes() < before
    ((_, found),) = waiting.pop_all()
    rows = pa.Table.from_batches(found.batches)
    assert rows["n"].to_pylist() == [0] * 500 + [1] * 500 + [2] * 500
