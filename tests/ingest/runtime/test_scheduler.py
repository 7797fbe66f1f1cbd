"""Topics that are served in turns."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from bayou.ingest.runtime import scheduler as turns_module
from bayou.ingest.runtime.scheduler import Turns
from bayou.ingest.topic_errors import UnexpectedError
from support.waiting import wait_until


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


class Clock:
    """Stands still until a test moves it."""

    now = 1000.0

    def __call__(self):
        return self.now


class Batches(Run):
    """A topic with batches of 50 records and a flush interval of 3 seconds."""

    topic = SimpleNamespace(
        key="t",
        config=SimpleNamespace(
            kafka_topic="t",
            processing=SimpleNamespace(batch_size=50, flush_interval=3.0, max_retries=0),
        ),
    )

    def __init__(self) -> None:
        super().__init__()
        self.position = {0: 0}
        self.pauses = []

    def turn(self, spark, end):
        pause = self.pauses.pop(0) if self.pauses else None
        if pause is None:
            self.position = end
        self.turns.append(end)
        return pause

    def wait_for_turns(self, count):
        """Wait until the scheduler has finished this number of turns."""
        (line,) = self.scheduler._lines
        wait_until(lambda: len(self.turns) == count and not line.busy, what=f"{count} turns")


class Records:
    """The number of records in the topic, as brokers report it to the scheduler."""

    count = 0
    asked = 0

    def latest(self, names):
        self.asked += 1
        return {"t": {0: self.count}}

    def wait_for_look(self):
        """Wait until the scheduler has acted on this number and on the present time."""
        before = self.asked
        wait_until(lambda: self.asked >= before + 2, what="a look of the scheduler")


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def topic_records():
    return Records()


@pytest.fixture
def run(clock, topic_records, monkeypatch):
    """A topic that is served by a scheduler which looks often."""
    monkeypatch.setattr(turns_module, "_LOOK", 0.001)
    monkeypatch.setattr(turns_module, "_SHORTEST", 0.001)
    spark = SimpleNamespace(sparkContext=SimpleNamespace(setLocalProperty=lambda *_: None))
    run = Batches()
    run.scheduler = Turns(spark, topic_records, once=False, clock=clock)
    run.scheduler.add(run)
    run.scheduler.begin()
    yield run
    run.scheduler.stop()


def test_records_are_committed_a_flush_interval_after_the_first_waiting_record(
    run, clock, topic_records
):
    topic_records.wait_for_look()
    clock.now += 4  # the time in which no record waits does not count
    topic_records.count = 10
    topic_records.wait_for_look()
    clock.now += 2.5
    topic_records.count = 20
    topic_records.wait_for_look()
    assert run.turns == []
    clock.now += 0.5
    run.wait_for_turns(1)
    assert run.turns == [{0: 20}]
    topic_records.count = 30
    topic_records.wait_for_look()
    clock.now += 2.5  # counted from the first record after the commit
    topic_records.wait_for_look()
    assert len(run.turns) == 1
    clock.now += 0.5
    run.wait_for_turns(2)
    assert run.turns[1] == {0: 30}


def test_full_batches_are_committed_at_once_and_the_rest_after_the_flush_interval(
    run, clock, topic_records
):
    topic_records.count = 120
    run.wait_for_turns(2)
    assert run.turns == [{0: 50}, {0: 100}]
    topic_records.wait_for_look()
    clock.now += 2.5
    topic_records.wait_for_look()
    assert len(run.turns) == 2
    clock.now += 0.5
    run.wait_for_turns(3)
    assert run.turns[2] == {0: 120}


def test_a_topic_that_failed_is_served_again_after_its_pause(run, clock, topic_records):
    run.pauses = [5.0]
    topic_records.count = 50
    run.wait_for_turns(1)
    clock.now += 4.5
    topic_records.wait_for_look()
    topic_records.count = 60
    topic_records.wait_for_look()
    assert len(run.turns) == 1
    clock.now += 0.5
    run.wait_for_turns(2)
    assert run.turns == [{0: 50}, {0: 50}]


def test_an_unexpected_exception_of_one_topic_leaves_the_others_in_service(monkeypatch):
    """A position of wrong values, as a damaged table can report it."""

    def named(name):
        class Named(Run):
            topic = SimpleNamespace(
                key=name,
                config=SimpleNamespace(kafka_topic=name, processing=Run.topic.config.processing),
            )

        return Named()

    class Both:
        def latest(self, names):
            return {name: {0: 50} for name in names}

    monkeypatch.setattr(turns_module, "_SHORTEST", 0.001)
    context = SimpleNamespace(setLocalProperty=lambda *_: None)
    broken, sound = named("a"), named("b")
    broken.position = {0: None}
    turns = Turns(SimpleNamespace(sparkContext=context), Both(), once=True)
    turns.add(broken)
    turns.add(sound)
    turns.begin()
    assert broken.ended.wait(20)
    assert sound.ended.wait(20)
    turns.stop()
    assert isinstance(broken.error, UnexpectedError)
    assert (sound.error, sound.turns) == (None, [{0: 15}])


def test_a_topic_about_which_the_request_fails_unexpectedly_ends_alone():
    class Choosy(Ends):
        def latest(self, names):
            if "t" in names:
                raise ValueError("no such thing")
            return {name: {0: 50} for name in names}

    class Other(Run):
        topic = SimpleNamespace(
            key="u",
            config=SimpleNamespace(kafka_topic="u", processing=Run.topic.config.processing),
        )

    context = SimpleNamespace(setLocalProperty=lambda *_: None)
    refused, other = Run(), Other()
    turns = Turns(SimpleNamespace(sparkContext=context), Choosy(), once=True)
    turns.add(refused)
    turns.add(other)
    turns.begin()
    assert refused.ended.wait(20)
    assert other.ended.wait(20)
    turns.stop()
    assert isinstance(refused.error, UnexpectedError)
    assert (other.error, other.turns) == (None, [{0: 15}])


def test_a_panic_of_a_native_extension_in_a_turn_ends_its_topic():
    class PanicException(BaseException):
        """PyO3's, which isn't an `Exception`."""

    class Panicking(Run):
        def turn(self, spark, end):
            raise PanicException("index out of bounds")

    context = SimpleNamespace(setLocalProperty=lambda *_: None)
    run = Panicking()
    turns = Turns(SimpleNamespace(sparkContext=context), Ends(), once=False)
    turns.add(run)
    turns.begin()
    assert run.ended.wait(20)
    turns.stop()
    assert "PanicException: index out of bounds" in run.error.message
