"""What tests of migrations share."""

from __future__ import annotations

__all__ = ["CONFIG", "KilledError", "die", "ids"]

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
