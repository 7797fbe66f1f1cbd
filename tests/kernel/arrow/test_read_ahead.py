"""Items made ahead by a thread."""

from __future__ import annotations

import threading

import pytest

from bayou.kernel.arrow.closeable import closeable
from bayou.kernel.arrow.read_ahead import read_ahead


def test_items_keep_their_order_and_all_come():
    assert list(read_ahead(range(100), 3)) == list(range(100))
    assert list(read_ahead([], 3)) == []


def test_an_error_comes_where_its_item_would_have():
    def items():
        yield 1
        raise ValueError("no second one")

    found = read_ahead(items(), 3)
    assert next(found) == 1
    with pytest.raises(ValueError, match="no second one"):
        next(found)


def test_no_more_than_the_depth_is_made_ahead_and_closing_gives_all_back():
    made: list[int] = []
    closed = threading.Event()

    @closeable
    def items():
        try:
            for number in range(100):
                made.append(number)
                yield number
        finally:
            closed.set()

    with read_ahead(items(), 3) as found:
        assert next(found) == 0
    assert closed.is_set()
    assert len(made) <= 5
    assert not [t for t in threading.enumerate() if t.name.startswith("bayou-read-ahead")]
