import os

import pytest

from bayou.errors import ConstraintViolationError, StorageError, TableNotFoundError
from bayou.spark.errors import as_bayou_error, readable_errors, short_message


def test_an_error_of_ours_loses_the_frames_and_the_cause_behind_it():
    def fails():
        try:
            raise OSError("low level")
        except OSError as error:
            raise StorageError("disk is full", path="/x") from error

    def entry():
        with readable_errors():
            fails()

    with pytest.raises(StorageError) as caught:
        entry()
    assert caught.value.__cause__ is None
    assert "fails" not in [frame.name for frame in caught.traceback]


def test_other_errors_keep_theirs():
    def fails():
        raise KeyError("a fault of ours")

    with pytest.raises(KeyError) as caught, readable_errors():
        fails()
    assert caught.traceback[-1].name == "fails"


def test_outside_of_a_worker_the_environment_stays_as_it_is(monkeypatch):
    monkeypatch.delenv("SPARK_HIDE_TRACEBACK", raising=False)
    with pytest.raises(StorageError), readable_errors():
        raise StorageError("disk is full", path="/x")
    assert "SPARK_HIDE_TRACEBACK" not in os.environ


def test_our_message_is_found_inside_of_an_exception_of_spark():
    text = (
        "[PYTHON_DATA_SOURCE_ERROR] Failed: bayou.errors.TableNotFoundError: no table at /x\n\tat"
    )
    assert short_message(RuntimeError(text)) == "no table at /x"
    assert short_message(RuntimeError("ZeroDivisionError: division by zero")) is None
    assert short_message(TableNotFoundError("no table at /x", table="/x")) == "no table at /x"


def test_an_error_of_ours_is_had_back_from_sparks_text_with_its_type_and_message():
    text = (
        "[PYTHON_EXCEPTION] ...: bayou.errors.ConstraintViolationError: /t: rows break c.\n at org"
    )
    error = as_bayou_error(RuntimeError(text), table="/t")
    assert isinstance(error, ConstraintViolationError)
    assert (error.message, error.table, error.constraint) == ("/t: rows break c.", "/t", None)


@pytest.mark.parametrize("text", ["no such thing", "bayou.errors.Nothing: x", "ValueError: x"])
def test_an_error_of_others_stays_theirs(text):
    assert as_bayou_error(RuntimeError(text), table="/t") is None
