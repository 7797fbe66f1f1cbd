"""Converts exceptions of Spark, Spark's JVM and Spark's Python workers to `BayouError`s.

The messages of the `BayouError`s contain no stack traces of Java or Python.
"""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Iterator

from pyspark.errors import PySparkException

from bayou.errors import (
    BayouError,
    KafkaError,
    PipelineError,
    PrerequisiteError,
    RecordsLostError,
    StorageError,
)
from bayou.ingest.topic_errors import topic_error
from bayou.ingest.topic_key import section_key
from bayou.spark.jvm.objects import JvmError
from bayou.spark.jvm.session import jvm_exit_code
from bayou.spark.kafka import DATA_LOSS_ADVICE

_BAYOU_ERROR = re.compile(r"bayou\.errors\.(\w+): ([^\n]+)")
_PYTHON_ERROR = re.compile(
    r"^(?:: |Caused by: )?(?:\w+\.)*(\w*(?:Error|Exception|Interrupt)): ([^\n]+)",
    re.MULTILINE,
)
_DISK_FULL = re.compile("No space left on device|Disk quota exceeded")
_WORKER_CRASH = re.compile("Python worker exited unexpectedly|ExecutorLostFailure")
_SPARK_ERRORS = (PySparkException, JvmError, OSError, EOFError)
"""Exceptions that calls of Spark can raise, including errors of the connection to its JVM."""


class SparkFailedError(PipelineError):
    """Spark failed, for example because of too little memory. A retry may succeed."""


class WorkerCrashedError(SparkFailedError):
    """A Python worker or its executor died during a task."""


class SparkEndedError(PipelineError):
    """Spark's JVM has ended, so no retry is possible in this process."""


@contextlib.contextmanager
def translate_errors(topic: str = "") -> Iterator[None]:
    """Context manager that converts exceptions of Spark to `BayouError`s."""
    try:
        yield
    except (PySparkException, JvmError, ConnectionError) as error:
        raise to_bayou_error(error, topic) from error


def to_bayou_error(error: Exception, topic: str) -> BayouError:
    """Convert an exception of Spark or Python to a `BayouError`.

    Args:
        topic: the topic's key; empty if the error belongs to no topic.
    """
    if isinstance(error, BayouError) or not isinstance(error, _SPARK_ERRORS):
        return topic_error(error, topic)
    text = str(error)
    prefix = f"topic {topic!r}: " if topic else ""
    bayou_errors = _BAYOU_ERROR.findall(text)
    if bayou_errors:
        kind, message = bayou_errors[-1][0], bayou_errors[-1][1].strip()
        match kind:
            case "RecordsLostError":
                return records_lost_error(message, topic)
            case "KafkaError":
                return KafkaError(message, topic=topic)
            case "StorageError":
                return StorageError(message, path="")
        return PipelineError(f"{prefix}{message}", topic=topic)
    code = jvm_exit_code(error)
    if code is not None:
        return SparkEndedError(_end_message(code), topic=topic)
    if full := _DISK_FULL.search(text):
        return PrerequisiteError(
            f"{prefix}Spark can't write its temporary files: {full[0]}. Free disk space in Spark's "
            "local folders (spark.local.dir in connector.spark) and run the pipeline again. No "
            "data is lost.",
            what="spark.local.dir",
        )
    python_errors = _PYTHON_ERROR.findall(text)
    lines = text.strip().splitlines() or [type(error).__name__]
    reason = f"{python_errors[-1][0]}: {python_errors[-1][1]}" if python_errors else lines[0]
    kind = WorkerCrashedError if _WORKER_CRASH.search(text) else SparkFailedError
    return kind(f"{prefix}Spark failed: {reason.strip()}", topic=topic)


def records_lost_error(message: str, topic: str) -> RecordsLostError:
    """Return the error for lost records. Its message names the setting that skips lost records.

    Args:
        message: the message of the Kafka reader's error. A message that already names the setting
            isn't changed.
    """
    advice = (
        " To continue with the records that remain, set "
        f"connector.topics.{section_key(topic)}.on-data-loss: continue."
    )
    return RecordsLostError(message.replace(DATA_LOSS_ADVICE, advice), topic=topic)


def _end_message(code: int) -> str:
    how = f"exit code {code}"
    if code < 0:
        how = f"signal {-code}"
    if code == -signal.SIGKILL:
        how += "; the system kills a process that uses too much memory"
    return (
        f"Spark's JVM has ended ({how}), which ends the run. No data is lost: start the pipeline "
        "again and it resumes from the tables. Spark's log is spark.log in the state path."
    )
