"""A hundred topics in one process: bounded memory, everyone's turn, and one that is broken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import Counter

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable

from support.process_memory import memory_of, process_tree

_TOPICS = int(os.environ.get("BAYOU_TEST_TOPICS", "100"))
_TOPIC = """
    t{n}:
      kafka-topic: many.{n}
      destination: {{table-path: lake/t{n}{more}}}
      processing: {{batch-size: 500, flush-interval: 1, max-retries: 1}}
"""
_KEYED = ", key-columns: [id], delta-config: {enable-upsert: true}"


@pytest.fixture
def many(kafka_server, tmp_path):
    """A configuration of topics with two partitions each; every tenth is one of upserts."""
    names = [f"many.{n}" for n in range(_TOPICS)]
    kafka_server.create_topics(names, 2)
    topics = [_TOPIC.format(n=n, more=_KEYED if n % 10 == 0 else "") for n in range(_TOPICS)]
    (tmp_path / "many.yaml").write_text(
        f"connector:\n  kafka: {{bootstrap-servers: '{kafka_server.bootstrap_servers}'}}\n"
        f"  topics: {''.join(topics)}"
    )
    yield tmp_path / "many.yaml"
    kafka_server.delete_topics(names)


class Running:
    """`bayou run --json`, its events, and what its processes take at most."""

    def __init__(self, config):
        self.events = []
        self.most_memory = 0
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bayou.cli", "run", str(config), "--json"],
            stdout=subprocess.PIPE,
            text=True,
            cwd=config.parent,
        )
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._follow)
        self._thread.start()

    def wait(self, fact, timeout=300):
        """Until a fact about the events holds."""
        with self._news:
            assert self._news.wait_for(lambda: fact(self.events), timeout), self.events[-3:]

    def end(self):
        """Have it end; its exit code."""
        self._process.terminate()
        return self.code()

    def code(self):
        """Its exit code, once it has ended."""
        code = self._process.wait(300)
        self._thread.join()
        return code

    def _follow(self):
        with self._process.stdout as lines:
            for line in lines:
                memory = sum(map(memory_of, process_tree(self._process.pid)))
                with self._news:
                    self.most_memory = max(self.most_memory, memory)
                    self.events.append(json.loads(line))
                    self._news.notify_all()


def produced(kafka_server, count, topics, start=0):
    producer = Producer({"bootstrap.servers": kafka_server.bootstrap_servers, "linger.ms": 20})
    for n in topics:
        for number in range(start, start + count):
            value = json.dumps({"id": number, "topic": n}).encode()
            producer.produce(f"many.{n}", value, partition=number % 2)
        producer.poll(0)
    assert producer.flush(60) == 0


def committed(events):
    return {e["topic"] for e in events if e["event"] == "batch_committed"}


def records(events):
    found = Counter()
    for event in events:
        if event["event"] == "batch_committed":
            found[event["topic"]] += event["rows"]
    return found


def ids(config, n):
    rows = DeltaTable(str(config.parent / "lake" / f"t{n}")).to_pyarrow_table(columns=["id"])
    return sorted(rows["id"].to_pylist())


@pytest.mark.slow
def test_a_hundred_topics_have_their_turns_beside_a_large_and_a_broken_one(kafka_server, many):
    broken = many.parent / "lake" / "t1"
    broken.parent.mkdir()
    broken.write_text("not a table")
    produced(kafka_server, 20, range(_TOPICS))
    produced(kafka_server, 5_000, [2], start=20)
    running = Running(many)
    others = {f"t{n}" for n in range(_TOPICS) if n != 1}
    running.wait(lambda events: committed(events) == others)
    large = [e for e in running.events if e.get("topic") == "t2" and "rows" in e]
    assert sum(e["rows"] for e in large) < 5_020  # the others didn't wait for all of it
    produced(kafka_server, 10, range(_TOPICS), start=50_000)
    expected = dict.fromkeys(others, 30) | {"t2": 5_030}
    running.wait(lambda events: records(events) == expected)
    running.wait(lambda events: any("'t1'" in e.get("message", "") for e in events))
    assert running.end() == 1
    for n in {0, 2, 3, _TOPICS - 1}:
        assert ids(many, n) == [*range(5_020 if n == 2 else 20), *range(50_000, 50_010)]
    print(f"{_TOPICS} topics: {running.most_memory >> 20} MB")
    assert running.most_memory < (1500 << 20)
