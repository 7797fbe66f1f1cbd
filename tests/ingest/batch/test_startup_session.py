"""Tasks that run in a process of their own while Spark starts."""

from __future__ import annotations

import os
import signal
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from bayou.errors import PipelineError, PrerequisiteError
from bayou.ingest.batch.startup_session import StartupSession, spark_session
from support.in_process_pipeline import InProcessContext
from support.waiting import wait_until

pytestmark = pytest.mark.process


@pytest.fixture
def session(tmp_path):
    session = StartupSession({"a": "1"}, tmp_path / "spark.log")
    yield session
    session.close()


def process_of(value):
    return value, os.getpid()


def fail_here(pid, value):
    """Fail in each process but one."""
    if os.getpid() != pid:
        raise ValueError(value)
    return value


def end_elsewhere(pid, value):
    """End each process but one."""
    if os.getpid() != pid:
        os._exit(9)
    return value


def collect(session, task, values):
    return session.sparkContext.parallelize(values, len(values)).map(task).collect()


def test_tasks_run_in_one_other_process(session):
    (first, pid), (second, same) = collect(session, process_of, [1, 2])
    assert (first, second) == (1, 2)
    assert pid == same != os.getpid()
    assert session.conf.get("a", None) == "1"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_all_processes_does_not_end_the_process(session, number):
    ((_, pid),) = collect(session, process_of, [1])
    os.kill(pid, number)
    assert collect(session, process_of, [2]) == [(2, pid)]


@pytest.mark.parametrize("task", [fail_here, end_elsewhere])
def test_spark_repeats_a_task_that_failed(session, task):
    threading.Timer(0.2, session.started, [InProcessContext()]).start()
    assert collect(session, partial(task, os.getpid()), [1, 2]) == [1, 2]


def test_spark_runs_the_tasks_when_it_has_started(session):
    ((_, pid),) = collect(session, process_of, [1])
    spark = InProcessContext()
    session.started(spark)
    assert spark_session(session) is spark
    assert collect(session, process_of, [2]) == [(2, os.getpid())]
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), what="the end of the process")


def test_the_process_ends_after_the_task_that_runs_when_spark_has_started(session, tmp_path):
    go = tmp_path / "go"
    seen = []
    thread = threading.Thread(target=lambda: seen.extend(collect(session, partial(held, go), [1])))
    thread.start()
    wait_until(lambda: (tmp_path / "go.begun").exists(), what="the start of the task")
    session.started(InProcessContext())
    go.touch()
    thread.join(20)
    assert seen != [(1, os.getpid())]
    assert len(seen) == 1
    assert collect(session, process_of, [2]) == [(2, os.getpid())]


def held(go, value):
    go.with_name("go.begun").touch()
    while not go.exists():
        time.sleep(0.01)
    return value, os.getpid()


def test_the_end_of_the_run_releases_whoever_waits_for_spark(session):
    threading.Timer(0.2, session.close).start()
    with pytest.raises(PipelineError, match="before Spark had started"):
        session.spark_session()
    with pytest.raises(PipelineError, match="before Spark had started"):
        collect(session, process_of, [1])


def test_a_log_that_cannot_be_written_is_an_error_of_the_state_path(tmp_path):
    (tmp_path / "spark.log").mkdir()
    with pytest.raises(PrerequisiteError, match=r"The state path .*spark\.log can't be used"):
        StartupSession({}, tmp_path / "spark.log")
