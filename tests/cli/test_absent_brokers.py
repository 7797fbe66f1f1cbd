"""Commands about many topics whose brokers don't answer: they are waited for once."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

import bayou
from bayou.errors import KafkaError
from bayou.ingest import inspection
from bayou.ingest.inspection import run_plan, topic_status

TOPICS = 6


@pytest.fixture
def file(tmp_path):
    """A configuration of some topics, each with a table."""
    lines = ["connector:", "  kafka: {bootstrap-servers: '127.0.0.1:1'}", "  topics:"]
    for number in range(TOPICS):
        bayou.write(str(tmp_path / f"t{number}"), pa.table({"id": [1]}))
        lines.append(
            f"    t{number}: {{kafka-topic: t{number}, destination: {{table-path: t{number}}}}}"
        )
    path = tmp_path / "pipeline.yaml"
    path.write_text("\n".join(lines))
    return path


def test_a_plan_asks_about_all_topics_at_once(file, events, monkeypatch):
    together = threading.Barrier(TOPICS)

    def silent(*_):
        together.wait(30)
        raise KafkaError("No answer from the Kafka brokers")

    monkeypatch.setattr(run_plan, "describe_topic", silent)
    code, lines = events("plan", file)
    assert code == 1
    plans = [line for line in lines if "topic" in line]
    assert [p["topic"] for p in plans] == [f"t{number}" for number in range(TOPICS)]
    assert {p["error"] for p in plans} == {"No answer from the Kafka brokers"}


def test_a_proof_says_once_that_brokers_do_not_answer_and_what_tables_are(
    file, events, monkeypatch
):
    def silent(*_):
        raise KafkaError("No answer from the Kafka brokers")

    monkeypatch.setattr(inspection, "prove_offsets", silent)
    code, told = events("verify", "--config", file)
    assert code == 1
    assert [e["event"] for e in told].count("table") == TOPICS
    assert [e["message"] for e in told if e["event"] == "error"] == [
        "No answer from the Kafka brokers"
    ]


def test_topics_whose_brokers_go_away_meanwhile_are_not_called_missing(file, events, monkeypatch):
    def silent(*_):
        raise KafkaError("No answer from the Kafka brokers")

    monkeypatch.setattr(topic_status, "topic_names", lambda _: {"t0", "t1"})
    monkeypatch.setattr(topic_status, "describe_topic", silent)
    code, (told,) = events("topics", file)
    assert (code, told["event"]) == (1, "error")
