"""The maintenance of the tables of a topic, to which batches add tables."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from bayou.ingest.runtime.topic_upkeep import TopicUpkeep


class Tables:
    """Opens the maintenance of tables. Whenever it is used, a batch opens another table."""

    def __init__(self):
        self.opened = 0
        self.upkeep = TopicUpkeep(None, self, None, threading.Lock())
        self.open_next()

    def open_next(self):
        self.upkeep.open((SimpleNamespace(table_path=f"/lake/{self.opened}"),))

    def registration(self, topic):
        return None

    def open_maintenance(self, topic, batches):
        self.opened += 1
        return self

    def close_maintenance(self, topic):
        self.open_next()

    def use_executors(self, spark):
        if self.opened == 1:
            self.open_next()

    def poll(self):
        self.open_next()

    def complete(self):
        self.open_next()

    def needs_spark(self):
        self.open_next()
        return False


@pytest.mark.parametrize(
    "use",
    [
        lambda upkeep: upkeep.start("spark"),
        TopicUpkeep.poll,
        TopicUpkeep.complete,
        TopicUpkeep.needs_spark,
        TopicUpkeep.close,
    ],
    ids=["start", "poll", "complete", "needs_spark", "close"],
)
def test_a_batch_can_add_a_table_meanwhile(use):
    tables = Tables()
    use(tables.upkeep)
    assert tables.opened == 2
