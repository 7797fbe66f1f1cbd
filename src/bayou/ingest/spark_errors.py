"""What Spark throws, as our errors: without the stack traces of two languages."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from bayou.errors import BayouError, KafkaError, PipelineError, PrerequisiteError

__all__ = ["SparkFailedError", "as_error", "translated"]

_OURS = re.compile(r"bayou\.errors\.(\w+): ([^\n]+)")
_PYTHON = re.compile(
    r"^(?:: |Caused by: )?(?:\w+\.)*(\w*(?:Error|Exception|Interrupt)): ([^\n]+)",
    re.MULTILINE,
)
_FULL = re.compile("No space left on device|Disk quota exceeded")


class SparkFailedError(PipelineError):
    """Spark failed at something that isn't ours to judge: a lost worker, no memory, a bug."""


@contextlib.contextmanager
def translated(topic: str, state_path: Path | None = None) -> Iterator[None]:
    """Raise `BayouError`s in place of Spark's."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise as_error(error, topic, state_path) from error


def as_error(error: Exception, topic: str, state_path: Path | None = None) -> BayouError:
    """The error of ours that a Spark error stands for.

    Args:
        error: as Spark threw it; the text of a task's error holds its Python stack trace.
        topic: the topic's name in the configuration.
        state_path: what Spark writes to by itself, where that is what may have failed.
    """
    if isinstance(error, BayouError):
        return error
    text = str(error)
    ours = _OURS.findall(text)
    if ours:
        kind, message = ours[-1]
        if kind == "KafkaError":
            return KafkaError(message.strip(), topic=topic)
        return PipelineError(f"topic {topic!r}: {message.strip()}", topic=topic)
    if state_path is not None and (full := _FULL.search(text)):
        return PrerequisiteError(
            f"topic {topic!r}: the state path {state_path} can't be written: {full[0]}; free some "
            "space and run it again, or set connector.state-path. Nothing is lost.",
            what="state-path",
        )
    found = _PYTHON.findall(text)
    reason = f"{found[-1][0]}: {found[-1][1]}" if found else text.strip().splitlines()[0]
    return SparkFailedError(f"topic {topic!r}: Spark failed: {reason.strip()}", topic=topic)
