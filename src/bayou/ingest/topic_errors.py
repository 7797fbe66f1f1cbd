"""The boundary of a topic: every exception inside ends as an error of this topic.

What Spark throws, as our errors: without the stack traces of two languages.
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
    "as_error",
    "errors_of_topic",
    "records_lost",
    "topic_error",
    "translated",
]


class UnexpectedError(PipelineError):
    """An exception of a topic that no part of the pipeline expects."""


def topic_error(fault: BaseException, topic: str) -> BayouError:
    """The error that stops a topic: the fault itself, or an `UnexpectedError` that names it."""
    if isinstance(fault, BayouError):
        return fault
    text = str(fault).strip()
    what = f"{type(fault).__name__}: {text}" if text else type(fault).__name__
    end = "" if what.endswith(".") else "."
    return UnexpectedError(
        f"topic {topic!r}: unexpected {what}{end} Other topics continue; report this error if it "
        "comes back after a restart.",
        topic=topic,
    )


@contextlib.contextmanager
def errors_of_topic(topic: str, report: Callable[[BayouError], None]) -> Iterator[None]:
    """Report every exception as an error of a topic; only an interrupt passes.

    Exceptions of native extensions derive from `BaseException`, so those are reported too.

    Args:
        topic: the topic's name in the configuration.
        report: called with the error.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as fault:  # noqa: BLE001  # a topic never ends another
        report(topic_error(fault, topic))


_OURS = re.compile(r"bayou\.errors\.(\w+): ([^\n]+)")
_PYTHON = re.compile(
    r"^(?:: |Caused by: )?(?:\w+\.)*(\w*(?:Error|Exception|Interrupt)): ([^\n]+)",
    re.MULTILINE,
)
_FULL = re.compile("No space left on device|Disk quota exceeded")
_CRASHED = re.compile("Python worker exited unexpectedly|ExecutorLostFailure")
_OF_SPARK = (PySparkException, Py4JError, OSError, EOFError)
"""What calls of Spark raise: its own errors, and those of the connection to its JVM."""


class SparkFailedError(PipelineError):
    """Spark failed at something that isn't ours to judge: a lost worker, no memory, a bug."""


class WorkerCrashedError(SparkFailedError):
    """A worker process, or its executor, ended while it did a task."""


class SparkEndedError(PipelineError):
    """Spark's JVM isn't there any more; nothing can be tried again without another one."""


@contextlib.contextmanager
def translated(topic: str = "") -> Iterator[None]:
    """Raise `BayouError`s in place of Spark's."""
    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:
        raise as_error(error, topic) from error


def as_error(error: Exception, topic: str) -> BayouError:
    """The error of ours that a Spark error stands for; of any other exception, `topic_error`.

    Args:
        error: as Spark threw it; the text of a task's error holds its Python stack trace.
        topic: the topic's name in the configuration; empty where it is none's in particular.
    """
    if isinstance(error, BayouError) or not isinstance(error, _OF_SPARK):
        return topic_error(error, topic)
    text = str(error)
    place = f"topic {topic!r}: " if topic else ""
    ours = _OURS.findall(text)
    if ours:
        kind, message = ours[-1][0], ours[-1][1].strip()
        match kind:
            case "RecordsLostError":
                return records_lost(message, topic)
            case "KafkaError":
                return KafkaError(message, topic=topic)
            case "StorageError":
                return StorageError(message, path="")
        return PipelineError(f"{place}{message}", topic=topic)
    code = _end_of_jvm(error)
    if code is not None:
        return SparkEndedError(_told_end(code), topic=topic)
    if full := _FULL.search(text):
        return PrerequisiteError(
            f"{place}Spark can't write its temporary files: {full[0]}. Free some space in Spark's "
            "local folders (spark.local.dir in connector.spark) and start the pipeline again; "
            "nothing is lost.",
            what="spark.local.dir",
        )
    found = _PYTHON.findall(text)
    lines = text.strip().splitlines() or [type(error).__name__]
    reason = f"{found[-1][0]}: {found[-1][1]}" if found else lines[0]
    kind = WorkerCrashedError if _CRASHED.search(text) else SparkFailedError
    return kind(f"{place}Spark failed: {reason.strip()}", topic=topic)


def records_lost(message: str, topic: str) -> RecordsLostError:
    """The error for records that are gone, with the advice for a pipeline.

    Args:
        message: of who read them, or of this.
        topic: the topic's name in the configuration.
    """
    advice = (
        " To go on with the records that are there, set "
        f"connector.topics.{topic}.on-data-loss: continue."
    )
    return RecordsLostError(message.replace(TO_GO_ON, advice), topic=topic)


def _end_of_jvm(error: Exception) -> int | None:
    """How the JVM of this process ended, if that is why; minus a signal, or its exit code."""
    gateway = SparkContext._gateway  # noqa: SLF001  # its process is published nowhere
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if process is None:
        return None
    # Py4J has no error of its own for a connection that breaks while an answer is waited for.
    heard = isinstance(error, (Py4JJavaError, PySparkException))
    try:
        return process.wait(0 if heard else _LAST_BREATH)
    except subprocess.TimeoutExpired:
        return None


def _told_end(code: int) -> str:
    how = f"exit code {code}"
    if code < 0:
        how = f"signal {-code}"
    if code == -signal.SIGKILL:
        how += ", as the system does to a process that takes too much memory"
    return (
        f"Spark's JVM has ended ({how}), and the run with it. Nothing is lost: start the pipeline "
        "again, it goes on where the tables stand. spark.log in the state path has what Spark said."
    )


_LAST_BREATH = 5.0
"""Seconds from the end of the JVM's connections to its own."""
