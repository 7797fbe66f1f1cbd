"""The status page in headless Chromium: readable by everybody, in light and dark, on a phone."""

from __future__ import annotations

import json
import math
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from bayou.errors import PipelineError, StorageError
from bayou.ingest.config import load_configuration
from bayou.ingest.events import BatchReport, MaintenanceReport, TopicStarted, TopicSummary
from bayou.ingest.monitoring import StatusStore
from bayou.ingest.monitoring.server import StatusServer
from bayou.ingest.offsets import OffsetSpan

CONFIG = """\
connector:
  kafka: {bootstrap-servers: "h:1"}
  monitoring: {port: 0}
  topics:
    user-events:
      kafka-topic: user.events.v1
      destination: {table-path: "s3a://test-data-lake/tables/user_events"}
      slo: {freshness-seconds: 120}
    order-events:
      kafka-topic: order.events.v1
      destination: {table-path: "s3a://test-data-lake/tables/order_events"}
      slo: {freshness-seconds: 60}
    custom-topic:
      kafka-topic: custom.topic.v1
      destination: {table-path: "s3a://test-data-lake/tables/custom_topic"}
"""
VIEWS = ("light", "dark", "phone-light", "phone-dark")


class Clock:
    now = 1_700_000_000.0

    def __call__(self):
        return self.now


def an_hour(store, clock):
    """An hour of three topics: one fine, one late, one that failed."""
    for topic in ("user-events", "order-events", "custom-topic"):
        store.topic_started(
            TopicStarted(
                topic=topic,
                kafka_topic=topic,
                table_path=topic,
                partitions=2,
                waiting=0,
                positions={0: 0, 1: 0},
            )
        )
    done = {"user-events": 0, "order-events": 0}
    for step in range(200):
        clock.now += 10
        wave = 2_000 + round(1_500 * math.sin(step / 12))
        ends = {"user-events": step * wave // 10 + step * 3_000, "order-events": step * 900}
        for topic, end in ends.items():
            store.set_end_offsets(topic, {0: end, 1: end // 2}, {})
            if step % 6 == 5 and not (topic == "order-events" and step > 180):
                spans = {
                    0: OffsetSpan(start=done[topic], end=end),
                    1: OffsetSpan(start=done[topic] // 2, end=end // 2),
                }
                store.batch_committed(
                    BatchReport(
                        topic=topic,
                        spans=spans,
                        rows=max(0, end + end // 2 - done[topic] - done[topic] // 2),
                        dead_letters=step % 7 if topic == "order-events" else 0,
                        version=step // 6,
                        new_columns=("device_model",) if step == 191 else (),
                        seconds=0.4 + step % 5 / 3,
                    )
                )
                done[topic] = end
    store.set_table(
        "user-events", version=33, files=412, small_files=37, table_bytes=9_100_000_000, letters=0
    )
    store.set_table(
        "order-events", version=31, files=88, small_files=61, table_bytes=310_000_000, letters=114
    )
    for task, result in (("compaction", "done"), ("vacuum", "nothing")):
        store.maintenance_finished(maintained("user-events", task, clock.now - 600, result))
    conflict = StorageError(
        "s3a://test-data-lake/tables/order_events/_delta_log/0032.json: can't write: "
        "the store answers 503 Slow Down",
        path="s3a://test-data-lake/tables/order_events",
    )
    failed = maintained("order-events", "optimize", clock.now - 60, "failed", conflict)
    store.maintenance_finished(failed)
    error = PipelineError(
        "topic 'custom-topic': the table is at offset 812 of partition 0 of 'custom.topic.v1', but "
        "the topic begins at 2000: offsets 812 to 1999 were removed by retention before they were "
        "read. To start again with the remaining records, set another table-path.",
        topic="custom-topic",
    )
    store.topic_finished(TopicSummary(topic="custom-topic", table_path="t", error=error))


def maintained(topic, task, at, result, error=None):
    return MaintenanceReport(
        topic=topic,
        task=task,
        table_path=topic,
        started=at,
        seconds=3.0,
        result=result,
        error=error,
    )


@pytest.fixture(scope="session")
def looked(tmp_path_factory):
    """What a browser saw of an hour's status, by view."""
    folder = tmp_path_factory.mktemp("ui")
    file = folder / "pipeline.yaml"
    file.write_text(CONFIG)
    configuration = replace(load_configuration(file, environment={}), file="pipeline.yaml")
    clock = Clock()
    store = StatusStore(configuration, clock, clock)
    an_hour(store, clock)
    server = StatusServer(configuration.connector.monitoring, store)
    pictures = Path(os.environ.get("BAYOU_UI_PICTURES", folder)).resolve()
    run = subprocess.run(
        [
            "node",
            str(Path(__file__).parent / "look.mjs"),
            server.url,
            os.environ.get("CHROMIUM", "/usr/bin/chromium"),
            str(pictures),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "NODE_PATH": str(Path(os.environ["BAYOU_UI"]).resolve())},
    )
    server.close()
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing(looked, view):
    assert looked[view]["violations"] == []
    assert looked[view]["passes"] > 10


@pytest.mark.parametrize("view", VIEWS)
def test_nothing_is_wider_than_the_screen(looked, view):
    assert looked[view]["overflow"] <= 0


@pytest.mark.parametrize("view", VIEWS)
def test_the_page_asks_the_pipeline_and_nobody_else(looked, view):
    hosts = {r.split("/")[2] for r in looked[view]["requests"] if not r.startswith("data:")}
    assert len(hosts) == 1
    assert looked[view]["complaints"] == []


def test_what_matters_is_said_in_words(looked):
    text = looked["light"]["text"]
    assert "1 of 3 topics failed" in text
    assert "removed by retention" in text
    assert "device_model" in text
    assert "late" in text
    assert "compaction: done" in text
    assert "503 Slow Down" in text


@pytest.mark.parametrize("view", ["phone-light", "phone-dark"])
def test_a_phone_shows_whole_rows_with_the_names_of_their_cells(looked, view):
    assert looked[view]["hidden"] == []
