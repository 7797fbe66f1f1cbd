"""Topics that are served in turns."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from bayou.ingest.turns import Turns


class Run:
    """A topic whose first turn finds that retention has taken its records."""

    topic = SimpleNamespace(
        key="t",
        config=SimpleNamespace(
            kafka_topic="t",
            processing=SimpleNamespace(batch_size=10, flush_interval=1.0, max_retries=0),
        ),
    )

    def __init__(self) -> None:
        self.position = {0: 5}
        self.turns = []
        self.ended = threading.Event()

    @property
    def active(self):
        return not self.ended.is_set()

    def begin_turns(self):
        """Nothing to begin."""

    def turn(self, spark, end):
        self.turns.append(end)
        self.position = {0: 50}

    def end_turns(self, error=None):
        self.error = error
        self.ended.set()


class Ends:
    """Where the topic ends: each time further on."""

    def __init__(self) -> None:
        self.end = 10

    def latest(self, names):
        self.end += 50
        return {"t": {0: self.end - 50}}


def test_a_run_that_drains_ends_also_where_retention_led_it_beyond_its_target():
    context = SimpleNamespace(setLocalProperty=lambda *_: None)
    run = Run()
    turns = Turns(SimpleNamespace(sparkContext=context), Ends(), once=True)
    turns.add(run)
    turns.begin()
    assert run.ended.wait(20)
    turns.stop()
    assert run.turns == [{0: 10}]


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_stop_while_brokers_are_asked_is_no_error():
    class Stopping(Ends):
        def latest(self, names):
            turns.stop()
            return super().latest(names)

    run = Run()
    turns = Turns(SimpleNamespace(), Stopping(), once=True)
    turns.add(run)
    turns.begin()
    turns._thread.join(20)
    assert run.turns == []


def test_a_topic_that_ends_during_its_maintenance_holds_up_no_other():
    class Maintained(Run):
        def __init__(self) -> None:
            super().__init__()
            self.position = {0: 0}
            self.done = threading.Event()

        def end_turns(self, error=None):
            self.done.wait(20)
            super().end_turns(error)

    class Slow(Run):
        def turn(self, spark, end):
            self.position = {0: self.position[0] + 1}

    class Still(Ends):
        def latest(self, names):
            return {"t": {0: self.end}}

    ends, first, other = Still(), Maintained(), Slow()
    first.position = {0: ends.end}
    spark = SimpleNamespace(sparkContext=SimpleNamespace(setLocalProperty=lambda *_: None))
    turns = Turns(spark, ends, once=True)
    turns.add(first)
    turns.add(other)
    turns.begin()
    assert other.ended.wait(10)
    assert first.active
    first.done.set()
    assert first.ended.wait(10)
    turns.stop()


def test_a_topic_that_comes_when_all_have_ended_is_served():
    class Still(Ends):
        def latest(self, names):
            return {"t": {0: 50}} if names else {}

    context = SimpleNamespace(setLocalProperty=lambda *_: None)
    turns = Turns(SimpleNamespace(sparkContext=context), Still(), once=True)
    turns.begin()
    for _ in range(2):
        run = Run()
        turns.add(run)
        assert run.ended.wait(20)
    turns.stop()


def test_what_nobody_expected_ends_topics_and_leaves_none_waiting():
    class Broken(Ends):
        def latest(self, names):
            raise ValueError("no such thing")

    run = Run()
    turns = Turns(SimpleNamespace(), Broken(), once=False)
    turns.add(run)
    turns.begin()
    assert run.ended.wait(10)
    assert "ValueError: no such thing" in str(run.error)
    again = Run()  # a topic that is begun again later
    turns.add(again)
    assert again.ended.wait(10)
    turns.stop()


def test_a_turn_that_can_not_begin_ends_its_topic_and_is_not_dealt_for_ever():
    run = Run()
    turns = Turns(SimpleNamespace(sparkContext=None), Ends(), once=True)
    turns.add(run)
    turns.begin()
    assert run.ended.wait(10)
    turns.stop()
    assert run.turns == []
    assert run.error is not None
