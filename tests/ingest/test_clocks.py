"""A machine's clock that jumps changes no row: offsets and Kafka's timestamps decide."""

from __future__ import annotations

import time

import pytest

DAY = 24 * 3600
real = time.time_ns


@pytest.fixture
def clock(monkeypatch):
    """Sets the machine's clock off by so many days."""

    def off(days):
        monkeypatch.setattr(time, "time_ns", lambda: real() + days * DAY * 10**9)
        monkeypatch.setattr(time, "time", lambda: real() / 1e9 + days * DAY)

    return off


@pytest.mark.parametrize("upserts", [False, True])
def test_each_record_counts_once_whatever_the_clock_says(small_pipeline, clock, upserts):
    small_pipeline.upserts = upserts
    small_pipeline.write_file()
    for number, days in enumerate([0, 400, -400, 0, -9000]):
        clock(days)
        small_pipeline.produce({"id": 7, "name": str(number)}, {"id": number, "name": "own"})
        report = small_pipeline.take_in()
        assert (report.rows, report.dead_letters) == (2, 0)
    assert small_pipeline.take_in().records == 0
    found = small_pipeline.table.to_arrow(columns=["id", "name"]).to_pylist()
    sevens = [row["name"] for row in found if row["id"] == 7]
    assert sorted(sevens) == (["4"] if upserts else ["0", "1", "2", "3", "4"])
    assert sorted(row["id"] for row in found if row["id"] != 7) == [0, 1, 2, 3, 4]
