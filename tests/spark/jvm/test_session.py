"""The JVM's process."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from pyspark import SparkContext

from bayou.spark.jvm.session import ending_java_if_interrupted


@pytest.mark.process
@pytest.mark.parametrize("runs", [False, True])
def test_a_jvm_whose_start_is_interrupted_is_ended(monkeypatch, runs):
    """Otherwise the JVM outlives this process, and keeps its stdout open."""
    monkeypatch.setattr(SparkContext, "_gateway", object() if runs else None)
    started = []

    def launch():
        proc = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        started.append(proc)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), ending_java_if_interrupted():
        launch()
    (process,) = started
    if runs:
        assert process.poll() is None
        process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
