"""Replays the dead letters of an upsert as if their records had been read in order.

A dead letter that can now become a row is upserted with the Kafka timestamp and offset of its
record. Therefore it doesn't replace a row of a newer record. The replay is idempotent.

A record without a timestamp gets the timestamp of the preceding record in its partition, as in a
batch of the pipeline. With the current time instead, the record could replace a newer row, insert a
row of a deleted key, or prevent updates by the next records.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from bayou.api import table
from bayou.api.conditions import combine_with_and
from bayou.engines import for_path
from bayou.errors import CommitConflictError
from bayou.ingest.batch.filter_history import filter_properties
from bayou.ingest.batch.record_timestamps import LOWEST_TIME
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.config.table_paths import dead_letters_path, deleted_keys_path
from bayou.ingest.dead_letters import record_identity
from bayou.ingest.dead_letters.append_replay import (
    WRITTEN_BY_PROGRAM,
    ReplayResult,
    count_without_replay,
)
from bayou.ingest.dead_letters.records import DEAD_LETTER_SCHEMA
from bayou.ingest.migration import migrated_end
from bayou.ingest.offsets import covered_offsets
from bayou.ingest.offsets_of_rows import TopicOffsets
from bayou.ingest.retries import retry_delay
from bayou.ingest.topic_table.direct_writer import MIGRATED, DirectWriter
from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.types import to_arrow_schema
from bayou.kernel.commands.alter.properties import set_properties
from bayou.version import ENGINE_INFO


def replay_upserts(
    configuration: Configuration, topic: Topic, *, where: str | None, dry_run: bool
) -> ReplayResult:
    """Upsert dead letters that can now become rows, then delete them.

    `where` is an SQL condition on the columns of the dead letter table. If the replay fails, the
    dead letters remain. If `dry_run` is true, nothing is written or deleted.
    """
    options = configuration.connector.storage.storage_options()
    path = dead_letters_path(topic.table_path)
    engine = for_path(path, options)
    dead_letters = table(path, engine=engine)
    name = topic.config.kafka_topic
    if not dead_letters.exists():
        return ReplayResult(topic=topic.key)
    writer = DirectWriter(configuration, topic, records_of_topic=True)
    condition = combine_with_and(f"topic = '{name}'", where)
    snapshot = dead_letters.snapshot()
    candidates = snapshot.to_arrow(filter=condition)
    transactions = writer.transactions()
    ends = {
        **covered_offsets(name, transactions),
        MIGRATED: migrated_end(topic, transactions, options),
    }
    ready = _covered(candidates, ends)
    record_identity.check_same_records(
        ready.select(record_identity.RECORD).to_batches(),
        record_identity.repeated_offsets(_offsets(ready)),
        ends,
        topic=topic.key,
        table=dead_letters.table_uri,
    )
    if ready.column("timestamp").null_count:
        ready = _with_timestamps(ready, _kafka_rows(topic, name, options))
    from_kafka = pc.greater_equal(ready.column("partition"), 0)
    replays = [
        writer.replay(letters.combine_chunks().to_batches(), dry_run=dry_run)
        for writer, letters in (
            (DirectWriter(configuration, topic), ready.filter(pc.invert(from_kafka))),
            (writer, ready.filter(from_kafka)),
        )
        if letters.num_rows
    ]
    versions = [report.version for _, _, report in replays if report is not None]
    refused = pa.concat_tables(
        [to_arrow_schema(DEAD_LETTER_SCHEMA).empty_table(), *(r for r, _, _ in replays)]
    )
    reasons = pc.value_counts(refused.column("reason")).to_pylist()
    counts = {reason["values"]: reason["counts"] for reason in reasons}
    if without_replay := count_without_replay(candidates, ends):
        counts[WRITTEN_BY_PROGRAM] = without_replay
    filtered = sum(filtered for _, filtered, _ in replays)
    result = ReplayResult(
        topic=topic.key,
        replayed=ready.num_rows - refused.num_rows - filtered,
        filtered=filtered,
        refused=refused.num_rows + without_replay,
        reasons=counts,
        skipped=candidates.num_rows - ready.num_rows - without_replay,
        version=versions[-1] if versions else None,
    )
    if result.filtered and not dry_run:
        _record_filter(topic, options, ready)
    if result.replayed + result.filtered and not dry_run:
        letters = TopicOffsets(MIGRATED)
        letters.read(snapshot, name)
        repeated = record_identity.repeated_offsets(letters)
        is_refused = record_identity.at_offsets(ready, _all_offsets(refused))
        done = ready.filter(pc.invert(is_refused)).to_batches()
        record_identity.delete_letters(
            engine,
            dead_letters.snapshot(),
            name,
            [record_identity.identities(batch, repeated) for batch in done],
        )
    return result


def _offsets(letters: pa.Table) -> TopicOffsets:
    offsets = TopicOffsets(MIGRATED)
    for batch in letters.to_batches():
        offsets.add(batch)
    return offsets


def _all_offsets(letters: pa.Table) -> record_identity.Offsets:
    offsets = _offsets(letters)
    return {partition: offsets.of(partition).once for partition in offsets.partitions}


def _record_filter(topic: Topic, options: dict[str, str], letters: pa.Table) -> None:
    """Record in the target that `processing.where` filtered out some of the replayed records.

    The condition is stored in the table property that also stores the conditions of the pipeline's
    batches. If a batch changes the property at the same time, the commit is retried.

    Args:
        letters: the replayed dead letters.
    """
    offsets = TopicOffsets()
    for batch in letters.to_batches():
        offsets.add(batch)
    engine = for_path(topic.table_path, options)
    target = table(topic.table_path, engine=engine)
    for attempt in itertools.count(1):
        snapshot = target.snapshot()
        properties = filter_properties(
            topic,
            snapshot.kernel.properties,
            covered_offsets(topic.config.kafka_topic, snapshot.transactions),
            offsets.ranges(),
        )
        if not properties:
            return
        try:
            set_properties(engine, snapshot.kernel, properties, engine_info=ENGINE_INFO)
            return
        except CommitConflictError:
            if attempt > topic.config.processing.max_retries:
                raise
        time.sleep(retry_delay(attempt))


def _covered(dead_letters: pa.Table, covered: Mapping[int, int]) -> pa.Table:
    """Return the dead letters whose offsets the target has recorded.

    The next run of the pipeline processes the records of all other dead letters again.

    Args:
        covered: the next offset to read of each partition, as recorded by the target. For migrated
            records, this is the next sequence number.
    """
    ends = pa.table(
        {
            "partition": pa.array(covered, pa.int32()),
            "end": pa.array(covered.values(), pa.int64()),
        }
    )
    indices = pc.index_in(dead_letters.column("partition"), value_set=ends.column("partition"))
    below = pc.less(dead_letters.column("offset"), ends.column("end").take(indices))
    return dead_letters.filter(pc.fill_null(below, False))


def _kafka_rows(topic: Topic, name: str, options: dict[str, str]) -> Iterator[pa.Table]:
    """Yield partition, offset and timestamp of the target's rows and of its deleted keys.

    A row or a deleted key is omitted if it doesn't come from Kafka or has no timestamp.
    """
    columns = [f"_kafka_{column}" for column in _POSITION]
    for path in (topic.table_path, deleted_keys_path(topic.table_path)):
        handle = table(path, options)
        snapshot = handle.snapshot() if handle.exists() else None
        if snapshot is None or set(columns) - set(snapshot.schema.names):
            continue
        condition = "_kafka_partition >= 0 AND _kafka_timestamp IS NOT NULL"
        if "_kafka_topic" in snapshot.schema.names:
            condition += f" AND _kafka_topic = '{name}'"
        with snapshot.to_batches(columns, condition) as batches:
            for batch in batches:
                yield pa.table([batch.column(c) for c in columns], names=_POSITION)


_POSITION = ["partition", "offset", "timestamp"]


def _with_timestamps(letters: pa.Table, rows: Iterable[pa.Table]) -> pa.Table:
    """Return the dead letters with their missing timestamps filled in.

    A missing timestamp is copied from the last earlier row or dead letter in the partition that has
    a timestamp. Without an earlier timestamp, the next later timestamp is copied. If the partition
    has no timestamp at all, `LOWEST_TIME` is used.

    Args:
        rows: the result of `_kafka_rows`.
    """
    schema = letters.select(_POSITION).schema
    schema = pa.schema([field.with_nullable(True) for field in schema])
    near = letters.select(_POSITION).cast(schema)
    for part in rows:
        near = _neighbors(pa.concat_tables([near, part.cast(schema)]))
    filled: dict[tuple[Any, Any], Any] = {}
    for partition in pc.unique(near.column("partition")).to_pylist():
        records = near.filter(pc.equal(near.column("partition"), partition)).sort_by("offset")
        known: Any = records.column("timestamp").combine_chunks()
        timestamps = pc.fill_null_backward(pc.fill_null_forward(known)).cast(pa.int64())
        offsets = records.column("offset").to_pylist()
        at = ((partition, offset) for offset in offsets)
        known_times = zip(at, timestamps.to_pylist(), strict=True)
        filled.update((position, time) for position, time in known_times if time is not None)
    positions = zip(*(letters.column(c).to_pylist() for c in _POSITION[:2]), strict=True)
    times: Any = pa.array([filled.get(position, LOWEST_TIME) for position in positions], pa.int64())
    index = letters.schema.get_field_index("timestamp")
    kind = letters.schema.field(index).type
    completed = pc.coalesce(letters.column(index), times.cast(kind))
    return letters.set_column(index, letters.schema.field(index), completed)


def _neighbors(records: pa.Table) -> pa.Table:
    """Return the records without a timestamp, and the records directly before and after them."""
    records = records.sort_by([("partition", "ascending"), ("offset", "ascending")])
    missing: Any = records.column("timestamp").is_null().combine_chunks()
    none: Any = pa.array([False])
    before = pa.concat_arrays([missing.slice(1), none])
    after = pa.concat_arrays([none, missing.slice(0, max(0, len(missing) - 1))])
    return records.filter(pc.or_(missing, pc.or_(before, after)))
