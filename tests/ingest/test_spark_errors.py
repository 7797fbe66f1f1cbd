"""Spark's errors in our words."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from bayou.errors import (
    KafkaError,
    PipelineError,
    PrerequisiteError,
    RecordsLostError,
    StorageError,
)
from bayou.ingest.spark_errors import SparkEndedError, to_bayou_error
from bayou.spark.kafka.data_loss import DataLoss

WORKER = """Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times:
Traceback (most recent call last):
  File "consumer.py", line 1, in read
bayou.errors.KafkaError: No answer from the Kafka brokers h:9092 within 120 s.

\tat org.apache.spark.api.python.BasePythonRunner
"""


def test_an_error_of_ours_in_a_task_comes_out_whole():
    error = to_bayou_error(PySparkException(WORKER), "events")
    assert isinstance(error, KafkaError)
    assert error.message == "No answer from the Kafka brokers h:9092 within 120 s."
    assert error.topic == "events"


@pytest.mark.parametrize("kind", [RecordsLostError, StorageError])
def test_what_decides_on_another_attempt_stays_what_it_was(kind):
    error = to_bayou_error(PySparkException(WORKER.replace("KafkaError", kind.__name__)), "events")
    assert type(error) is kind
    assert error.message == "No answer from the Kafka brokers h:9092 within 120 s."


def test_records_that_are_gone_are_told_with_the_key_of_the_configuration():
    with pytest.raises(RecordsLostError) as lost:
        DataLoss(fail=True).report("offsets 3 to 5 of partition 0", "events")
    text = f"Traceback\nbayou.errors.RecordsLostError: {lost.value.message}\n\tat org.apache"
    error = to_bayou_error(PySparkException(text), "orders")
    assert isinstance(error, RecordsLostError)
    assert "connector.topics.orders.on-data-loss: continue" in error.message
    assert "failOnDataLoss" not in error.message


def test_an_error_without_a_text_has_its_name():
    assert (
        to_bayou_error(Py4JError(""), "events").message == "topic 'events': Spark failed: Py4JError"
    )


def test_any_other_error_is_told_by_its_last_line():
    text = WORKER.replace("bayou.errors.KafkaError: No answer", "ZeroDivisionError: division")
    error = to_bayou_error(PySparkException(text), "events")
    assert isinstance(error, PipelineError)
    assert "ZeroDivisionError: division" in error.message
    assert "Traceback" not in error.message


@pytest.mark.process
@pytest.mark.parametrize(
    "error",
    [
        Py4JNetworkError("Answer from Java side is empty"),
        Py4JError("An error occurred while calling o80.awaitTermination"),
        ConnectionRefusedError(111, "Connection refused"),
        PySparkException("Query q terminated with exception: connection reset"),
    ],
)
def test_whatever_a_call_ends_with_a_jvm_that_has_ended_is_the_reason(monkeypatch, error):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as jvm:
        jvm.kill()
        jvm.wait()
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=jvm))
        told = to_bayou_error(error, "events")
    assert isinstance(told, SparkEndedError)
    assert "Spark's JVM has ended (signal 9" in told.message


def test_a_full_disk_of_spark_is_told_from_other_failures():
    error = to_bayou_error(
        PySparkException("java.io.IOException: No space left on device"), "events"
    )
    assert isinstance(error, PrerequisiteError)
    assert "spark.local.dir" in error.message
