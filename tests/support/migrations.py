"""Fixtures of migration tests."""

from __future__ import annotations

import bayou
from bayou.ingest import TopicTable

__all__ = ["CONFIG", "KilledError", "dead_letter_values", "die", "ids"]

CONFIG = """\
connector:
  topics:
    events:
      kafka-topic: events
      destination:
        table-path: lake/events
        partition-columns: [year, month, day]
        delta-config: {enable-schema-evolution: true}
"""


def ids(events):
    return sorted(events.read().column("id").to_pylist())


class KilledError(Exception):
    pass


def die(*arguments):
    raise KilledError


def dead_letter_values(events: TopicTable) -> list[bytes]:
    """Return the values of the dead letters of a topic's table."""
    table = bayou.table(f"{events.topic.table_path}_dead_letters")
    return [row["value"] for row in table.to_arrow().to_pylist()] if table.exists() else []
