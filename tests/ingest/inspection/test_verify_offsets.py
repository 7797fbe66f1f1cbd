"""The proof finds what is missing and what is there twice, and nothing else."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

import bayou
from bayou.ingest.inspection import prove_offsets
from bayou.ingest.offsets import OffsetSpan, join_spans
from bayou.ingest.offsets_of_rows import spans


def proof(pipeline):
    return prove_offsets(pipeline.configuration, pipeline.topic)


@pytest.fixture
def taken_in(small_pipeline):
    small_pipeline.produce(*({"id": i} for i in range(5)))
    small_pipeline.produce({"id": 9}, b"no json", partition=1)
    small_pipeline.take_in()
    return small_pipeline


def test_a_table_that_has_each_record_once_holds(taken_in):
    taken_in.produce({"id": 10})
    found = proof(taken_in)
    assert found.holds
    first, second = found.partitions
    assert (first.rows, first.dead_letters, first.covered, first.waiting) == (5, 0, 5, 1)
    assert (second.rows, second.dead_letters, second.covered, second.waiting) == (1, 1, 2, 0)


def test_a_record_that_went_missing_is_a_gap(taken_in):
    taken_in.table.delete("id IN (1, 2)")
    found = proof(taken_in)
    assert not found.holds
    assert found.partitions[0].gaps == (OffsetSpan(start=1, end=3),)
    assert found.partitions[1].holds


def test_a_dead_letter_that_went_missing_is_a_gap(taken_in):
    taken_in.dead_letters.delete()
    assert proof(taken_in).partitions[1].gaps == (OffsetSpan(start=1, end=2),)


def test_a_row_that_is_there_twice_is_a_double(taken_in):
    again = taken_in.table.to_arrow(filter="id = 3")
    bayou.write(taken_in.path, again)
    found = proof(taken_in)
    assert not found.holds
    assert found.partitions[0].duplicates == (OffsetSpan(start=3, end=4),)


def test_a_record_that_is_a_row_and_a_dead_letter_is_a_double(taken_in):
    row = taken_in.table.to_arrow(filter="id = 9")
    at = row.schema.get_field_index("_kafka_offset")
    bayou.write(taken_in.path, row.set_column(at, row.field(at), pa.array([1], pa.int64())))
    assert proof(taken_in).partitions[1].duplicates == (OffsetSpan(start=1, end=2),)


def test_a_row_above_what_the_table_covers_is_ahead(taken_in):
    row = taken_in.table.to_arrow(filter="id = 4")
    at = row.schema.get_field_index("_kafka_offset")
    bayou.write(taken_in.path, row.set_column(at, row.field(at), pa.array([7], pa.int64())))
    found = proof(taken_in)
    assert not found.holds
    assert found.partitions[0].ahead == (OffsetSpan(start=7, end=8),)


@given(st.sets(st.integers(0, 200), max_size=60))
def test_spans_are_the_runs_of_a_set(offsets):
    found = spans(BitMap64(offsets))
    assert [o for s in found for o in range(s.start, s.end)] == sorted(offsets)
    assert all(a.end < b.start for a, b in itertools.pairwise(found))


@given(st.sets(st.integers(0, 2000), min_size=1, max_size=200))
def test_few_spans_hold_all_offsets_and_leave_the_widest_distances_out(offsets):
    found = spans(BitMap64(offsets))
    joined = join_spans(found)
    assert len(joined) <= 16
    held = {o for s in joined for o in range(s.start, s.end)}
    assert offsets <= held
    assert joined[0].start == min(offsets)
    assert joined[-1].end == max(offsets) + 1
