"""The conflict rules of docs/design/facts.md, one by one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from bayou.errors import (
    CommitConflictError,
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConcurrentDeleteReadError,
    ConcurrentTransactionError,
    MetadataChangedError,
    ProtocolChangedError,
)
from bayou.kernel import FileStatus
from bayou.kernel.expressions.resolution import resolve
from bayou.kernel.expressions.sql.parser import parse_predicate
from bayou.kernel.log.replay import CommitActions
from bayou.kernel.transaction.conflict_checker import ReadSet, WriteSet, check_winner
from bayou.protocol import features
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
from bayou.protocol.schema import LONG, STRING, TIMESTAMP, StructField, StructType

ADD = AddFile(path="new", partition_values={}, size=1, modification_time=0, data_change=True)
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


def test_metadata_that_moves_identity_columns_only_stops_those_that_change_metadata():
    tagged = CommitInfo({"operation": "WRITE", "tags": {"delta.identity.schemaUpdate": "true"}})
    check(APPEND, tagged, METADATA)
    with pytest.raises(MetadataChangedError):
        check((ReadSet(), WriteSet(metadata=True)), tagged, METADATA)


def test_a_protocol_with_features_that_ask_nothing_of_what_is_under_way_stops_nobody():
    ours = (ReadSet(), WriteSet(read_protocol=PROTOCOL))
    check(ours, features.with_features(PROTOCOL, ["deletionVectors", "domainMetadata"]))
    with pytest.raises(ProtocolChangedError, match="rowTracking added"):
        check(ours, features.with_features(PROTOCOL, ["rowTracking"]))
    with pytest.raises(ProtocolChangedError, match="checkConstraints added"):
        check(ours, features.with_features(PROTOCOL, ["checkConstraints"]))


def test_a_protocol_that_lost_a_feature_stops_everyone():
    ours = (
        ReadSet(),
        WriteSet(read_protocol=features.with_features(PROTOCOL, ["deletionVectors"])),
    )
    with pytest.raises(ProtocolChangedError, match="deletionVectors dropped"):
        check(ours, PROTOCOL)


def test_a_new_protocol_stops_those_that_make_the_table_or_change_it_too():
    with pytest.raises(ProtocolChangedError):
        check(APPEND, PROTOCOL)
    with pytest.raises(ProtocolChangedError, match="as this commit does"):
        check((ReadSet(), WriteSet(protocol=True)), PROTOCOL, METADATA)


def test_one_application_has_one_writer():
    ours = (ReadSet(app_ids=frozenset({"a", "b"})), WriteSet())
    check(ours, BLIND, Transaction(app_id="c", version=1))
    with pytest.raises(ConcurrentTransactionError, match="'b'"):
        check(ours, BLIND, Transaction(app_id="b", version=1))


def test_offsets_are_not_committed_behind_a_restore_that_may_remove_their_rows():
    restore = CommitInfo({"operation": "RESTORE", "isBlindAppend": False})
    check(APPEND, restore, REMOVE)
    with pytest.raises(CommitConflictError, match=r"7 \(RESTORE\), which restored the table"):
        check((ReadSet(app_ids=frozenset({"a"})), WriteSet()), restore, REMOVE)


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


SCHEMA = StructType(
    (StructField(name="day", data_type=STRING), StructField(name="n", data_type=LONG))
)


def reader_of(predicate: str, **facts: object) -> ReadSet:
    """A transaction that looked for rows of a table partitioned by day."""
    return ReadSet(
        schema=SCHEMA,
        partition_columns=("day",),
        predicates=(resolve(parse_predicate(predicate), SCHEMA),),
        **facts,
    )


def add_on(day: str | None) -> AddFile:
    return AddFile(
        path=f"day={day}/f", partition_values={"day": day}, size=1, modification_time=0,
        data_change=True, stats='{"numRecords":1,"minValues":{"n":1},"maxValues":{"n":1}}',
    )  # fmt: skip


@pytest.mark.parametrize("predicate", ["day = 'mon'", "day < 'n' AND n = 7", "day <> 'sun'"])
def test_files_added_where_a_transaction_has_looked_are_a_conflict(predicate):
    with pytest.raises(ConcurrentAppendError, match=r"day=mon/f \(partition day=mon\)") as caught:
        check((reader_of(predicate), WriteSet()), SEEING, add_on("sun"), add_on("mon"))
    assert caught.value.rule == "concurrent append"


@pytest.mark.parametrize("predicate", ["day = 'tue'", "day = 'tue' AND n = 1", "day IS NULL"])
def test_files_added_to_other_partitions_are_none(predicate):
    check((reader_of(predicate), WriteSet()), SEEING, add_on("sun"), add_on("mon"))


def test_statistics_do_not_tell_files_apart_as_in_delta_spark():
    with pytest.raises(ConcurrentAppendError):
        check((reader_of("n = 1000"), WriteSet()), SEEING, add_on("mon"))


def test_without_partitions_every_file_added_is_a_conflict():
    ours = (ReadSet(paths=frozenset({"old"})), WriteSet(removed_paths=frozenset({"old"})))
    with pytest.raises(ConcurrentAppendError):
        check(ours, SEEING, ADD)


def test_a_commit_that_only_rearranges_passes_whatever_is_added():
    ours = (
        reader_of("n > 0", paths=frozenset({"old"})),
        WriteSet(removed_paths=frozenset({"old"}), isolation_level="SnapshotIsolation"),
    )
    check(ours, SEEING, add_on("mon"))
    with pytest.raises(ConcurrentDeleteReadError):
        check(ours, SEEING, REMOVE)


def test_a_file_is_the_same_however_its_path_is_spelled():
    ours = (ReadSet(), WriteSet(removed_paths=frozenset({"p=ä/a b"})))
    with pytest.raises(ConcurrentDeleteDeleteError):
        check(ours, SEEING, RemoveFile(path="p=%C3%A4/a%20b"))
    ours = (ReadSet(paths=frozenset({"p=ä/a b"})), WriteSet())
    with pytest.raises(ConcurrentDeleteReadError):
        check(ours, SEEING, RemoveFile(path="p=ä/a%20b"))


@pytest.mark.parametrize("level", ["Serializable", "WriteSerializable", "SnapshotIsolation"])
def test_a_change_of_metadata_reads_the_blind_appends_too(level):
    """The rows might violate a new constraint."""
    ours = (ReadSet(whole_table=True), WriteSet(metadata=True, isolation_level=level))
    with pytest.raises(ConcurrentAppendError):
        check(ours, BLIND, ADD)


def test_a_file_that_was_read_and_removed_is_a_conflict_others_are_none():
    ours = (reader_of("day = 'tue'", paths=frozenset({"old"})), WriteSet())
    check(ours, SEEING, RemoveFile(path="other"))
    with pytest.raises(ConcurrentDeleteReadError, match="removed old"):
        check(ours, SEEING, REMOVE)


def test_the_high_water_mark_of_row_ids_is_taken_over_not_fought_for():
    ours = (ReadSet(), WriteSet(domains=frozenset({"delta.rowTracking"})))
    check(ours, DomainMetadata(domain="delta.rowTracking", configuration="{}", removed=False))


def test_an_overwrite_has_read_what_the_winner_removed():
    with pytest.raises(ConcurrentDeleteReadError, match="removed old"):
        check(OVERWRITE, SEEING, REMOVE)
    with pytest.raises(ConcurrentDeleteReadError):
        check(OVERWRITE, SEEING, RemoveFile(path="any", data_change=False))


def test_a_file_is_removed_once():
    ours = (ReadSet(), WriteSet(removed_paths=frozenset({"old"})))
    check(ours, SEEING, RemoveFile(path="other"))
    with pytest.raises(ConcurrentDeleteDeleteError, match="also removed old"):
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


@pytest.mark.parametrize(
    ("text", "conflict"),
    [
        ("2024-01-01 09:00:00", True),
        ("2024-01-01 00:00:00", True),
        ("2024-01-01T00:00:00.000000Z", True),
        ("2024-01-01T09:00:00.000000Z", False),
        (None, False),
    ],
)
def test_a_partition_time_without_a_zone_may_be_any_that_was_looked_for(text, conflict):
    schema = StructType(
        (StructField(name="at", data_type=TIMESTAMP), StructField(name="id", data_type=LONG))
    )
    looked_for = resolve(parse_predicate("at = TIMESTAMP'2024-01-01 00:00:00Z'"), schema)
    reads = ReadSet(predicates=(looked_for,), schema=schema, partition_columns=("at",))
    added = structs.replace(ADD, partition_values={"at": text})
    if conflict:
        with pytest.raises(ConcurrentAppendError):
            check((reads, WriteSet()), SEEING, added)
    else:
        check((reads, WriteSet()), SEEING, added)
    elsewhere = replace(reads, predicates=(resolve(parse_predicate("id = 1"), schema),))
    with pytest.raises(ConcurrentAppendError):
        check((elsewhere, WriteSet()), SEEING, added)
