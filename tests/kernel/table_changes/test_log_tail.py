import pytest

from bayou.errors import CorruptTableError, VersionNotFoundError
from bayou.kernel.table_changes.commit_files import commits_from
from support.log_writer import LogWriter, add, metadata, protocol


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
