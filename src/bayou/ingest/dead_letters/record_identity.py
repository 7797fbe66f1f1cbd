"""Decides whether dead letters and rows with the same offset belong to the same record.

An offset alone doesn't identify a record. A recreated topic starts at offset 0 again. If the
brokers have no topic ids, nothing detects this, so dead letters of the deleted topic have the
offsets of new records. Migrated records have sequence numbers as offsets. If the files are migrated
again to a new table, the sequence numbers start at 0 again.

Dead letters with the same offset are therefore also compared by Kafka timestamp, key and value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
from pyroaring import BitMap64

from bayou.api import SnapshotHandle
from bayou.errors import PipelineError
from bayou.ingest.dead_letters.records import fingerprints
from bayou.ingest.offsets_of_rows import TopicOffsets
from bayou.ingest.topic_table.direct_writer import MIGRATED
from bayou.kernel.arrow.compute import pc
from bayou.kernel.commands.merge import MergeClause, MergeDefinition, MergeSource, merge
from bayou.kernel.engine import Engine
from bayou.version import ENGINE_INFO

Offsets: TypeAlias = Mapping[int, BitMap64]
"""For each Kafka partition, a bitmap of offsets."""

RECORD = ["partition", "offset", "timestamp", "key", "value"]
"""The columns of a dead letter that identify its record."""

OTHER_ROW = (
    "the table has a row with the same partition and offset, but nothing shows that it is the row "
    "of this record: the topic was recreated, files were migrated again, or the dead letter table "
    "was cloned or restored. If the table has the record, drop the dead letter with bayou dlq "
    "drop. If it doesn't, send the record to the Kafka topic again before you drop the dead letter"
)
"""The reason for not replaying a dead letter if a row with its offset may be of another record."""


def repeated_offsets(letters: TopicOffsets) -> Offsets:
    """Return the offsets that several dead letters have."""
    seen = {partition: letters.of(partition).twice for partition in letters.partitions}
    return {partition: offsets for partition, offsets in seen.items() if offsets}


def at_offsets(records: pa.RecordBatch | pa.Table, offsets: Offsets) -> Any:
    """Return a mask of the records whose partition and offset are in `offsets`."""
    partitions, column = records.column("partition"), records.column("offset")
    mask: Any = pa.repeat(pa.scalar(False), records.num_rows)
    for partition, selected in offsets.items():
        known = pa.array(selected, pa.int64())
        mask = pc.or_(mask, pc.and_(pc.equal(partitions, partition), pc.is_in(column, known)))
    return mask


def offset_range(offsets: Offsets) -> str:
    """Return an SQL condition for the range from the lowest to the highest offset in `offsets`."""
    first, last = min(o.min() for o in offsets.values()), max(o.max() for o in offsets.values())
    return f"offset >= {first} AND offset <= {last}"


def check_same_records(
    letters: Iterable[pa.RecordBatch],
    repeated: Offsets,
    ends: Mapping[int, int],
    *,
    topic: str,
    table: str,
) -> None:
    """Check that dead letters with the same partition and offset are of the same record.

    Args:
        letters: batches with the columns `RECORD`.
        repeated: the offsets that more than one dead letter has.
        ends: by partition, the offset below which dead letters can be replayed. Dead letters at
            other offsets aren't checked.
        topic: the topic's key, for messages.
        table: the path of the dead letter table, for messages.

    Raises:
        PipelineError: two dead letters have different records.
    """
    if not repeated:
        return
    known: dict[tuple[int, int], bytes] = {}
    for batch in letters:
        selected = batch.filter(at_offsets(batch, repeated))
        partitions: list[Any] = selected.column("partition").to_pylist()
        offsets: list[Any] = selected.column("offset").to_pylist()
        records = fingerprints(selected)
        for partition, offset, record in zip(partitions, offsets, records, strict=True):
            if offset >= ends.get(partition, 0):
                continue
            if known.setdefault((partition, offset), record) != record:
                source = "topic, which was deleted and recreated"
                if partition == MIGRATED:
                    source = "migration, to a table that was deleted"
                raise PipelineError(
                    f"topic {topic!r}: {table} has dead letters of different records at partition "
                    f"{partition}, offset {offset}: some are from an earlier {source}. Nothing was "
                    f"replayed. Replay the dead letters of one {source.partition(',')[0]} with "
                    "--where and a condition on _ingestion_timestamp, or delete the earlier dead "
                    "letters with bayou dlq drop.",
                    topic=topic,
                )


def offsets_of_other_rows(
    letters: Iterable[pa.RecordBatch],
    existing: Offsets,
    tables: Iterable[SnapshotHandle],
    name: str,
    *,
    replays: Collection[int],
    ambiguous: Offsets,
) -> Offsets:
    """Return the offsets at which the row in the target may be of another record.

    A row with a `_kafka_timestamp` is of the same record if the dead letter has the same timestamp.
    A row without a `_kafka_timestamp` is of the same record if an interrupted replay wrote the row
    after the dead letter was written.

    Args:
        letters: batches with the columns partition, offset, timestamp and `_ingestion_timestamp`.
        existing: the offsets at which both a dead letter and a row in the target exist.
        tables: the target's tables.
        name: the Kafka topic's name.
        replays: the run ids of replays that may have been interrupted before they deleted dead
            letters. A run id is the `_ingestion_timestamp` of the replay's rows, in microseconds
            since the epoch.
        ambiguous: offsets with several dead letters; `letters` may lack some of these dead letters.
            A row without `_kafka_timestamp` at one of these offsets may be of another record.
    """
    existing = {p: offsets for p, offsets in existing.items() if offsets}
    if not existing:
        return {}
    rows = pa.Table.from_batches(_rows_at(existing, tables, name, replays), _ROWS)
    same = TopicOffsets(MIGRATED)
    if rows.num_rows:
        for batch in letters:
            selected = pa.Table.from_batches([batch]).filter(at_offsets(batch, existing))
            read_at = selected.column("_ingestion_timestamp").cast(_TIMESTAMP)
            timestamps = pc.coalesce(selected.column("timestamp").cast(_TIMESTAMP), read_at)
            columns = [selected.column("partition"), selected.column("offset"), timestamps, read_at]
            names = ["partition", "offset", "timestamp", "read_at"]
            joined = pa.table(columns, names=names).join(
                rows, ["partition", "offset"], join_type="inner"
            )
            equal = pc.equal(joined.column("timestamp"), joined.column("row_timestamp"))
            replayed = pc.and_not(
                pc.less(joined.column("read_at"), joined.column("replayed_at")),
                at_offsets(joined, ambiguous),
            )
            found = joined.filter(pc.fill_null(pc.coalesce(equal, replayed), False))
            for part in found.select(["partition", "offset"]).to_batches():
                same.add(part)
    others = {p: offsets - same.of(p).once for p, offsets in existing.items()}
    return {partition: offsets for partition, offsets in others.items() if offsets}


_TIMESTAMP = pa.timestamp("us", tz="UTC")
_ROWS = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("row_timestamp", _TIMESTAMP),
        ("replayed_at", _TIMESTAMP),
    ]
)


def _rows_at(
    offsets: Offsets, tables: Iterable[SnapshotHandle], name: str, replays: Collection[int]
) -> list[pa.RecordBatch]:
    """Return the rows whose partition and offset are in `offsets`.

    The column `row_timestamp` is the row's Kafka timestamp; null if the table doesn't store it. The
    column `replayed_at` is the row's `_ingestion_timestamp` if one of `replays` wrote the row,
    otherwise null.
    """
    times = pa.array(sorted(replays), pa.int64()).cast(_TIMESTAMP)
    within = offset_range(offsets).replace("offset", "_kafka_offset")
    result = []
    for snapshot in tables:
        optional = ["_kafka_timestamp", *(["_ingestion_timestamp"] if replays else [])]
        known = [column for column in optional if column in snapshot.schema.names]
        if not known:
            continue
        columns = ["_kafka_partition", "_kafka_offset", *known]
        for batch in snapshot.to_batches(columns, f"_kafka_topic = '{name}' AND {within}"):
            partitions, numbers = (batch.column(column) for column in columns[:2])
            none: Any = pa.nulls(batch.num_rows, _TIMESTAMP)
            timestamps, read_at = (
                batch.column(column).cast(_TIMESTAMP) if column in known else none
                for column in ("_kafka_timestamp", "_ingestion_timestamp")
            )
            replayed_at = pc.if_else(pc.is_in(read_at, value_set=times), read_at, none)
            rows = pa.RecordBatch.from_arrays(
                [partitions.cast(pa.int32()), numbers.cast(pa.int64()), timestamps, replayed_at],
                schema=_ROWS,
            )
            result.append(rows.filter(at_offsets(rows, offsets)))
    return result


def identities(letters: pa.RecordBatch, repeated: Offsets) -> pa.RecordBatch:
    """Return the columns by which `delete_letters` finds dead letters.

    Keys and values are null except at the offsets in `repeated`.

    Args:
        repeated: the offsets that more than one dead letter of the topic has.
    """
    position = letters.select(["partition", "offset", "timestamp"])
    if not repeated:
        return position
    is_repeated = at_offsets(letters, repeated)
    contents = [
        pc.if_else(is_repeated, letters.column(name), pa.scalar(None, pa.binary()))
        for name in ("key", "value")
    ]
    return pa.RecordBatch.from_arrays(
        [*position.columns, is_repeated, *contents],
        names=["partition", "offset", "timestamp", "repeated", "key", "value"],
    )


def delete_letters(
    engine: Engine,
    snapshot: SnapshotHandle,
    name: str,
    done: Sequence[pa.RecordBatch],
    *,
    transaction_ids: Mapping[str, int] | None = None,
) -> None:
    """Delete dead letters in one commit.

    Args:
        name: the Kafka topic's name.
        done: results of `identities` for the dead letters to delete. A stored dead letter without a
            timestamp matches any timestamp, because a replay fills in missing timestamps.
        transaction_ids: transaction identifiers of the commit.
    """
    done = [batch for batch in done if batch.num_rows]
    if not done and not transaction_ids:
        return
    schema = done[0].schema if done else pa.schema(_EMPTY)
    condition = (
        f"target.topic = '{name}' AND target.partition = source.partition "
        "AND target.offset = source.offset "
        "AND (target.timestamp IS NULL OR target.timestamp = source.timestamp)"
    )
    if "repeated" in schema.names:
        condition += (
            " AND (NOT source.repeated OR "
            "(target.key <=> source.key AND target.value <=> source.value))"
        )
    merge(
        engine,
        snapshot.kernel,
        MergeSource.read(schema, done),
        MergeDefinition(
            on=condition,
            clauses=(MergeClause(kind="MATCHED", action="delete"),),
            source_alias="source",
            target_alias="target",
        ),
        engine_info=ENGINE_INFO,
        user_metadata="replayed",
        transaction_ids=transaction_ids,
    )


_EMPTY = [("partition", pa.int32()), ("offset", pa.int64()), ("timestamp", _TIMESTAMP)]
