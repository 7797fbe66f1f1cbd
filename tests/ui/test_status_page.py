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
from bayou.ingest.monitoring.status import RoutedTable
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
pytestmark = pytest.mark.process

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
        "user-events",
        version=33,
        files=412,
        small_files=37,
        table_bytes=9_100_000_000,
        letters=0,
        routed_tables=[
            RoutedTable(
                table=name,
                table_path=f"s3a://test-data-lake/tables/{name}",
                version=version,
                files=version * 3,
                bytes=version * 41_000_000,
            )
            for name, version in (("user_events_click", 33), ("user_events_purchase", 12))
        ],
    )
    store.set_table(
        "order-events",
        version=31,
        files=88,
        small_files=61,
        table_bytes=310_000_000,
        letters=114,
        reasons={"not valid JSON": 100, "'id' isn't long": 14},
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
        "the topic begins at 2000, because offsets 812 to 1999 were removed by retention before "
        "they were read. To start again with the remaining records, set another table-path.",
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


def many_topics(store, clock):
    """A hundred topics: 41 is late, 7 and 77 failed, all others are fine."""
    for number in range(100):
        topic = name_of(number)
        store.topic_started(
            TopicStarted(
                topic=topic,
                kafka_topic=topic,
                table_path=topic,
                partitions=1,
                waiting=0,
                positions={0: 0},
            )
        )
    for step in range(1, 30):
        clock.now += 10
        for number in range(100):
            end = step * 100 * (number + 1)
            store.set_end_offsets(name_of(number), {0: end}, {})
            if number != 41:
                span = OffsetSpan(start=end - 100 * (number + 1), end=end)
                report = BatchReport(
                    topic=name_of(number),
                    spans={0: span},
                    rows=span.end - span.start,
                    version=step,
                    seconds=0.5,
                )
                store.batch_committed(report)
    for number in (7, 77):
        error = StorageError(
            "s3a://lake/t: can't write: the store answers 503", path="s3a://lake/t"
        )
        summary = TopicSummary(topic=name_of(number), table_path="t", error=error)
        store.topic_finished(summary)


def name_of(number):
    return f"{'orders' if number % 10 == 0 else 'topic'}-{number}"


MANY = (
    "connector:\n  kafka: {bootstrap-servers: 'h:1'}\n  monitoring: {port: 0}\n  topics:\n"
    + "".join(
        f"    {name_of(number)}: {{kafka-topic: t{number}, slo: {{freshness-seconds: 60}}, "
        f"destination: {{table-path: lake/{number}}}}}\n"
        for number in range(100)
    )
)


def look(folder, text, fill, prefix):
    """Return what a browser sees of a status, by view."""
    file = folder / "pipeline.yaml"
    file.write_text(text)
    configuration = replace(load_configuration(file, environment={}), file="pipeline.yaml")
    clock = Clock()
    store = StatusStore(configuration, clock, clock)
    fill(store, clock)
    server = StatusServer(configuration.connector.monitoring, store)
    pictures = Path(os.environ.get("BAYOU_UI_PICTURES", folder)).resolve()
    run = subprocess.run(
        [
            "node",
            str(Path(__file__).parent / "look.mjs"),
            server.url,
            os.environ.get("CHROMIUM", "/usr/bin/chromium"),
            str(pictures),
            prefix,
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
        env={**os.environ, "NODE_PATH": str(Path(os.environ["BAYOU_UI"]).resolve())},
    )
    server.close()
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.fixture(scope="session")
def looked(tmp_path_factory):
    """What a browser saw of an hour's status, by view."""
    return look(tmp_path_factory.mktemp("ui"), CONFIG, an_hour, "hour")


@pytest.fixture(scope="session")
def looked_at_many(tmp_path_factory):
    """What a browser saw of a hundred topics, by view."""
    return look(tmp_path_factory.mktemp("many"), MANY, many_topics, "many")


@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing(looked, looked_at_many, view):
    for seen in (looked[view], looked_at_many[view]):
        assert seen["violations"] == []
        assert seen["passes"] > 10


@pytest.mark.parametrize("view", VIEWS)
def test_nothing_is_wider_than_the_screen(looked, looked_at_many, view):
    assert looked[view]["overflow"] <= 0
    assert looked_at_many[view]["overflow"] <= 0


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
    assert "not valid JSON: 100; 'id' isn't long: 14" in text
    assert "Tables of route-by: 2" in text
    assert "user_events_purchase" in text
    assert "14 Nov 2023" in text  # times before today have their date


@pytest.mark.parametrize("view", VIEWS)
def test_failed_and_late_topics_are_first_and_lead_to_the_runbook(looked, looked_at_many, view):
    assert looked[view]["first"] == ["custom-topic", "order-events", "user-events"]
    assert looked[view]["section"] is True
    assert looked[view]["attention"] == ["custom-topic", "order-events"]
    assert looked_at_many[view]["first"][:4] == ["topic-7", "topic-77", "topic-41", "orders-0"]
    assert looked_at_many[view]["attention"] == ["topic-7", "topic-77", "topic-41"]


@pytest.mark.parametrize("view", VIEWS)
def test_of_a_hundred_topics_those_that_need_attention_are_open(looked_at_many, view):
    seen = looked_at_many[view]
    assert (seen["cards"], seen["opened"]) == (100, 3)
    assert len(seen["filtered"]) == 10
    assert seen["toggled"] == 1
    assert seen["focused"] == "orders-0"  # a refresh doesn't move the focus


@pytest.mark.parametrize("view", ["phone-light", "phone-dark"])
def test_a_phone_shows_whole_rows_with_the_names_of_their_cells(looked, view):
    assert looked[view]["hidden"] == []
