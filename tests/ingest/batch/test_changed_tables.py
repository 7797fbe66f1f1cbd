"""Tables that others restore, delete or replace while a batch runs."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

import bayou
from bayou.errors import PipelineError, StorageError
from support.in_process_pipeline import InProcessContext


class SessionWithRival(InProcessContext):
    """Somebody acts once, while the tasks of a batch run."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__()
        self._act: Callable[[], object] | None = act

    def parallelize(self, values, slices):
        act, self._act = self._act, None
        if act is not None:
            act()
        return super().parallelize(values, slices)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr("bayou.ingest.batch.micro_batch.retry_delay", lambda _: 0)


@pytest.fixture(params=[False, True], ids=["appends", "upserts"])
def two_commits(new_pipeline, request):
    pipeline = new_pipeline(upserts=request.param)
    for start in (0, 2):
        pipeline.produce({"id": start}, {"id": start + 1})
        pipeline.take_in()
    pipeline.produce({"id": 4})
    return pipeline


def ids(pipeline):
    return sorted(pipeline.table.to_arrow()["id"].to_pylist())


def test_a_restore_during_a_batch_stops_the_topic_until_it_is_accepted(two_commits):
    with pytest.raises(PipelineError, match="version 2 of .* is a RESTORE"):
        two_commits.take_in(session=SessionWithRival(lambda: two_commits.table.restore(0)))
    with pytest.raises(PipelineError, match="version 2 of .* is a RESTORE"):
        two_commits.take_in()
    assert ids(two_commits) == [0, 1]


@pytest.mark.parametrize("change", ["deleted", "replaced", "rolled back"])
def test_a_table_that_changes_before_a_batch_is_retried_loses_no_records(
    two_commits, new_pipeline, change
):
    other = new_pipeline(upserts=two_commits.upserts)
    for number in (100, 101, 102):
        other.produce({"id": number})
        other.take_in()

    def act():
        if change == "rolled back":
            (two_commits.folder / "lake/events/_delta_log" / f"{1:020}.json").unlink()
            (two_commits.folder / "lake/events/_delta_log" / f"{1:020}.crc").unlink()
        else:
            shutil.rmtree(two_commits.path)
        if change == "replaced":
            shutil.copytree(other.path, two_commits.path)
        raise StorageError("the store is away", path="x")

    with pytest.raises(PipelineError, match=change):
        two_commits.take_in(session=SessionWithRival(act))
    two_commits.take_in()
    assert set(ids(two_commits)) >= {0, 1, 2, 3, 4}


@pytest.fixture
def with_backup(new_pipeline):
    """A pipeline whose table has the record 0, and a clone of the table."""
    pipeline = new_pipeline()
    pipeline.produce({"id": 0})
    pipeline.take_in()
    backup = bayou.table(str(pipeline.folder / "backup"))
    pipeline.table.clone(backup.table_uri, shallow=False)
    return pipeline, backup


def test_a_table_that_is_restored_from_a_clone_reads_what_the_clone_lacks(with_backup):
    pipeline, backup = with_backup
    pipeline.produce({"id": 1})
    pipeline.produce({"id": 2}, partition=1)  # the clone has no offsets of this partition
    pipeline.take_in()
    backup.clone(pipeline.path, shallow=False, replace=True)
    assert ids(pipeline) == [0]
    pipeline.take_in()
    assert ids(pipeline) == [0, 1, 2]


def test_a_table_that_is_restored_from_a_clone_without_offsets_stops_the_topic(with_backup):
    pipeline, backup = with_backup
    pipeline.produce({"id": 1})
    pipeline.take_in()
    backup.clone(pipeline.path, shallow=False, replace=True, transaction_identifiers=False)
    with pytest.raises(PipelineError, match="no transaction identifier with their offsets"):
        pipeline.take_in()
