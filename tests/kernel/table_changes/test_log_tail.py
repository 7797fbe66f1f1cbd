import pytest

from bayou.engines.arrow import ArrowEngine
from bayou.errors import CorruptTableError, VersionNotFoundError
from bayou.kernel.table_changes.commit_range import load_commit_range
from bayou.kernel.table_changes.streamed_commits import commits_from
from support.log_writer import LogWriter, add, metadata, protocol
from support.torn_listing import TornListing


@pytest.fixture
def table(log: LogWriter) -> LogWriter:
    """Five versions."""
    log.commit(protocol(), metadata({"id": "long"}))
    for name in "abcd":
        log.commit(add(name))
    return log


def versions(log: LogWriter, start: int, **options: bool) -> list[tuple[int, int]]:
    found = commits_from(log.engine, log.table, start, **options)
    return [(r.start_version, r.end_version) for r in found]


def test_all_commits_from_a_version_on_are_one_range(table):
    assert versions(table, 2) == [(2, 4)]


def test_a_version_that_is_still_to_come_gives_none(table):
    assert versions(table, 5) == []


def test_a_version_that_was_cleaned_up_is_an_error_that_names_the_earliest(table):
    table.delete(f"{0:020}.json")
    table.delete(f"{1:020}.json")
    with pytest.raises(VersionNotFoundError) as caught:
        versions(table, 1)
    assert caught.value.earliest == 2
    assert versions(table, 1, allow_gaps=True) == [(2, 4)]


def test_a_commit_missing_in_between_is_an_error_or_a_gap(table):
    table.delete(f"{2:020}.json")
    with pytest.raises(CorruptTableError, match="commit 2 is missing"):
        versions(table, 1)
    assert versions(table, 1, allow_gaps=True) == [(1, 1), (3, 4)]


@pytest.mark.parametrize("missed", [2, 3])
@pytest.mark.parametrize("allow_gaps", [False, True])
def test_a_commit_that_one_listing_missed_is_found_by_the_next(tmp_path, missed, allow_gaps):
    """With gaps allowed, a stream would skip its rows."""
    log = LogWriter(ArrowEngine(files=TornListing(missed)), str(tmp_path))
    log.commit(protocol(), metadata({"id": "long"}))
    for name in "abcd":
        log.commit(add(name))
    assert versions(log, 2, allow_gaps=allow_gaps) == [(2, 4)]


@pytest.mark.parametrize("missed", [2, 3, 4])
def test_a_range_whose_listing_missed_a_commit_is_listed_again(tmp_path, missed):
    log = LogWriter(ArrowEngine(files=TornListing(missed)), str(tmp_path))
    log.commit(protocol(), metadata({"id": "long"}))
    for name in "abcd":
        log.commit(add(name))
    found = load_commit_range(log.engine, log.table, 2, 4)
    assert (found.start_version, found.end_version, len(found.files)) == (2, 4, 3)
