"""Detects from a table's rows that a RESTORE may have removed rows, if the log is incomplete.

A RESTORE to an earlier version removes the rows of the last commits. The table then lacks the row
at the last recorded offset of a Kafka partition, or all rows of the last batch that `bayou migrate`
loaded from a folder of JSON files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bayou.api import SnapshotHandle
from bayou.api import table as open_table
from bayou.ingest.config import Topic
from bayou.ingest.config.table_paths import ledger_path
from bayou.ingest.offsets import covered_offsets
from bayou.kernel import Engine, Snapshot
from bayou.kernel.arrow.compute import pc

_TOPIC, _POSITION = "_kafka_topic", ["_kafka_partition", "_kafka_offset"]
_MIGRATED = -1  # `_kafka_partition` of migrated rows


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRange:
    """A range of offsets in one partition, for which the table should have at least one row."""

    partition: int
    first: int
    last: int

    def __str__(self) -> str:
        if self.partition == _MIGRATED:
            return f"the last migrated batch (records {self.first} to {self.last})"
        return f"the last recorded offset (partition {self.partition}, offset {self.last})"


def missing_last_rows(engine: Engine, topic: Topic, snapshot: Snapshot) -> tuple[RowRange, ...]:
    """Return the range of each last recorded offset or last migrated batch that has no row.

    If a RESTORE has removed rows that the topic read from Kafka or migrated, the result has at
    least one range. A row may also be missing for another reason: its record was filtered out or
    became a dead letter, or the row was deleted. Rows that a program wrote, and rows of replayed
    dead letters, aren't checked.
    """
    name, transactions = topic.config.kafka_topic, snapshot.transactions
    ranges = [
        RowRange(partition=partition, first=end - 1, last=end - 1)
        for partition, end in covered_offsets(name, transactions).items()
        if end > 0
    ]
    ranges += _migrated_ranges(engine, topic, transactions)
    if not ranges or not {_TOPIC, *_POSITION} <= {*snapshot.schema.names}:
        return tuple(ranges)
    missing = list(ranges)
    with SnapshotHandle(engine, snapshot).to_batches(
        _POSITION, _condition(name, ranges)
    ) as batches:
        for batch in batches:
            partitions, offsets = batch.columns
            missing = [r for r in missing if not _contains(r, partitions, offsets)]
    return tuple(missing)


def _condition(name: str, ranges: Sequence[RowRange]) -> str:
    """Return a SQL condition that selects the rows in `ranges`, and possibly other rows.

    The condition compares the offsets of all Kafka partitions with one list. This is faster than a
    condition for each partition, because there can be thousands of partitions.
    """
    conditions = [
        f"(_kafka_partition = {r.partition} AND _kafka_offset >= {r.first} "
        f"AND _kafka_offset <= {r.last})"
        for r in ranges
        if r.partition == _MIGRATED
    ]
    if offsets := {r.last for r in ranges if r.partition != _MIGRATED}:
        numbers = ", ".join(map(str, sorted(offsets)))
        conditions.append(
            f"({_TOPIC} = '{name}' AND _kafka_partition >= 0 AND _kafka_offset IN ({numbers}))"
        )
    return " OR ".join(conditions)


def _contains(rows: RowRange, partitions: pa.Array[Any], offsets: pa.Array[Any]) -> bool:
    at = offsets.filter(pc.equal(partitions, rows.partition))
    within = pc.and_(pc.greater_equal(at, rows.first), pc.less_equal(at, rows.last))
    return bool(pc.any(within).as_py())


def _migrated_ranges(
    engine: Engine, topic: Topic, transactions: Mapping[str, int]
) -> list[RowRange]:
    """Return the range of the last non-empty batch from each folder that was migrated.

    Migrated rows have the partition -1, and a sequence number instead of a Kafka offset.
    """
    from bayou.ingest.migration.ledger import application_id, migrated_source

    folders = {migrated_source(application) for application in transactions} - {None}
    ledger = open_table(ledger_path(topic.table_path), engine=engine)
    if not folders or not ledger.exists():
        return []
    last: dict[str, tuple[int, int, int]] = {}
    columns = ["source", "batch", "first", "records"]
    for part in ledger.to_arrow(columns, "records > 0").to_pylist():
        source, batch, first = part["source"], part["batch"], part["first"]
        if batch > transactions.get(application_id(source), -1):
            continue
        known = last.get(source, (-1, first, first))
        end = first + part["records"] - 1
        if batch > known[0]:
            last[source] = (batch, first, end)
        elif batch == known[0]:
            last[source] = (batch, min(first, known[1]), max(end, known[2]))
    return [RowRange(partition=_MIGRATED, first=f, last=end) for _, f, end in last.values()]
