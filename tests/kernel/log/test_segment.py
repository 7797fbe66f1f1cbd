"""PROTOCOL.md, Delta Log Entries, Checkpoints, Last Checkpoint File."""

from __future__ import annotations

import json

import pytest

from bayou.engines.arrow import ArrowEngine
from bayou.errors import (
    CorruptTableError,
    FileMissingError,
    TableNotFoundError,
    VersionNotFoundError,
)
from bayou.kernel.log.segment import LogSegment, commit_files, load_log_segment
from bayou.protocol.last_checkpoint import LastCheckpoint, encode
from support.log_writer import LogWriter, add, metadata, protocol
from support.torn_listing import TornListing

HEAD = (protocol(), metadata({"id": "long"}))


def write_commits(log: LogWriter, count: int) -> None:
    log.commit(*HEAD)
    for version in range(1, count):
        log.commit(add(f"{version}.parquet"))


def load(log: LogWriter, version: int | None = None) -> LogSegment:
    return load_log_segment(log.engine, log.table, version)


def commit_names(segment: LogSegment) -> list[str]:
    return [f.path.rsplit("/", 1)[1] for f in segment.commits]


def test_without_a_checkpoint_every_commit_from_version_0_on_counts(log):
    write_commits(log, 3)
    segment = load(log)
    assert segment.version == 2
    assert segment.checkpoint is None
    assert commit_names(segment) == [f"{v:020d}.json" for v in range(3)]


def test_the_newest_checkpoint_and_the_commits_behind_it_make_up_a_version(log):
    write_commits(log, 6)
    log.checkpoint(1, HEAD)
    log.checkpoint(3, HEAD)
    segment = load(log)
    assert segment.checkpoint is not None
    assert segment.checkpoint.version == 3
    assert commit_names(segment) == [f"{v:020d}.json" for v in (4, 5)]


def test_an_older_version_takes_an_older_checkpoint(log):
    write_commits(log, 6)
    log.checkpoint(1, HEAD)
    log.checkpoint(3, HEAD)
    segment = load(log, 2)
    assert segment.checkpoint is not None
    assert (segment.version, segment.checkpoint.version) == (2, 1)


def test_a_multi_part_checkpoint_is_taken_with_all_its_parts_in_order(log):
    write_commits(log, 3)
    names = log.checkpoint(2, HEAD, parts=12)
    segment = load(log)
    assert segment.checkpoint is not None
    assert [f.path.rsplit("/", 1)[1] for f in segment.checkpoint.files] == names
    assert segment.checkpoint.size == sum(f.size for f in segment.checkpoint.files) > 0


def test_a_multi_part_checkpoint_with_a_missing_part_is_ignored(log):
    write_commits(log, 4)
    log.checkpoint(1, HEAD)
    log.delete(log.checkpoint(2, HEAD, parts=3)[1])
    segment = load(log)
    assert segment.checkpoint is not None
    assert segment.checkpoint.version == 1


def test_parts_of_two_attempts_at_one_checkpoint_are_not_mixed(log):
    write_commits(log, 3)
    log.delete(log.checkpoint(2, HEAD, parts=2)[0])
    names = log.checkpoint(2, HEAD, parts=3)
    segment = load(log)
    assert segment.checkpoint is not None
    assert [f.path.rsplit("/", 1)[1] for f in segment.checkpoint.files] == names


def test_an_empty_checkpoint_file_is_ignored(log):
    write_commits(log, 3)
    log.put(f"{2:020d}.checkpoint.parquet", b"")
    assert load(log).checkpoint is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b'{"version":"three","size":1}',
        b'{"version":-1,"size":1}',
        json.dumps({"version": 1, "size": 2, "checksum": "0" * 32}).encode(),
        encode(LastCheckpoint(version=1, size=2)),
        encode(LastCheckpoint(version=99, size=2)),
        encode(LastCheckpoint(version=2, size=2)),
    ],
    ids=["empty", "cut", "binary", "list", "text", "negative", "sum", "stale", "ahead", "no file"],
)
def test_last_checkpoint_is_only_a_hint(log, content):
    write_commits(log, 6)
    log.checkpoint(1, HEAD)
    log.checkpoint(4, HEAD)
    log.put("_last_checkpoint", content)
    segment = load(log)
    assert segment.checkpoint is not None
    assert (segment.version, segment.checkpoint.version) == (5, 4)


def test_a_hint_above_the_version_asked_for_is_no_obstacle(log):
    write_commits(log, 6)
    log.checkpoint(4, HEAD)
    log.put("_last_checkpoint", encode(LastCheckpoint(version=4, size=2)))
    segment = load(log, 2)
    assert (segment.version, segment.checkpoint) == (2, None)


def test_commits_cleaned_up_behind_a_checkpoint_are_not_missed(log):
    write_commits(log, 6)
    log.checkpoint(3, HEAD)
    for version in range(4):
        log.delete(f"{version:020d}.json")
    segment = load(log)
    assert (segment.version, len(segment.commits)) == (5, 2)
    assert load(log, 3).last_commit is None


def test_other_files_of_the_log_are_passed_over(log):
    write_commits(log, 2)
    for name in (
        "00000000000000000001.crc",
        "junk.txt",
        "5.json",
        ".00000000000000000002.json.crc",
    ):
        log.put(name, b"x")
    log.put(f"{0:020d}.{1:020d}.compacted.json", b"x")
    assert load(log).version == 1


def test_a_missing_commit_is_an_error_that_names_its_file(log):
    write_commits(log, 5)
    log.delete(f"{2:020d}.json")
    with pytest.raises(CorruptTableError, match=r"commit 2 is missing .* contiguous") as caught:
        load(log)
    assert caught.value.file == log.path(f"{2:020d}.json")
    assert caught.value.table == log.table


def test_a_missing_commit_behind_the_checkpoint_is_an_error(log):
    write_commits(log, 6)
    log.checkpoint(3, HEAD)
    log.delete(f"{4:020d}.json")
    with pytest.raises(CorruptTableError, match="commit 4 is missing"):
        load(log)


def test_a_missing_commit_asked_for_by_version_is_not_an_unknown_version(log):
    write_commits(log, 5)
    log.delete(f"{2:020d}.json")
    assert load(log, 1).version == 1
    with pytest.raises(CorruptTableError, match="commit 2 is missing"):
        load(log, 2)


def test_a_log_that_begins_late_without_a_checkpoint_is_corrupt(log):
    write_commits(log, 4)
    log.delete(f"{0:020d}.json")
    with pytest.raises(CorruptTableError, match="begins at version 1"):
        load(log)


def test_a_version_above_the_latest_names_the_latest(log):
    write_commits(log, 3)
    with pytest.raises(VersionNotFoundError, match="latest version is 2") as caught:
        load(log, 7)
    assert (caught.value.earliest, caught.value.latest) == (0, 2)


def test_a_version_that_was_cleaned_up_is_not_a_missing_table(log):
    write_commits(log, 6)
    log.checkpoint(4, HEAD)
    for version in range(4):
        log.delete(f"{version:020d}.json")
    message = "cleaned up. The earliest version that can be rebuilt is 4, the latest is 5"
    with pytest.raises(VersionNotFoundError, match=message) as caught:
        load(log, 2)
    assert (caught.value.earliest, caught.value.latest) == (4, 5)
    with pytest.raises(VersionNotFoundError, match="the earliest that can be rebuilt is 4"):
        load(log, 9)


def test_a_version_whose_early_commits_are_gone_cannot_be_rebuilt(log):
    write_commits(log, 6)
    log.checkpoint(4, HEAD)
    log.delete(f"{0:020d}.json")
    with pytest.raises(
        VersionNotFoundError, match="earliest version that can be rebuilt is 4"
    ) as caught:
        load(log, 2)
    assert (caught.value.earliest, caught.value.latest) == (4, 5)


def test_without_any_version_that_can_be_rebuilt_a_version_asked_for_says_so(log):
    write_commits(log, 3)
    log.delete(f"{0:020d}.json")
    with pytest.raises(VersionNotFoundError, match="No version can be") as caught:
        load(log, 2)
    assert (caught.value.earliest, caught.value.latest) == (None, 2)


def test_a_path_without_a_log_is_not_a_table(engine, table_path):
    with pytest.raises(TableNotFoundError, match="no _delta_log directory"):
        load_log_segment(engine, table_path)
    with pytest.raises(TableNotFoundError):
        list(commit_files(engine, table_path))


def test_a_log_folder_without_commits_is_not_a_table(log):
    log.put("notes.txt", b"x")
    with pytest.raises(TableNotFoundError):
        load(log)


@pytest.mark.parametrize("has_hint", [True, False])
def test_a_listing_that_leaves_out_the_log_is_an_error(log, monkeypatch, has_hint):
    # A proxy's own page with status 200 is an empty listing: a write would begin the table anew.
    write_commits(log, 3)
    if has_hint:
        log.put("_last_checkpoint", encode(LastCheckpoint(version=1, size=1)))

    def nothing(path):
        raise FileMissingError("there is no object", path=path)

    monkeypatch.setattr(log.engine.files, "list_from", nothing)
    with pytest.raises(CorruptTableError, match="has no commit and no checkpoint"):
        load(log)


def test_a_hint_without_a_log_is_an_error(log):
    log.put("_last_checkpoint", encode(LastCheckpoint(version=1, size=1)))
    with pytest.raises(CorruptTableError, match="_last_checkpoint exists"):
        load(log)


def test_of_checkpoints_of_one_version_that_with_a_uuid_is_taken(log):
    write_commits(log, 4)
    log.checkpoint(2, HEAD, parts=2)
    log.checkpoint(2, HEAD)
    (name,) = log.v2_checkpoint(2, HEAD)
    checkpoint = load(log).checkpoint
    assert checkpoint is not None
    assert checkpoint.uuid_named
    assert [f.path for f in checkpoint.files] == [log.path(name)]


def test_the_newest_checkpoint_counts_whatever_its_name(log):
    write_commits(log, 6)
    log.v2_checkpoint(2, HEAD, kind="json")
    log.checkpoint(4, HEAD)
    log.delete(log.checkpoint(5, HEAD, parts=2)[1])
    checkpoint = load(log).checkpoint
    assert checkpoint is not None
    assert (checkpoint.version, checkpoint.uuid_named) == (4, False)


def test_files_to_do_without_are_passed_over(log):
    write_commits(log, 4)
    log.checkpoint(1, HEAD)
    (name,) = log.checkpoint(2, HEAD)
    segment = load_log_segment(log.engine, log.table, ignored_checkpoints=[log.path(name)])
    assert segment.checkpoint is not None
    assert segment.checkpoint.version == 1


@pytest.mark.parametrize(
    ("files", "chosen"),
    [
        ([(1, 4)], [(1, 4)]),
        ([(1, 2), (1, 4), (2, 3)], [(1, 4)]),
        ([(1, 3), (4, 6)], [(1, 3), (4, 6)]),
        ([(5, 7)], [(5, 7)]),  # the latest commit is read besides
        ([(6, 7)], []),  # as many files as without
        ([(0, 1), (3, 9)], [(0, 1)]),  # ends above the version
    ],
    ids=["one", "longest", "two", "up to the latest", "saves nothing", "too far"],
)
def test_compacted_commits_are_taken_where_they_save_reads(log, files, chosen):
    write_commits(log, 8)
    for first, last in files:
        log.compaction(first, last)
    assert [(c.version, c.end_version) for c in load(log, 7).compacted] == chosen


def test_compacted_commits_that_begin_before_the_checkpoint_do_not_count(log):
    write_commits(log, 8)
    log.checkpoint(3, HEAD)
    log.compaction(2, 6)
    log.compaction(4, 6)
    assert [(c.version, c.end_version) for c in load(log).compacted] == [(4, 6)]


def test_the_newest_checksum_up_to_the_version_counts_unless_older_than_the_checkpoint(log):
    write_commits(log, 6)
    log.checkpoint(3, HEAD)
    log.checksum(2)
    assert load(log).checksum is None
    log.checksum(4)
    log.checksum(5)
    assert load(log).checksum[0] == 5
    assert load(log, 4).checksum[0] == 4
    assert load(log, 3).checksum is None


def test_a_checksum_of_a_version_that_the_log_does_not_have_is_passed_over(log):
    """An interrupted copy, or a replica: files of later versions are there, commits aren't."""
    write_commits(log, 6)
    log.checkpoint(3, HEAD)
    log.checksum(4)
    log.checksum(6)
    log.checksum(8)
    assert load(log).version == 5
    assert load(log).checksum[0] == 4


def test_compacted_commits_that_the_log_does_not_have_do_not_count(log):
    write_commits(log, 6)
    log.compaction(1, 4)
    log.compaction(1, 6)
    log.compaction(3, 9)
    assert [(c.version, c.end_version) for c in load(log).compacted] == [(1, 4)]


def test_a_compaction_older_than_its_last_commit_is_of_commits_that_were_lost(log):
    write_commits(log, 6)
    log.compaction(1, 3)
    log.engine.files.set_modification_time(log.path(log.compaction(1, 4)), 1000)
    assert [(c.version, c.end_version) for c in load(log).compacted] == [(1, 3)]


@pytest.mark.parametrize("hint", [None, 7])
def test_a_checkpoint_ahead_of_the_log_is_an_error_that_names_it(log, hint):
    write_commits(log, 6)
    log.checkpoint(3, HEAD)
    (name,) = log.checkpoint(7, HEAD)
    if hint is not None:
        log.put("_last_checkpoint", json.dumps({"version": hint, "size": 2}).encode())
    with pytest.raises(CorruptTableError, match="ends at commit 5.*is of version 7") as caught:
        load(log)
    assert caught.value.file == log.path(name)
    assert load(log, 5).version == 5
    log.delete(name)
    assert load(log).version == 5


def test_a_log_of_which_only_a_checkpoint_is_left_has_its_version(log):
    write_commits(log, 4)
    log.checkpoint(3, HEAD)
    for version in range(4):
        log.delete(f"{version:020d}.json")
    assert load(log).version == 3
    log.put("_last_checkpoint", json.dumps({"version": 3, "size": 2}).encode())
    assert load(log).version == 3


def test_a_commit_that_one_listing_missed_is_found_by_the_next(tmp_path):
    log = LogWriter(ArrowEngine(files=TornListing()), str(tmp_path))
    write_commits(log, 5)
    assert load(log).version == 4
