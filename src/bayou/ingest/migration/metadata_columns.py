"""Metadata columns that an older pipeline added to the records of its JSON files.

These columns (`_kafka_partition`, `_kafka_offset`, `_processed_at`, ...) are removed from records.
A record with an offset of the topic may be one that the table reads from Kafka.
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

_METADATA_PREFIX = b'"_'
_DIGITS = re.compile(r"[0-9]{1,19}\Z")
_LONG_LIMIT = 1 << 63
_NAMES = frozenset((*KAFKA_COLUMNS.names, "_kafka_timestamp"))


class FromKafka:
    """The records that a table gets from Kafka instead of from files.

    For appended rows, these are all records of a partition from the first offset that the table
    has: the table has them, or the pipeline will read them. This includes records skipped by
    on-data-loss, because the log may not record them any more. For upserts there are none, because
    duplicates become one row.
    """

    def __init__(self, topic: Topic, storage_options: dict[str, str]) -> None:
        self.name = topic.config.kafka_topic
        self._topic = topic
        self._storage_options = storage_options

    def __contains__(self, at: tuple[int, int]) -> bool:
        """Whether the table gets the record at this partition and offset from Kafka."""
        partition, offset = at
        first = self._firsts.get(partition)
        return first is not None and offset >= first

    @cached_property
    def _firsts(self) -> dict[int, int]:
        """The first offset of each partition, read from the table on first use."""
        path, name = self._topic.table_path, self.name
        engine = for_path(path, self._storage_options)
        table = Table.for_path(engine, path)
        if self._topic.upsert_keys is not None or not table.exists(engine):
            return {}
        firsts = covered_offsets(name, table.latest_snapshot(engine).transactions)
        tables = [(path, "_kafka_")]
        if firsts:
            tables.append((dead_letters_path(path), ""))
        for table_path, prefix in tables:
            handle = open_table(table_path, self._storage_options)
            if not handle.exists():
                continue
            part, at = f"{prefix}partition", f"{prefix}offset"
            condition = f"{prefix}topic = '{name}' AND {part} >= 0"
            with handle.snapshot().to_batches([part, at], condition) as batches:
                for batch in batches:
                    grouped: Any = pa.table(batch).group_by(part).aggregate([(at, "min")])
                    for partition, first in zip(
                        *(c.to_pylist() for c in (grouped[part], grouped[f"{at}_min"])), strict=True
                    ):
                        firsts[partition] = min(firsts.get(partition, first), first)
        return firsts


class OldRecords:
    """Removes metadata columns from the records of files.

    Attributes:
        offsets: for each Kafka partition the last offset in the records so far.
    """

    def __init__(self, from_kafka: FromKafka) -> None:
        self._from_kafka = from_kafka
        self.offsets: dict[int, int] = {}

    def stripped(self, values: list[bytes]) -> tuple[list[bytes], list[bool]]:
        """Remove the metadata columns from records.

        Returns:
            The records, and for each whether the table gets it from Kafka.
        """
        result, from_kafka = list(values), [False] * len(values)
        for at, value in enumerate(values):
            if _METADATA_PREFIX not in value:
                continue
            try:
                record: Any = msgspec.json.decode(value)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue  # the record becomes a dead letter
            if not isinstance(record, dict) or not _NAMES & record.keys():
                continue
            partition = _integer(record.get("_kafka_partition"))
            offset = _integer(record.get("_kafka_offset"))
            same_topic = record.get("_kafka_topic", self._from_kafka.name) == self._from_kafka.name
            if same_topic and partition is not None and offset is not None:
                from_kafka[at] = (partition, offset) in self._from_kafka
                if not from_kafka[at]:
                    self.offsets[partition] = max(self.offsets.get(partition, -1), offset)
            result[at] = msgspec.json.encode({k: v for k, v in record.items() if k not in _NAMES})
        return result, from_kafka


def _integer(value: Any) -> int | None:
    """Return a partition or an offset that is written as `5`, `5.0` or `"5"`."""
    match value:
        case bool():
            return None
        case int():
            number = value
        case float() if value.is_integer():
            number = int(value)
        case str() if _DIGITS.match(value):
            number = int(value)
        case _:
            return None
    return number if 0 <= number < _LONG_LIMIT else None
