"""Random records of an upsert topic, and the rows that its table must have.

The expected rows are computed with a dictionary. The records are updates, tombstones, late records
and invalid records, with the fields of `examples/plan/schemas/user-events-schema.json`.
"""

from __future__ import annotations

import json
import random
import time
from typing import Any

from confluent_kafka import KafkaException, Producer

__all__ = ["KeyedRecords"]

_STEP = 20
"""Milliseconds between two records; a million of them is younger than Kafka keeps them."""


class KeyedRecords:
    """Sends random records to one topic and computes the expected rows.

    Args:
        users: number of users. A key is a user and one of three sessions.
        partitions: number of partitions of the topic; all records of a user go to one partition.
        late: number of records by which the timestamp of a late record is behind.

    Attributes:
        state: the expected event type and duration by key; None for a deleted key.
        sent, bad: number of sent records, and of invalid records among them.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        *,
        users: int,
        partitions: int,
        late: int = 400,
        seed: int = 9,
    ) -> None:
        self._topic = topic
        self._users = users
        self._partitions = partitions
        self._late = late
        self._random = random.Random(seed)  # records for tests
        self._since = round(time.time() * 1000) - 6 * 3_600_000
        self._orders: dict[tuple[str, str | None], int] = {}
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 20,
                "topic.metadata.refresh.interval.ms": 1000,  # new partitions show late
                "queue.buffering.max.messages": 200_000,
                "message.max.bytes": 20 << 20,
            }
        )
        self.state: dict[tuple[str, str | None], tuple[str, int] | None] = {}
        self.sent = self.bad = 0

    @property
    def rows(self) -> dict[tuple[str, str | None], tuple[str, int]]:
        """The expected rows of the table: event type and duration by key."""
        return {key: row for key, row in self.state.items() if row is not None}

    def send(self, count: int, **more: Any) -> None:
        """Send `count` records, and wait until the broker has them.

        Args:
            count: number of records.
            more: additional fields of each record.
        """
        for _ in range(count):
            self._send(more)
        assert self._producer.flush(120) == 0

    def check(self, rows: list[dict[str, Any]]) -> None:
        """Assert that the rows of a table are the expected rows, one for each key."""
        found = {(r["user_id"], r["session_id"]): (r["event_type"], r["duration_ms"]) for r in rows}
        assert len(found) == len(rows)
        expected = self.rows
        wrong = [k for k in {*found, *expected} if found.get(k) != expected.get(k)]
        assert not wrong, [(k, found.get(k), expected.get(k)) for k in wrong[:5]]

    def _send(self, more: dict[str, Any]) -> None:
        rng = self._random
        self.sent += 1
        user, session = f"u{rng.randrange(self._users)}", rng.choice(["s1", "s2", None])
        moment = self._since + _STEP * (self.sent - (self._late if rng.random() < 0.25 else 0))
        key = {"user_id": user, "session_id": session}
        kind = rng.choice(["click", "view", "login"])
        gone, bad = rng.random() < 0.1, rng.random() < 0.01
        body: bytes | None = None
        if bad:
            body = b"{no"
        elif not gone:
            value = {**key, "event_type": kind, "timestamp": "2024-01-05T10:00:00Z"}
            body = json.dumps({**value, "duration_ms": self.sent, **more}).encode()
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    body,
                    key=json.dumps(key).encode(),
                    partition=sum(user.encode()) % self._partitions,
                    timestamp=moment,
                )
                break
            except BufferError:
                self._producer.poll(0.5)
            except KafkaException as error:
                if error.args[0].name() != "_UNKNOWN_PARTITION":
                    raise
                self._producer.poll(0.5)
        if self.sent % 1000 == 0:
            self._producer.poll(0)
        if bad:
            self.bad += 1
        elif moment >= self._orders.get((user, session), 0):
            # The later record of a key wins; those of one time by their offset, the order here.
            self._orders[user, session] = moment
            self.state[user, session] = None if gone else (kind, self.sent)
