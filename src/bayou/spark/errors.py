"""Conversion of errors of Python workers into `BayouError`s with readable messages.

If Python code fails in a worker, Spark raises an exception with the traceback and the message of
the worker's error. The traceback doesn't help a user whose path or option is wrong.
"""

from __future__ import annotations

import inspect
import os
import re
import sys

from bayou import errors
from bayou.errors import BayouError, PredicateError

_RAISED_ERROR = re.compile(
    r"\bbayou\.(?:errors|spark\.exceptions)\.(\w+?)(?:Exception)?: (.*)$", re.MULTILINE
)
_SEVERAL_ROWS = "SCALAR_SUBQUERY_TOO_MANY_ROWS"


class readable_errors:  # noqa: N801  # a context manager, read as a verb
    """Context manager that removes the traceback of a `BayouError` raised in its block.

    Methods that Spark calls in a Python worker use this context manager. All other exceptions are
    bugs or failures of a machine, and keep their traceback.
    """

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        if isinstance(error, BayouError):
            error.__traceback__ = None
            error.__cause__ = None
            error.__suppress_context__ = True
            if _in_worker():
                # PySpark reads this variable when it serializes the exception, then the process
                # ends.
                os.environ["SPARK_HIDE_TRACEBACK"] = "1"


def short_message(error: BaseException) -> str | None:
    """Return the message of the `BayouError` that caused a Spark exception; None for other causes.

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
    """Recreate the `BayouError` that caused a Spark exception; return None for another cause.

    The result has the type and the message of the error in the task. All attributes of the result
    except `table` are None, because Spark transfers only the message from the task to the driver.

    If a scalar subquery returned several rows, the result is a `PredicateError`. PySpark has no
    exception for this case, and would show the JVM's stack trace.
    """
    if isinstance(error, BayouError):
        return error
    if _SEVERAL_ROWS in str(error):
        return PredicateError(
            f"{table}: More than one row returned by a subquery used as an expression "
            f"({_SEVERAL_ROWS}). Add an aggregate function or LIMIT 1 to the subquery.",
            expression="subquery",
        )
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
    """Return the class in `bayou.errors` that is called `name`, or `name` followed by `Error`.

    Returns None if there is no such class.
    """
    return getattr(errors, name, None) or getattr(errors, f"{name}Error", None)


def _in_worker() -> bool:
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return main is not None and str(main.name).startswith("pyspark.")
