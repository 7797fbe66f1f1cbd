"""Transactions: create, append, overwrite, identifiers, retries, and what is due afterwards."""

from __future__ import annotations

import logging

import msgspec
import pyarrow as pa
import pytest

from bayou.errors import (
    ArgumentError,
    CommitConflictError,
    CommitFailedError,
    ConcurrentAppendError,
    ConcurrentDeleteReadError,
    ConcurrentTransactionError,
    ConstraintViolationError,
    MetadataChangedError,
)
from bayou.kernel import (
    Engine,
    Operation,
    Snapshot,
    Table,
    Transaction,
    TransactionBuilder,
    TransactionCommitResult,
    write_data,
)
from bayou.kernel.arrow.types import from_arrow_schema
from bayou.protocol.actions import Protocol
from support.faults import Fault, FaultInjectingEngine
from support.transactions import ROWS, commit_lines


@pytest.fixture
def table(engine, table_path) -> Table:
    return Table.for_path(engine, table_path)


def builder(engine: Engine, table: Table) -> TransactionBuilder:
    return table.create_transaction_builder(engine, "test/1", Operation.WRITE).with_schema(
        from_arrow_schema(ROWS.schema)
    )


def append(engine: Engine, transaction: Transaction) -> TransactionCommitResult:
    state = transaction.transaction_state(engine)
    return transaction.commit(engine, write_data(engine, state, ROWS.to_batches()))


def create(engine: Engine, table: Table, **properties: str) -> None:
    wanted = {f"delta.{k}": v for k, v in properties.items()}
    append(engine, builder(engine, table).with_table_properties(wanted).build(engine))


def overwrite(engine: Engine, transaction: Transaction) -> TransactionCommitResult:
    state = transaction.transaction_state(engine)
    adds = write_data(engine, state, ROWS.to_batches())
    return transaction.commit(engine, [*transaction.generate_remove_actions(engine), *adds])


def live(engine: Engine, snapshot: Snapshot) -> int:
    return sum(b.num_selected for b in snapshot.scan_builder().build().scan_files(engine))


def test_the_first_commit_makes_the_table(engine, table):
    result = append(engine, builder(engine, table).build(engine))
    assert (result.version, result.already_committed) == (0, False)
    found = commit_lines(engine, table, 0)
    assert [next(iter(line)) for line in found] == ["commitInfo", "protocol", "metaData", "add"]
    assert found[0]["commitInfo"]["isBlindAppend"] is True
    assert "readVersion" not in found[0]["commitInfo"]


def test_metrics_of_an_operation_stand_for_those_of_a_write(engine, table):
    create(engine, table)
    transaction = builder(engine, table).build(engine)
    adds = write_data(engine, transaction.transaction_state(engine), ROWS.to_batches())
    transaction.commit(engine, adds, operation_metrics={"numUpdatedRows": 7})
    info = commit_lines(engine, table, 1)[0]["commitInfo"]
    assert info["operationMetrics"] == {"numUpdatedRows": "7"}


def test_a_commit_says_who_did_what_and_how_much(engine, table):
    create(engine, table)
    transaction = (
        builder(engine, table)
        .with_operation_parameters({"mode": "Append", "partitionBy": []})
        .with_user_metadata("nightly")
        .build(engine)
    )
    state = transaction.transaction_state(engine)
    adds = write_data(engine, state, ROWS.to_batches())
    transaction.commit(engine, adds)
    info = commit_lines(engine, table, 1)[0]["commitInfo"]
    assert info["operation"] == "WRITE"
    assert info["operationParameters"] == {"mode": "Append", "partitionBy": "[]"}
    assert info["engineInfo"] == "test/1"
    assert info["userMetadata"] == "nightly"
    assert info["readVersion"] == 0
    assert info["operationMetrics"] == {
        "numFiles": "1",
        "numOutputBytes": str(adds[0].size),
        "numOutputRows": "3",
    }
    assert len(info["txnId"]) == 36


def test_an_append_goes_behind_appends_that_won(engine, table):
    create(engine, table)
    late = builder(engine, table).build(engine)
    for _ in range(3):
        append(engine, builder(engine, table).build(engine))
    assert append(engine, late).version == 4
    assert commit_lines(engine, table, 4)[0]["commitInfo"]["readVersion"] == 3
    assert live(engine, table.latest_snapshot(engine)) == 5


def test_without_retries_a_lost_append_says_so(engine, table):
    create(engine, table)
    late = builder(engine, table).with_max_retries(0).build(engine)
    append(engine, builder(engine, table).build(engine))
    with pytest.raises(CommitFailedError, match=r"all 1 attempts.*version 1") as caught:
        append(engine, late)
    error = caught.value
    assert (error.version, error.attempts) == (2, 1)
    assert (error.winning_version, error.winning_operation) == (1, "WRITE")
    assert "version 1 (WRITE)" in str(error)
    assert table.latest_snapshot(engine).version == 1


def test_a_commit_that_only_rearranges_is_judged_by_snapshot_isolation(engine, table):
    create(engine, table)
    late = table.create_transaction_builder(engine, "test/1", Operation.OPTIMIZE).build(engine)
    state = late.transaction_state(engine)
    adds = [
        msgspec.structs.replace(a, data_change=False)
        for a in write_data(engine, state, ROWS.to_batches())
    ]
    removes = list(late.generate_remove_actions(engine, "n > 0", data_change=False))
    append(engine, builder(engine, table).build(engine))
    assert late.commit(engine, [*removes, *adds]).version == 2
    assert commit_lines(engine, table, 2)[0]["commitInfo"]["isolationLevel"] == "SnapshotIsolation"
    assert live(engine, table.latest_snapshot(engine)) == 2


def test_a_transaction_remembers_the_files_it_has_read(engine, table):
    create(engine, table)
    late = builder(engine, table).build(engine)
    with late.read_files(engine, "n = 2") as files:
        (file,) = files
    overwrite(engine, builder(engine, table).build(engine))
    with pytest.raises(ConcurrentAppendError) as caught:
        append(engine, late)
    assert caught.value.attempts == 1
    assert file.path not in str(caught.value)


def test_what_was_read_elsewhere_is_told_to_the_transaction(engine, table):
    create(engine, table, isolationLevel="SnapshotIsolation")
    late = builder(engine, table).build(engine)
    (file,) = table.latest_snapshot(engine).scan_builder().build().scan_files(engine)
    late.record_read("n = 2", [f.path for f in file.rows()])
    overwrite(engine, builder(engine, table).build(engine))
    with pytest.raises(ConcurrentDeleteReadError):
        append(engine, late)


def test_a_commit_takes_actions_of_files_only(engine, table):
    create(engine, table)
    transaction = builder(engine, table).build(engine)
    with pytest.raises(ArgumentError, match="Protocol isn't a file action"):
        transaction.commit(engine, [Protocol(min_reader_version=1, min_writer_version=2)])


def test_an_overwrite_replaces_every_live_file(engine, table):
    create(engine, table)
    append(engine, builder(engine, table).build(engine))
    overwrite(engine, builder(engine, table).build(engine))
    found = commit_lines(engine, table, 2)
    info = found[0]["commitInfo"]
    assert info["isBlindAppend"] is False
    assert info["operationMetrics"]["numRemovedFiles"] == "2"
    removes = [line["remove"] for line in found if "remove" in line]
    assert {r["path"] for r in removes} == {
        commit_lines(engine, table, v)[-1]["add"]["path"] for v in (0, 1)
    }
    assert all(r["dataChange"] and r["extendedFileMetadata"] and r["size"] for r in removes)
    assert live(engine, table.latest_snapshot(engine)) == 1
    assert live(engine, table.snapshot_as_of_version(engine, 1)) == 2


def test_a_remove_carries_the_very_path_of_its_add(engine, table):
    rows = pa.table({"n": [1], "p": ["50% a/b"]})
    start = table.create_transaction_builder(engine, "test/1", Operation.WRITE)
    transaction = (
        start.with_schema(from_arrow_schema(rows.schema))
        .with_partition_columns(["p"])
        .build(engine)
    )
    (add,) = write_data(engine, transaction.transaction_state(engine), rows.to_batches())
    transaction.commit(engine, [add])
    (remove,) = start.build(engine).generate_remove_actions(engine)
    assert remove.path == add.path
    assert remove.partition_values == {"p": "50% a/b"}
    assert remove.stats == add.stats


def test_an_overwrite_does_not_go_behind_an_overwrite(engine, table):
    create(engine, table)
    late = builder(engine, table).build(engine)
    overwrite(engine, builder(engine, table).build(engine))
    with pytest.raises(CommitConflictError, match="conflicts with version 1") as caught:
        overwrite(engine, late)
    assert caught.value.winning_version == 1
    assert table.latest_snapshot(engine).version == 1


def test_an_overwrite_does_not_go_behind_an_append_under_serializable(engine, table):
    create(engine, table, isolationLevel="Serializable")
    late = builder(engine, table).build(engine)
    append(engine, builder(engine, table).build(engine))
    with pytest.raises(ConcurrentAppendError):
        overwrite(engine, late)


def test_an_append_goes_behind_an_overwrite(engine, table):
    create(engine, table)
    late = builder(engine, table).build(engine)
    overwrite(engine, builder(engine, table).build(engine))
    assert append(engine, late).version == 2
    assert live(engine, table.latest_snapshot(engine)) == 2


def test_an_append_does_not_go_behind_another_schema(engine, table):
    create(engine, table)
    late = builder(engine, table).build(engine)
    wider = from_arrow_schema(ROWS.append_column("m", pa.array([1, 2, 3])).schema)
    evolution = builder(engine, table).with_schema(wider).with_schema_evolution().build(engine)
    assert evolution.commit(engine, []).version == 1
    with pytest.raises(MetadataChangedError):
        append(engine, late)
    assert table.latest_snapshot(engine).schema.names == ("n", "m")


def test_of_two_that_make_a_table_one_does(engine, table):
    first, second = builder(engine, table).build(engine), builder(engine, table).build(engine)
    append(engine, first)
    with pytest.raises(CommitConflictError):
        append(engine, second)
    assert table.latest_snapshot(engine).version == 0


def test_a_transaction_identifier_is_recorded_once(engine, table):
    create(engine, table)
    first = builder(engine, table).with_transaction_id("app", 5).build(engine)
    assert append(engine, first).version == 1
    assert table.latest_snapshot(engine).transactions == {"app": 5}
    for version in (5, 4):
        again = builder(engine, table).with_transaction_id("app", version).build(engine)
        result = again.commit(engine, [])
        assert (result.version, result.already_committed) == (1, True)
    assert table.latest_snapshot(engine).version == 1
    later = builder(engine, table).with_transaction_id("app", 6).build(engine)
    assert append(engine, later).version == 2


def test_a_commit_may_carry_several_identifiers_and_no_file(engine, table):
    create(engine, table)
    both = builder(engine, table).with_transaction_id("a", 1).with_transaction_id("b", 2)
    assert both.build(engine).commit(engine, []).version == 1
    assert table.latest_snapshot(engine).transactions == {"a": 1, "b": 2}
    assert both.build(engine).commit(engine, []).already_committed


def test_identifiers_that_are_known_late_are_committed_with_the_files(engine, table):
    create(engine, table)
    early = builder(engine, table).with_transaction_id("a", 1).build(engine)
    late = early.with_transaction_ids({"b": 2})
    assert append(engine, late).version == 1
    assert table.latest_snapshot(engine).transactions == {"a": 1, "b": 2}
    with pytest.raises(ConcurrentTransactionError):
        append(engine, early)
    rival = builder(engine, table).build(engine).with_transaction_ids({"b": 3})
    append(engine, builder(engine, table).with_transaction_id("b", 3).build(engine))
    with pytest.raises(ConcurrentTransactionError):
        append(engine, rival)


def test_identifiers_of_which_the_table_has_some_are_refused(engine, table):
    create(engine, table)
    append(engine, builder(engine, table).with_transaction_id("a", 1).build(engine))
    both = builder(engine, table).with_transaction_id("a", 1).with_transaction_id("b", 1)
    with pytest.raises(ConcurrentTransactionError, match="application id 'a' with version 1"):
        both.build(engine).commit(engine, [])
    assert table.latest_snapshot(engine).version == 1


def test_two_writers_of_one_application_do_not_both_commit(engine, table):
    create(engine, table)
    one = builder(engine, table).with_transaction_id("app", 1).build(engine)
    two = builder(engine, table).with_transaction_id("app", 1).build(engine)
    append(engine, one)
    with pytest.raises(ConcurrentTransactionError, match="'app'"):
        append(engine, two)
    assert live(engine, table.latest_snapshot(engine)) == 2


def test_an_append_only_table_keeps_its_rows(engine, table):
    create(engine, table, appendOnly="true")
    append(engine, builder(engine, table).build(engine))
    with pytest.raises(ConstraintViolationError, match=r"delta\.appendOnly"):
        overwrite(engine, builder(engine, table).build(engine))
    assert table.latest_snapshot(engine).version == 1


def test_a_checkpoint_is_due_every_so_many_commits(engine, table):
    create(engine, table, checkpointInterval="3")
    due = [append(engine, builder(engine, table).build(engine)) for _ in range(6)]
    assert [r.version for r in due if r.is_ready_for_checkpoint] == [3, 6]
    due[2].run_post_commit_hooks(engine)
    segment = table.latest_snapshot(engine).log_segment
    assert segment.checkpoint is not None
    assert segment.checkpoint.version == 3


def test_a_checkpoint_that_fails_leaves_the_commit_standing(engine, table, caplog):
    create(engine, table, checkpointInterval="1")
    result = append(engine, builder(engine, table).build(engine))
    faulty = FaultInjectingEngine(engine, Fault(operation="write_parquet_file_atomically"))
    with caplog.at_level(logging.WARNING):
        result.run_post_commit_hooks(faulty)
    assert "The commit is valid" in caplog.text
    assert table.latest_snapshot(engine).version == 1
    assert table.latest_snapshot(engine).log_segment.checkpoint is None


def test_a_remove_that_changes_no_data_is_allowed_where_rows_must_stay(engine, table):
    create(engine, table, appendOnly="true")
    transaction = builder(engine, table).build(engine)
    removes = [
        msgspec.structs.replace(r, data_change=False)
        for r in transaction.generate_remove_actions(engine)
    ]
    assert transaction.commit(engine, removes).version == 1
