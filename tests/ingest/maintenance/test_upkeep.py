"""When a topic's table is due for what."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

import bayou
from bayou.ingest.config import load_configuration
from bayou.ingest.maintenance import TopicUpkeep
from bayou.ingest.progress import BatchReport


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
        upkeep = TopicUpkeep(topic, {}, listener, batches=threading.Lock(), every=every)
        return upkeep, listener, topic.table_path

    return make


def write(path, files=3):
    for number in range(files):
        bayou.write(path, pa.table({"id": [number]}))


def test_a_table_is_packed_after_so_many_records(made):
    upkeep, listener, path = made("{enable-optimize: true, optimize-interval: 10}")
    write(path)
    upkeep.took(BatchReport(topic="t", rows=9), more_waits=False)
    upkeep.complete()
    assert listener.done == []
    upkeep.took(BatchReport(topic="t", rows=1), more_waits=False)
    upkeep.complete()
    assert [(d.task, d.result) for d in listener.done] == [("optimize", "done")]
    upkeep.complete()
    assert len(listener.done) == 1


def test_while_records_wait_nothing_is_done_until_it_is_overdue(made):
    upkeep, listener, path = made("{enable-compaction: true, compaction-interval: 10}")
    write(path)
    upkeep.took(BatchReport(topic="t", rows=199), more_waits=True)
    assert upkeep._due(by_clock=False) == []
    upkeep.took(BatchReport(topic="t", rows=1), more_waits=True)
    assert upkeep._due(by_clock=False) == ["compaction"]
    upkeep.complete()
    assert [d.task for d in listener.done] == ["compaction"]


def test_the_clock_looks_after_what_was_written(made):
    upkeep, listener, path = made("{enable-optimize: true, enable-vacuum: true}", every=0.0)
    write(path)
    upkeep.took(BatchReport(topic="t", rows=3), more_waits=False)
    upkeep.complete()
    assert [d.task for d in listener.done] == ["optimize"]  # a new table needs no vacuum yet


def test_a_failure_is_told_and_stops_nothing(made):
    upkeep, listener, _ = made("{enable-optimize: true, optimize-interval: 1}")
    upkeep.took(BatchReport(topic="t", rows=1), more_waits=False)
    upkeep.complete()
    (failed,) = listener.done
    assert (failed.result, failed.task) == ("failed", "optimize")
    assert failed.error is not None


def test_what_was_left_while_it_was_written_is_packed_in_the_end(made):
    upkeep, listener, path = made("{enable-optimize: true, optimize-interval: 1}")
    write(path)
    upkeep.took(BatchReport(topic="t", rows=3, seconds=60), more_waits=False)
    upkeep.poll()
    upkeep.complete()
    assert [(d.result, d.files_removed) for d in listener.done] == [("done", 3)]
