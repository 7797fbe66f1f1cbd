"""Exceptions that are both a `BayouError` and the corresponding exception of delta-spark.

`DeltaTable` and `bayou.spark.sql` raise these exceptions. PySpark's readers and writers also raise
them if `bayou.spark.enable` was called. Each exception is an instance of a class in `bayou.errors`,
and has the attributes of that class. It is also an instance of a class of `pyspark.errors`, and has
the same error condition and SQLSTATE as in delta-spark:

    from pyspark.errors import AnalysisException

    try:
        DeltaTable.forPath(spark, "lake/missing")
    except AnalysisException as error:
        assert error.getCondition() == "DELTA_MISSING_DELTA_TABLE"

The classes for concurrent commits have the same names as in `delta.exceptions`.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar, cast

from pyspark.errors import PySparkException
from pyspark.errors.exceptions import base as pyspark_errors

from bayou import errors
from bayou.errors import BayouError
from bayou.spark.error_conditions import CONDITIONS, DEFAULT_CONDITIONS, ExceptionKind

__all__ = [
    "ConcurrentAppendException",
    "ConcurrentDeleteDeleteException",
    "ConcurrentDeleteReadException",
    "ConcurrentTransactionException",
    "ConcurrentWriteException",
    "DeltaConcurrentModificationException",
    "DeltaThrowable",
    "MetadataChangedException",
    "ProtocolChangedException",
]

CallableT = TypeVar("CallableT", bound=Callable[..., Any])
ClassT = TypeVar("ClassT", bound=type)


class DeltaThrowable(PySparkException):
    """Base class of all exceptions that have a counterpart in delta-spark."""

    _bayou_error: ClassVar[type[BayouError]] = BayouError
    message: str

    def getCondition(self) -> str | None:  # noqa: N802  # PySpark's names, here and below
        """delta-spark's error condition, such as `DELTA_CONCURRENT_APPEND`; None if unknown."""
        return _condition(cast("BayouError", self))

    def getSqlState(self) -> str | None:  # noqa: N802
        """The SQLSTATE of the error condition, such as `2D521`; None if unknown."""
        entry = _entry(self.getCondition())
        return None if entry is None else entry[0]

    def getMessage(self) -> str:  # noqa: N802
        """The error condition in square brackets, followed by the message."""
        condition = self.getCondition()
        return self.message if condition is None else f"[{condition}] {self.message}"

    def __str__(self) -> str:
        condition = self.getCondition()
        return self.getMessage() if condition and condition not in self.message else self.message

    def __reduce__(self) -> tuple[object, ...]:
        plain = self._bayou_error.__new__(self._bayou_error, *self.args)
        plain.__dict__.update(self.__dict__)
        return (spark_exception, (plain,))


class DeltaConcurrentModificationException(DeltaThrowable, errors.CommitConflictError):
    """The commit conflicts with a commit of another writer."""

    _bayou_error = errors.CommitConflictError


class ConcurrentWriteException(DeltaConcurrentModificationException):
    """Another writer has written data since the transaction read the table."""


class MetadataChangedException(DeltaConcurrentModificationException, errors.MetadataChangedError):
    """The winning commit changed the table's metadata."""

    _bayou_error = errors.MetadataChangedError


class ProtocolChangedException(DeltaConcurrentModificationException, errors.ProtocolChangedError):
    """The winning commit changed the protocol."""

    _bayou_error = errors.ProtocolChangedError


class ConcurrentAppendException(DeltaConcurrentModificationException, errors.ConcurrentAppendError):
    """The winning commit added files that this transaction would have read."""

    _bayou_error = errors.ConcurrentAppendError


class ConcurrentDeleteReadException(
    DeltaConcurrentModificationException, errors.ConcurrentDeleteReadError
):
    """The winning commit removed a file that this transaction read."""

    _bayou_error = errors.ConcurrentDeleteReadError


class ConcurrentDeleteDeleteException(
    DeltaConcurrentModificationException, errors.ConcurrentDeleteDeleteError
):
    """The winning commit removed a file that this commit removes too."""

    _bayou_error = errors.ConcurrentDeleteDeleteError


class ConcurrentTransactionException(
    DeltaConcurrentModificationException, errors.ConcurrentTransactionError
):
    """The winning commit and this one write the same transaction identifier."""

    _bayou_error = errors.ConcurrentTransactionError


def spark_exception(error: BayouError) -> BayouError:
    """Convert an error to the exception that delta-spark raises in the same situation.

    An error that has no counterpart in delta-spark, or is already converted, is returned unchanged.
    """
    if isinstance(error, DeltaThrowable):
        return error
    exception_class = _exception_class(type(error), _condition(error))
    if exception_class is None:
        return error
    result = exception_class.__new__(exception_class, *error.args)
    PySparkException.__init__(cast("Any", result), error.message)
    result.__dict__.update(error.__dict__)
    return cast("BayouError", result)


def names_condition(error: BayouError) -> bool:
    """Whether an error corresponds to one of delta-spark's error conditions."""
    return _condition(error) is not None


def raise_spark_exceptions(function: CallableT) -> CallableT:
    """Decorator: each `BayouError` that the function raises is converted by `spark_exception`."""

    @functools.wraps(function)
    def call(*arguments: Any, **named_arguments: Any) -> Any:
        try:
            return function(*arguments, **named_arguments)
        except BayouError as error:
            converted = spark_exception(error)
            if converted is error:
                raise
            raise converted.with_traceback(error.__traceback__) from error.__cause__

    return cast("CallableT", call)


def methods_raise_spark_exceptions(target_class: ClassT) -> ClassT:
    """Class decorator that applies `raise_spark_exceptions` to all public methods."""
    for name, member in vars(target_class).copy().items():
        if name.startswith("_"):
            continue
        if isinstance(member, classmethod):
            setattr(target_class, name, classmethod(raise_spark_exceptions(member.__func__)))
        elif inspect.isfunction(member):
            setattr(target_class, name, raise_spark_exceptions(member))
    return target_class


_UPPER_CASE_NAME = re.compile(r"\b[A-Z]+(?:_[A-Z]+)+(?:\.[A-Z]+(?:_[A-Z]+)*)?\b")
_CONCURRENT: dict[type[BayouError], type[BayouError]] = {
    each._bayou_error: each  # noqa: SLF001
    for each in (
        ConcurrentAppendException,
        ConcurrentDeleteDeleteException,
        ConcurrentDeleteReadException,
        ConcurrentTransactionException,
        DeltaConcurrentModificationException,
        MetadataChangedException,
        ProtocolChangedException,
    )
}
_EXCEPTIONS: dict[ExceptionKind, type[PySparkException]] = {
    "analysis": pyspark_errors.AnalysisException,
    "argument": pyspark_errors.IllegalArgumentException,
    "arithmetic": pyspark_errors.ArithmeticException,
    "parse": pyspark_errors.ParseException,
    "runtime": pyspark_errors.SparkRuntimeException,
    "unsupported": pyspark_errors.UnsupportedOperationException,
}


def _condition(error: BayouError) -> str | None:
    """Return delta-spark's error condition for an error; None if there is none.

    The condition is taken from `error.facts` or from the message. If neither contains a condition,
    the default condition of the error's class is returned.
    """
    named = error.facts.get("condition")
    if isinstance(named, str):
        return named
    for name in _UPPER_CASE_NAME.findall(error.message):
        if _entry(name) is not None:
            return str(name)
    classes = type(error).__mro__
    return next((DEFAULT_CONDITIONS[each] for each in classes if each in DEFAULT_CONDITIONS), None)


def _entry(condition: str | None) -> tuple[str, ExceptionKind] | None:
    """Return a condition's SQLSTATE and exception class; None if the condition is unknown."""
    if condition is None:
        return None
    return CONDITIONS.get(condition) or CONDITIONS.get(condition.partition(".")[0])


def _exception_class(error_class: type[BayouError], condition: str | None) -> Any:
    if condition == "DELTA_CONCURRENT_WRITE":
        return ConcurrentWriteException
    if error_class in _CONCURRENT:
        return _CONCURRENT[error_class]
    entry = _entry(condition)
    if entry is not None:
        kind = entry[1]
    elif issubclass(error_class, errors.IcebergCompatError):
        kind = "unsupported"
    elif issubclass(error_class, errors.PredicateError | errors.TableError):
        kind = "analysis"
    elif issubclass(error_class, errors.StatementError):
        kind = "parse"
    else:
        return None
    return _combined(error_class, _EXCEPTIONS[kind])


def _combined(error_class: type[BayouError], exception: type[PySparkException]) -> Any:
    key = (error_class, exception)
    if key not in _combinations:
        attributes = {"_bayou_error": error_class, "__doc__": error_class.__doc__}
        _combinations[key] = type(
            error_class.__name__,
            (DeltaThrowable, error_class, exception),
            {**attributes, "__module__": __name__},
        )
    return _combinations[key]


_combinations: dict[tuple[type, type], type] = {}
