"""What is remembered of a topic's maintenance."""

import pytest

from bayou.errors import PipelineError
from bayou.ingest.events import MaintenanceReport
from bayou.ingest.maintenance import LastRun, LastRuns, completed_task

DONE, FAILED = ("vacuum", "done"), ("vacuum", "failed")


def report(task, result="done", **more):
    return MaintenanceReport(
        topic="t", task=task, table_path="t", started=100.0, seconds=2.5, result=result, **more
    )


def test_the_last_run_of_each_task_is_kept(tmp_path):
    runs = LastRuns(tmp_path, "a/b")
    assert runs.read() == {}
    runs.keep(report("optimize"))
    runs.keep(report("vacuum", "failed", error=PipelineError("no space", topic="t")))
    runs.keep(report("optimize", "nothing"))
    assert LastRuns(tmp_path, "a/b").read() == {
        "optimize": LastRun(at=102_500, result="nothing"),
        "vacuum": LastRun(at=102_500, result="failed", reason="no space"),
    }
    assert LastRuns(tmp_path, "other").read() == {}


def test_a_state_path_that_is_no_folder_or_holds_something_else_fails_nothing(tmp_path):
    (tmp_path / "file").write_text("")
    runs = LastRuns(tmp_path / "file", "t")
    runs.keep(report("optimize"))
    assert runs.read() == {}
    broken = LastRuns(tmp_path, "t")
    broken.keep(report("optimize"))
    (tmp_path / "t" / "maintenance.json").write_text("[")
    assert broken.read() == {}
    broken.keep(report("vacuum"))
    assert set(broken.read()) == {"vacuum"}


@pytest.mark.parametrize(
    ("commit", "expected"),
    [
        ({"operation": "OPTIMIZE"}, ("optimize", "done")),
        ({"operation": "VACUUM START"}, None),
        ({"operation": "VACUUM END", "operationParameters": {"status": "COMPLETED"}}, DONE),
        ({"operation": "VACUUM END", "operationParameters": {"status": "FAILED"}}, FAILED),
        ({"operation": "VACUUM END", "operationParameters": "as another writer likes"}, DONE),
        ({"operation": "VACUUM END", "operationParameters": None}, DONE),
        ({"operation": None}, None),
        ({}, None),
    ],
)
def test_a_commit_tells_the_task_that_it_ends(commit, expected):
    assert completed_task(commit) == expected
