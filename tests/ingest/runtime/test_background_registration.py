"""Catalog entries that are updated while batches run."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from typing import Any

import pytest

from bayou.errors import CatalogError, PipelineError
from bayou.ingest.runtime import background_registration
from bayou.ingest.runtime.background_registration import BackgroundRegistration
from support.waiting import wait_until

NO_SPARK: Any = None


class Entry:
    """A `Registration`: `error` is raised by the next updates, `answer` lets them end."""

    def __init__(self):
        self.error = None
        self.answer = threading.Event()
        self.answer.set()
        self.begun = self.updates = 0

    def update(self, spark):
        self.begun += 1
        self.answer.wait()
        if self.error is not None:
            raise self.error
        self.updates += 1


@pytest.fixture
def entry():
    entry = Entry()
    yield entry
    entry.answer.set()


@pytest.fixture
def failures():
    return []


@pytest.fixture
def background(entry, failures, monkeypatch):
    monkeypatch.setattr(background_registration, "retry_delay", lambda failures: 0.0)
    return BackgroundRegistration(
        "t", entry, slots=nullcontext(), on_failure=lambda *failure: failures.append(failure)
    )


def polled(background, condition):
    wait_until(lambda: background.poll(NO_SPARK) or condition())


def test_an_update_is_made_once_for_each_request(background, entry):
    background.poll(NO_SPARK)
    assert entry.begun == 0
    for count in (1, 2):
        background.request()
        polled(background, lambda count=count: entry.updates == count)
    polled(background, lambda: background._task is None)
    assert entry.begun == 2


def test_a_catalog_that_hangs_delays_nothing(background, entry):
    entry.answer.clear()
    background.request()
    polled(background, lambda: entry.begun)
    background.request()
    for _ in range(3):
        background.poll(NO_SPARK)
    assert (entry.begun, entry.updates) == (1, 0)
    entry.answer.set()
    polled(background, lambda: entry.updates == 2)  # also the request that came meanwhile


def test_a_failure_is_reported_and_tried_again(background, entry, failures):
    entry.error = CatalogError("down", path="t")
    background.request()
    polled(background, lambda: len(failures) >= 2)
    assert [number for _, number, _ in failures[:2]] == [1, 2]
    entry.error = None
    polled(background, lambda: entry.updates == 1)
    polled(background, lambda: background._task is None)
    failures.clear()
    entry.error = CatalogError("down again", path="t")
    background.request()
    polled(background, lambda: failures)
    assert failures[0][1] == 1


def test_a_name_of_another_table_is_raised(background, entry, failures):
    entry.error = PipelineError("taken", topic="t")
    background.request()
    with pytest.raises(PipelineError, match="taken"):
        polled(background, lambda: False)
    assert failures == []


def test_the_name_of_a_table_that_a_record_chose_stops_nothing(entry, failures):
    background = BackgroundRegistration(
        "t",
        entry,
        slots=nullcontext(),
        on_failure=lambda *failure: failures.append(failure),
        stops=False,
    )
    entry.error = PipelineError("taken", topic="t")
    background.request()
    polled(background, lambda: failures)
    assert [str(error) for error, _, _ in failures] == ["taken"]


def test_the_end_of_a_run_needs_the_entry_only_if_it_must_be_complete(background, entry):
    entry.error = CatalogError("down", path="t")
    background.request()
    background.end(NO_SPARK)
    assert entry.begun == 1
    with pytest.raises(CatalogError, match="down"):
        background.complete(NO_SPARK)
    entry.error = None
    background.complete(NO_SPARK)
    assert entry.updates == 1
