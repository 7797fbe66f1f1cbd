"""VACUUM LITE: which files it deletes, and when it is refused."""

from __future__ import annotations

import pytest

from bayou.errors import (
    VersionNotFoundError,
)
from bayou.kernel import Table
from support.log_writer import add, remove
from support.vacuums import HEAD, OLD, age_commits, ago, names, put, run


def test_lite_takes_what_commits_removed_and_leaves_the_rest(log):
    cdc = {"cdc": {"path": "_change_data/c", "partitionValues": {}, "size": 9, "dataChange": False}}
    log.commit(*HEAD, add("a"), add("b"), add("back"))
    log.commit(
        remove("a", size=3, deletionTimestamp=OLD), cdc, remove("back", deletionTimestamp=OLD)
    )
    log.commit(add("back"), remove("b", deletionTimestamp=ago(hours=1)))
    age_commits(log, OLD, OLD + 1, ago(hours=1))
    for name in ("a", "b", "back", "_change_data/c", "stray"):
        put(log, name)
    done = run(log, 2, lite=True)
    assert names(log) == ["b", "back", "stray"]
    assert sorted(done.inventory["size"].to_pylist()) == [3, 9]
    assert run(log, 2, lite=True).num_files_to_delete == 0


def test_lite_goes_on_where_the_last_one_ended(log):
    log.commit(*HEAD, add("a"), add("b"))
    log.commit(remove("a", deletionTimestamp=OLD))
    age_commits(log, OLD, OLD + 1)
    run(log, 2, lite=True)
    log.checkpoint(1, [*HEAD, add("b")])
    log.delete(f"{0:020d}.json")
    log.delete(f"{1:020d}.json")
    put(log, "a")
    assert run(log, 2, lite=True).num_files_to_delete == 0  # it was taken before


def test_a_file_that_was_removed_after_the_time_of_its_commit_is_deleted_by_a_later_lite(log):
    log.commit(*HEAD, add("a"))
    log.commit(remove("a", deletionTimestamp=ago(hours=1)))
    age_commits(log, OLD, OLD + 1)
    put(log, "a")
    run(log, 2, lite=True)
    assert names(log) == ["a"]
    run(log, 0, lite=True)
    assert names(log) == []


def test_lite_without_the_commits_that_it_needs_is_refused(log):
    log.commit(*HEAD, add("a"))
    log.commit(add("b"))
    log.checkpoint(1, [*HEAD, add("a"), add("b")])
    log.delete(f"{0:020d}.json")
    with pytest.raises(VersionNotFoundError, match="Run a full vacuum"):
        run(log, 0, lite=True)


def test_lite_leaves_the_files_of_another_table_below_alone(log):
    """The table is a shallow clone of `source`, which lies in its folder."""
    inside = ["source/a", "source/deep/b", "source/deletion_vector.bin", "source/_delta_log/0.json"]
    theirs = [f"{log.table}/{name}" for name in inside[:2]]
    log.commit(*HEAD, *map(add, theirs), add("day=1/c"))
    gone = [*theirs, "source/deep/b", "day=1/c"]
    log.commit(*(remove(path, deletionTimestamp=OLD) for path in gone))
    age_commits(log, OLD, OLD + 1)
    for name in (*inside, "day=1/c"):
        put(log, name)
    run(log, 2, lite=True)
    assert names(log) == sorted(inside)


def test_lite_deletes_nothing_hidden(log):
    hidden = ["_delta_log/00000000000000000000.json", "_x/a", ".b", "day=1/_c"]
    log.commit(*HEAD, add("a"))
    log.commit(*(remove(path, deletionTimestamp=OLD) for path in (*hidden, "a", "_p=1/d")))
    age_commits(log, OLD, OLD + 1)
    for name in (*hidden[1:], "a", "_p=1/d"):
        put(log, name)
    run(log, 2, lite=True)
    assert names(log) == sorted(hidden[1:])
    assert Table.for_path(log.engine, log.table).latest_snapshot(log.engine).version == 3
