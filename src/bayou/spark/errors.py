"""Conversion of Python worker errors into `BayouError`s with readable messages.

Spark raises an exception whose message contains a traceback of the worker's frames, followed by the
worker's exception as a string. The traceback doesn't help a user whose path or option is wrong.
"""

from __future__ import annotations

import inspect
import os
import re
import sys

from bayou import errors
from bayou.errors import BayouError

_RAISED_ERROR = re.compile(
    r"\bbayou\.(?:errors|spark\.exceptions)\.(\w+?)(?:Exception)?: (.*)$", re.MULTILINE
)


class readable_errors:  # noqa: N801  # a context manager, read as a verb
    """Context manager for methods that Spark calls: removes the traceback of a `BayouError`.

    Any other exception is a bug or a machine failure and keeps its traceback.
    """

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        if isinstance(error, BayouError):
            error.__traceback__ = None
            error.__cause__ = None
            error.__suppress_context__ = True
            if _in_worker():
                # PySpark reads the variable when it serializes the exception; after that, the
                # process ends.
                os.environ["SPARK_HIDE_TRACEBACK"] = "1"


def short_message(error: BaseException) -> str | None:
    """The message of the `BayouError` inside a Spark exception; None if there is no such error.

    Examples:
        >>> try:
        ...     spark.read.format("delta").load("lake/nothing").show()
        >>> except Exception as error:
        ...     print(short_message(error))
    """
    if isinstance(error, BayouError):
        return error.message
    match = _RAISED_ERROR.search(str(error))
    return match[2].strip() if match else None


def as_bayou_error(error: BaseException, *, table: str) -> BayouError | None:
    """Recreate the `BayouError` inside a Spark exception; None if there is no such error.

    The result has the type and message of the error that the task raised. All attributes except
    `table` are None, because Spark passes the error on as a string.
    """
    if isinstance(error, BayouError):
        return error
    match = _RAISED_ERROR.search(str(error))
    error_class = None if match is None else _error_class(match[1])
    if match is None or not (isinstance(error_class, type) and issubclass(error_class, BayouError)):
        return None
    result = error_class.__new__(error_class)
    BayouError.__init__(result, match[2].strip(), table=table)
    for name in inspect.signature(error_class.__init__).parameters:
        if name not in ("self", "message", "facts"):
            setattr(result, name, None)
    result.table = table  # type: ignore[attr-defined]
    return result


def _error_class(name: str) -> object:
    """The class of `bayou.errors` for a name without the suffix `Exception`."""
    return getattr(errors, name, None) or getattr(errors, f"{name}Error", None)


def _in_worker() -> bool:
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return main is not None and str(main.name).startswith("pyspark.")
