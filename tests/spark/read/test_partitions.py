from hypothesis import given
from hypothesis import strategies as st

from bayou.kernel.engine import RowGroup
from bayou.spark.read.tasks import (
    FILE_COST_BYTES,
    MAX_TASK_BYTES,
    MIN_TASK_BYTES,
    assign_files,
    row_groups_of,
    task_bytes,
)

MB = 1024 * 1024


@given(st.lists(st.integers(0, 900 * MB), max_size=60), st.integers(1, 200 * MB))
def test_every_share_of_every_file_is_dealt_once(sizes, target):
    target = max(target, FILE_COST_BYTES)
    dealt = sorted((s.file, s.part, s.parts) for task in assign_files(sizes, target) for s in task)
    expected = [
        (i, part, parts)
        for i, size in enumerate(sizes)
        for parts in [max(1, -(-size // target))]
        for part in range(parts)
    ]
    assert dealt == expected


@given(st.lists(st.integers(0, 900 * MB), min_size=1, max_size=60))
def test_the_fullest_task_has_at_most_twice_the_average(sizes):
    loads = [sum(s.size for s in task) for task in assign_files(sizes, 100 * MB)]
    assert max(loads) <= 2 * max(sum(loads) / len(loads), 100 * MB + FILE_COST_BYTES)


def test_no_files_make_no_tasks():
    assert assign_files([], MB) == []


def test_many_small_files_share_a_task():
    tasks = assign_files([10_000] * 1_000, task_bytes(10_000_000, 1_000, min_tasks=2))
    assert len(tasks) < 12


def test_a_large_file_is_cut():
    tasks = assign_files([1000 * MB], task_bytes(1000 * MB, 1, min_tasks=2))
    assert len(tasks) == 8
    assert all(len(task) == 1 for task in tasks)


def test_a_task_reads_no_more_than_the_limit_and_enough_to_be_worth_it():
    assert task_bytes(10_000 * MB, 100, min_tasks=2) == MAX_TASK_BYTES
    assert task_bytes(1000, 1, min_tasks=64) == MIN_TASK_BYTES
    assert task_bytes(40 * MB, 4, min_tasks=4) == 11 * MB
    assert task_bytes(40 * MB, 4, min_tasks=4, max_bytes=MB) == MB


@given(st.lists(st.integers(0, 10**9), max_size=40), st.integers(1, 20))
def test_tasks_that_know_nothing_of_each_other_read_each_row_group_once(sizes, parts):
    groups = [RowGroup(num_rows=1, total_bytes=size) for size in sizes]
    ranges = [row_groups_of(groups, part, parts) for part in range(parts)]
    read = [i for first, end in ranges for i in range(first, end)]
    assert read == list(range(len(groups)))


def test_equal_row_groups_are_shared_equally():
    groups = [RowGroup(num_rows=1, total_bytes=MB)] * 8
    assert [row_groups_of(groups, part, 4) for part in range(4)] == [(0, 2), (2, 4), (4, 6), (6, 8)]
