"""Topics that stopped, and are begun again."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from bayou.errors import (
    BayouError,
    KafkaError,
    PipelineError,
    RecordsLostError,
    SchemaError,
    StorageError,
)
from bayou.ingest.events import TopicSummary
from bayou.ingest.retries import BatchFailedError, restart_interval
from bayou.ingest.runtime.topic_restarts import TopicRestarts
from support.waiting import wait_until


def topic(interval=300.0):
    processing = SimpleNamespace(restart_interval=interval)
    return SimpleNamespace(key="t", config=SimpleNamespace(processing=processing))


class Run:
    """Another run of a topic: with an error it never begins."""

    def __init__(self, error=None, rows=0):
        self.topic = topic()
        self.has_work = error is None
        self.error = error
        self.rows = rows
        self.abandoned = False

    def prepare(self, *, once):
        assert not once

    def finish(self, *, restart=False):
        after = 0.001 if restart and self.error is not None else None
        return TopicSummary(
            topic="t", table_path="t", rows=self.rows, error=self.error, restart=after
        )

    def abandon(self):
        self.abandoned = True


def test_a_topic_is_prepared_until_it_may_begin_and_its_runs_are_one_in_the_end():
    fails = StorageError("no", path="s3://b")
    runs = [Run(fails), Run(fails), Run(rows=3)]
    left = iter(runs)
    restarts = TopicRestarts(lambda *_: next(left))
    restarts.finish_run(Run(fails, rows=4), may_restart=True)
    (begun,) = wait_until(restarts.ready)
    assert begun is runs[-1]
    assert restarts.ready() == []
    whole = restarts.total_summary(begun.finish())
    assert (whole.rows, whole.error) == (7, None)


def test_where_no_other_goes_on_none_is_begun_again():
    restarts = TopicRestarts(lambda *_: pytest.fail("another run"))
    restarts.finish_run(Run(StorageError("no", path="p")), may_restart=False)
    assert restarts.ready() == []


def test_a_run_that_was_prepared_too_late_is_let_go():
    asked, may_end = threading.Event(), threading.Event()

    class Late(Run):
        prepared = False

        def prepare(self, *, once):
            asked.set()
            self.prepared = may_end.wait(60)

        def abandon(self):
            assert self.prepared
            super().abandon()

    late = Late()
    restarts = TopicRestarts(lambda *_: late)
    restarts.finish_run(Run(StorageError("no", path="p")), may_restart=True)

    def is_asked():
        assert restarts.ready() == []
        return asked.is_set()

    wait_until(is_asked)
    with ThreadPoolExecutor(1) as pool:
        end = pool.submit(restarts.end)
        may_end.set()
        end.result()
    assert late.abandoned


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (StorageError("no", path="p"), 300.0),
        (KafkaError("no"), 300.0),
        (BatchFailedError("no", topic="t"), 300.0),
        (PipelineError("another pipeline", topic="t"), None),
        (RecordsLostError("gone", topic="t"), None),
        (SchemaError("wrong", table="t"), None),
        (BayouError("else"), None),
        (None, None),
    ],
)
def test_what_may_pass_is_begun_again_and_what_was_decided_is_not(error, found):
    assert restart_interval(topic(), error) == found
    assert restart_interval(topic(interval=0), error) is None
