from __future__ import annotations

import time

import pyarrow as pa
import pytest

import bayou
from bayou.api.table import TableHandle
from bayou.engines.arrow import ArrowEngine
from bayou.engines.memory import MemoryEngine
from bayou.engines.memory.engine import MemoryFiles
from bayou.errors import BayouError, VersionNotFoundError
from bayou.kernel import (
    FileReadReport,
    Operation,
    ScanReport,
    SnapshotReport,
    Table,
    TransactionReport,
)
from bayou.kernel.metrics import LoggingReporter, Report, Stopwatch, measured


class Reports:
    def __init__(self) -> None:
        self.all: list[Report] = []

    def report(self, report: Report) -> None:
        self.all.append(report)

    def of(self, kind: type) -> list:
        return [report for report in self.all if isinstance(report, kind)]


@pytest.fixture
def reports() -> Reports:
    return Reports()


@pytest.fixture
def table(table_path: str) -> str:
    """Four days of two files each; all but the last in a checkpoint."""
    for day in range(4):
        for half in range(2):
            rows = pa.table({"day": [day] * 50, "id": range(half * 50, half * 50 + 50)})
            bayou.write(table_path, rows, partition_by=["day"])
        if day == 2:
            Table(table_path).checkpoint(MemoryEngine())
    return table_path


def test_opening_a_version_is_reported(table: str, reports: Reports) -> None:
    engine = MemoryEngine(metrics_reporter=reports)
    snapshot = Table.for_path(engine, table).latest_snapshot(engine)
    (report,) = reports.all
    assert isinstance(report, SnapshotReport)
    assert (report.table, report.requested_version, report.version) == (table, None, 7)
    assert report.commits == 2
    assert report.commit_bytes == sum(f.size for f in snapshot.log_segment.commits)
    assert report.checkpoint_bytes == snapshot.checkpoint_bytes > 0
    assert report.duration_ms > 0
    assert report.error is None


def test_a_version_that_can_not_be_opened_is_reported(table: str, reports: Reports) -> None:
    engine = MemoryEngine(metrics_reporter=reports)
    with pytest.raises(VersionNotFoundError):
        Table.for_path(engine, table).snapshot_as_of_version(engine, 99)
    (report,) = reports.of(SnapshotReport)
    assert (report.requested_version, report.version) == (99, None)
    assert report.error is not None
    assert report.error.startswith("VersionNotFoundError: ")


def test_every_file_considered_was_pruned_skipped_or_selected(table: str, reports: Reports) -> None:
    engine = MemoryEngine(metrics_reporter=reports)
    snapshot = Table.for_path(engine, table).latest_snapshot(engine)
    scan = snapshot.scan_builder().with_filter("day >= 2 AND id < 10").build()
    found = list(scan.scan_files(engine).flat_map(lambda batch: batch.rows()))
    (report,) = reports.of(ScanReport)
    assert report.files_considered == 8
    assert report.files_pruned_by_partition == 4
    assert report.files_skipped_by_statistics == 2
    assert report.files_selected == len(found) == 2
    assert report.bytes_selected == sum(file.size for file in found)
    assert report.log_bytes == snapshot.checkpoint_bytes
    assert "day" in report.filter
    assert report.is_complete
    assert report.error is None


def test_files_that_commits_removed_are_not_considered(table: str, reports: Reports) -> None:
    bayou.write(table, pa.table({"day": [9], "id": [1]}), mode="overwrite")
    engine = MemoryEngine(metrics_reporter=reports)
    scan = Table.for_path(engine, table).latest_snapshot(engine).scan_builder().build()
    list(scan.scan_files(engine))
    (report,) = reports.of(ScanReport)
    assert (report.files_considered, report.files_selected, report.filter) == (1, 1, None)


def test_a_scan_that_stops_early_is_reported_as_one(table: str, reports: Reports) -> None:
    engine = MemoryEngine(metrics_reporter=reports)
    scan = Table.for_path(engine, table).latest_snapshot(engine).scan_builder().build()
    with scan.scan_files(engine) as batches:
        next(batches)
    (report,) = reports.of(ScanReport)
    assert not report.is_complete
    assert report.files_selected == 2


def test_the_time_of_a_scan_is_without_the_caller_s_own(
    table: str, reports: Reports, monkeypatch
) -> None:
    now = 0

    def clock() -> int:
        nonlocal now
        now += 1_000_000
        return now

    monkeypatch.setattr(time, "perf_counter_ns", clock)
    engine = MemoryEngine(metrics_reporter=reports)
    scan = Table.for_path(engine, table).latest_snapshot(engine).scan_builder().build()
    with scan.scan_files(engine) as batches:
        next(batches)
        now += 50_000_000
        next(batches)
    (report,) = reports.of(ScanReport)
    assert report.duration_ms == 2  # a millisecond from each start to its end


def test_each_slice_is_reported_by_itself(table: str, reports: Reports) -> None:
    engine = MemoryEngine(metrics_reporter=reports)
    scan = Table.for_path(engine, table).latest_snapshot(engine).scan_builder().build()
    for part in scan.slices(engine):
        list(scan.replay_slice(engine, part))
    assert [report.files_selected for report in reports.of(ScanReport)] == [2, 6]


def test_reading_a_file_is_reported_with_the_bytes_of_its_columns(
    table: str, reports: Reports
) -> None:
    engine = ArrowEngine(files=MemoryFiles(), metrics_reporter=reports)
    handle = TableHandle(engine, Table.for_path(engine, table))
    handle.to_arrow(columns=["id"], filter="day = 0")
    data = [r for r in reports.of(FileReadReport) if "_delta_log" not in r.path]
    assert [report.rows for report in data] == [50, 50]
    assert all(0 < report.bytes_read < 1000 for report in data)
    assert all((r.row_groups_read, r.row_groups_skipped) == (1, 0) for r in data)


def test_a_reporter_that_fails_does_not_disturb_the_reader(table: str, caplog) -> None:
    class Failing:
        def report(self, report: Report) -> None:
            raise ValueError("full")

    engine = MemoryEngine(metrics_reporter=Failing())
    assert Table.for_path(engine, table).latest_snapshot(engine).version == 7
    assert "full" in caplog.text


def test_an_error_while_planning_is_reported(table: str, reports: Reports) -> None:
    engine = MemoryEngine(metrics_reporter=reports)
    snapshot = Table.for_path(engine, table).latest_snapshot(engine)
    checkpoint = [f.path for f in snapshot.log_segment.checkpoint.files]
    engine.files.delete_files([*checkpoint, f"{table}/_delta_log/{0:020d}.json"])
    with pytest.raises(BayouError):
        list(snapshot.scan_builder().build().scan_files(engine))
    (report,) = reports.of(ScanReport)
    assert "Error: " in report.error
    assert not report.is_complete


def test_without_a_reporter_no_clock_is_read(table: str, monkeypatch) -> None:
    def read() -> int:
        raise AssertionError("a clock was read")

    monkeypatch.setattr(time, "perf_counter_ns", read)
    engine = ArrowEngine(files=MemoryFiles())
    handle = TableHandle(engine, Table.for_path(engine, table))
    assert handle.to_arrow(filter="day = 1").num_rows == 100
    with pytest.raises(AssertionError, match="clock"):
        Stopwatch()


def test_reports_can_go_to_the_log(caplog) -> None:
    caplog.set_level("INFO", logger="bayou.kernel.metrics")
    with measured(
        LoggingReporter(),
        lambda duration_ms, error: SnapshotReport(
            table="/t", requested_version=None, duration_ms=duration_ms, error=error
        ),
    ):
        pass
    assert "SnapshotReport(table='/t'" in caplog.text


def test_a_commit_is_reported_with_what_it_took(table: str, reports: Reports) -> None:
    engine = MemoryEngine(metrics_reporter=reports)
    snapshot = Table.for_path(engine, table).latest_snapshot(engine)
    builder = snapshot.build_update_table_transaction("test/1", Operation.DELETE)
    first, second = builder.build(engine), builder.build(engine)
    removes = list(first.generate_remove_actions(engine, "day = 1"))
    result = first.commit(engine, removes)
    (report,) = reports.of(TransactionReport)
    assert (report.table, report.operation, report.engine_info) == (table, "DELETE", "test/1")
    assert (report.read_version, report.version, report.error) == (7, 8, None)
    assert result.metrics is not None
    assert report.metrics == result.metrics
    assert (result.metrics.attempts, result.metrics.files_removed) == (1, 2)
    assert result.metrics.bytes_removed == sum(remove.size or 0 for remove in removes)
    assert (result.metrics.files_added, result.metrics.bytes_added) == (0, 0)
    assert result.metrics.duration_ms > 0
    with pytest.raises(BayouError):
        second.commit(engine, list(second.generate_remove_actions(engine, "day = 1")))
    failed = reports.of(TransactionReport)[-1]
    assert failed.version is None
    assert failed.error.startswith("Concurrent")
    assert failed.metrics.attempts == 1


def test_a_commit_that_goes_behind_others_counts_its_attempts(table: str, reports: Reports) -> None:
    engine = MemoryEngine(metrics_reporter=reports)
    snapshot = Table.for_path(engine, table).latest_snapshot(engine)
    builder = snapshot.build_update_table_transaction("test/1", Operation.WRITE)
    builder = builder.with_transaction_id("app", 1)
    mine = builder.build(engine)
    for _ in range(2):
        snapshot.build_update_table_transaction("test/2", Operation.WRITE).build(engine).commit(
            engine, []
        )
    assert mine.commit(engine, []).metrics.attempts == 2
    latest = Table.for_path(engine, table).create_transaction_builder(
        engine, "test/1", Operation.WRITE
    )
    again = latest.with_transaction_id("app", 1).build(engine).commit(engine, [])
    assert again.already_committed
    assert again.metrics.attempts == 0
    assert reports.of(TransactionReport)[-1].version is None
