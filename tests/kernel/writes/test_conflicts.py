"""FIELD-NOTES 2, the conflict rules of a commit, one by one."""

from __future__ import annotations

import pytest

from bayou.errors import (
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConcurrentDeleteReadError,
    ConcurrentTransactionError,
    MetadataChangedError,
    ProtocolChangedError,
)
from bayou.kernel import FileStatus
from bayou.kernel.replay import CommitActions
from bayou.kernel.writes.conflicts import ReadSet, WriteSet, check_winner
from bayou.protocol.actions import (
    Action,
    AddFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    Transaction,
)

ADD = AddFile(path="new", partition_values={}, size=1, modification_time=0, data_change=True)
COMPACTED = AddFile(path="new", partition_values={}, size=1, modification_time=0, data_change=False)
REMOVE = RemoveFile(path="old")
METADATA = Metadata(id="x", schema_string="{}")
PROTOCOL = Protocol(min_reader_version=1, min_writer_version=2)
BLIND = CommitInfo({"operation": "WRITE", "isBlindAppend": True})
SEEING = CommitInfo({"operation": "MERGE", "isBlindAppend": False})

APPEND = (ReadSet(), WriteSet())
OVERWRITE = (ReadSet(whole_table=True), WriteSet(removed_paths=frozenset({"old", "other"})))


def check(ours: tuple[ReadSet, WriteSet], *winner: Action) -> None:
    file = FileStatus(path="x", size=0, modification_time=0)
    check_winner("/lake/t", CommitActions(version=7, file=file, actions=winner), *ours, 3)


@pytest.mark.parametrize(
    "winner",
    [
        (BLIND, ADD),
        (SEEING, ADD, REMOVE),
        (ADD,),
        (SEEING, REMOVE),
        (SEEING,),
        (Transaction(app_id="a", version=1),),
    ],
)
def test_a_blind_append_goes_behind_whatever_changes_files_only(winner):
    check(APPEND, *winner)


def test_new_metadata_stops_everyone():
    with pytest.raises(MetadataChangedError, match="metadata"):
        check(APPEND, METADATA)


def test_a_new_protocol_stops_everyone():
    with pytest.raises(ProtocolChangedError):
        check(APPEND, PROTOCOL)
    with pytest.raises(ProtocolChangedError, match="as this commit does"):
        check((ReadSet(), WriteSet(protocol=True)), PROTOCOL, METADATA)


def test_one_application_has_one_writer():
    ours = (ReadSet(app_ids=frozenset({"a", "b"})), WriteSet())
    check(ours, BLIND, Transaction(app_id="c", version=1))
    with pytest.raises(ConcurrentTransactionError, match="'b'"):
        check(ours, BLIND, Transaction(app_id="b", version=1))


def test_one_domain_has_one_writer():
    ours = (ReadSet(), WriteSet(domains=frozenset({"d"})))
    check(ours, DomainMetadata(domain="e", configuration="", removed=False))
    with pytest.raises(ConcurrentTransactionError, match="domain 'd'"):
        check(ours, DomainMetadata(domain="d", configuration="", removed=False))


def test_an_overwrite_has_not_read_what_the_winner_added():
    with pytest.raises(ConcurrentAppendError, match="added new"):
        check(OVERWRITE, SEEING, ADD)


@pytest.mark.parametrize(
    ("level", "conflict"), [("Serializable", True), ("WriteSerializable", False)]
)
def test_a_blind_append_that_won_counts_under_serializable_only(level, conflict):
    ours = (ReadSet(whole_table=True), WriteSet(isolation_level=level))
    if conflict:
        with pytest.raises(ConcurrentAppendError):
            check(ours, BLIND, ADD)
    else:
        check(ours, BLIND, ADD)


def test_an_overwrite_has_read_what_the_winner_removed():
    with pytest.raises(ConcurrentDeleteReadError, match="removed old"):
        check(OVERWRITE, SEEING, REMOVE)
    with pytest.raises(ConcurrentDeleteReadError):
        check(OVERWRITE, SEEING, COMPACTED, RemoveFile(path="any", data_change=False))


def test_a_file_is_removed_once():
    ours = (ReadSet(), WriteSet(removed_paths=frozenset({"old"})))
    check(ours, SEEING, RemoveFile(path="other"))
    with pytest.raises(ConcurrentDeleteDeleteError, match="removed old too"):
        check(ours, SEEING, REMOVE)


def test_an_error_names_the_winner_and_what_to_do():
    with pytest.raises(ConcurrentAppendError, match="read the table again") as caught:
        check(OVERWRITE, SEEING, ADD)
    error = caught.value
    assert (error.table, error.winning_version, error.winning_operation, error.attempts) == (
        "/lake/t",
        7,
        "MERGE",
        3,
    )
    assert "version 7 (MERGE)" in str(error)
