"""Errors on their way from a Python worker to the user.

Spark turns an exception of a worker into text and puts it into an exception of its own, behind a
traceback of the worker's frames, which say nothing to whom a path or an option is wrong.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from types import TracebackType

from bayou import errors
from bayou.errors import BayouError

__all__ = ["as_bayou_error", "readable_errors", "short_message"]

_RAISED_HERE = re.compile(r"\bbayou\.errors\.(\w+): (.*)$", re.MULTILINE)


class readable_errors:  # noqa: N801  # a context manager, read as a verb
    """Around each entry from Spark: a `BayouError` reaches the user without a traceback.

    Other exceptions are faults of ours or of the machine, and keep theirs.
    """

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, BayouError):
            error.__traceback__ = None
            error.__cause__ = None
            error.__suppress_context__ = True
            if _in_worker():
                # Read by pyspark when it writes the exception out; the process ends after that.
                os.environ["SPARK_HIDE_TRACEBACK"] = "1"


def short_message(error: BaseException) -> str | None:
    """Bayou's own message inside an exception of Spark; None where it isn't one of ours."""
    if isinstance(error, BayouError):
        return error.message
    found = _RAISED_HERE.search(str(error))
    return found[2].strip() if found else None


def as_bayou_error(error: BaseException, *, table: str) -> BayouError | None:
    """The error of ours that an exception of Spark stands for; None where it isn't one of ours.

    It is of the type that the task raised, with its message; of its other attributes the table is
    known and the rest None: Spark passes on text alone.
    """
    if isinstance(error, BayouError):
        return error
    found = _RAISED_HERE.search(str(error))
    kind = None if found is None else getattr(errors, found[1], None)
    if found is None or not (isinstance(kind, type) and issubclass(kind, BayouError)):
        return None
    result = kind.__new__(kind)
    BayouError.__init__(result, found[2].strip(), table=table)
    for name in inspect.signature(kind.__init__).parameters:
        if name not in ("self", "message", "facts"):
            setattr(result, name, None)
    result.table = table  # type: ignore[attr-defined]
    return result


def _in_worker() -> bool:
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return main is not None and str(main.name).startswith("pyspark.")
