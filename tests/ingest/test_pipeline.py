"""A run whose Spark ends before any topic has begun."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext

from bayou.errors import PipelineError
from bayou.ingest import run_pipeline
from bayou.ingest.monitoring import Listeners


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
