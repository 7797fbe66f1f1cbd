"""PROTOCOL.md, Metadata Cleanup; docs/operations/upkeep.md, Log retention."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest

from bayou.errors import StorageError, VersionNotFoundError
from bayou.kernel import Snapshot
from bayou.kernel.maintenance.log_cleanup import LogCleanup, clean_up_log
from support.faults import Fault, FaultInjectingEngine
from support.log_writer import LogWriter, add, commit_info, metadata, protocol

DAY = 86_400_000
TODAY = 20_000 * DAY
NOON = TODAY + DAY // 2
HEAD = (protocol(), metadata({"id": "long"}, (), {"delta.logRetentionDuration": "interval 2 days"}))
"""The cutoff at noon is the midnight before yesterday's: TODAY - 2 * DAY."""


def age(log: LogWriter, name: str, milliseconds: int) -> None:
    log.engine.files.set_modification_time(log.path(name), milliseconds)


def history(log: LogWriter, days: Mapping[int, int], head=HEAD) -> None:
    """Commits by version, and how many days before today each was made."""
    for version, ago in days.items():
        log.commit(*(head if version == 0 else ()), add(f"f{version}"), version=version)
        age(log, f"{version:020d}.json", TODAY - ago * DAY)


def checkpoint(log: LogWriter, version: int, head=HEAD) -> None:
    for name in log.checkpoint(version, [*head, *(add(f"f{v}") for v in range(version + 1))]):
        age(log, name, TODAY)


def names(log: LogWriter) -> list[str]:
    found = (s.path.rsplit("/", 1)[1] for s in log.engine.files.list_from(log.path("")))
    return [f"{int(n[:20])}{n[20:]}" for n in found if n[0].isdigit()]


def clean(log: LogWriter, engine: Any = None) -> LogCleanup:
    return clean_up_log(log.engine if engine is None else engine, log.table, now=NOON)


def live(log: LogWriter) -> list[str]:
    scan = Snapshot.load(log.engine, log.table).scan_builder().build()
    return sorted(f.path for batch in scan.scan_files(log.engine) for f in batch.rows())


def test_what_a_checkpoint_that_is_old_enough_covers_goes(log):
    history(log, {0: 9, 1: 8, 2: 7, 3: 1})
    checkpoint(log, 1)
    checkpoint(log, 2)
    before = live(log)
    done = clean(log)
    assert names(log) == ["2.checkpoint.parquet", "2.json", "3.json"]
    assert done.earliest_version == 2
    assert [p.rsplit("/", 1)[1][19:] for p in done.deleted] == [
        "0.json",
        "1.checkpoint.parquet",
        "1.json",
    ]
    assert live(log) == before
    with pytest.raises(VersionNotFoundError, match="earliest version that can be rebuilt is 2"):
        Snapshot.load(log.engine, log.table, 1)


def test_without_a_checkpoint_that_is_old_enough_nothing_goes(log):
    history(log, {0: 9, 1: 8, 2: 1})
    checkpoint(log, 2)
    assert clean(log) == LogCleanup()
    assert names(log) == ["0.json", "1.json", "2.checkpoint.parquet", "2.json"]


def test_the_cutoff_is_midnight_of_the_day(log):
    history(log, {0: 9, 1: 3, 2: 2, 3: 1})
    age(log, f"{2:020d}.json", TODAY - 2 * DAY + 1)  # a millisecond behind it
    checkpoint(log, 2)
    assert clean(log) == LogCleanup()
    age(log, f"{2:020d}.json", TODAY - 2 * DAY)
    assert clean(log).earliest_version == 2


def test_times_that_fall_are_taken_as_rising(log):
    history(log, {0: 9, 1: 1, 2: 8, 3: 0})
    checkpoint(log, 2)
    assert clean(log) == LogCleanup()  # version 2 counts as later than version 1


def test_in_commit_timestamps_count_instead_of_the_files(log):
    configuration = {
        "delta.logRetentionDuration": "interval 2 days",
        "delta.enableInCommitTimestamps": "true",
    }
    head = (
        protocol(1, 7, ([], ["inCommitTimestamp"])),
        metadata({"id": "long"}, (), configuration),
    )
    for version, ago in enumerate((9, 8, 1)):
        info = commit_info(operation="x", inCommitTimestamp=TODAY - ago * DAY)
        log.commit(info, *(head if version == 0 else ()), add(f"f{version}"))
        age(log, f"{version:020d}.json", TODAY - 5 * DAY)
    checkpoint(log, 1, head)
    checkpoint(log, 2, head)
    assert clean(log).earliest_version == 1


def test_checksums_and_compacted_commits_go_too(log):
    history(log, {0: 9, 1: 8, 2: 7, 3: 6, 4: 1})
    for version in range(5):
        log.checksum(version)
    log.compaction(0, 1, *HEAD, add("f0"), add("f1"))
    log.compaction(2, 4, add("f2"), add("f3"), add("f4"))
    log.compaction(3, 4, add("f3"), add("f4"))
    checkpoint(log, 2)
    clean(log)
    kept = ["2.checkpoint.parquet", "2.crc", "2.json"]
    last = f".{4:020d}.compacted.json"
    assert names(log) == [*kept, f"3{last}", "3.crc", "3.json", "4.crc", "4.json"]
    assert live(log) == ["f0", "f1", "f2", "f3", "f4"]


def test_every_part_of_a_checkpoint_goes_and_one_that_lacks_a_part_covers_nothing(log):
    history(log, {0: 9, 1: 8, 2: 7, 3: 6})
    actions = [*HEAD, add("f0"), add("f1")]
    log.checkpoint(1, actions, parts=2)
    checkpoint(log, 2)
    first, _ = log.checkpoint(3, [*actions, add("f2"), add("f3")], parts=2)
    log.delete(first)
    done = clean(log)
    assert done.earliest_version == 2
    assert len([p for p in done.deleted if "checkpoint" in p]) == 2


def test_a_checkpoint_that_lacks_a_sidecar_covers_nothing(log):
    head = (protocol(3, 7, (["v2Checkpoint"], ["v2Checkpoint"])), HEAD[1])
    history(log, {0: 9, 1: 8, 2: 1}, head)
    _, sidecar = log.v2_checkpoint(1, [*head, add("f0"), add("f1")], sidecars=1)
    log.delete(sidecar)
    assert clean(log) == LogCleanup()


@pytest.mark.parametrize("kept", [0, 100], ids=["empty", "cut off"])
@pytest.mark.parametrize("kind", ["sidecar", "part"])
def test_a_checkpoint_with_a_file_that_was_cut_off_covers_nothing(log, kind, kept):
    """The commits are all that tells the files of the table then."""
    sidecars = kind == "sidecar"
    head = (protocol(3, 7, (["v2Checkpoint"], ["v2Checkpoint"])), HEAD[1]) if sidecars else HEAD
    history(log, {0: 9, 1: 8, 2: 1}, head)
    actions = [*head, add("f0"), add("f1")]
    if sidecars:
        cut_off = log.v2_checkpoint(1, actions, sidecars=1)[1]
    else:
        cut_off = log.checkpoint(1, actions, parts=2)[1]
    with log.engine.files.open_input(log.path(cut_off)) as file:
        log.put(cut_off, file.read()[:kept])
    assert clean(log) == LogCleanup()
    assert live(log) == ["f0", "f1", "f2"]


def test_sidecars_go_where_no_checkpoint_names_them(log):
    head = (protocol(3, 7, (["v2Checkpoint"], ["v2Checkpoint"])), HEAD[1])
    history(log, {0: 9, 1: 8, 2: 7, 3: 1}, head)
    old = log.v2_checkpoint(1, [*head, add("f0"), add("f1")], sidecars=2)
    new = log.v2_checkpoint(2, [*head, *(add(f"f{i}") for i in range(3))], sidecars=1)
    for name in (*old, *new):
        age(log, name, TODAY - 5 * DAY)
    log.put("_sidecars/young.parquet", b"of a checkpoint that is being written")
    age(log, "_sidecars/young.parquet", NOON - DAY)
    done = clean(log)
    left = [s.path for s in log.engine.files.list_from(log.path("_sidecars/"))]
    assert left == sorted([log.path(new[1]), log.path("_sidecars/young.parquet")])
    assert {log.path(name) for name in old} <= set(done.deleted)
    assert live(log) == ["f0", "f1", "f2", "f3"]


def test_sidecars_stay_while_a_checkpoint_cannot_be_read(log):
    head = (protocol(3, 7, (["v2Checkpoint"], ["v2Checkpoint"])), HEAD[1])
    history(log, {0: 9, 1: 8, 2: 7}, head)
    old = log.v2_checkpoint(1, [*head, add("f0"), add("f1")], sidecars=1)
    new = log.v2_checkpoint(2, [*head, *(add(f"f{i}") for i in range(3))], sidecars=1)
    for name in (*old, *new):
        age(log, name, TODAY - 5 * DAY)
    log.put(f"{2:020d}.checkpoint.{'a' * 8}-{'a' * 4}-{'a' * 4}-{'a' * 4}-{'a' * 12}.json", b"{")
    assert clean(log).earliest_version == 2
    assert len(list(log.engine.files.list_from(log.path("_sidecars/")))) == 2


def test_staged_commits_of_versions_that_are_published_go(log):
    history(log, {0: 9, 1: 8, 2: 1})
    checkpoint(log, 1)
    for version in (0, 1, 2):
        log.put(f"_staged_commits/{version:020d}.{'b' * 8}-bbbb-bbbb-bbbb-{'b' * 12}.json", b"")
    clean(log)
    left = [s.path for s in log.engine.files.list_from(log.path("_staged_commits/"))]
    assert [int(p.rsplit("/", 1)[1][:20]) for p in left] == [2]


def protected(before: int) -> tuple[Any, ...]:
    configuration = {
        "delta.logRetentionDuration": "interval 2 days",
        "delta.requireCheckpointProtectionBeforeVersion": str(before),
    }
    features = (["v2Checkpoint"], ["v2Checkpoint", "checkpointProtection"])
    return (protocol(3, 7, features), metadata({"id": "long"}, (), configuration))


@pytest.mark.parametrize(
    ("before", "unknown", "earliest"), [(1, True, 2), (2, True, 2), (3, True, None), (3, False, 2)]
)
def test_what_is_protected_goes_at_once_or_by_who_knows_it(log, before, unknown, earliest):
    features = ["v2Checkpoint", "rune"] if unknown else ["v2Checkpoint"]
    log.commit(protocol(3, 7, (["v2Checkpoint"], features)), HEAD[1], add("f0"))
    for version, ago in ((1, 8), (2, 7), (3, 6), (4, 1)):
        log.commit(*(protected(before) if version == 4 else ()), add(f"f{version}"))
        age(log, f"{version:020d}.json", TODAY - ago * DAY)
    age(log, f"{0:020d}.json", TODAY - 9 * DAY)
    log.checkpoint(2, [protocol(3, 7, (["v2Checkpoint"], features)), HEAD[1], add("f0")])
    assert clean(log).earliest_version == earliest


def test_a_cleanup_that_is_cut_off_anywhere_leaves_a_table_that_reads(log):
    history(log, {0: 9, 1: 8, 2: 7, 3: 6, 4: 1})
    checkpoint(log, 1)
    checkpoint(log, 3)
    before = live(log)
    for passing in range(8):
        fault = Fault(operation="delete_files", passing=passing % 2)
        with suppress(StorageError):
            clean(log, FaultInjectingEngine(log.engine, fault))
        assert live(log) == before
    assert names(log) == ["3.checkpoint.parquet", "3.json", "4.json"]


def test_a_table_that_is_young_is_not_opened_at_all(log):
    history(log, {0: 1, 1: 0})
    engine = FaultInjectingEngine(log.engine, Fault(operation="read_files"))
    assert clean_up_log(engine, log.table, retention_ms=2 * DAY, now=NOON) == LogCleanup()


def test_cleaning_twice_is_cleaning_once(log):
    history(log, {0: 9, 1: 8, 2: 1})
    checkpoint(log, 1)
    assert clean(log).deleted
    assert clean(log) == LogCleanup()


@pytest.mark.parametrize(("kind", "sidecars"), [("parquet", 2), ("json", 2), ("json", 0)])
def test_a_v2_checkpoint_gets_a_classic_name_too_before_commits_go(log, kind, sidecars):
    head = (protocol(3, 7, (["v2Checkpoint"], ["v2Checkpoint"])), HEAD[1])
    history(log, {0: 9, 1: 8, 2: 7, 3: 1}, head)
    actions = [*head, *(add(f"f{i}") for i in range(3))]
    made = log.v2_checkpoint(2, actions, kind=kind, sidecars=sidecars)
    for name in made:
        age(log, name, TODAY)
    before = live(log)
    clean(log)
    assert "2.checkpoint.parquet" in names(log)
    log.engine.files.delete_files([log.path(made[0])])
    assert live(log) == before
    assert Snapshot.load(log.engine, log.table).protocol.reader_features == ["v2Checkpoint"]


def test_a_classic_name_beside_a_v2_checkpoint_is_left_alone(log):
    head = (protocol(3, 7, (["v2Checkpoint"], ["v2Checkpoint"])), HEAD[1])
    history(log, {0: 9, 1: 8, 2: 1}, head)
    log.v2_checkpoint(1, [*head, add("f0"), add("f1")], sidecars=1)
    checkpoint(log, 1, head)
    kept = next(iter(log.engine.files.list_from(log.path(f"{1:020d}.checkpoint.parquet"))))
    clean(log)
    assert log.engine.files.status(kept.path) == kept


def test_temporary_files_of_writers_that_were_killed_go_a_day_later(log):
    history(log, {0: 1})
    old, of_hadoop, young = (".0001.json." + "0" * 32 + ".tmp", ".00.json.uuid.tmp", ".new.tmp")
    for name, ago in ((old, 3), (of_hadoop, 4), (young, 0)):
        log.engine.files.put(log.path(name), b"{")
        age(log, name, TODAY - ago * DAY)
    assert sorted(clean(log).deleted) == sorted([log.path(old), log.path(of_hadoop)])
    assert clean(log) == LogCleanup()
    assert log.engine.files.status(log.path(young)).size == 1
