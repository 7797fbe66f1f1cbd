"""What an older pipeline added to the records of its JSON files, and what it says of Kafka.

Such columns (`_kafka_partition`, `_kafka_offset`, `_processed_at`, ...) are taken out of records. A
record that names its offset may be one that the table has from Kafka already, or will get; unless
it names another topic, too.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any

import msgspec
import pyarrow as pa

from bayou.api import table as open_table
from bayou.engines import for_path
from bayou.ingest.batch.rows import KAFKA_COLUMNS
from bayou.ingest.config import Topic
from bayou.ingest.config.table_paths import dead_letters_path
from bayou.ingest.offsets import covered_offsets
from bayou.kernel import Table

__all__ = ["FromKafka", "OldRecords"]

_MADE = b'"_'
_DIGITS = re.compile(r"[0-9]{1,19}\Z")
_MOST = 1 << 63
_NAMES = frozenset((*KAFKA_COLUMNS.names, "_kafka_timestamp"))


class FromKafka:
    """Which records a table gets from Kafka, and not from files.

    Where rows are appended those are, of each partition that the table covers or has rows of, all
    from the first one on that it has: it has them, or the pipeline will read them. Those that
    on-data-loss passed over are among them: not every log still says which they were. Where rows
    are upserted there are none: of a record that comes twice one row stays.
    """

    def __init__(self, topic: Topic, storage_options: dict[str, str]) -> None:
        self.name = topic.config.kafka_topic
        self._topic = topic
        self._storage_options = storage_options

    def __contains__(self, at: tuple[int, int]) -> bool:
        """Whether the record at this partition and offset is one."""
        partition, offset = at
        first = self._firsts.get(partition)
        return first is not None and offset >= first

    @cached_property
    def _firsts(self) -> dict[int, int]:
        """The first offset of each partition; rows are read, when the first record asks."""
        path, name = self._topic.table_path, self.name
        engine = for_path(path, self._storage_options)
        table = Table.for_path(engine, path)
        if self._topic.upsert_keys is not None or not table.exists(engine):
            return {}
        firsts = covered_offsets(name, table.latest_snapshot(engine).transactions)
        places = [(path, "_kafka_")]
        if firsts:
            places.append((dead_letters_path(path), ""))
        for place, prefix in places:
            handle = open_table(place, self._storage_options)
            if not handle.exists():
                continue
            part, at = f"{prefix}partition", f"{prefix}offset"
            kafkas = f"{prefix}topic = '{name}' AND {part} >= 0"
            with handle.snapshot().to_batches([part, at], kafkas) as batches:
                for batch in batches:
                    grouped: Any = pa.table(batch).group_by(part).aggregate([(at, "min")])
                    for partition, first in zip(
                        *(c.to_pylist() for c in (grouped[part], grouped[f"{at}_min"])), strict=True
                    ):
                        firsts[partition] = min(firsts.get(partition, first), first)
        return firsts


class OldRecords:
    """Records of files as the topic's own are.

    Attributes:
        offsets: for each Kafka partition the last offset that a record named, brought up to date.
    """

    def __init__(self, from_kafka: FromKafka) -> None:
        self._from_kafka = from_kafka
        self.offsets: dict[int, int] = {}

    def stripped(self, values: list[bytes]) -> tuple[list[bytes], list[bool]]:
        """Records without what an older pipeline has added.

        Returns:
            The records, and for each whether the table gets it from Kafka.
        """
        found, from_kafka = list(values), [False] * len(values)
        for at, value in enumerate(values):
            if _MADE not in value:
                continue
            try:
                record: Any = msgspec.json.decode(value)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue  # it will be a dead letter
            if not isinstance(record, dict) or not _NAMES & record.keys():
                continue
            partition = _whole(record.get("_kafka_partition"))
            offset = _whole(record.get("_kafka_offset"))
            ours = record.get("_kafka_topic", self._from_kafka.name) == self._from_kafka.name
            if ours and partition is not None and offset is not None:
                from_kafka[at] = (partition, offset) in self._from_kafka
                if not from_kafka[at]:
                    self.offsets[partition] = max(self.offsets.get(partition, -1), offset)
            found[at] = msgspec.json.encode({k: v for k, v in record.items() if k not in _NAMES})
        return found, from_kafka


def _whole(value: Any) -> int | None:
    """A partition or an offset, however an older pipeline wrote it: `5`, `5.0` or `"5"`."""
    match value:
        case bool():
            return None
        case int():
            found = value
        case float() if value.is_integer():
            found = int(value)
        case str() if _DIGITS.match(value):
            found = int(value)
        case _:
            return None
    return found if 0 <= found < _MOST else None
