"""The boundary of a topic: every exception inside ends as an error of this topic."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from bayou.errors import BayouError, PipelineError

__all__ = ["UnexpectedError", "errors_of_topic", "topic_error"]


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
