"""Actions on files, not yet reconciled."""

from __future__ import annotations

import pytest

from bayou.errors import ArgumentError, SerializationError
from bayou.kernel import Snapshot
from bayou.kernel.log.file_actions import FILE_ACTION_SCHEMA, ActionSlice, FileActions, tail_bytes
from support.log_writer import LogWriter, add, deletion_vector, metadata, protocol, remove

HEAD = (protocol(), metadata({"id": "long"}))
STATS = {"numRecords": 3}


@pytest.fixture
def table(log: LogWriter) -> LogWriter:
    log.commit(*HEAD)
    log.commit(add("a", stats=STATS), add("x%20y"))
    log.checkpoint(1, [*HEAD, add("a", stats=STATS), add("x%20y"), add("/b")])
    log.commit(remove("x y"), add("a", vector=deletion_vector("v", 4), stats=STATS))
    log.commit(add("c"))
    return log


def actions_of(log: LogWriter, *, statistics: bool = False) -> FileActions:
    snapshot = Snapshot.load(log.engine, log.table)
    builder = snapshot.scan_builder()
    return FileActions.for_version(
        snapshot, (builder.with_statistics() if statistics else builder).build()
    )


def rows(log: LogWriter, actions: FileActions, slices: int) -> list[tuple]:
    elsewhere = FileActions.from_bytes(actions.to_bytes())
    found = []
    for part in actions.slices(log.engine, slices):
        for batch in elsewhere.read(log.engine, ActionSlice.from_bytes(part.to_bytes())):
            assert batch.schema == FILE_ACTION_SCHEMA
            found += [
                (r["key"], r["version"], r["dataChange"], r["add"] and r["add"]["path"])
                for r in batch.to_pylist()
            ]
    return sorted(found)


@pytest.mark.parametrize("slices", [1, 2, 50])
def test_keys_are_equal_for_one_file_however_its_path_is_spelled(table, slices):
    assert rows(table, actions_of(table), slices) == [
        ("/b\x00", 1, False, "/b"),
        ("a\x00", 1, False, "a"),
        ("a\x00uv@4", 2, True, "a"),
        ("c\x00", 3, True, "c"),
        ("x y\x00", 1, False, "x%20y"),
        ("x y\x00", 2, True, None),
    ]


@pytest.mark.parametrize("statistics", [True, False])
def test_statistics_are_read_where_they_are_wanted(table, statistics):
    actions = actions_of(table, statistics=statistics)
    found = [
        row["add"]["stats"]
        for part in actions.slices(table.engine, 1)
        for batch in actions.read(table.engine, part)
        for row in batch.to_pylist()
        if row["add"] is not None and row["add"]["path"] == "a"
    ]
    assert len(found) == 2
    assert all((text is not None) == statistics for text in found)


def test_neighbouring_commits_come_together(table):
    for number in range(10):
        table.commit(add(f"f{number}"))
    parts = actions_of(table).slices(table.engine, 40)
    versions = [[v for v, _ in part.commits] for part in parts if part.commits]
    assert [v for run in versions for v in run] == list(range(2, 14))
    assert 1 < len(versions) <= 12
    assert tail_bytes(Snapshot.load(table.engine, table.table)) == sum(
        part.estimated_bytes for part in parts if part.commits
    )


def test_what_came_as_bytes_is_not_split(table):
    elsewhere = FileActions.from_bytes(actions_of(table).to_bytes())
    with pytest.raises(ArgumentError, match="were deserialized"):
        elsewhere.slices(table.engine, 1)


def test_other_bytes_are_refused():
    with pytest.raises(SerializationError):
        FileActions.from_bytes(b"x")
    with pytest.raises(SerializationError):
        ActionSlice.from_bytes(b"x")
