"""Verifies that a table has each record of its topic exactly once, and locates errors.

Each row and each dead letter contains the Kafka offset of its record. For each partition, the table
has recorded the *covered* offset: the pipeline has read all records with lower offsets. Therefore
each lower offset of a record must have a row or a dead letter. Not every offset has a record,
because of log compaction and transaction markers. All offsets without a row or a dead letter are
requested from the brokers. Such an offset is a *gap* if the brokers have a record at the offset and
`processing.where` doesn't filter the record out.

The table of an upsert has one row for each key, so most offsets have no row. For upserts, all
records are read again; see `verify_upsert`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyroaring import BitMap64

from bayou.ingest.broker import describe_topic
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.inspection.filtered_records import FilterHistory
from bayou.ingest.inspection.kafka_records import kafka_records
from bayou.ingest.inspection.topic_status import TopicTables
from bayou.ingest.inspection.verify_upsert import KeyProof, prove_keys
from bayou.ingest.migration import Ledger
from bayou.ingest.offsets import (
    KafkaTopic,
    OffsetSpan,
    join_spans,
    next_offsets,
    recorded_start,
)
from bayou.ingest.offsets_of_rows import SeenOffsets, TopicOffsets, spans
from bayou.ingest.routing.inspection import routed_snapshots
from bayou.kernel.arrow.compute import pc
from bayou.kernel.deletion_vectors.deleted_rows import to_bitmap


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProof:
    """The result for one Kafka partition.

    In this docstring, "the tables" are the target, the tables of `route-by` and the dead letter
    table.

    Attributes:
        covered: the offset below which the tables should have all records.
        rows: number of distinct offsets in the target and the tables of `route-by`.
        dead_letters: number of distinct offsets in the dead letter table.
        filtered: number of offsets below `covered` that aren't in the tables, because
            `processing.where` filtered out their records. Always 0 for an upsert.
        duplicates: offsets with more than one row or dead letter.
        gaps: offsets below `covered` of records that the brokers have, but the tables don't have.
        unproven: offsets below `covered` that neither the tables nor the brokers have. Kafka may
            have deleted their records.
        waiting: number of offsets that the brokers have at or above `covered`.
        ahead: offsets at or above `covered` that have rows. Offsets that a table of `route-by` has
            recorded as read are excluded, because an interrupted batch may have committed to only
            some of the tables.
        stale: for an upsert, offsets of rows that a newer record should have replaced or deleted.
    """

    partition: int
    covered: int
    rows: int
    dead_letters: int
    filtered: int = 0
    duplicates: tuple[OffsetSpan, ...] = ()
    gaps: tuple[OffsetSpan, ...] = ()
    unproven: tuple[OffsetSpan, ...] = ()
    waiting: int = 0
    ahead: tuple[OffsetSpan, ...] = ()
    stale: tuple[OffsetSpan, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether there is no error: `duplicates`, `gaps`, `ahead` and `stale` are empty."""
        return not (self.duplicates or self.gaps or self.ahead or self.stale)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetProof:
    """The result of `prove_offsets` for a topic.

    Attributes:
        routed_tables: the paths of the tables of `route-by`, whose rows are included in the result.
        duplicate_keys: for an upsert, the number of rows minus the number of distinct keys.
    """

    topic: str
    table_path: str
    version: int
    partitions: tuple[PartitionProof, ...]
    routed_tables: tuple[str, ...] = ()
    duplicate_keys: int = 0

    @property
    def holds(self) -> bool:
        """Whether the verification found no errors in any partition, and no duplicate keys."""
        return not self.duplicate_keys and all(p.holds for p in self.partitions)


def prove_offsets(configuration: Configuration, topic: Topic) -> OffsetProof:
    """Verify the target and the dead letter table of a topic against the records in Kafka.

    Compressed bitmaps of all offsets must fit in memory. For an upsert, the key columns and
    ordering columns of all rows must also fit in memory.
    """
    tables = TopicTables.of(configuration, topic)
    snapshot = tables.target.snapshot()
    properties = configuration.connector.kafka.client_properties()
    kafka = describe_topic(topic.config.kafka_topic, properties)
    covered = next_offsets(kafka, snapshot.transactions)
    keys = topic.upsert_keys
    rows = TopicOffsets()
    rows.read(snapshot, kafka.name, prefix="_kafka_")
    # Read the tables of `route-by` after the target: they then have all rows whose offsets the
    # target has recorded.
    routed = routed_snapshots(configuration, topic, snapshot)
    ends: dict[int, int] = dict(covered)
    for table in routed:
        rows.read(table, kafka.name, prefix="_kafka_")
        for partition, end in next_offsets(kafka, table.transactions).items():
            ends[partition] = max(end, ends.get(partition, 0))
    letters = TopicOffsets()
    options = configuration.connector.storage.storage_options()
    # Start after the records that were migrated from files: their rows don't have Kafka's offsets.
    migrated = Ledger(topic.table_path, options).offsets(kafka.name)
    starts: Mapping[int, int] = {p: last + 1 for p, last in migrated.items()}
    if tables.dead_letters.exists():
        dead_letters = tables.dead_letters.snapshot()
        starts = {**starts, **recorded_start(kafka, dead_letters.transactions)}
        letters.read(dead_letters, kafka.name)
    starts = {**starts, **recorded_start(kafka, snapshot.transactions)}
    history = FilterHistory(configuration, topic, kafka, snapshot.kernel.properties, covered)
    by_key = None
    if keys is not None:
        by_key = prove_keys(
            configuration,
            topic,
            kafka,
            snapshot=snapshot,
            starts={p: min([start, *rows.of(p).once[:1]]) for p, start in starts.items()},
            covered=covered,
            letters=letters,
            history=history,
        )
    verifier = _PartitionVerifier(
        properties=properties,
        kafka=kafka,
        by_key=by_key,
        history=history,
        ends=ends,
    )
    proofs = tuple(
        verifier.verify(
            partition,
            covered.get(partition, 0),
            starts.get(partition),
            rows.of(partition),
            letters.of(partition),
        )
        for partition in sorted(
            {*kafka.bounds, *rows.partitions, *covered, *(() if by_key is None else by_key.stale)}
        )
    )
    return OffsetProof(
        topic=topic.key,
        table_path=tables.target.table_uri,
        version=snapshot.version,
        partitions=proofs,
        routed_tables=tuple(table.kernel.path for table in routed),
        duplicate_keys=0 if by_key is None else by_key.duplicate_keys,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _PartitionVerifier:
    properties: Mapping[str, str]
    kafka: KafkaTopic
    by_key: KeyProof | None
    history: FilterHistory
    ends: Mapping[int, int]

    def verify(
        self,
        partition: int,
        covered: int,
        start: int | None,
        rows: SeenOffsets,
        letters: SeenOffsets,
    ) -> PartitionProof:
        bounds = self.kafka.bounds.get(partition, OffsetSpan(start=0, end=0))
        known = rows.once | letters.once
        first = (
            start if start is not None else min([bounds.start, *([known.min()] if known else [])])
        )
        first = min(first, covered)
        stale, filtered = BitMap64(), BitMap64()
        if self.by_key is None:
            missing = BitMap64(range(first, covered)) - known
            available = missing & BitMap64(range(bounds.start, max(bounds.start, bounds.end)))
            gaps, filtered = self._records(partition, available)
        else:
            missing = available = BitMap64()
            gaps, _ = self._records(partition, self.by_key.missing.get(partition, BitMap64()))
            stale = self.by_key.stale.get(partition, BitMap64())
        return PartitionProof(
            partition=partition,
            covered=covered,
            rows=len(rows.once),
            dead_letters=len(letters.once),
            filtered=len(filtered),
            duplicates=spans(rows.twice | letters.twice | (rows.once & letters.once)),
            gaps=spans(gaps),
            unproven=spans(missing - available),
            waiting=max(0, bounds.end - max(covered, bounds.start)),
            ahead=spans(rows.once - BitMap64(range(self.ends.get(partition, covered)))),
            stale=spans(stale),
        )

    def _records(self, partition: int, offsets: BitMap64) -> tuple[BitMap64, BitMap64]:
        """Read the records at some offsets of a partition from Kafka.

        Returns:
            The offsets of the records that weren't filtered out, and the offsets of the records
            that were. Offsets without a record are in neither bitmap.
        """
        ranges = [(partition, span) for span in join_spans(spans(offsets))]
        records, filtered = BitMap64(), BitMap64()
        requested = pa.array(offsets.to_array(), pa.int64())
        for batch in kafka_records(self.properties, self.kafka.name, ranges):
            found = batch.filter(pc.is_in(batch.column("offset"), value_set=requested))
            records |= to_bitmap(found.column("offset"))
            if self.history.has_filters:
                filtered |= self.history.filtered(partition, found)
        return records - filtered, filtered
