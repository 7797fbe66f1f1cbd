"""Calls in threads of their own."""

from __future__ import annotations

import threading

import pytest

from bayou.ingest.background_task import run_parallel


def test_answers_have_the_order_of_the_items():
    assert run_parallel(lambda number: number * 2, [3, 1, 2]) == [6, 2, 4]


def test_no_call_goes_on_after_an_exception():
    """A commit that went on would conflict with the repeated batch, as if of another pipeline."""
    failed, ended = threading.Event(), []

    def work(number):
        if number == 0:
            failed.set()
            raise ValueError("first")
        failed.wait()
        ended.append(number)
        if number == 2:
            raise KeyError("second")

    with pytest.raises(ValueError, match="first"):
        run_parallel(work, [0, 1, 2, 3])
    assert sorted(ended) == [1, 2, 3]
