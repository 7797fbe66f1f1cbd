"""Errors that are both Bayou's and the exceptions that delta-spark raises."""

import pickle
import re
from pathlib import Path

import pytest
from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    IllegalArgumentException,
    ParseException,
    PySparkException,
    SparkRuntimeException,
    UnsupportedOperationException,
)

import bayou
from bayou import errors
from bayou.spark import exceptions
from bayou.spark.error_conditions import CONDITIONS, DEFAULT_CONDITIONS
from bayou.spark.errors import as_bayou_error, short_message
from bayou.spark.exceptions import DeltaThrowable, raise_spark_exceptions, spark_exception

SOURCES = Path(bayou.__file__).parent


@pytest.mark.parametrize(
    ("error", "spark_class", "condition", "sql_state"),
    [
        (
            errors.TableNotFoundError("/t: no table", table="/t"),
            AnalysisException,
            "DELTA_MISSING_DELTA_TABLE",
            "42P01",
        ),
        (
            errors.TableAlreadyExistsError("/t: already exists (DELTA_PATH_EXISTS)", table="/t"),
            AnalysisException,
            "DELTA_PATH_EXISTS",
            "42K04",
        ),
        (
            errors.MultipleMatchesError("/t: multiple source rows matched", table="/t"),
            UnsupportedOperationException,
            "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE",
            "21506",
        ),
        (
            errors.ConstraintViolationError(
                "/t: (DELTA_VIOLATE_CONSTRAINT_WITH_VALUES)", table="/t", constraint="c"
            ),
            SparkRuntimeException,
            "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES",
            "23001",
        ),
        (
            errors.SchemaError("/t: (DELTA_CAST_OVERFLOW_IN_TABLE_WRITE)", table="/t", column="c"),
            ArithmeticException,
            "DELTA_CAST_OVERFLOW_IN_TABLE_WRITE",
            "22003",
        ),
        (
            errors.ArgumentError("x: (DELTA_ILLEGAL_OPTION)", argument="x"),
            IllegalArgumentException,
            "DELTA_ILLEGAL_OPTION",
            "42616",
        ),
        (
            errors.StreamingSourceError(
                "/t: no", table="/t", condition="DELTA_SOURCE_IGNORE_DELETE"
            ),
            UnsupportedOperationException,
            "DELTA_SOURCE_IGNORE_DELETE",
            "0A000",
        ),
        (errors.SchemaError("/t: no", table="/t"), AnalysisException, None, None),
        (errors.PredicateError("no", expression="x"), AnalysisException, None, None),
        (errors.StatementError("no", statement="x"), ParseException, None, None),
    ],
)
def test_an_error_has_the_class_condition_and_sqlstate_of_delta_spark(
    error, spark_class, condition, sql_state
):
    raised = spark_exception(error)
    assert isinstance(raised, type(error))
    assert isinstance(raised, spark_class)
    assert (raised.getCondition(), raised.getSqlState()) == (condition, sql_state)
    assert (raised.message, raised.facts, raised.args) == (error.message, error.facts, error.args)
    assert vars(raised).items() >= vars(error).items()
    assert condition is None or condition in str(raised)
    assert raised.getMessage().endswith(error.message)
    copy = pickle.loads(pickle.dumps(raised))
    assert (type(copy), copy.message, copy.facts) == (type(raised), raised.message, raised.facts)


@pytest.mark.parametrize(
    "name",
    [
        "ConcurrentAppend",
        "ConcurrentDeleteDelete",
        "ConcurrentDeleteRead",
        "ConcurrentTransaction",
        "MetadataChanged",
        "ProtocolChanged",
    ],
)
def test_conflicts_have_the_classes_of_delta_exceptions(name):
    error = getattr(errors, f"{name}Error")("/t: lost", table="/t", winning_version=3)
    raised = spark_exception(error)
    assert type(raised) is getattr(exceptions, f"{name}Exception")
    assert isinstance(raised, exceptions.DeltaConcurrentModificationException | type(error))
    assert isinstance(raised, PySparkException)
    assert raised.getSqlState() == "2D521"
    assert raised.winning_version == 3
    assert type(pickle.loads(pickle.dumps(raised))) is type(raised)


def test_a_conflict_without_a_rule_is_a_concurrent_write():
    raised = spark_exception(errors.CommitConflictError("/t: lost", table="/t", winning_version=3))
    assert type(raised) is exceptions.ConcurrentWriteException


def test_errors_without_a_counterpart_and_converted_errors_stay_the_same():
    error = errors.StorageError("disk is full", path="/x")
    assert spark_exception(error) is error
    raised = spark_exception(errors.TableNotFoundError("/t: no table", table="/t"))
    assert spark_exception(raised) is raised


def test_a_converted_error_keeps_its_cause_and_its_frames():
    @raise_spark_exceptions
    def fails():
        try:
            raise OSError("low level")
        except OSError as error:
            raise errors.TableNotFoundError("/t: no table", table="/t") from error

    with pytest.raises(AnalysisException) as caught:
        fails()
    assert isinstance(caught.value, DeltaThrowable)
    assert isinstance(caught.value.__cause__, OSError)
    assert "fails" in [frame.name for frame in caught.traceback]


def test_each_condition_in_a_message_is_known():
    named = {
        name
        for path in SOURCES.rglob("*.py")
        for name in re.findall(r"\((DELTA_[A-Z_]+)\)", path.read_text(encoding="utf-8"))
    }
    assert len(named) > 60
    assert named <= CONDITIONS.keys()
    assert set(DEFAULT_CONDITIONS.values()) <= CONDITIONS.keys()


def test_converted_errors_are_found_in_an_exception_of_spark():
    text = "failed: bayou.spark.exceptions.ConcurrentAppendException: /t: lost (x)\n\tat"
    assert short_message(RuntimeError(text)) == "/t: lost (x)"
    found = as_bayou_error(RuntimeError(text), table="/t")
    assert type(found) is errors.ConcurrentAppendError
    text = "failed: bayou.spark.exceptions.TableNotFoundError: /t: no table"
    assert type(as_bayou_error(RuntimeError(text), table="/t")) is errors.TableNotFoundError


def test_an_argument_of_the_wrong_type_is_a_type_error_and_a_value_error():
    error = errors.ArgumentTypeError("x needs to be a string", argument="x")
    assert isinstance(error, TypeError)
    assert isinstance(error, ValueError)
    assert pickle.loads(pickle.dumps(error)).argument == "x"
