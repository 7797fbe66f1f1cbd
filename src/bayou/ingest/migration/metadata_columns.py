"""Removes metadata fields that an older pipeline added to the records of JSON files.

The fields are `_kafka_partition`, `_kafka_offset`, `_processed_at` and others. The partition and
the offset show whether the pipeline also reads the record from Kafka.
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import cached_property
from typing import Any

import msgspec
import pyarrow as pa

from bayou.api import table as open_table
from bayou.engines import for_path
from bayou.ingest.batch.metadata_columns import KAFKA_COLUMNS
from bayou.ingest.config import Topic
from bayou.ingest.config.table_paths import dead_letters_path
from bayou.ingest.decode.exact_json import decode_exact_json, encode_exact_json
from bayou.ingest.offsets import covered_offsets
from bayou.ingest.routing.table_registrations import absolute_path, registered_tables
from bayou.kernel import Table

_METADATA_PREFIX = b'"_'
_DIGITS = re.compile(r"[0-9]{1,19}\Z")
_LONG_LIMIT = 1 << 63
_NAMES = frozenset((*KAFKA_COLUMNS.names, "_kafka_timestamp"))


class FromKafka:
    """The records that a migration skips, because the pipeline reads them from Kafka.

    If the topic appends rows, the pipeline has read all records of a Kafka partition from its first
    offset on, or will read them. This first offset is the lowest offset in the target, in the
    tables that `route-by` has written, and in the dead letter table. Records with this offset or a
    higher one are skipped. This includes records that Kafka deleted before the pipeline read them,
    because the table's log may no longer show which records these are.

    If the topic has upserts, no record is skipped, because both copies of a record become the same
    row.

    Args:
        name: the Kafka topic of the records; None for the Kafka topic in the configuration.
    """

    def __init__(
        self, topic: Topic, storage_options: dict[str, str], name: str | None = None
    ) -> None:
        self.name = topic.config.kafka_topic if name is None else name
        self._topic = topic
        self._storage_options = storage_options

    def __contains__(self, at: tuple[int, int]) -> bool:
        """Whether the pipeline reads a record from Kafka.

        Args:
            at: the partition and the offset of the record.
        """
        partition, offset = at
        first = self._firsts.get(partition)
        return first is not None and offset >= first

    @cached_property
    def _firsts(self) -> dict[int, int]:
        """For each Kafka partition, the first offset that the pipeline has read or will read.

        If a partition has no rows and no dead letters, this is the next offset to read.
        """
        path, name = self._topic.table_path, self.name
        engine = for_path(path, self._storage_options)
        table = Table.for_path(engine, path)
        if self._topic.upsert_keys is not None or not table.exists(engine):
            return {}
        snapshot = table.latest_snapshot(engine)
        firsts = covered_offsets(name, snapshot.transactions)
        registered = registered_tables(snapshot.transactions)
        paths = (path, *(absolute_path(p, path) for p in registered))
        tables = [(table_path, "_kafka_") for table_path in paths]
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
    """Removes metadata fields from the records of files.

    Attributes:
        topic: name of the Kafka topic.
        offsets: for each Kafka partition, the highest offset of the records that were migrated so
            far. Skipped records don't count.
    """

    def __init__(self, from_kafka: FromKafka) -> None:
        self._from_kafka = from_kafka
        self.topic = from_kafka.name
        self.offsets: dict[int, int] = {}

    def stripped(self, values: list[bytes]) -> tuple[list[bytes], list[bool]]:
        """Remove the metadata fields from records.

        Returns:
            The records without these fields, and one boolean for each record. The boolean is true
            if the record's metadata fields name a record that the pipeline reads from Kafka. Such a
            record isn't migrated.
        """
        result, from_kafka = list(values), [False] * len(values)
        for at, value in enumerate(values):
            if _METADATA_PREFIX not in value:
                continue
            try:
                record: Any = decode_exact_json(value)
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
            remaining = {k: v for k, v in record.items() if k not in _NAMES}
            result[at] = encode_exact_json(remaining)
        return result, from_kafka


def _integer(value: Any) -> int | None:
    """Convert the JSON value of a partition or an offset to an integer; None if it is invalid.

    Examples of valid values are `5`, `5.0` and `"5"`.
    """
    match value:
        case bool():
            return None
        case int():
            number = value
        case float() | Decimal() if value == int(value):
            number = int(value)
        case str() if _DIGITS.match(value):
            number = int(value)
        case _:
            return None
    return number if 0 <= number < _LONG_LIMIT else None
