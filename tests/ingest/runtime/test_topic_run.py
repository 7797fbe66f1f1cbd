"""A topic that is opened again after a failure."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest

from bayou.errors import CatalogError, KafkaError, StorageError
from bayou.ingest.background_task import BackgroundTask
from bayou.ingest.broker import with_matching_topics
from bayou.ingest.events import AttemptFailed
from bayou.ingest.runtime.topic_run import TopicRun
from bayou.ingest.runtime.topic_upkeep import TopicUpkeep
from bayou.ingest.topic_errors import UnexpectedError
from support.in_process_pipeline import InProcessContext, new_topic_run
from support.waiting import wait_until


class Listener:
    """What is told of failures; the rest isn't of interest."""

    def __init__(self) -> None:
        self.failures: list[AttemptFailed] = []

    def attempt_failed(self, event):
        self.failures.append(event)

    def topic_started(self, event):
        pass

    def topic_finished(self, event):
        pass


@pytest.fixture
def run(small_pipeline):
    small_pipeline.produce({"id": 1})
    small_pipeline.take_in()
    configuration, topic = small_pipeline.configuration, small_pipeline.topic
    listener = Listener()
    found = new_topic_run(configuration, topic, listener)
    found.prepare(once=False)
    found.start(None)
    yield found, listener, small_pipeline
    found.abandon()


def test_a_store_that_fails_for_a_while_is_asked_again(run):
    run, listener, pipeline = run
    log = pipeline.folder / "lake" / "events" / "_delta_log"
    log.rename(log.with_name("aside"))
    log.symlink_to(log)
    assert run.run_batch(None, None) == 0.5
    (failure,) = listener.failures
    assert (failure.what, type(failure.error)) == ("topic", StorageError)
    log.unlink()
    log.with_name("aside").rename(log)
    assert run.run_batch(None, None) is None
    assert run.active
    assert run.finish().error is None


def unreachable(**_):
    raise KafkaError("no answer")


def test_a_topic_that_is_stopped_while_it_waits_for_a_retry_ends_without_an_error(run):
    run, _, _ = run
    run._open = unreachable
    assert run.run_batch(None, None) == 0.5
    assert run.finish().error is None


def test_the_failure_after_the_last_retry_ends_the_topic(run):
    run, listener, pipeline = run
    run._open = unreachable
    retries = pipeline.topic.config.processing.max_retries
    pauses = [run.run_batch(None, None) for _ in range(retries + 1)]
    assert pauses[-1] is None
    assert [failure.retry for failure in listener.failures] == list(range(1, retries + 1))
    assert not run.active
    assert isinstance(run.finish().error, KafkaError)


def test_an_end_from_before_the_topic_was_opened_again_leads_nowhere_back(run):
    run, _, _ = run
    before = run.position
    assert before[0] == 1
    assert run.run_batch(None, {0: 0, 1: 0}) is None
    assert run.position == before


class Broken:
    """Every call raises what nobody expects; a panic of an extension isn't an `Exception`."""

    def __init__(self, fault):
        self._fault = fault

    def __getattr__(self, name):
        raise self._fault

    def __call__(self, *_, **__):
        raise self._fault


class Panic(BaseException):
    """As PyO3 raises it."""


def public_methods():
    return sorted(
        name
        for name, member in vars(TopicRun).items()
        if callable(member) and not name.startswith("_")
    )


CALLS = {
    "abandon": lambda run: run.abandon(),
    "complete": lambda run: run.complete(),
    "end": lambda run: run.end(),
    "finish": lambda run: run.finish(),
    "maintain": lambda run: run.maintain(),
    "needs_spark": lambda run: run.needs_spark(),
    "prepare": lambda run: run.prepare(once=False),
    "report_if_idle": lambda run: run.report_if_idle(),
    "retry_pause": lambda run: run.retry_pause(KafkaError("no answer"), 100),
    "run_batch": lambda run: run.run_batch(Broken(TypeError("no")), None),
    "start": lambda run: run.start(None),
    "stop_maintenance": lambda run: run.stop_maintenance(),
    "use": lambda run: run.use(None),
}


def test_each_public_method_of_a_run_is_tested_for_exceptions():
    assert sorted(CALLS) == public_methods()


@pytest.mark.parametrize("method", sorted(CALLS))
@pytest.mark.parametrize("part", ["_reporter", "_resources", "_upkeep", "_open"])
def test_no_exception_of_a_topic_leaves_its_run(run, method, part, monkeypatch):
    run, _, _ = run
    with monkeypatch.context() as patch:
        fault = Panic("no") if part == "_open" else TypeError("no")
        patch.setattr(run, part, Broken(fault))
        CALLS[method](run)
        assert run.active in (True, False)
        summary = run.finish()
    assert summary.topic == "events"


def test_an_unexpected_exception_of_a_table_is_the_error_of_its_summary(small_pipeline):
    small_pipeline.produce({"id": 1})
    small_pipeline.take_in()
    log = small_pipeline.folder / "lake" / "events" / "_delta_log"
    configuration, topic = small_pipeline.configuration, small_pipeline.topic
    listener = Listener()
    found = new_topic_run(configuration, topic, listener)
    found._open = Broken(TypeError("'NoneType' object is not iterable"))
    found.prepare(once=True)
    assert not found.active
    error = found.finish().error
    assert isinstance(error, UnexpectedError)
    assert "unexpected TypeError: 'NoneType' object is not iterable." in error.message
    assert log.exists()


def test_a_table_name_that_the_catalog_cannot_have_ends_only_its_topic(small_pipeline):
    """A topic of a pattern may have any name; an exception here would end all topics."""
    small_pipeline.produce({"id": 1})
    pattern = f"kafka-topic-pattern: {small_pipeline.kafka_topic}"
    text = small_pipeline.file.read_text().replace(
        f"kafka-topic: {small_pipeline.kafka_topic}", pattern
    )
    text = text.replace("table-path:", f"table-name: '{'n' * 245}_{{topic}}'\n        table-path:")
    catalog = "  catalog: {unity: {uri: 'https://localhost:1', catalog: c, schema: s}}\n  topics:"
    small_pipeline.file.write_text(text.replace("  topics:", catalog))
    configuration = with_matching_topics(small_pipeline.configuration)
    run = new_topic_run(configuration, configuration.topics[0], Listener())
    run.prepare(once=False)
    assert not run.has_work
    assert "can't be the name of a table in Unity Catalog" in run.finish().error.message


def test_a_catalog_that_is_not_reachable_stops_no_topic(small_pipeline):
    small_pipeline.produce({"id": 1})
    text = small_pipeline.file.read_text()
    catalog = "  catalog: {unity: {uri: 'http://127.0.0.1:1', catalog: c, schema: s}}\n  topics:"
    small_pipeline.file.write_text(text.replace("  topics:", catalog))
    small_pipeline.take_in()  # a table to register
    listener = Listener()
    run = new_topic_run(small_pipeline.configuration, small_pipeline.topic, listener)
    run.prepare(once=False)
    run.start(InProcessContext())
    assert run.active
    wait_until(lambda: run.maintain() or listener.failures)
    (failure,) = listener.failures
    assert (failure.what, failure.retry, failure.of) == ("registration", 1, None)
    assert isinstance(failure.error, CatalogError)
    assert run.active
    assert run.finish().error is None


def test_a_successful_preparation_ends_the_count_of_failures(run):
    run, listener, pipeline = run
    retries, prepare = pipeline.topic.config.processing.max_retries, run._open
    for _ in range(2):
        run._open = unreachable
        assert all(run.run_batch(None, None) is not None for _ in range(retries))
        run._open = prepare
        assert run.run_batch(None, None) is None
    assert [failure.retry for failure in listener.failures] == [*range(1, retries + 1)] * 2
    assert run.active


class OpenTables:
    """Counts the users of the maintenance of each table."""

    def __init__(self):
        self.users = Counter()

    def registration(self, topic):
        return None

    def open_maintenance(self, topic, batches):
        self.users[topic.table_path] += 1

    def close_maintenance(self, topic):
        self.users[topic.table_path] -= 1


def test_the_maintenance_of_a_table_that_the_last_batch_adds_is_closed(run):
    run, listener, _ = run
    tables = OpenTables()
    run._upkeep = TopicUpkeep(None, tables, listener, run._in_batch)
    run._upkeep.open([SimpleNamespace(table_path="/lake/first")])
    with run._in_batch:
        finishing = BackgroundTask(run.finish)
        wait_until(lambda: not tables.users["/lake/first"])
        run._upkeep.open([SimpleNamespace(table_path="/lake/added")])
    finishing.finish()
    assert tables.users == {"/lake/first": 0, "/lake/added": 0}
