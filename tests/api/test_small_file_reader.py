from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bayou.api.rows.parallel_iteration import grouped_files

SMALL, LARGE = 1000, 10_000_000


def size_of(file):
    return file[1]


@given(st.lists(st.sampled_from([SMALL, LARGE]), max_size=300), st.integers(1, 8))
def test_groups_keep_all_files_and_their_order(sizes, workers):
    files = list(enumerate(sizes))
    found = list(grouped_files(files, workers, size_of))
    assert [file for group in found for file in group] == files
    assert all(found)


@given(st.lists(st.sampled_from([SMALL, LARGE]), max_size=300))
def test_a_large_file_is_read_alone(sizes):
    for group in grouped_files(enumerate(sizes), 2, size_of):
        assert len(group) == 1 or all(size_of(file) == SMALL for file in group)


def test_every_worker_gets_a_group_before_groups_grow():
    lengths = [len(group) for group in grouped_files(enumerate([SMALL] * 20_000), 4, size_of)]
    assert lengths[:5] == [1, 1, 1, 1, 2]
    assert max(lengths) == 64


def test_files_are_asked_for_only_when_a_group_is_wanted():
    asked = []

    def log():
        for file in enumerate([LARGE] * 10):
            asked.append(file)
            yield file

    with grouped_files(log(), 2, size_of) as found:
        next(found)
        assert len(asked) == 1
