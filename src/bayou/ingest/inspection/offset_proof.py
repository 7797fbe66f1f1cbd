"""Verifies that a table has each record of its topic exactly once, and locates errors.

Each row and each dead letter has the offset of its record, and the table's transactions have the
covered offsets. So every offset below is a row, a dead letter, or isn't a record (offsets have gaps
because of log compaction and transaction markers). Other offsets are requested from the brokers; a
record that the brokers have and neither table has is a gap.

An upsert's table has one row for each key, so offsets without rows aren't gaps. There the records
are read again, see `key_proof`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyroaring import BitMap64

from bayou.ingest.broker import describe_topic
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.inspection.kafka_records import kafka_records
from bayou.ingest.inspection.key_proof import KeyProof, prove_keys
from bayou.ingest.inspection.seen_offsets import SeenOffsets, TopicOffsets, spans
from bayou.ingest.inspection.topic_status import TopicTables
from bayou.ingest.migration import Ledger
from bayou.ingest.offsets import KafkaTopic, OffsetSpan, next_offsets, recorded_start
from bayou.kernel.deletion_vectors.deleted_rows import to_bitmap

__all__ = ["OffsetProof", "PartitionProof", "prove_offsets"]

_MAX_SPANS = 16
"""Maximum number of ranges of a partition to read; close ranges are joined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProof:
    """The result for a Kafka partition.

    Attributes:
        partition: number of the partition.
        covered: the offset below which the table should have all records.
        rows, dead_letters: number of records in the tables.
        doubles: offsets that are in the tables more than once.
        gaps: offsets below `covered` whose record the brokers have but the tables don't.
        unproven: offsets below `covered` that neither tables nor brokers have; retention may have
            deleted their records.
        waiting: number of offsets from `covered` on that the brokers have.
        ahead: offsets of rows from `covered` on.
        stale: offsets of rows of an upsert whose key a newer record has changed or deleted.
    """

    partition: int
    covered: int
    rows: int
    dead_letters: int
    doubles: tuple[OffsetSpan, ...] = ()
    gaps: tuple[OffsetSpan, ...] = ()
    unproven: tuple[OffsetSpan, ...] = ()
    waiting: int = 0
    ahead: tuple[OffsetSpan, ...] = ()
    stale: tuple[OffsetSpan, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether there are no duplicates, gaps, rows ahead or stale rows."""
        return not (self.doubles or self.gaps or self.ahead or self.stale)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetProof:
    """The result for a topic.

    Attributes:
        topic: the topic's key in the configuration.
        table_path: the target table.
        version: the verified version.
        partitions: the result of each Kafka partition.
        double_keys: for an upsert, the number of rows with a duplicate key.
    """

    topic: str
    table_path: str
    version: int
    partitions: tuple[PartitionProof, ...]
    double_keys: int = 0

    @property
    def holds(self) -> bool:
        """Whether the table has every covered record exactly once."""
        return not self.double_keys and all(p.holds for p in self.partitions)


def prove_offsets(configuration: Configuration, topic: Topic) -> OffsetProof:
    """Verify a topic's tables, reading from Kafka the records that the tables lack.

    Streams three columns of the target. Memory holds compressed bitmaps of offsets, and for an
    upsert also the keys and ordering columns.

    Raises:
        TableError: the table doesn't exist, or can't be read.
        KafkaError: the brokers don't answer, or the topic doesn't exist.
    """
    tables = TopicTables.of(configuration, topic)
    snapshot = tables.target.snapshot()
    properties = configuration.connector.kafka.client_properties()
    kafka = describe_topic(topic.config.kafka_topic, properties)
    covered = next_offsets(kafka, snapshot.transactions)
    keys = topic.upsert_keys
    rows = TopicOffsets()
    rows.read(snapshot, kafka.name, prefix="_kafka_")
    letters = TopicOffsets()
    options = configuration.connector.storage.storage_options()
    # Records that were migrated from files have no rows with Kafka's offsets.
    migrated = Ledger(topic.table_path, options).offsets()
    starts: Mapping[int, int] = {p: last + 1 for p, last in migrated.items()}
    if tables.dead_letters.exists():
        dead_letters = tables.dead_letters.snapshot()
        starts = {**starts, **recorded_start(kafka, dead_letters.transactions)}
        letters.read(dead_letters, kafka.name)
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
        )
    verifier = _PartitionVerifier(properties=properties, kafka=kafka, by_key=by_key)
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
        table_path=tables.target.path,
        version=snapshot.version,
        partitions=proofs,
        double_keys=0 if by_key is None else by_key.double_keys,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _PartitionVerifier:
    """Verifies the partitions of a topic."""

    properties: Mapping[str, str]
    kafka: KafkaTopic
    by_key: KeyProof | None

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
        stale = BitMap64()
        if self.by_key is None:
            missing = BitMap64(range(first, covered)) - known
            available = missing & BitMap64(range(bounds.start, max(bounds.start, bounds.end)))
            gaps = self._records(partition, available)
        else:
            missing = available = BitMap64()
            gaps = self.by_key.missing.get(partition, BitMap64())
            stale = self.by_key.stale.get(partition, BitMap64())
        return PartitionProof(
            partition=partition,
            covered=covered,
            rows=len(rows.once),
            dead_letters=len(letters.once),
            doubles=spans(rows.twice | letters.twice | (rows.once & letters.once)),
            gaps=spans(gaps),
            unproven=spans(missing - available),
            waiting=max(0, bounds.end - max(covered, bounds.start)),
            ahead=spans(rows.once - BitMap64(range(covered))),
            stale=spans(stale),
        )

    def _records(self, partition: int, offsets: BitMap64) -> BitMap64:
        """Return the offsets that are records of the topic."""
        ranges = [(partition, span) for span in _join_spans(spans(offsets))]
        records = BitMap64()
        for batch in kafka_records(self.properties, self.kafka.name, ranges):
            records |= to_bitmap(batch.column("offset"))
        return records & offsets


def _join_spans(ranges: Sequence[OffsetSpan]) -> list[OffsetSpan]:
    """Join the closest ranges until at most `_MAX_SPANS` remain."""
    if len(ranges) <= _MAX_SPANS:
        return list(ranges)
    distances = sorted(
        range(1, len(ranges)), key=lambda i: ranges[i].start - ranges[i - 1].end, reverse=True
    )
    cuts = sorted(distances[: _MAX_SPANS - 1])
    return [
        OffsetSpan(start=ranges[a].start, end=ranges[b - 1].end)
        for a, b in zip([0, *cuts], [*cuts, len(ranges)], strict=True)
    ]
