"""What a task sends back: what it did, or the error that it failed with.

A task that raises has Spark end its job, and kill the workers of the job's other tasks wherever
they are. What those have written by then nobody hears of. So an error is sent back like any other
outcome: the other tasks come to their own end, and the driver knows all that was written when it
deletes it.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Iterable
from typing import Any

from pyspark import TaskContext
from pyspark.accumulators import AccumulatorParam

from bayou.errors import BayouError, FileMissingError, StorageError

__all__ = ["Outcomes", "attempts_of_tasks", "done_by", "is_failure", "reported"]

_DONE, _FAILED = b"+", b"-"


def attempts_of_tasks(spark: Any) -> int:
    """How often a task may fail before its job does."""
    return int(spark.sparkContext._jsc.sc().taskScheduler().maxTaskFailures())  # noqa: SLF001


def reported(run: Callable[[], bytes], attempts: int) -> bytes:
    """In a task: run a function, and say what it gave or what it raised.

    What may go by itself, such as a store that can't be reached, is raised while Spark has further
    attempts for the task.

    Args:
        run: deletes what it has written where it raises.
        attempts: of `attempts_of_tasks`.
    """
    try:
        return _DONE + run()
    except Exception as error:
        if _may_pass(error) and _attempt() + 1 < attempts:
            raise
        return _FAILED + _sent(error)


def is_failure(outcome: bytes) -> bool:
    """Whether an outcome is an error."""
    return outcome[:1] == _FAILED


def done_by(outcomes: Iterable[bytes]) -> tuple[list[bytes], Exception | None]:
    """On the driver: what functions gave, in order, and the first error among the outcomes."""
    done: list[bytes] = []
    error: Exception | None = None
    for outcome in outcomes:
        content = bytes(outcome[1:])
        if outcome[:1] == _DONE:
            done.append(content)
        elif error is None:
            error = pickle.loads(content)  # noqa: S301  # our own tasks' bytes
    return done, error


class Outcomes(AccumulatorParam[list[bytes]]):
    """What tasks have reported, known also where their job fails."""

    def zero(self, value: list[bytes]) -> list[bytes]:
        return []

    def addInPlace(self, value1: list[bytes], value2: list[bytes]) -> list[bytes]:  # noqa: N802
        value1.extend(value2)
        return value1


def _may_pass(error: Exception) -> bool:
    if isinstance(error, BayouError):
        return isinstance(error, StorageError) and not isinstance(error, FileMissingError)
    return True


def _attempt() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.attemptNumber()


def _sent(error: Exception) -> bytes:
    """The error for the driver; one that isn't ours with where it was raised."""
    if isinstance(error, BayouError):
        return pickle.dumps(error)
    raised = "".join(traceback.format_exception(error)).rstrip()
    try:
        error.add_note(f"Raised by a task:\n{raised}")
        data = pickle.dumps(error)
        pickle.loads(data)  # noqa: S301  # what we have just written
    except (pickle.PicklingError, TypeError, AttributeError):  # its class isn't one that travels
        return pickle.dumps(RuntimeError(raised))
    return data
