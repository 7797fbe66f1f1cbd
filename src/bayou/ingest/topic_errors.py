"""Error handling of a topic: exceptions of Spark and Python become `BayouError`s of the topic.

The resulting messages contain no Java or Python stack traces.
"""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
from collections.abc import Callable, Iterator

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from bayou.errors import (
    BayouError,
    KafkaError,
    PipelineError,
    PrerequisiteError,
    RecordsLostError,
    StorageError,
)
from bayou.spark.kafka import TO_GO_ON

__all__ = [
    "SparkEndedError",
    "SparkFailedError",
    "UnexpectedError",
    "WorkerCrashedError",
    "records_lost_error",
    "report_topic_errors",
    "to_bayou_error",
    "topic_error",
    "translate_errors",
]


class UnexpectedError(PipelineError):
    """An unexpected exception in a topic."""


def topic_error(fault: BaseException, topic: str) -> BayouError:
    """Return the error that stops a topic: a `BayouError` itself, or an `UnexpectedError`."""
    if isinstance(fault, BayouError):
        return fault
    message = str(fault).strip()
    cause = f"{type(fault).__name__}: {message}" if message else type(fault).__name__
    end = "" if cause.endswith(".") else "."
    return UnexpectedError(
        f"topic {topic!r}: unexpected {cause}{end} Other topics continue. Report this error if it "
        "occurs again after a restart.",
        topic=topic,
    )


@contextlib.contextmanager
def report_topic_errors(topic: str, report: Callable[[BayouError], None]) -> Iterator[None]:
    """Report every exception as an error of the topic; interrupts and exits are re-raised.

    Panics of native extensions derive from `BaseException`, so they are reported too.

    Args:
        topic: the topic's key in the configuration.
        report: called with the error.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as fault:  # noqa: BLE001  # an error in one topic never stops another
        report(topic_error(fault, topic))


_BAYOU_ERROR = re.compile(r"bayou\.errors\.(\w+): ([^\n]+)")
_PYTHON_ERROR = re.compile(
    r"^(?:: |Caused by: )?(?:\w+\.)*(\w*(?:Error|Exception|Interrupt)): ([^\n]+)",
    re.MULTILINE,
)
_DISK_FULL = re.compile("No space left on device|Disk quota exceeded")
_WORKER_CRASH = re.compile("Python worker exited unexpectedly|ExecutorLostFailure")
_SPARK_ERRORS = (PySparkException, Py4JError, OSError, EOFError)
"""Exceptions of calls to Spark: Spark's own errors, and errors of the connection to its JVM."""


class SparkFailedError(PipelineError):
    """Spark failed: a lost worker, no memory, or a bug. Retrying may help."""


class WorkerCrashedError(SparkFailedError):
    """A Python worker or its executor died during a task."""


class SparkEndedError(PipelineError):
    """Spark's JVM has ended, so no retry is possible in this process."""


@contextlib.contextmanager
def translate_errors(topic: str = "") -> Iterator[None]:
    """Raise exceptions of Spark as `BayouError`s."""
    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:
        raise to_bayou_error(error, topic) from error


def to_bayou_error(error: Exception, topic: str) -> BayouError:
    """Return the `BayouError` for an exception of Spark; `topic_error` handles other exceptions.

    Args:
        error: the exception. The message of a failed task contains its Python stack trace.
        topic: the topic's key in the configuration; empty if the error belongs to no topic.
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
    code = _jvm_exit_code(error)
    if code is not None:
        return SparkEndedError(_jvm_end_message(code), topic=topic)
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
    """Return the error for lost records, with advice for the pipeline's configuration.

    Args:
        message: the message of the reader, or of an earlier call of this function.
        topic: the topic's key in the configuration.
    """
    advice = (
        " To continue with the records that remain, set "
        f"connector.topics.{topic}.on-data-loss: continue."
    )
    return RecordsLostError(message.replace(TO_GO_ON, advice), topic=topic)


def _jvm_exit_code(error: Exception) -> int | None:
    """Exit code of Spark's JVM, negative for a signal; None if the JVM is still running."""
    gateway = SparkContext._gateway  # noqa: SLF001  # no public API returns its process
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if process is None:
        return None
    # Py4J has no specific error for a connection that breaks during a call.
    answered = isinstance(error, (Py4JJavaError, PySparkException))
    try:
        return process.wait(0 if answered else _JVM_EXIT_TIMEOUT)
    except subprocess.TimeoutExpired:
        return None


def _jvm_end_message(code: int) -> str:
    how = f"exit code {code}"
    if code < 0:
        how = f"signal {-code}"
    if code == -signal.SIGKILL:
        how += "; the system kills a process that uses too much memory"
    return (
        f"Spark's JVM has ended ({how}), which ends the run. No data is lost: start the pipeline "
        "again and it resumes from the tables. Spark's log is spark.log in the state path."
    )


_JVM_EXIT_TIMEOUT = 5.0
"""Seconds to wait for the JVM's exit after its connections broke."""
