"""PROTOCOL.md, Creation of New Log Entries; docs/design/facts.md, Conflict rules."""

from __future__ import annotations

import time
from collections import Counter

import pyarrow as pa
import pytest

from bayou.errors import CommitConflictError, CommitFailedError, CorruptTableError
from bayou.kernel import Engine, Operation, Table, Transaction, write_data
from bayou.kernel.arrow.types import from_arrow_schema
from bayou.kernel.maintenance.log_cleanup import clean_up_log
from bayou.kernel.transaction import commit
from support.faults import Fault, FaultInjectingEngine

ROWS = pa.table({"n": [1]})
PUT = "write_json_file_atomically"


@pytest.fixture
def table(engine, table_path) -> Table:
    found = Table.for_path(engine, table_path)
    begin(engine, found).commit(engine, [])
    return found


def begin(engine: Engine, table: Table) -> Transaction:
    builder = table.create_transaction_builder(engine, "test/1", Operation.WRITE)
    return builder.with_schema(from_arrow_schema(ROWS.schema)).build(engine)


def append(engine: Engine, transaction: Transaction) -> int:
    state = transaction.transaction_state(engine)
    return transaction.commit(engine, write_data(engine, state, ROWS.to_batches())).version


def live(engine: Engine, table: Table) -> Counter[str]:
    scan = table.latest_snapshot(engine).scan_builder().build()
    return Counter(f.path for batch in scan.scan_files(engine) for f in batch.rows())


@pytest.mark.parametrize("after", [False, True], ids=["didn't land", "landed"])
@pytest.mark.parametrize("times", [1, 3])
def test_a_put_whose_outcome_is_unknown_commits_exactly_once(engine, table, after, times):
    faulty = FaultInjectingEngine(engine, Fault(operation=PUT, times=times, after=after))
    assert append(faulty, begin(faulty, table)) == 1
    assert table.latest_snapshot(engine).version == 1
    assert list(live(engine, table).values()) == [1]
    assert append(engine, begin(engine, table)) == 2


@pytest.mark.parametrize("after", [False, True], ids=["didn't land", "landed"])
def test_a_table_is_made_once_though_the_put_failed(engine, table_path, after):
    table = Table.for_path(engine, table_path)
    faulty = FaultInjectingEngine(engine, Fault(operation=PUT, after=after))
    assert append(faulty, begin(faulty, table)) == 0
    assert list(live(engine, table).values()) == [1]


def test_a_writer_whose_place_in_the_log_was_cleaned_up_is_told(engine, table, monkeypatch):
    late = begin(engine, table)
    for _ in range(3):
        append(engine, begin(engine, table))
    table.checkpoint(engine)
    in_days = time.time_ns() // 1_000_000 + 3 * 24 * 3_600_000
    assert clean_up_log(engine, table.path, retention_ms=0, now=in_days).deleted
    monkeypatch.setattr(commit, "_GAP_CHECK_SECONDS", 0.0)
    with pytest.raises(CommitConflictError, match="deleted the commits up to version 2"):
        append(engine, late)
    assert table.latest_snapshot(engine).version == 3
    assert append(engine, begin(engine, table)) == 4


def clean_up_all_but_the_latest(engine: Engine, table: Table) -> None:
    table.checkpoint(engine)
    in_days = time.time_ns() // 1_000_000 + 3 * 24 * 3_600_000
    assert clean_up_log(engine, table.path, retention_ms=0, now=in_days).deleted


def test_a_writer_on_a_machine_that_was_suspended_does_not_commit_where_nobody_reads(
    engine, table, monkeypatch
):
    late = begin(engine, table)
    for _ in range(3):
        append(engine, begin(engine, table))
    clean_up_all_but_the_latest(engine, table)
    # The monotonic clock doesn't move while a machine sleeps; the other one does.
    woken_up = time.time() + 40 * 24 * 3600
    monkeypatch.setattr("bayou.kernel.elapsed_time.time.time", lambda: woken_up)
    with pytest.raises(CommitConflictError, match="960 hours ago"):
        append(engine, late)
    assert table.latest_snapshot(engine).version == 3


def test_a_writer_of_a_minute_does_not_commit_behind_a_cleanup_with_a_clock_that_is_ahead(
    engine, table, monkeypatch
):
    late = begin(engine, table)
    for _ in range(3):
        append(engine, begin(engine, table))
    clean_up_all_but_the_latest(engine, table)
    in_a_minute = time.monotonic() + 60
    monkeypatch.setattr("bayou.kernel.elapsed_time.time.monotonic", lambda: in_a_minute)
    with pytest.raises(CommitConflictError, match="60 seconds ago"):
        append(engine, late)


def test_a_creator_whose_version_0_was_cleaned_up_does_not_create_the_table_again(
    engine, table_path, monkeypatch
):
    table = Table.for_path(engine, table_path)
    late = begin(engine, table)
    for _ in range(4):
        append(engine, begin(engine, table))
    clean_up_all_but_the_latest(engine, table)
    in_an_hour = time.monotonic() + 3600
    monkeypatch.setattr("bayou.kernel.elapsed_time.time.monotonic", lambda: in_an_hour)
    with pytest.raises(CommitConflictError, match="deleted the commits up to version 2"):
        append(engine, late)
    assert table.latest_snapshot(engine).version == 3


@pytest.mark.parametrize("later", [0, 2, 4], ids=["shorter", "as long", "longer"])
def test_a_writer_does_not_commit_to_a_log_that_was_replaced_meanwhile(
    engine, table, monkeypatch, later
):
    """Its commit would leave a gap, or add files to another table."""
    append(engine, begin(engine, table))
    append(engine, begin(engine, table))
    late = begin(engine, table)
    with engine.files.list_from(f"{table.path}/_delta_log/") as files:
        engine.files.delete_files([file.path for file in files if "0000.json" not in file.path])
    for _ in range(later):
        append(engine, begin(engine, table))
    before = live(engine, table)
    monkeypatch.setattr(commit, "_GAP_CHECK_SECONDS", 0.0)
    with pytest.raises(CommitConflictError, match="the log no longer has this commit"):
        append(engine, late)
    assert table.latest_snapshot(engine).version == later
    assert live(engine, table) == before


def test_a_writer_that_took_long_still_goes_behind_others(engine, table, monkeypatch):
    late = begin(engine, table)
    append(engine, begin(engine, table))
    monkeypatch.setattr(commit, "_GAP_CHECK_SECONDS", 0.0)
    assert append(engine, late) == 2


def test_a_put_that_fails_while_another_writer_wins_goes_behind_it(engine, table):
    late = begin(engine, table)
    append(engine, begin(engine, table))
    faulty = FaultInjectingEngine(engine, Fault(operation=PUT, times=2))
    assert append(faulty, late) == 2
    assert list(live(engine, table).values()) == [1, 1]


def test_a_store_that_keeps_failing_is_given_up_on_and_nothing_is_changed(engine, table):
    faulty = FaultInjectingEngine(engine, Fault(operation=PUT, times=100))
    with pytest.raises(CommitFailedError, match=r"isn't in the log\. Try again") as caught:
        append(faulty, begin(faulty, table))
    assert caught.value.version == 1
    assert table.latest_snapshot(engine).version == 0


def test_an_outcome_that_cannot_be_learned_is_said_to_be_unknown(engine, table):
    transaction = begin(engine, table)
    faulty = FaultInjectingEngine(
        engine,
        Fault(operation=PUT, after=True),
        Fault(operation="read_files", path=f"{1:020d}.json", times=100),
    )
    with pytest.raises(CommitFailedError, match="unknown whether the commit was written"):
        append(faulty, transaction)
    assert table.latest_snapshot(engine).version == 1


def test_a_store_that_contradicts_itself_is_an_error_and_no_endless_loop(engine, table):
    class Contradicting(FaultInjectingEngine):
        """Says that each file is there already, and shows none."""

        @property
        def json(self):
            return _AlwaysThere()

    with pytest.raises(CommitFailedError, match="gives contradictory answers"):
        begin(engine, table).commit(Contradicting(engine), [])


class _AlwaysThere:
    def write_json_file_atomically(self, path, lines, *, overwrite=False):
        return False


def test_a_winner_that_cannot_be_read_is_named(engine, table):
    transaction = begin(engine, table)
    path = f"{table.path}/_delta_log/{1:020d}.json"
    engine.files.put(path, b"{oops")
    with pytest.raises(CorruptTableError, match="line 1") as caught:
        append(engine, transaction)
    assert caught.value.file == path
