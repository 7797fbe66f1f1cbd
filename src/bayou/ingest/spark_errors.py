"""What Spark throws, as our errors: without the stack traces of two languages."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from bayou.errors import BayouError, KafkaError, PipelineError

__all__ = ["SparkFailedError", "as_error", "translated"]

_OURS = re.compile(r"bayou\.errors\.(\w+): ([^\n]+)")
_PYTHON = re.compile(r"^(?:\w+\.)*(\w*(?:Error|Exception|Interrupt)): ([^\n]+)", re.MULTILINE)


class SparkFailedError(PipelineError):
    """Spark failed at something that isn't ours to judge: a lost worker, no memory, a bug."""


@contextlib.contextmanager
def translated(topic: str) -> Iterator[None]:
    """Raise `BayouError`s in place of Spark's."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise as_error(error, topic) from error


def as_error(error: Exception, topic: str) -> BayouError:
    """The error of ours that a Spark error stands for.

    Args:
        error: as Spark threw it; the text of a task's error holds its Python stack trace.
        topic: the topic's name in the configuration.
    """
    text = str(error)
    ours = _OURS.findall(text)
    if ours:
        kind, message = ours[-1]
        if kind == "KafkaError":
            return KafkaError(message.strip(), topic=topic)
        return PipelineError(f"topic {topic!r}: {message.strip()}", topic=topic)
    found = _PYTHON.findall(text)
    reason = f"{found[-1][0]}: {found[-1][1]}" if found else text.strip().splitlines()[0]
    return SparkFailedError(f"topic {topic!r}: Spark failed: {reason.strip()}", topic=topic)
