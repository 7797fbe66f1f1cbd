from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from py4j.protocol import Py4JJavaError

from bayou.errors import DataFileError, StorageError
from bayou.spark.executors.executor_tasks import run_shuffled_tasks, run_tasks

pytestmark = pytest.mark.spark


class UnreachableError(ArithmeticError):
    """An exception that can't be unpickled."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} {two}")


def run(spark, shares, function, discarded=None):
    return run_tasks(
        spark,
        shares,
        function,
        table="/t",
        description="a test",
        discard=(discarded if discarded is not None else []).extend,
    )


def wait_for_file(path: str) -> None:
    while not os.path.exists(path):
        time.sleep(0.01)  # a poll: Spark's Python workers cannot import `support`


def touch_after_first_task(spark, path: str) -> None:
    """Create a file once Spark knows the end of a task of the running job."""
    from support.waiting import wait_until  # not above: Spark's workers import this module

    tracker = spark.sparkContext.statusTracker()

    def has_task_ended() -> bool:
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        return any(s and s.numCompletedTasks + s.numFailedTasks for s in stages)

    try:
        wait_until(has_task_ended, what="the end of a task")
    finally:
        open(path, "w").close()


def test_outcomes_come_in_the_order_of_the_shares(spark):
    assert run(spark, [3, 1, 2], lambda n, x: b"%d:%d" % (n, x)) == [b"0:3", b"1:1", b"2:2"]


def test_what_is_written_after_another_share_has_failed_is_discarded_too(spark, tmp_path):
    failed = str(tmp_path / "failed")

    def share(number: int, fails: bool) -> bytes:
        if fails:
            raise DataFileError("it is gone", table="/t", file="x")
        wait_for_file(failed)  # Spark would have aborted the job by then
        return b"written"

    discarded: list[bytes] = []
    with ThreadPoolExecutor(1) as pool:
        failing = pool.submit(touch_after_first_task, spark, failed)
        with pytest.raises(DataFileError, match="it is gone") as raised:
            run(spark, [True, False], share, discarded)
        failing.result()
    assert (raised.value.file, raised.value.table) == ("x", "/t")
    assert discarded == [b"written"]


def test_the_same_holds_behind_a_shuffle(spark, tmp_path):
    failed = str(tmp_path / "failed")

    def merge(group: int, places) -> bytes:
        assert list(places) == [[b"a"], [b"b"]]
        if group == 0:
            open(failed, "w").close()
            raise StorageError("full", path="/t/x")
        wait_for_file(failed)
        return b"written"

    def split(share):
        for group in (0, 1):
            yield group, share, b"ab"[share : share + 1]

    discarded: list[bytes] = []
    with pytest.raises(StorageError, match="full"):
        run_shuffled_tasks(
            spark,
            [1, 0],
            split,
            merge,
            2,
            table="/t",
            description="a test",
            discard=discarded.extend,
        )
    assert discarded == [b"written"]


@pytest.mark.parametrize(("kind", "facts"), [(ZeroDivisionError, (1,)), (UnreachableError, (1, 2))])
def test_another_exception_says_where_a_task_raised_it(spark, kind, facts):
    def share(number: int, _: int) -> bytes:
        raise kind(*facts)

    with pytest.raises((ZeroDivisionError, RuntimeError)) as raised:
        run(spark, [1], share)
    told = "".join([str(raised.value), *getattr(raised.value, "__notes__", [])])
    assert "in share" in told
    assert str(kind(*facts)) in told


def test_of_a_worker_that_is_killed_nothing_is_known(spark):
    def share(number: int, _: int) -> bytes:
        os.kill(os.getpid(), signal.SIGKILL)
        return b"written"

    discarded: list[bytes] = []
    with pytest.raises(Py4JJavaError, match="Python worker exited unexpectedly"):
        run(spark, [1], share, discarded)
    assert discarded == []
