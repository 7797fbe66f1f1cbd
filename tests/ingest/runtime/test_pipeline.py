"""A run whose Spark ends before any topic has begun."""

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
from bayou.ingest.monitoring import Listeners
from bayou.ingest.runtime.pipeline import _prepare


@pytest.fixture
def spark(monkeypatch):
    """A session whose JVM was killed a moment ago."""
    ended = subprocess.Popen([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"])
    ended.wait()
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=ended))

    def register(source):
        raise Py4JNetworkError("Error while sending or receiving")

    return SimpleNamespace(dataSource=SimpleNamespace(register=register))


def test_a_jvm_that_ends_before_any_topic_begins_is_one_error(small_pipeline, spark):
    small_pipeline.produce({"id": 1})
    with pytest.raises(PipelineError, match=r"^Spark's JVM has ended \(signal 9"):
        run_pipeline(small_pipeline.configuration, once=True, reporter=Listeners(), spark=spark)
    small_pipeline.take_in()
    assert small_pipeline.table.to_arrow(columns=["id"]).column("id").to_pylist() == [1]


def test_all_topics_are_prepared_at_the_same_time_so_that_a_silent_broker_is_waited_for_once():
    together = threading.Barrier(3, timeout=60)

    class Run:
        told = False

        def prepare(self, *, once):
            together.wait()

        def tell_if_idle(self):
            self.told = True

    runs = [Run() for _ in range(3)]
    _prepare(runs, once=True)
    assert all(run.told for run in runs)
