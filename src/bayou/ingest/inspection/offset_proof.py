"""The proof that a table has each record of its topic once: no gap, no double, or where one is.

Each row names the record that it came from, each dead letter too, and the table's transactions say
up to which offset it has everything. So every offset below that is a row, a dead letter, or was
never a record (offsets have gaps: compaction, markers of transactions): what is none of these the
brokers are asked for. A record that they have, and that neither table has, is a gap.

Tables of upserts have one row a key, whose newest record it names: there an offset without a row
says nothing, and the records are read again, see `key_proof`.
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
from bayou.ingest.offsets import KafkaTopic, OffsetSpan, fixed_start, next_offsets
from bayou.kernel.deletion_vectors.deleted_rows import bitmap

__all__ = ["OffsetProof", "PartitionProof", "prove_offsets"]

_MOST_SPANS = 16
"""Spans of a partition that are asked for, at most; nearer ones are joined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProof:
    """A Kafka partition.

    Attributes:
        partition: its number.
        covered: the table has everything below this offset, it says.
        rows, dead_letters: records that are there.
        doubles: offsets that are there more than once.
        gaps: offsets below `covered` whose record the brokers have, and the table doesn't.
        unproven: offsets below `covered` that are nowhere any more: retention took their records,
            if there were any.
        waiting: offsets at or above `covered` that the brokers have.
        ahead: rows at or above `covered`.
        stale: rows of an upsert whose key a newer record has changed or deleted.
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
        """Whether nothing is doubled, missing, ahead, or should be gone."""
        return not (self.doubles or self.gaps or self.ahead or self.stale)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetProof:
    """A topic.

    Attributes:
        topic: its name in the configuration.
        table_path: the target.
        version: the version that was looked at.
        partitions: of the Kafka topic.
        double_keys: rows beyond the first of their key, where the table is one of upserts.
    """

    topic: str
    table_path: str
    version: int
    partitions: tuple[PartitionProof, ...]
    double_keys: int = 0

    @property
    def holds(self) -> bool:
        """Whether the table has every record that it covers exactly once."""
        return not self.double_keys and all(p.holds for p in self.partitions)


def prove_offsets(configuration: Configuration, topic: Topic) -> OffsetProof:
    """Look through a topic's tables, and through Kafka where they say nothing.

    Streams three columns of the target; memory holds compressed sets of offsets, where the table is
    one of upserts the keys and what orders them besides.

    Raises:
        TableError: there is no table, or it can't be read.
        KafkaError: the brokers don't answer, or have no such topic.
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
    # What was migrated from files has no rows with Kafka's offsets.
    migrated = Ledger(topic.table_path, options).offsets()
    starts: Mapping[int, int] = {p: last + 1 for p, last in migrated.items()}
    if tables.dead_letters.exists():
        there = tables.dead_letters.snapshot()
        starts = {**starts, **fixed_start(kafka, there.transactions)}
        letters.read(there, kafka.name)
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
    look = _Look(properties=properties, kafka=kafka, by_key=by_key)
    proofs = tuple(
        look.partition(
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
class _Look:
    """How partitions are looked at."""

    properties: Mapping[str, str]
    kafka: KafkaTopic
    by_key: KeyProof | None

    def partition(
        self,
        partition: int,
        covered: int,
        start: int | None,
        rows: SeenOffsets,
        letters: SeenOffsets,
    ) -> PartitionProof:
        there = self.kafka.bounds.get(partition, OffsetSpan(start=0, end=0))
        known = rows.once | letters.once
        first = (
            start if start is not None else min([there.start, *([known.min()] if known else [])])
        )
        first = min(first, covered)
        stale = BitMap64()
        if self.by_key is None:
            missing = BitMap64(range(first, covered)) - known
            asked = missing & BitMap64(range(there.start, max(there.start, there.end)))
            gaps = self._records(partition, asked)
        else:
            missing = asked = BitMap64()
            gaps = self.by_key.missing.get(partition, BitMap64())
            stale = self.by_key.stale.get(partition, BitMap64())
        return PartitionProof(
            partition=partition,
            covered=covered,
            rows=len(rows.once),
            dead_letters=len(letters.once),
            doubles=spans(rows.twice | letters.twice | (rows.once & letters.once)),
            gaps=spans(gaps),
            unproven=spans(missing - asked),
            waiting=max(0, there.end - max(covered, there.start)),
            ahead=spans(rows.once - BitMap64(range(covered))),
            stale=spans(stale),
        )

    def _records(self, partition: int, asked: BitMap64) -> BitMap64:
        """Those of some offsets that are records."""
        wanted = [(partition, span) for span in _joined(spans(asked))]
        found = BitMap64()
        for batch in kafka_records(self.properties, self.kafka.name, wanted):
            found |= bitmap(batch.column("offset"))
        return found & asked


def _joined(found: Sequence[OffsetSpan]) -> list[OffsetSpan]:
    """Few spans that hold all of these, the widest distances between them left out."""
    if len(found) <= _MOST_SPANS:
        return list(found)
    distances = sorted(
        range(1, len(found)), key=lambda i: found[i].start - found[i - 1].end, reverse=True
    )
    cuts = sorted(distances[: _MOST_SPANS - 1])
    return [
        OffsetSpan(start=found[a].start, end=found[b - 1].end)
        for a, b in zip([0, *cuts], [*cuts, len(found)], strict=True)
    ]
