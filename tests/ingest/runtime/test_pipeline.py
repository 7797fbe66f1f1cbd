"""How a run starts: Spark that has ended, topics that are prepared."""

from __future__ import annotations

import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext

from bayou.errors import PipelineError
from bayou.ingest import run_pipeline
from bayou.ingest.batch import startup_session
from bayou.ingest.maintenance import scheduler
from bayou.ingest.monitoring import Listeners
from bayou.ingest.runtime import pipeline as pipeline_module
from bayou.ingest.runtime.pipeline import _complete, _prepare
from bayou.ingest.spark_errors import SparkEndedError
from support.in_process_pipeline import InProcessContext


@pytest.fixture
def spark(monkeypatch):
    """A session whose JVM was killed a moment ago."""
    ended = subprocess.Popen([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"])
    ended.wait()
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=ended))

    def set_local_property(*_):
        raise Py4JNetworkError("Error while sending or receiving")

    return SimpleNamespace(sparkContext=SimpleNamespace(setLocalProperty=set_local_property))


def test_a_jvm_that_ends_before_the_first_batch_is_the_error_of_the_topic(small_pipeline, spark):
    small_pipeline.produce({"id": 1})
    configuration = small_pipeline.configuration
    (summary,) = run_pipeline(configuration, once=True, reporter=Listeners(), spark=spark)
    assert isinstance(summary.error, SparkEndedError)
    assert summary.error.message.startswith("Spark's JVM has ended (signal 9")
    small_pipeline.take_in()
    assert small_pipeline.table.to_arrow(columns=["id"]).column("id").to_pylist() == [1]


def test_all_topics_are_prepared_at_the_same_time_so_that_a_silent_broker_is_waited_for_once():
    together = threading.Barrier(3, timeout=60)

    class Run:
        reported = False

        def prepare(self, *, once):
            together.wait()

        def report_if_idle(self):
            self.reported = True

    runs = [Run() for _ in range(3)]
    _prepare(runs, once=True)
    assert all(run.reported for run in runs)


@pytest.fixture
def without_spark(monkeypatch):
    """Let the start of Spark fail with an error; a slow machine is no reason to start it."""

    def fail(_):
        raise PipelineError("Spark was started", topic="")

    monkeypatch.setattr(pipeline_module, "_session", fail)
    monkeypatch.setattr(pipeline_module, "_MAX_SECONDS_WITHOUT_SPARK", 300)


def run_once(pipeline):
    (summary,) = run_pipeline(pipeline.configuration, once=True, reporter=Listeners())
    return summary


@pytest.mark.process
@pytest.mark.usefixtures("without_spark")
@pytest.mark.parametrize("upserts", [False, True])
def test_a_run_with_few_records_ends_without_spark(new_pipeline, upserts):
    pipeline = new_pipeline(upserts=upserts)
    pipeline.produce({"id": 1}, {"id": "no number"}, {"id": 2})
    summary = run_once(pipeline)
    assert (summary.rows, summary.dead_letters, summary.error) == (2, 1, None)
    pipeline.produce({"id": 3}, partition=1)
    assert run_once(pipeline).rows == 1
    ids = pipeline.table.to_arrow(columns=["id"]).column("id").to_pylist()
    assert sorted(ids) == [1, 2, 3]


@pytest.mark.process
@pytest.mark.usefixtures("without_spark")
def test_the_maintenance_of_a_large_table_starts_spark(small_pipeline, monkeypatch):
    text = small_pipeline.file.read_text()
    due = "delta-config:\n          enable-optimize: true\n"
    small_pipeline.file.write_text(text.replace("delta-config:\n", due))
    for number in range(2):
        small_pipeline.produce({"id": number})
        assert run_once(small_pipeline).error is None
    operations = [commit["operation"] for commit in small_pipeline.table.history()]
    assert operations[0] == "OPTIMIZE"
    monkeypatch.setattr(scheduler, "_MAX_BYTES_WITHOUT_SPARK", 100)
    small_pipeline.produce({"id": 2})
    with pytest.raises(PipelineError, match="Spark was started"):
        run_once(small_pipeline)
    assert len(small_pipeline.table.to_arrow()) == 3


@pytest.mark.process
@pytest.mark.usefixtures("without_spark")
def test_a_run_with_more_records_starts_spark(small_pipeline, monkeypatch):
    monkeypatch.setattr(pipeline_module, "MAX_RECORDS", 1)
    small_pipeline.produce({"id": 1}, {"id": 2})
    with pytest.raises(PipelineError, match="Spark was started"):
        run_once(small_pipeline)


@pytest.mark.process
@pytest.mark.usefixtures("without_spark")
def test_a_batch_whose_worker_died_starts_spark(small_pipeline, monkeypatch):
    def read_message(_):
        raise EOFError

    monkeypatch.setattr(startup_session, "read_message", read_message)
    small_pipeline.produce({"id": 1})
    with pytest.raises(PipelineError, match="Spark was started"):
        run_once(small_pipeline)


@pytest.mark.process
@pytest.mark.usefixtures("without_spark")
def test_a_run_that_is_stopped_while_a_batch_needs_spark_starts_spark(small_pipeline, monkeypatch):
    stop = threading.Event()

    def read_message(_):
        stop.set()
        raise EOFError

    monkeypatch.setattr(startup_session, "read_message", read_message)
    small_pipeline.produce({"id": 1})
    configuration = small_pipeline.configuration
    with pytest.raises(PipelineError, match="Spark was started"):
        run_pipeline(configuration, once=True, reporter=Listeners(), stop=stop)


@pytest.mark.process
@pytest.mark.usefixtures("without_spark")
def test_a_run_that_is_stopped_while_a_batch_runs_ends_after_it_without_spark(
    small_pipeline, monkeypatch
):
    """The topic has more records, and the maintenance of its table needs Spark."""
    text = small_pipeline.file.read_text()
    text = text.replace("      destination", "      processing: {batch-size: 2}\n      destination")
    due = "delta-config:\n          enable-optimize: true\n"
    small_pipeline.file.write_text(text.replace("delta-config:\n", due))
    small_pipeline.produce({"id": 0})
    assert run_once(small_pipeline).rows == 1
    monkeypatch.setattr(scheduler, "_MAX_BYTES_WITHOUT_SPARK", 100)
    stop, stopped = threading.Event(), threading.Event()
    end_scheduler = pipeline_module.Scheduler.stop

    def stop_scheduler(self):
        end_scheduler(self)
        stopped.set()

    monkeypatch.setattr(pipeline_module.Scheduler, "stop", stop_scheduler)
    receive = startup_session.read_message

    def receive_after_stop(stream):
        stop.set()
        assert stopped.wait(60)
        return receive(stream)

    monkeypatch.setattr(startup_session, "read_message", receive_after_stop)
    small_pipeline.produce({"id": 1}, {"id": 2}, {"id": 3})
    configuration = small_pipeline.configuration
    (summary,) = run_pipeline(configuration, once=True, reporter=Listeners(), stop=stop)
    assert (summary.rows, summary.commits, summary.error) == (2, 1, None)
    assert len(small_pipeline.table.to_arrow()) == 3


@pytest.mark.process
def test_a_stop_that_also_ends_the_starting_spark_is_no_error(small_pipeline, monkeypatch):
    stop = threading.Event()

    def stop_and_fail(_):
        stop.set()
        raise PipelineError("Spark doesn't start", topic="")

    monkeypatch.setattr(pipeline_module, "_session", stop_and_fail)
    small_pipeline.produce({"id": 1})
    configuration = small_pipeline.configuration
    (summary,) = run_pipeline(configuration, once=False, reporter=Listeners(), stop=stop)
    assert summary.error is None


def test_a_stop_ends_the_batches_of_all_topics_before_it_waits_for_one(small_pipeline, monkeypatch):
    calls = []
    for owner, name in ((pipeline_module.Scheduler, "stop"), (pipeline_module.TopicRun, "finish")):
        original = getattr(owner, name)

        def called(*arguments, name=name, original=original, **options):
            calls.append(name)
            return original(*arguments, **options)

        monkeypatch.setattr(owner, name, called)
    stop = threading.Event()
    stop.set()
    session = InProcessContext()
    configuration = small_pipeline.configuration
    (summary,) = run_pipeline(
        configuration, once=False, reporter=Listeners(), stop=stop, spark=session
    )
    assert summary.error is None
    assert calls[:2] == ["stop", "finish"]


def test_a_stop_ends_the_maintenance_at_the_end_of_a_run():
    """The maintenance of a shared table stops when all topics of the table have stopped it."""
    stop, users = threading.Event(), threading.Semaphore(0)

    class Run:
        completed = 0
        is_stopped = False

        def complete(self):
            stop.set()
            assert users.acquire(timeout=60)
            assert users.acquire(timeout=60)
            self.completed += 1

        def stop_maintenance(self):
            if not self.is_stopped:
                self.is_stopped = True
                users.release()

    run, other = Run(), Run()
    for _ in range(2):
        _complete(run, [run, other], stop)
        assert run.completed == 1
    users.release(2)
    _complete(run, [run, other], None)
    assert run.completed == 2
