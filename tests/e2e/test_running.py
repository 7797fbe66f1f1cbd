"""A pipeline that goes on: when it commits, how it stops, and what it doesn't say."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request

import pytest
from deltalake import DeltaTable

from bayou.errors import StorageError
from bayou.ingest.retries import BatchFailedError
from support.process_memory import process_tree
from support.waiting import wait_until

pytestmark = pytest.mark.spark


def records(count, start=0, **more):
    return [json.dumps({"id": n, **more}).encode() for n in range(start, start + count)]


def ids(pipeline):
    return sorted(row["id"] for row in pipeline.rows())


def data_files(pipeline):
    """Number of data files, those of a batch that is not yet committed among them."""
    return len(list(pipeline.table.glob("*.parquet")))


def test_full_batches_do_not_wait_for_the_flush_interval_and_the_rest_does(pipeline):
    pipeline.configure(batch_size=50, processing={"flush-interval": 3600})
    running = pipeline.start()
    running.wait(lambda seen: seen.started)
    pipeline.broker.produce("events", records(120))
    running.wait(lambda seen: len(seen.batches) == 2)
    full = [batch.records for batch in running.stop().batches]
    assert len(full) == 2
    assert max(full) <= 50  # less where shares of partitions are rounded down
    pipeline.configure(batch_size=50, processing={"flush-interval": 0.5})
    running = pipeline.start()
    running.wait(lambda seen: seen.batches)
    assert [batch.records for batch in running.stop().batches] == [120 - sum(full)]
    assert ids(pipeline) == list(range(120))


SLOW_JAVA = """\
#!/bin/sh
if [ "$1" != -version ]; then
    while [ ! -e "{go}" ]; do sleep 0.1; done
fi
exec "{java}" "$@"
"""


@pytest.mark.process
def test_small_batches_do_not_wait_for_spark(pipeline, tmp_path):
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    go = pipeline.table / "_delta_log" / "00000000000000000001.json"
    java.write_text(SLOW_JAVA.format(go=go, java=shutil.which("java")))
    java.chmod(0o755)
    pipeline.configure(processing={"flush-interval": 0.1})
    pipeline.broker.produce("events", [*records(10), b"no JSON"])
    arguments = ["-m", "bayou.cli", "run", str(pipeline.file), "--json"]
    process = subprocess.Popen(
        [sys.executable, *arguments],
        env={**os.environ, "JAVA_HOME": str(java.parents[1])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    commits = (e for line in process.stdout if (e := json.loads(line)).get("version") is not None)
    first = next(commits)
    assert (first["version"], first["rows"], first["dead_letters"]) == (0, 10, 1)
    pipeline.broker.produce("events", records(5, 10))
    assert next(commits)["version"] == 1  # Java starts after this commit
    wait_until(
        lambda: not any(b"startup_worker" in line for line in process_tree(process.pid).values()),
        timeout=120,
        what="Spark",
    )
    pipeline.broker.produce("events", records(5, 15))
    assert next(commits)["version"] == 2
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=180)
    assert (process.returncode, err) == (0, "")
    assert ids(pipeline) == list(range(20))


def test_sigterm_finishes_the_running_batch_and_the_page_answers_until_then(pipeline):
    pipeline.configure(batch_size=100, processing={"flush-interval": 0.5})
    pipeline.broker.produce("events", records(100))
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "bayou.cli", "run", str(pipeline.file), "--json"),
            *("--set", "connector.monitoring.port=0"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    told = []
    for line in process.stdout:
        told.append(json.loads(line))
        if told[-1]["event"] == "batch_committed":
            break
    (url,) = [e["text"].removeprefix("status page: ") for e in told if e["event"] == "notice"]
    with urllib.request.urlopen(f"{url}readyz", timeout=10) as answer:
        assert json.load(answer) == {"ok": True, "topics": {"events": "running"}}
    with urllib.request.urlopen(f"{url}metrics", timeout=10) as answer:
        assert 'bayou_rows_total{topic="events"} 100.0' in answer.read().decode()
    before = data_files(pipeline)
    pipeline.broker.produce("events", records(1000, 100))
    wait_until(lambda: data_files(pipeline) > before, timeout=120, what="the next batch")
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=180)
    assert process.returncode == 0, out + err
    last = json.loads(out.splitlines()[-1])
    assert (last["event"], last["error"]) == ("topic_finished", None)
    assert last["rows"] == len(pipeline.rows()) > 100
    assert pipeline.run().finished[0].error is None
    assert ids(pipeline) == list(range(1100))


def test_a_log_that_cannot_be_read_stops_the_topic_and_the_rest_comes_later(pipeline):
    pipeline.configure(processing={"max-retries": 2})
    pipeline.broker.produce("events", records(10))
    pipeline.run()
    pipeline.broker.produce("events", records(10, 10))
    log = pipeline.table / "_delta_log"
    moved = log.rename(pipeline.table / "log-elsewhere")
    log.write_text("not a folder")
    try:
        (summary,) = pipeline.run().finished
        assert summary.error is not None
        assert "events" in summary.error.message
    finally:
        log.unlink()
        moved.rename(log)
    assert pipeline.run().finished[0].error is None
    assert ids(pipeline) == list(range(20))


def test_a_topic_whose_store_failed_for_long_is_begun_again_while_another_goes_on(pipeline):
    processing = {
        "batch-size": 10,
        "flush-interval": 0.3,
        "max-retries": 0,
        "restart-interval": 1,
    }
    other = {
        "kafka-topic": "events",
        "destination": {"table-path": "lake/other"},
        "processing": processing,
    }
    pipeline.configure(processing=processing, others={"other": other})
    pipeline.broker.produce("events", records(10))
    running = pipeline.start()
    running.wait(lambda seen: len(seen.batches) == 2)
    log = pipeline.table / "_delta_log"
    moved = log.rename(pipeline.table / "log-elsewhere")
    log.symlink_to(log)
    pipeline.broker.produce("events", records(10, 10))
    # Once from its batch, then again from a look before it begins.
    running.wait(lambda seen: len(seen.finished) == 2)
    running.wait(lambda seen: len(seen.batches) == 3)
    log.unlink()
    moved.rename(log)
    running.wait(lambda seen: len(seen.batches) == 4)
    seen = running.stop()
    assert [event.topic for event in seen.started] == ["events", "other", "events"]
    *stops, _, _ = seen.finished
    assert {(stop.topic, stop.restart) for stop in stops} == {("events", 1.0)}
    assert [type(stop.error) for stop in stops[:2]] == [BatchFailedError, StorageError]
    assert {stop.error for stop in seen.finished[-2:]} == {None}
    assert {whole.topic: (whole.rows, whole.error) for whole in running.summaries} == {
        "events": (20, None),
        "other": (20, None),
    }
    assert ids(pipeline) == list(range(20))


def test_new_fields_inside_of_known_ones_become_columns_in_the_commit_of_their_rows(pipeline):
    pipeline.configure(evolution=True)
    pipeline.broker.produce("events", records(10, place={"city": "Houma"}, lines=[{"sku": "a"}]))
    pipeline.run()
    pipeline.broker.produce(
        "events",
        [
            *records(5, 10, place={"city": "x", "state": "LA"}),
            *records(5, 15, place={"geo": {"lat": 1.5}}, lines=[{"sku": "b"}, {"price": 2.5}]),
            *records(1, 20, place={"CITY": "y"}),
        ],
    )
    (batch,) = pipeline.run().batches
    assert (batch.rows, batch.dead_letters, batch.version) == (10, 1, 1)
    assert "'place.CITY'" in pipeline.dead_letters()[0]["reason"]
    schema = DeltaTable(str(pipeline.table)).schema().to_json()
    assert '"state"' in schema
    rows = {row["id"]: row for row in pipeline.rows()}
    assert rows[3]["place"] == {"city": "Houma", "state": None, "geo": None}
    assert rows[12]["place"]["state"] == "LA"
    assert rows[17]["place"]["geo"] == {"lat": 1.5}
    assert rows[17]["lines"] == [{"sku": "b", "price": None}, {"sku": None, "price": 2.5}]
    assert rows[3]["lines"] == [{"sku": "a", "price": None}]
    pipeline.broker.produce("events", records(2, 21, place={"state": 5}))
    pipeline.run()
    reasons = [letter["reason"] for letter in pipeline.dead_letters()]
    assert sum("place.state': 5 doesn't fit its type string" in reason for reason in reasons) == 2


def test_without_evolution_a_new_field_inside_of_a_known_one_is_a_dead_letter(pipeline):
    pipeline.configure()
    pipeline.broker.produce("events", records(10, lines=[{"sku": "a"}]))
    pipeline.run()
    pipeline.broker.produce("events", records(1, 10, lines=[{"sku": "a", "price": 1}]))
    pipeline.run()
    (letter,) = pipeline.dead_letters()
    assert "unknown field 'lines[].price'" in letter["reason"]


def test_what_the_pipeline_adds_is_never_null(pipeline):
    pipeline.configure(partition_columns=["year", "month", "day"])
    pipeline.broker.produce("events", records(3))
    pipeline.run()
    fields = json.loads(DeltaTable(str(pipeline.table)).schema().to_json())["fields"]
    kinds = {f["name"]: f["type"] for f in fields if not f["nullable"]}
    assert kinds == {
        "_kafka_topic": "string",
        "_kafka_partition": "integer",
        "_kafka_offset": "long",
        "_ingestion_timestamp": "timestamp",
        "_processed_at": "timestamp",
        "year": "string",
        "month": "string",
        "day": "string",
    }
    assert all(r["_processed_at"] >= r["_ingestion_timestamp"] for r in pipeline.rows())


@pytest.mark.slow
def test_secrets_are_in_no_log_error_or_table(pipeline):
    pipeline.configure(kafka={"sasl.password": "hunter-kafka"}, processing={"max-retries": 0})
    config = json.loads(pipeline.file.read_text())
    config["connector"]["storage"] = {"access-key": "hunter-key", "secret-key": "hunter-s3"}
    pipeline.file.write_text(json.dumps(config))
    pipeline.broker.produce("events", [*records(3), b"bad"])
    environment = {**os.environ, "BAYOU_DEBUG": "1"}
    command = [sys.executable, "-m", "bayou.cli", "run", str(pipeline.file), "--once", "--json"]
    said = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    wrong = [*command, "--set", "connector.topics.events.kafka-topic=nowhere"]
    said_wrong = subprocess.run(wrong, capture_output=True, text=True, check=False)
    assert said_wrong.returncode == 1
    written = b"".join(
        file.read_bytes()
        for file in pipeline.folder.rglob("*")
        if file.is_file() and file != pipeline.file
    )
    said_all = f"{said.stdout}{said.stderr}{said_wrong.stdout}{said_wrong.stderr}"
    everything = written + said_all.encode()
    for secret in (b"hunter-kafka", b"hunter-key", b"hunter-s3"):
        assert secret not in everything


def test_a_run_that_drains_the_topic_ends(pipeline):
    pipeline.configure(batch_size=40)
    pipeline.broker.produce("events", records(100))
    recorder = pipeline.run()
    assert len(recorder.batches) == 3
    assert all(batch.records <= 40 for batch in recorder.batches)
    assert ids(pipeline) == list(range(100))
    assert pipeline.run().batches == []


def _planning_processes() -> list[int]:
    """Ids of our Spark's Python processes that ask streaming sources for offsets."""
    processes = process_tree(os.getpid())  # others may run beside this one
    found = [pid for pid, command in processes.items() if b"python_streaming_source" in command]
    assert found
    return found
