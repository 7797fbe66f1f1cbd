"""Rows of a data file by their positions."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from bayou.engines.arrow import ArrowEngine
from bayou.kernel import ScanFile
from bayou.kernel.deletion_vectors.deleted_rows import num_rows, row_group_ranges, to_bitmap
from bayou.protocol.actions import AddFile


@given(st.sets(st.integers(0, 1 << 40)), st.integers(0, 3))
def test_a_set_of_positions_has_them_all(rows, offset):
    positions = pa.array([*([0] * offset), *sorted(rows)], pa.int64()).slice(offset)
    assert set(to_bitmap(positions)) == rows
    assert set(to_bitmap(positions.cast(pa.uint64()))) == rows


def test_neighbours_are_a_range():
    assert list(to_bitmap(pa.array(range(7, 12)))) == [7, 8, 9, 10, 11]


@pytest.fixture
def file(tmp_path) -> ScanFile:
    """Ten rows in groups of three."""
    pq.write_table(pa.table({"n": range(10)}), tmp_path / "f", row_group_size=3)
    size = (tmp_path / "f").stat().st_size
    add = AddFile(path="f", partition_values={}, size=size, modification_time=0, data_change=True)
    return ScanFile(table_root=str(tmp_path), add=add)


@pytest.mark.parametrize(
    ("rows", "ranges"),
    [
        ([0], [(0, 1)]),
        ([2, 3], [(0, 2)]),
        ([0, 9], [(0, 1), (3, 4)]),
        ([1, 4, 7, 9], [(0, 4)]),
        ([], []),
    ],
)
def test_row_groups_with_such_rows_are_found(file, rows, ranges):
    assert list(row_group_ranges(ArrowEngine(), file, BitMap64(rows))) == ranges


def test_all_row_groups_need_no_look_at_the_file():
    assert list(row_group_ranges(None, None, None, 2, 5)) == [(2, 5)]


def test_the_footer_tells_the_number_of_rows_where_the_log_does_not(file):
    assert num_rows(ArrowEngine(), file) == 10
