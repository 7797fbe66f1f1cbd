"""How a run starts: Spark that has ended, topics that are prepared."""

from __future__ import annotations

import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext

from bayou.ingest import run_pipeline
from bayou.ingest.monitoring import Listeners
from bayou.ingest.runtime.pipeline import _prepare
from bayou.ingest.spark_errors import SparkEndedError


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
