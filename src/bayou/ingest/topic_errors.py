"""Errors that stop a topic: converts other exceptions to `BayouError`s that name the topic."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from bayou.errors import BayouError, PipelineError


class UnexpectedError(PipelineError):
    """An unexpected exception in a topic."""


def topic_error(exception: BaseException, topic: str) -> BayouError:
    """Convert an exception to the `BayouError` that stops a topic."""
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
    """Context manager that converts exceptions to errors of a topic and passes them to `report`.

    Panics of native extensions, which derive from `BaseException`, are also reported.
    `KeyboardInterrupt`, `SystemExit` and `GeneratorExit` are re-raised.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as exception:  # noqa: BLE001  # an error of one topic must not stop others
        report(topic_error(exception, topic))
