"""What maintenance does to a table."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest

import bayou
from bayou.errors import ConfigurationError, StorageError
from bayou.ingest.config import load_configuration
from bayou.ingest.maintenance import check_retention, maintain_table, table_commands
from bayou.ingest.maintenance.cold_partitions import partitions_with_small_files


@pytest.fixture
def handle():
    path = f"memory://maintenance/{uuid.uuid4()}"
    for day in (1, 1, 2, 2, 2, None, None):
        rows = pa.table({"id": [1], "day": pa.array([day], pa.int64())})
        bayou.write(path, rows, partition_by=["day"])
    return bayou.table(path)


def files(handle):
    return sorted(str(v) for v in handle.snapshot().files()["partition_values"].to_pylist())


def test_small_files_are_packed_partition_by_partition(handle):
    report = maintain_table("t", handle, "optimize")
    assert (report.result, report.files_removed, report.files_added) == ("done", 7, 3)
    assert report.version == 6 + 3
    assert len(files(handle)) == 3
    assert handle.history(1)[0]["operation"] == "OPTIMIZE"
    again = maintain_table("t", handle, "optimize")
    assert (again.result, again.version) == ("nothing", None)


def test_a_partition_that_is_written_waits(handle):
    hot = max(p.newest for p in partitions_with_small_files(handle.snapshot(), small=1 << 20))
    report = maintain_table("t", handle, "optimize", cold_before=0)
    assert report.result == "nothing"
    report = maintain_table("t", handle, "compaction", written_since=hot + 1)
    assert report.result == "nothing"
    report = maintain_table("t", handle, "compaction", cold_before=hot + 1)
    assert report.files_added == 3


def test_what_is_left_when_it_is_stopped_waits_for_the_next_time(handle):
    answers = iter([False, True])
    report = maintain_table("t", handle, "optimize", stopped=lambda: next(answers))
    assert (report.files_added, len(files(handle))) == (1, 6 if report.files_removed == 2 else 5)


def test_a_vacuum_that_is_not_allowed_fails_in_its_report(handle):
    report = maintain_table("t", handle, "vacuum", retention_hours=1)
    assert report.result == "failed"
    assert "is shorter than the table" in report.error.message
    assert maintain_table("t", handle, "vacuum", retention_hours=168).result == "nothing"


def test_a_retention_under_the_tables_own_is_refused_before_a_run(tmp_path):
    def configured(hours):
        (tmp_path / "p.yaml").write_text(
            f"""
connector:
  topics:
    events:
      kafka-topic: events
      destination:
        table-path: events
        delta-config: {{enable-vacuum: true, vacuum-retention-hours: {hours}}}
"""
        )
        return load_configuration(tmp_path / "p.yaml", environment={})

    check_retention(configured(168))
    with pytest.raises(ConfigurationError, match="100 hours are shorter than the retention of"):
        check_retention(configured(100))
    kept = {"delta.deletedFileRetentionDuration": "interval 2 days"}
    bayou.write(str(tmp_path / "events"), pa.table({"a": [1]}), configuration=kept)
    check_retention(configured(100))
    with pytest.raises(ConfigurationError, match="shorter than the retention of .*, 48 hours"):
        check_retention(configured(24))


def test_a_step_that_fails_leaves_what_others_did_in_the_report(tmp_path, monkeypatch):
    path = str(tmp_path / "t")
    for number in range(6):
        rows = pa.table({"id": [number], "day": [number % 2]})
        bayou.write(path, rows, partition_by=["day"])
    optimize, steps = table_commands._InProcess.optimize, []

    def second_refused(handle, *given, **named):
        steps.append(given)
        if len(steps) == 2:
            raise StorageError("no", path=path)
        return optimize(handle, *given, **named)

    monkeypatch.setattr(table_commands._InProcess, "optimize", second_refused)
    report = maintain_table("t", bayou.table(path), "optimize")
    assert (report.result, report.error.message, report.left) == ("failed", "no", 1)
    assert (report.version, report.files_removed, report.files_added) == (6, 3, 1)
