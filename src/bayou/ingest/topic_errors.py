"""Errors that stop a topic: converts other exceptions to `BayouError`s that name the topic."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from bayou.errors import BayouError, PipelineError


class UnexpectedError(PipelineError):
    """An unexpected exception in a topic."""


def topic_error(exception: BaseException, topic: str) -> BayouError:
    """Return the error that stops a topic: `exception`, converted to a `BayouError`."""
    if isinstance(exception, BayouError):
        return exception
    message = str(exception).strip()
    cause = f"{type(exception).__name__}: {message}" if message else type(exception).__name__
    end = "" if cause.endswith(".") else "."
    return UnexpectedError(
        f"topic {topic!r}: unexpected {cause}{end} Other topics continue. Report this error if it "
        "occurs again after a restart.",
        topic=topic,
    )


@contextlib.contextmanager
def report_topic_errors(topic: str, report: Callable[[BayouError], None]) -> Iterator[None]:
    """Context manager that passes exceptions to `report`, converted to errors of a topic.

    Panics of native extensions, which derive from `BaseException`, are reported too.
    `KeyboardInterrupt`, `SystemExit` and `GeneratorExit` are re-raised.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as exception:  # noqa: BLE001  # an error of one topic must not stop others
        report(topic_error(exception, topic))
