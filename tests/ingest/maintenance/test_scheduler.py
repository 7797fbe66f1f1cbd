"""When a topic's table is due for what."""

from __future__ import annotations

import datetime as dt
import threading
import time

import pyarrow as pa
import pytest

import bayou
from bayou.api import TableHandle
from bayou.errors import StorageError
from bayou.ingest.config import load_configuration
from bayou.ingest.events import BatchReport
from bayou.ingest.maintenance import LastRuns, TopicMaintenance, table_commands
from bayou.ingest.maintenance import scheduler as upkeep_module
from bayou.ingest.maintenance.cold_partitions import partitions_with_small_files


class Listener:
    """Remembers what was done."""

    def __init__(self):
        self.done = []

    def maintenance_finished(self, event):
        self.done.append(event)


@pytest.fixture
def made(tmp_path):
    def make(delta, *, every=None):
        (tmp_path / "p.yaml").write_text(
            "connector: {topics: {t: {kafka-topic: t, destination: {table-path: t, delta-config: "
            f"{delta}}}}}}}}}"
        )
        (topic,) = load_configuration(tmp_path / "p.yaml", environment={}).topics
        listener = Listener()
        upkeep = TopicMaintenance(
            topic,
            {},
            listener,
            batches=threading.Lock(),
            interval=every,
            last_runs=LastRuns(tmp_path, "t"),
        )
        return upkeep, listener, topic.table_path

    return make


def write(path, files=3):
    for number in range(files):
        bayou.write(path, pa.table({"id": [number]}))


def test_a_table_is_packed_after_so_many_records(made):
    upkeep, listener, path = made("{enable-optimize: true, optimize-interval: 10}")
    write(path)
    upkeep.count_batch(BatchReport(topic="t", rows=9), is_behind=False)
    upkeep.complete()
    assert listener.done == []
    upkeep.count_batch(BatchReport(topic="t", rows=1), is_behind=False)
    upkeep.complete()
    assert [(d.task, d.result) for d in listener.done] == [("optimize", "done")]
    upkeep.complete()
    assert len(listener.done) == 1


def test_while_records_wait_nothing_is_done_until_it_is_overdue(made):
    upkeep, listener, path = made("{enable-compaction: true, compaction-interval: 10}")
    write(path)
    upkeep.count_batch(BatchReport(topic="t", rows=199), is_behind=True)
    assert upkeep._due(by_clock=False) == []
    upkeep.count_batch(BatchReport(topic="t", rows=1), is_behind=True)
    assert upkeep._due(by_clock=False) == ["compaction"]
    upkeep.complete()
    assert [d.task for d in listener.done] == ["compaction"]


def test_the_clock_looks_after_what_was_written(made):
    upkeep, listener, path = made("{enable-optimize: true, enable-vacuum: true}", every=0.0)
    write(path)
    upkeep.count_batch(BatchReport(topic="t", rows=3), is_behind=False)
    upkeep.complete()
    assert [d.task for d in listener.done] == ["optimize"]  # a new table needs no vacuum yet


def test_a_failure_is_told_and_stops_nothing(made):
    upkeep, listener, _ = made("{enable-optimize: true, optimize-interval: 1}")
    upkeep.count_batch(BatchReport(topic="t", rows=1), is_behind=False)
    upkeep.complete()
    (failed,) = listener.done
    assert (failed.result, failed.task) == ("failed", "optimize")
    assert failed.error is not None


def test_what_failed_is_tried_again_by_the_clock_though_no_record_comes(made):
    upkeep, listener, path = made("{enable-optimize: true}", every=0.0)
    upkeep.count_batch(BatchReport(topic="t", rows=3), is_behind=False)
    done(upkeep)  # there is no table
    write(path)
    upkeep.complete()
    upkeep.complete()
    assert [d.result for d in listener.done] == ["failed", "done"]


def test_a_vacuum_that_failed_is_tried_again_at_the_next_look(made, monkeypatch):
    upkeep, listener, path = made("{enable-vacuum: true}", every=0.0)
    write(path)
    upkeep._last_vacuum = 0.0  # a long time ago

    def refuse(*_):
        raise StorageError("no", path=path)

    with monkeypatch.context() as patched:
        patched.setattr(TableHandle, "vacuum", refuse)
        upkeep.complete()
    upkeep.complete()
    upkeep.complete()  # a day hasn't gone by
    assert [(d.task, d.result) for d in listener.done] == [
        ("vacuum", "failed"),
        ("vacuum", "nothing"),
    ]


def test_what_an_earlier_process_failed_at_is_tried_again_and_told_when_it_succeeds(
    made, monkeypatch
):
    settings = "{enable-optimize: true, enable-vacuum: true}"
    upkeep, _, path = made(settings, every=0.0)
    write(path)
    upkeep._last_vacuum = 0.0
    upkeep.count_batch(BatchReport(topic="t", rows=3), is_behind=False)

    def refuse(*_):
        raise StorageError("no", path=path)

    with monkeypatch.context() as patched:
        patched.setattr(TableHandle, "vacuum", refuse)
        patched.setattr(table_commands._InProcess, "optimize", refuse)
        upkeep.complete()
    upkeep, listener, _ = made(settings, every=0.0)  # another process, no new record
    upkeep.complete()
    upkeep.complete()
    told = [(d.task, d.result) for d in listener.done]
    assert told == [("optimize", "done"), ("vacuum", "nothing")]


@pytest.mark.parametrize("status", [None, "FAILED", "COMPLETED"])
def test_a_vacuum_that_did_not_end_well_is_none_after_a_start(made, status, monkeypatch):
    upkeep, listener, path = made("{enable-vacuum: true}", every=0.0)
    write(path)
    now = round(time.time() * 1000)
    end = {
        "operation": "VACUUM END",
        "operationParameters": {"status": status},
        "timestamp": now,
    }
    commits = [
        *([] if status is None else [end]),
        {"operation": "VACUUM START", "timestamp": now},
        {"operation": "WRITE", "timestamp": now - 30 * 3_600_000},
    ]
    monkeypatch.setattr(TableHandle, "history", lambda *_: commits)
    upkeep.complete()
    assert len(listener.done) == (status != "COMPLETED")


def test_a_vacuum_in_the_future_keeps_none_from_being_done(made, monkeypatch):
    upkeep, listener, path = made("{enable-vacuum: true}", every=0.0)
    write(path)
    later = {
        "operation": "VACUUM END",
        "operationParameters": {"status": "COMPLETED"},
        "timestamp": round(time.time() * 1000) + 10**10,
    }
    monkeypatch.setattr(TableHandle, "history", lambda *_: [later])
    upkeep.complete()
    upkeep.complete()
    assert [d.task for d in listener.done] == ["vacuum"]


def test_what_was_left_while_it_was_written_is_packed_in_the_end(made):
    upkeep, listener, path = made("{enable-optimize: true, optimize-interval: 1}")
    write(path)
    upkeep.count_batch(BatchReport(topic="t", rows=3, seconds=60), is_behind=False)
    upkeep.poll()
    upkeep.complete()
    assert [(d.result, d.files_removed) for d in listener.done] == [("done", 3)]


@pytest.fixture
def reports():
    return Listener()


def keyed(folder, reports, delta, *, batches=None, every=None):
    (folder / "p.yaml").write_text(
        f"""
connector:
  topics:
    events:
      kafka-topic: events
      destination:
        table-path: events
        partition-columns: [day]
        key-columns: [id]
        delta-config: {{{delta}}}
"""
    )
    (topic,) = load_configuration(folder / "p.yaml", environment={}).topics
    lock = threading.Lock() if batches is None else batches
    runs = LastRuns(folder, topic.key)
    return topic, TopicMaintenance(topic, {}, reports, batches=lock, interval=every, last_runs=runs)


def written(path, day):
    rows = pa.table({"id": [1], "day": pa.array([day], pa.int64())})
    bayou.write(path, rows, partition_by=["day"])


def small(path):
    found = partitions_with_small_files(bayou.table(path).snapshot(), small=1 << 20)
    return {str(p.where) for p in found}


def batch(records, seconds=0.0):
    return BatchReport(topic="events", rows=records, seconds=seconds)


def done(upkeep):
    upkeep.poll()
    upkeep._task.finish()


def test_a_partition_that_was_written_last_time_is_packed_once_it_rests(tmp_path, reports):
    topic, kept = keyed(tmp_path, reports, "enable-compaction: true, compaction-interval: 2")
    for _ in range(2):
        written(topic.table_path, 1)
    kept.count_batch(batch(2, seconds=60), is_behind=False)  # the batch that wrote them is running
    done(kept)
    assert len(small(topic.table_path)) == 1
    kept.count_batch(batch(2, seconds=-60), is_behind=False)
    done(kept)
    assert small(topic.table_path) == set()
    assert [report.result for report in reports.done] == ["done"]


def test_deleted_keys_are_packed_with_their_table(tmp_path, reports):
    settings = "enable-upsert: true, enable-optimize: true, optimize-interval: 2"
    topic, kept = keyed(tmp_path, reports, settings)
    beside = f"{topic.table_path}_deleted_keys"
    for _ in range(2):
        written(topic.table_path, 1)
        bayou.write(beside, pa.table({"id": [1]}))
    kept.count_batch(batch(2), is_behind=False)
    done(kept)
    assert bayou.table(beside).snapshot().files().num_rows == 1
    assert [report.table_path for report in reports.done] == [topic.table_path]


def test_a_vacuum_does_not_wait_for_batches_nor_they_for_it(tmp_path, reports, monkeypatch):
    monkeypatch.setattr(upkeep_module, "_HISTORY_LIMIT", 3)
    batches = threading.Lock()
    settings = "enable-upsert: true, enable-vacuum: true"
    topic, kept = keyed(tmp_path, reports, settings, batches=batches, every=0)
    for _ in range(3):  # so many commits that nobody knows when the last vacuum was
        written(topic.table_path, 1)
    with batches:
        done(kept)
    assert [(report.task, report.error) for report in reports.done] == [("vacuum", None)]


def test_deleted_keys_are_forgotten_by_the_clock_whatever_else_is_done(tmp_path, reports):
    settings = "enable-upsert: true, deleted-keys-retention-hours: 24"
    topic, kept = keyed(tmp_path, reports, settings, every=0)
    written(topic.table_path, 1)
    now = dt.datetime.now(dt.UTC)
    moments = pa.array([now, now - dt.timedelta(hours=25)], pa.timestamp("us", tz="UTC"))
    rows = pa.table({"id": [1, 2], "_kafka_timestamp": moments, "_remembered_at": moments})
    beside = f"{topic.table_path}_deleted_keys"
    bayou.write(beside, rows)
    done(kept)
    assert [(report.task, report.keys) for report in reports.done] == [("forget", 1)]
    assert bayou.table(beside).to_arrow()["id"].to_pylist() == [1]
    done(kept)
    assert len(reports.done) == 1  # nothing is no news


def test_that_forgetting_works_again_is_told_though_no_key_is_old_enough(
    tmp_path, reports, monkeypatch
):
    topic, kept = keyed(tmp_path, reports, "enable-upsert: true", every=0)
    written(topic.table_path, 1)
    beside = f"{topic.table_path}_deleted_keys"
    now = pa.array([dt.datetime.now(dt.UTC)], pa.timestamp("us", tz="UTC"))
    bayou.write(beside, pa.table({"id": [1], "_kafka_timestamp": now, "_remembered_at": now}))

    def refuse(*_):
        raise StorageError("no", path=beside)

    with monkeypatch.context() as patched:
        patched.setattr(TableHandle, "vacuum", refuse)
        done(kept)
    done(kept)
    done(kept)
    assert [(r.task, r.result) for r in reports.done] == [
        ("forget", "failed"),
        ("forget", "nothing"),
    ]


def test_deleted_keys_that_could_not_be_packed_are_tried_again_by_the_clock(
    tmp_path, reports, monkeypatch
):
    topic, kept = keyed(tmp_path, reports, "enable-upsert: true, enable-optimize: true", every=0)
    beside = f"{topic.table_path}_deleted_keys"
    for _ in range(2):
        written(topic.table_path, 1)
        bayou.write(beside, pa.table({"id": [1]}))
    whole = table_commands._InProcess.optimize

    def refuse(handle, *arguments, **options):
        if handle.handle.table_uri == beside:
            raise StorageError("no", path=beside)
        return whole(handle, *arguments, **options)

    kept.count_batch(batch(2, seconds=-60), is_behind=False)
    with monkeypatch.context() as patched:
        patched.setattr(table_commands._InProcess, "optimize", refuse)
        done(kept)
    done(kept)
    assert bayou.table(beside).snapshot().files().num_rows == 1
    optimized = [r.result for r in reports.done if r.task == "optimize"]
    assert optimized == ["failed", "nothing"]
