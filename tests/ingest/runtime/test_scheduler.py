"""When the scheduler runs the batches of topics."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from bayou.errors import KafkaError
from bayou.ingest.runtime import scheduler as scheduler_module
from bayou.ingest.runtime.scheduler import Scheduler
from bayou.ingest.topic_errors import UnexpectedError
from support.waiting import wait_until


class Run:
    """A topic whose first batch finds that retention has taken its records."""

    batch_limit = 10
    has_table = True
    topic = SimpleNamespace(
        key="t",
        config=SimpleNamespace(
            kafka_topic="t",
            processing=SimpleNamespace(flush_interval=1.0, max_retries=0),
        ),
    )

    def __init__(self) -> None:
        self.position = {0: 5}
        self.batches = []
        self.ended = threading.Event()

    @property
    def active(self):
        return not self.ended.is_set()

    def start(self, spark):
        """Nothing to begin."""

    def run_batch(self, spark, end):
        self.batches.append(end)
        self.position = {0: 50}

    def end(self, error=None):
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
    scheduler = Scheduler(SimpleNamespace(sparkContext=context), Ends(), once=True)
    scheduler.add(run)
    scheduler.start()
    assert run.ended.wait(20)
    scheduler.stop()
    assert run.batches == [{0: 10}]


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_stop_while_brokers_are_asked_is_no_error():
    class Stopping(Ends):
        def latest(self, names):
            scheduler.stop()
            return super().latest(names)

    run = Run()
    scheduler = Scheduler(SimpleNamespace(), Stopping(), once=True)
    scheduler.add(run)
    scheduler.start()
    scheduler._thread.join(20)
    assert run.batches == []


def test_a_topic_that_ends_during_its_maintenance_holds_up_no_other():
    class Maintained(Run):
        def __init__(self) -> None:
            super().__init__()
            self.position = {0: 0}
            self.done = threading.Event()

        def end(self, error=None):
            self.done.wait(20)
            super().end(error)

    class Slow(Run):
        def run_batch(self, spark, end):
            self.position = {0: self.position[0] + 1}

    class Still(Ends):
        def latest(self, names):
            return {"t": {0: self.end}}

    ends, first, other = Still(), Maintained(), Slow()
    first.position = {0: ends.end}
    spark = SimpleNamespace(sparkContext=SimpleNamespace(setLocalProperty=lambda *_: None))
    scheduler = Scheduler(spark, ends, once=True)
    scheduler.add(first)
    scheduler.add(other)
    scheduler.start()
    assert other.ended.wait(10)
    assert first.active
    first.done.set()
    assert first.ended.wait(10)
    scheduler.stop()


def test_a_topic_that_is_added_when_all_have_ended_is_served():
    class Still(Ends):
        def latest(self, names):
            return {"t": {0: 50}} if names else {}

    context = SimpleNamespace(setLocalProperty=lambda *_: None)
    scheduler = Scheduler(SimpleNamespace(sparkContext=context), Still(), once=True)
    scheduler.start()
    for _ in range(2):
        run = Run()
        scheduler.add(run)
        assert run.ended.wait(20)
    scheduler.stop()


def test_an_unexpected_exception_of_a_request_ends_the_topics():
    class Broken(Ends):
        def latest(self, names):
            raise ValueError("no such thing")

    run = Run()
    scheduler = Scheduler(SimpleNamespace(), Broken(), once=False)
    scheduler.add(run)
    scheduler.start()
    assert run.ended.wait(10)
    assert "ValueError: no such thing" in str(run.error)
    again = Run()  # a topic that is restarted
    scheduler.add(again)
    assert again.ended.wait(10)
    scheduler.stop()


def test_a_batch_that_cannot_start_ends_its_topic():
    run = Run()
    scheduler = Scheduler(SimpleNamespace(sparkContext=None), Ends(), once=True)
    scheduler.add(run)
    scheduler.start()
    assert run.ended.wait(10)
    scheduler.stop()
    assert run.batches == []
    assert run.error is not None


class Clock:
    """Stands still until a test moves it."""

    now = 1000.0
    reads = 0

    def __call__(self):
        self.reads += 1
        return self.now

    def wait_for_poll(self):
        """Wait until the scheduler has acted on the present time: a poll reads it once or twice."""
        before = self.reads
        wait_until(lambda: self.reads >= before + 5, what="a poll of the scheduler")


class Batches(Run):
    """A topic with batches of 50 records and a flush interval of 3 seconds."""

    batch_limit = 50
    topic = SimpleNamespace(
        key="t",
        config=SimpleNamespace(
            kafka_topic="t",
            processing=SimpleNamespace(flush_interval=3.0, max_retries=0),
        ),
    )

    def __init__(self) -> None:
        super().__init__()
        self.position = {0: 0}
        self.pauses = []

    def run_batch(self, spark, end):
        pause = self.pauses.pop(0) if self.pauses else None
        if pause is None and end is not None:
            self.position = end
        self.batches.append(end)
        return pause

    def wait_for_batches(self, count):
        """Wait until the scheduler has finished this number of batches."""
        (topic,) = self.scheduler._topics
        wait_until(lambda: len(self.batches) == count and not topic.busy, what=f"{count} batches")


class Records:
    """The number of records in the topic, as brokers report it to the scheduler."""

    count = 0

    def latest(self, names):
        return {"t": {0: self.count}}


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def topic_records():
    return Records()


@pytest.fixture
def run(clock, topic_records, monkeypatch):
    """A topic that is served by a scheduler that polls often."""
    monkeypatch.setattr(scheduler_module, "_MAX_POLL_SECONDS", 0.002)
    monkeypatch.setattr(scheduler_module, "_MIN_POLL_SECONDS", 0.001)
    spark = SimpleNamespace(sparkContext=SimpleNamespace(setLocalProperty=lambda *_: None))
    run = Batches()
    run.scheduler = Scheduler(spark, topic_records, once=False, clock=clock)
    run.scheduler.add(run)
    run.scheduler.start()
    yield run
    run.scheduler.stop()


def test_records_are_committed_a_flush_interval_after_the_first_waiting_record(
    run, clock, topic_records
):
    clock.wait_for_poll()
    clock.now += 4  # the time in which no record waits does not count
    topic_records.count = 10
    clock.wait_for_poll()
    clock.now += 2.5
    topic_records.count = 20
    clock.wait_for_poll()
    assert run.batches == []
    clock.now += 0.5
    run.wait_for_batches(1)
    assert run.batches == [{0: 20}]
    topic_records.count = 30
    clock.wait_for_poll()
    clock.now += 2.5  # counted from the first record after the commit
    clock.wait_for_poll()
    assert len(run.batches) == 1
    clock.now += 0.5
    run.wait_for_batches(2)
    assert run.batches[1] == {0: 30}


def test_full_batches_are_committed_at_once_and_the_rest_after_the_flush_interval(
    run, clock, topic_records
):
    topic_records.count = 120
    run.wait_for_batches(2)
    assert run.batches == [{0: 50}, {0: 100}]
    clock.wait_for_poll()
    clock.now += 2.5
    clock.wait_for_poll()
    assert len(run.batches) == 2
    clock.now += 0.5
    run.wait_for_batches(3)
    assert run.batches[2] == {0: 120}


def test_a_topic_that_failed_is_served_again_after_its_pause(run, clock, topic_records):
    run.pauses = [5.0]
    topic_records.count = 50
    run.wait_for_batches(1)
    clock.now += 4.5
    clock.wait_for_poll()
    topic_records.count = 60
    clock.wait_for_poll()
    assert len(run.batches) == 1
    clock.now += 0.5
    run.wait_for_batches(2)
    assert run.batches == [{0: 50}, {0: 50}]


def test_a_topic_is_prepared_again_once_a_day(run, clock):
    for days in (1, 2):
        clock.now += 24 * 3600 - 1
        clock.wait_for_poll()
        assert run.batches == [None] * (days - 1)
        clock.now += 1
        run.wait_for_batches(days)
    assert run.batches == [None, None]


def test_a_topic_without_a_table_is_not_prepared_once_a_day(run, clock, topic_records):
    """Its first records were dead letters. Kafka may have deleted them since."""
    run.has_table = False
    clock.now += 24 * 3600
    clock.wait_for_poll()
    topic_records.count = 50
    run.wait_for_batches(1)
    assert run.batches == [{0: 50}]


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

    monkeypatch.setattr(scheduler_module, "_MIN_POLL_SECONDS", 0.001)
    context = SimpleNamespace(setLocalProperty=lambda *_: None)
    broken, sound = named("a"), named("b")
    broken.position = {0: None}
    scheduler = Scheduler(SimpleNamespace(sparkContext=context), Both(), once=True)
    scheduler.add(broken)
    scheduler.add(sound)
    scheduler.start()
    assert broken.ended.wait(20)
    assert sound.ended.wait(20)
    scheduler.stop()
    assert isinstance(broken.error, UnexpectedError)
    assert (sound.error, sound.batches) == (None, [{0: 15}])


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
    scheduler = Scheduler(SimpleNamespace(sparkContext=context), Choosy(), once=True)
    scheduler.add(refused)
    scheduler.add(other)
    scheduler.start()
    assert refused.ended.wait(20)
    assert other.ended.wait(20)
    scheduler.stop()
    assert isinstance(refused.error, UnexpectedError)
    assert (other.error, other.batches) == (None, [{0: 15}])


def test_a_panic_of_a_native_extension_in_a_batch_ends_its_topic():
    class PanicException(BaseException):
        """PyO3's, which isn't an `Exception`."""

    class Panicking(Run):
        def run_batch(self, spark, end):
            raise PanicException("index out of bounds")

    context = SimpleNamespace(setLocalProperty=lambda *_: None)
    run = Panicking()
    scheduler = Scheduler(SimpleNamespace(sparkContext=context), Ends(), once=False)
    scheduler.add(run)
    scheduler.start()
    assert run.ended.wait(20)
    scheduler.stop()
    assert "PanicException: index out of bounds" in run.error.message


class Unreachable(Ends):
    """No broker answers the first requests."""

    def __init__(self, failures):
        super().__init__()
        self.failures = failures

    def latest(self, names):
        if self.failures:
            self.failures -= 1
            raise KafkaError("no answer")
        return super().latest(names)


class Retried(Run):
    """A topic with two retries."""

    def __init__(self):
        super().__init__()
        self.attempts = []

    def retry_pause(self, error, failures):
        self.attempts.append(failures)
        return 0.001 if failures <= 2 else None


def test_brokers_that_do_not_answer_for_a_while_are_asked_again_after_a_pause():
    context = SimpleNamespace(setLocalProperty=lambda *_: None)
    run = Retried()
    scheduler = Scheduler(SimpleNamespace(sparkContext=context), Unreachable(2), once=True)
    scheduler.add(run)
    scheduler.start()
    assert run.ended.wait(20)
    scheduler.stop()
    assert (run.attempts, run.error, run.batches) == ([1, 2], None, [{0: 10}])


def test_brokers_that_do_not_answer_end_the_topic_after_its_retries():
    run = Retried()
    scheduler = Scheduler(SimpleNamespace(), Unreachable(100), once=False)
    scheduler.add(run)
    scheduler.start()
    assert run.ended.wait(20)
    scheduler.stop()
    assert (run.attempts, str(run.error)) == ([1, 2, 3], "no answer")


class Incomplete:
    """The first answers lack a partition, because its new leader doesn't know it yet."""

    def __init__(self, polls):
        self.polls = polls
        self.reloads = 0

    def latest(self, names):
        self.polls -= 1
        return {"t": {0: 5} if self.polls >= 0 else {0: 5, 1: 7}}

    def reload_partitions(self):
        self.reloads += 1


class TwoPartitions(Retried):
    """A topic that has read the records of partition 0 but none of partition 1."""

    def __init__(self):
        super().__init__()
        self.position = {0: 5, 1: 0}

    def run_batch(self, spark, end):
        self.batches.append(end)
        self.position |= end


def test_a_run_with_once_waits_for_a_partition_that_the_first_polls_lack():
    context = SimpleNamespace(setLocalProperty=lambda *_: None)
    run, ends = TwoPartitions(), Incomplete(2)
    scheduler = Scheduler(SimpleNamespace(sparkContext=context), ends, once=True)
    scheduler.add(run)
    scheduler.start()
    assert run.ended.wait(20)
    scheduler.stop()
    assert (run.attempts, ends.reloads, run.error) == ([1, 2], 2, None)
    assert run.position == {0: 5, 1: 7}


def test_a_run_with_once_fails_if_a_partition_stays_unreported():
    run = TwoPartitions()
    scheduler = Scheduler(SimpleNamespace(), Incomplete(100), once=True)
    scheduler.add(run)
    scheduler.start()
    assert run.ended.wait(20)
    scheduler.stop()
    assert (run.attempts, run.batches) == ([1, 2, 3], [])
    assert "'t': the brokers know the topic but report no end offset of its partition 1" in str(
        run.error
    )


def test_after_a_stop_the_running_batch_is_known_until_it_ends():
    started, proceed = threading.Event(), threading.Event()

    class Slow(Run):
        def run_batch(self, spark, end):
            started.set()
            assert proceed.wait(20)

    context = SimpleNamespace(setLocalProperty=lambda *_: None)
    scheduler = Scheduler(SimpleNamespace(sparkContext=context), Ends(), once=True)
    assert not scheduler.has_batches
    scheduler.add(Slow())
    scheduler.start()
    assert started.wait(20)
    for _ in range(2):
        scheduler.stop()
        assert scheduler.has_batches
    proceed.set()
    wait_until(lambda: not scheduler.has_batches)


def test_a_stop_removes_the_queued_batches(monkeypatch):
    monkeypatch.setattr(scheduler_module, "_THREADS", 1)
    running, proceed = [], threading.Event()

    class Slow(Run):
        def run_batch(self, spark, end):
            running.append(self)
            assert proceed.wait(20)

    context = SimpleNamespace(setLocalProperty=lambda *_: None)
    scheduler = Scheduler(SimpleNamespace(sparkContext=context), Ends(), once=True)
    for _ in range(2):
        scheduler.add(Slow())
    scheduler.start()
    wait_until(lambda: scheduler._batches == 2)
    scheduler.stop()
    assert scheduler._batches == 1
    proceed.set()
    wait_until(lambda: not scheduler.has_batches)
    assert len(running) == 1
