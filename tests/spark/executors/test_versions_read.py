"""What the tasks of a query tell each other; no Spark."""

from __future__ import annotations

import os

import pytest
from pyspark import TaskContext

from bayou.spark.executors.versions_read import report_version_read, versions_read


class ContextOf(TaskContext):
    """As much of a task's context as is asked for."""

    def __new__(cls, _query):
        return object.__new__(cls)

    def __init__(self, query):
        self._query = query

    def getLocalProperty(self, key):  # noqa: N802  # Spark's name
        return self._query if key == "spark.sql.execution.id" else None


@pytest.fixture
def in_query(monkeypatch, tmp_path):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/nowhere")

    def be_in(query):
        monkeypatch.setattr(TaskContext, "_taskContext", query and ContextOf(query))

    return be_in


def test_a_query_finds_the_versions_that_its_own_tasks_read(in_query):
    in_query("1")
    for version in (3, 4, 3):
        report_version_read("/lake/my events", version)
    report_version_read("/lake/other", 9)
    in_query("11")
    report_version_read("/lake/my events", 7)
    assert versions_read("/lake/my events") == {7}
    in_query("1")
    assert versions_read("/lake/my events") == {3, 4}
    assert versions_read("/lake") == set()


def test_outside_of_a_query_nothing_is_told(in_query, tmp_path):
    in_query(None)
    report_version_read("/lake/t", 1)
    assert versions_read("/lake/t") == set()
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_stops_no_read(in_query, monkeypatch, tmp_path):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "missing"))
    in_query("1")
    report_version_read("/lake/t", 1)
    assert versions_read("/lake/t") == set()


def test_old_queries_leave_no_more_than_a_thousand_files(in_query, tmp_path):
    for query in range(1_001):
        in_query(str(query))
        report_version_read("/lake/t", query)
        for file in (tmp_path / "bayou-versions-read").glob(f"{query}-*"):
            os.utime(file, (query, query))
    in_query("2000")
    report_version_read("/lake/t", 5)
    assert len(list((tmp_path / "bayou-versions-read").iterdir())) == 502
    in_query("1000")
    assert versions_read("/lake/t") == {1000}
