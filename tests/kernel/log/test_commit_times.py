"""PROTOCOL.md, In-Commit Timestamps; docs/design/facts.md, Time travel."""

from __future__ import annotations

import pytest

from bayou.errors import CorruptTableError, VersionNotFoundError
from bayou.kernel import Operation, Table
from bayou.kernel.log.commit_times import version_at_or_after
from support.log_writer import LogWriter, add, commit_info, metadata, protocol

HEAD = (protocol(), metadata({"id": "long"}))


def write(log: LogWriter, times: list[int]) -> None:
    for version, time in enumerate(times):
        log.commit(*(HEAD if version == 0 else [add(f"{version}")]))
        set_time(log, version, time)


def set_time(log: LogWriter, version: int, time: int) -> None:
    log.engine.files.set_modification_time(log.path(f"{version:020d}.json"), time)


def version_at(log: LogWriter, timestamp: int) -> int:
    table = Table.for_path(log.engine, log.table)
    return table.snapshot_as_of_timestamp(log.engine, timestamp).version


def in_commit(stamp: int | None, **fields: object):
    return commit_info(**({} if stamp is None else {"inCommitTimestamp": stamp}), **fields)


@pytest.mark.parametrize(
    ("timestamp", "version"), [(1000, 0), (1001, 0), (1999, 0), (2000, 1), (2500, 1), (3000, 2)]
)
def test_a_time_names_the_last_version_at_or_before_it(log, timestamp, version):
    write(log, [1000, 2000, 3000])
    assert version_at(log, timestamp) == version


def test_a_time_after_the_last_commit_is_an_error(log):
    write(log, [1000, 2000])
    with pytest.raises(VersionNotFoundError, match=r"1970-01-01T00:00:02.000\+00:00") as caught:
        version_at(log, 2001)
    assert caught.value.latest == 1


def test_a_time_before_the_first_commit_is_an_error(log):
    write(log, [1000, 2000])
    with pytest.raises(VersionNotFoundError, match="earliest version") as caught:
        version_at(log, 999)
    assert caught.value.earliest == 0


@pytest.mark.parametrize("timestamp", [10**18, -(10**18)])
def test_a_time_beyond_every_calendar_is_the_same_error(log, timestamp):
    write(log, [1000, 2000])
    with pytest.raises(VersionNotFoundError, match="ms since the epoch"):
        version_at(log, timestamp)


def test_equal_and_falling_times_are_raised_above_the_one_before(log):
    write(log, [5000, 5000, 1000, 9000])
    assert [version_at(log, t) for t in (5000, 5001, 5002, 8999, 9000)] == [0, 1, 2, 2, 3]
    with pytest.raises(VersionNotFoundError):
        version_at(log, 4999)


def test_the_earliest_version_is_the_first_that_can_be_rebuilt(log):
    write(log, [1000, 2000, 3000, 4000])
    log.checkpoint(2, HEAD)
    log.delete(f"{0:020d}.json")
    assert version_at(log, 3000) == 2
    with pytest.raises(VersionNotFoundError, match=r"is 2, committed at .*03.000") as caught:
        version_at(log, 2500)
    assert caught.value.earliest == 2


def test_an_empty_checkpoint_file_makes_no_version_recreatable(log):
    write(log, [1000, 2000, 3000, 4000])
    log.put(f"{1:020d}.checkpoint.parquet", b"")
    log.checkpoint(2, HEAD)
    log.delete(f"{0:020d}.json")
    with pytest.raises(VersionNotFoundError) as caught:
        version_at(log, 2500)
    assert caught.value.earliest == 2


def test_a_snapshot_says_when_it_was_committed(log):
    write(log, [1000, 2000])
    table = Table.for_path(log.engine, log.table)
    assert table.snapshot_as_of_version(log.engine, 0).timestamp == 1000
    assert table.latest_snapshot(log.engine).timestamp == 2000


def test_without_its_commit_file_a_version_is_as_old_as_its_checkpoint(log):
    write(log, [1000, 2000])
    (name,) = log.checkpoint(1, HEAD)
    log.engine.files.set_modification_time(log.path(name), 7000)
    for version in (0, 1):
        log.delete(f"{version:020d}.json")
    assert Table.for_path(log.engine, log.table).latest_snapshot(log.engine).timestamp == 7000


ENABLED = {"delta.enableInCommitTimestamps": "true"}


def write_in_commit(log: LogWriter, stamps: list[int]) -> None:
    """From version 0 on; the files' own times are nonsense."""
    for version, stamp in enumerate(stamps):
        head = (protocol(1, 7, ([], ["inCommitTimestamp"])), metadata({"id": "long"}, (), ENABLED))
        log.commit(in_commit(stamp), *(head if version == 0 else [add(f"{version}")]))
        set_time(log, version, 999_999 - version)


@pytest.mark.parametrize(("timestamp", "version"), [(100, 0), (199, 0), (200, 1), (450, 3)])
def test_in_commit_timestamps_count_and_not_the_files_times(log, timestamp, version):
    write_in_commit(log, [100, 200, 300, 400, 500])
    assert version_at(log, timestamp) == version


def test_a_snapshots_timestamp_is_the_in_commit_one(log):
    write_in_commit(log, [100, 200])
    assert Table.for_path(log.engine, log.table).latest_snapshot(log.engine).timestamp == 200


def test_a_snapshot_at_its_checkpoint_has_the_in_commit_timestamp_without_a_checksum(log):
    write_in_commit(log, [100, 2_000_000_000_000])
    table = Table.for_path(log.engine, log.table)
    table.checkpoint(log.engine)
    assert table.latest_snapshot(log.engine).timestamp == 2_000_000_000_000
    builder = table.create_transaction_builder(log.engine, "test/1", Operation.WRITE)
    builder.build(log.engine).commit(log.engine, [])
    assert table.latest_snapshot(log.engine).timestamp == 2_000_000_000_001


@pytest.mark.parametrize("timestamp", [99, 501])
def test_times_outside_of_the_in_commit_range_are_errors(log, timestamp):
    write_in_commit(log, [100, 200, 300, 400, 500])
    with pytest.raises(VersionNotFoundError):
        version_at(log, timestamp)


def test_below_the_enablement_the_files_times_rule(log):
    log.commit(*HEAD)
    log.commit(add("1"))
    log.commit(
        in_commit(5000),
        metadata(
            {"id": "long"},
            (),
            {
                **ENABLED,
                "delta.inCommitTimestampEnablementVersion": "2",
                "delta.inCommitTimestampEnablementTimestamp": "5000",
            },
        ),
    )
    log.commit(in_commit(6000), add("3"))
    for version, time in enumerate([1000, 2000, 70_000, 80_000]):
        set_time(log, version, time)
    assert [version_at(log, t) for t in (1000, 2000, 4999, 5000, 5999, 6000)] == [0, 1, 1, 2, 2, 3]
    with pytest.raises(VersionNotFoundError):
        version_at(log, 999)
    with pytest.raises(VersionNotFoundError):
        version_at(log, 6001)


def test_a_commit_that_lacks_its_in_commit_timestamp_is_named(log):
    write_in_commit(log, [100, 200, 300])
    log.commit(commit_info(), add("x"))
    with pytest.raises(CorruptTableError, match="inCommitTimestamp") as caught:
        version_at(log, 300)
    assert caught.value.file is not None


def first_at(log: LogWriter, timestamp: int) -> int:
    latest = Table.for_path(log.engine, log.table).latest_snapshot(log.engine)
    return version_at_or_after(log.engine, latest, timestamp)


@pytest.mark.parametrize(
    ("timestamp", "version"), [(0, 0), (5000, 0), (5001, 1), (5002, 2), (5003, 3), (9000, 3)]
)
def test_a_start_is_the_first_commit_at_or_after_a_time(log, timestamp, version):
    write(log, [5000, 5000, 1000, 9000])
    assert first_at(log, timestamp) == version


@pytest.mark.parametrize(("timestamp", "version"), [(0, 0), (100, 0), (101, 1), (300, 2)])
def test_a_start_follows_in_commit_timestamps(log, timestamp, version):
    write_in_commit(log, [100, 200, 300])
    assert first_at(log, timestamp) == version


def test_a_start_after_the_last_commit_is_an_error_that_says_when_that_was(log):
    write_in_commit(log, [100, 200, 300])
    with pytest.raises(VersionNotFoundError, match=r"at 1970-01-01T00:00:00.300\+00:00") as caught:
        first_at(log, 301)
    assert (caught.value.earliest, caught.value.latest) == (0, 2)


def test_the_earliest_versions_time_is_its_in_commit_one(log):
    write_in_commit(log, [100, 200, 300])
    with pytest.raises(VersionNotFoundError, match=r"at 1970-01-01T00:00:00.100\+00:00"):
        version_at(log, 99)
