"""From a Kafka topic to a Delta table, exactly once, as another reader sees it."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import signal
import subprocess
import sys
from collections import Counter

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import bayou
from bayou.errors import PipelineError
from bayou.spark.kafka import ProducedRecord
from support.waiting import wait_until

pytestmark = pytest.mark.spark


def records(count, start=0, **more):
    return [
        json.dumps({"id": n, "name": f"n{n}", **more}).encode() for n in range(start, start + count)
    ]


def offsets(rows):
    return Counter((r["_kafka_partition"], r["_kafka_offset"]) for r in rows)


def test_every_record_is_there_once_however_often_the_pipeline_runs(pipeline):
    bad = ProducedRecord(
        b"{nope", key=b"k", partition=2, timestamp=1_700_000_000_000, headers=[("h", b"v")]
    )
    tombstone = ProducedRecord(None, key=b"gone", partition=1)
    pipeline.broker.produce("events", [*records(300), bad, *records(300, 300), tombstone])
    pipeline.configure(batch_size=250)

    first = pipeline.run()
    assert first.started[0].waiting == 602
    assert len(first.batches) >= 3
    (summary,) = first.finished
    assert (summary.rows, summary.dead_letters, summary.error) == (600, 2, None)

    again = pipeline.run()
    assert again.batches == []
    assert again.finished[0].rows == 0
    shutil.rmtree(pipeline.state)
    pipeline.run()
    assert pipeline.version() == summary.version

    rows = pipeline.rows()
    assert sorted(r["id"] for r in rows) == list(range(600))
    assert all(r["name"] == f"n{r['id']}" for r in rows)
    assert set(offsets(rows).values()) == {1}
    letters = {letter["partition"]: letter for letter in pipeline.dead_letters()}
    assert sorted(letters) == [1, 2]
    assert letters[1]["reason"] == "the record has no value"
    assert (letters[1]["key"], letters[1]["value"], letters[1]["headers"]) == (b"gone", None, None)
    assert "not valid JSON" in letters[2]["reason"]
    assert (letters[2]["key"], letters[2]["value"]) == (b"k", b"{nope")
    assert letters[2]["headers"] == [{"key": "h", "value": b"v"}]
    assert letters[2]["timestamp"] == dt.datetime.fromtimestamp(1_700_000_000, dt.UTC)

    pipeline.broker.produce("events", records(50, 600))
    assert pipeline.run().finished[0].rows == 50
    assert sorted(r["id"] for r in pipeline.rows()) == list(range(650))


@pytest.mark.slow
def test_a_kill_in_the_middle_loses_and_doubles_nothing(pipeline):
    count = 12_000
    values = records(count)
    for n in range(0, count, 1000):
        values.insert(n, b"bad %d" % n)
    pipeline.broker.produce("events", values)
    pipeline.configure(batch_size=1500)
    process = subprocess.Popen(
        [sys.executable, "-m", "bayou.cli", "run", str(pipeline.file), "--once"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    log = pipeline.table / "_delta_log"

    def has_committed_twice():
        assert process.poll() is None, process.stderr.read()
        return len(list(log.glob("*.json"))) >= 2

    wait_until(has_committed_twice, timeout=120, what="the second commit")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert pipeline.version() >= 1
    killed_at = len(pipeline.rows())
    assert killed_at < count

    shutil.rmtree(pipeline.state)
    summary = pipeline.run().finished[0]
    assert summary.error is None
    rows = pipeline.rows()
    assert sorted(r["id"] for r in rows) == list(range(count))
    assert set(offsets(rows).values()) == {1}
    letters = pipeline.dead_letters()
    assert sorted(letter["value"] for letter in letters) == sorted(
        b"bad %d" % n for n in range(0, count, 1000)
    )


def test_a_target_behind_its_dead_letters_is_completed_without_doubling_them(pipeline):
    pipeline.broker.produce("events", [*records(20), b"bad", b'{"id": "x"}'])
    pipeline.configure()
    pipeline.run()
    assert len(pipeline.dead_letters()) == 2
    shutil.rmtree(pipeline.table)  # as after a crash between the two first commits
    pipeline.run()
    assert sorted(r["id"] for r in pipeline.rows()) == list(range(20))
    assert len(pipeline.dead_letters()) == 2


def test_a_batch_of_dead_letters_only_still_covers_its_offsets(pipeline):
    pipeline.configure()
    pipeline.broker.produce("events", records(10))
    pipeline.run()
    pipeline.broker.produce("events", [b"bad"] * 5)
    (batch,) = pipeline.run().batches
    assert (batch.rows, batch.dead_letters) == (0, 5)
    assert batch.version == pipeline.version() == 1
    assert pipeline.run().started[0].waiting == 0
    assert len(pipeline.dead_letters()) == 5


def test_new_fields_become_columns_in_the_commit_of_their_rows(pipeline):
    pipeline.configure(evolution=True)
    pipeline.broker.produce("events", records(10))
    pipeline.run()
    refused = records(5, 30, extra="text", other=1, ID=3)  # adds no column, and gives no type
    valid = records(5, 15, extra=1.5)
    pipeline.broker.produce("events", [*records(5, 10), *refused, *valid])
    (batch,) = pipeline.run().batches
    assert batch.new_columns == ("extra",)
    assert DeltaTable(str(pipeline.table)).history(1)[0]["tags"] == {"newColumns": "extra"}
    assert (batch.rows, batch.dead_letters) == (10, 5)
    assert "differs" in pipeline.dead_letters()[0]["reason"]
    pipeline.broker.produce("events", [*records(5, 20, extra=2.5), *records(1, 25, extra="no")])
    pipeline.run()
    by_id = {r["id"]: r["extra"] for r in pipeline.rows()}
    assert by_id[3] is None
    assert by_id[22] == 2.5
    assert 25 not in by_id
    reasons = [letter["reason"] for letter in pipeline.dead_letters()]
    assert sum("doesn't fit its type double" in reason for reason in reasons) == 1


def test_without_evolution_a_new_field_is_a_dead_letter(pipeline):
    pipeline.configure()
    pipeline.broker.produce("events", records(10))
    pipeline.run()
    pipeline.broker.produce("events", [*records(2, 10), *records(1, 12, extra=1)])
    assert pipeline.run().finished[0].dead_letters == 1
    assert "unknown field 'extra'" in pipeline.dead_letters()[0]["reason"]
    assert len(pipeline.rows()) == 12


def test_a_schema_file_gives_types_validation_and_partitions(pipeline):
    schema = {
        "type": "object",
        "required": ["id", "at"],
        "properties": {
            "id": {"type": "integer"},
            "at": {"type": "string", "format": "date-time"},
            "kind": {"enum": ["a", "b"]},
        },
    }
    pipeline.configure(
        schema=schema,
        partition_columns=["year", "month", "day", "kind"],
        **{"event-time": "at"},
    )
    pipeline.broker.produce(
        "events",
        [
            b'{"id": 1, "at": "2024-01-05T23:30:00-02:00", "kind": "a"}',
            b'{"id": 2, "at": "2024-01-05T10:00:00Z"}',
            b'{"id": 3, "at": "2024-01-05T10:00:00Z", "kind": "z"}',
            b'{"id": 4}',
        ],
    )
    pipeline.run()
    table = DeltaTable(str(pipeline.table))
    assert table.metadata().partition_columns == ["year", "month", "day", "kind"]
    rows = {r["id"]: r for r in pipeline.rows()}
    assert sorted(rows) == [1, 2]
    assert (rows[1]["year"], rows[1]["month"], rows[1]["day"]) == ("2024", "01", "06")
    assert rows[1]["at"] == dt.datetime(2024, 1, 6, 1, 30, tzinfo=dt.UTC)
    assert rows[2]["kind"] is None
    assert len(pipeline.dead_letters()) == 2


def test_a_table_of_somebody_else_is_not_written_to(pipeline):

    bayou.write(str(pipeline.table), pa.table({"id": [1]}))
    pipeline.configure()
    pipeline.broker.produce("events", records(1))
    (summary,) = pipeline.run().finished
    assert isinstance(summary.error, PipelineError)
    assert "wasn't created by this pipeline" in summary.error.message
    assert pipeline.version() == 0
