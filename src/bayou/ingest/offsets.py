"""The Kafka offsets that a table covers, and the offset ranges of micro-batches.

A table has one `txn` action per Kafka partition. Its `appId` contains cluster, topic and partition;
its version is the last covered offset. Every record up to it is in the table or among its dead
letters, or doesn't exist, because offsets have gaps. The next offset to read is version + 1. A run
needs nothing else: Spark's checkpoint is created for each run and only provides the bounds of
micro-batches, because a source's offsets include gaps at the end and the rows' offsets don't.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from bayou.errors import KafkaError, PipelineError

__all__ = [
    "KafkaTopic",
    "OffsetSpan",
    "app_id",
    "check_not_recreated",
    "covered_offsets",
    "lost_offsets",
    "next_offsets",
    "ranges_between",
    "recorded_start",
    "recreated_error",
    "resume_positions",
    "skip_lost_offsets",
    "start_app_id",
    "starting_offsets",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaTopic:
    """A topic as the broker describes it.

    Attributes:
        name: the topic's name.
        cluster_id: the cluster's id.
        topic_id: the topic's id, which changes when the topic is recreated; None if the broker
            doesn't report it.
        bounds: for each partition the earliest offset and the end offset.
    """

    name: str
    cluster_id: str
    topic_id: str | None
    bounds: Mapping[int, OffsetSpan]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSpan:
    """Offsets `start <= o < end` of a partition."""

    start: int
    end: int

    @property
    def empty(self) -> bool:
        """Whether the range contains no offset."""
        return self.end <= self.start


def app_id(topic: KafkaTopic, partition: int) -> str:
    """Return the `appId` of the transaction identifier of a Kafka partition."""
    parts = ["kafka", topic.cluster_id, topic.name, topic.topic_id or "-", str(partition)]
    return "/".join(parts)


def start_app_id(topic: KafkaTopic, partition: int) -> str:
    """Return the `appId` in the dead letter table whose version is a first run's start offset."""
    return f"{app_id(topic, partition)}/start"


def next_offsets(topic: KafkaTopic, transactions: Mapping[str, int]) -> dict[int, int]:
    """Return the next offset to read of every partition that a table's transactions cover.

    A missing topic id, in the `appId` or in the broker's answer, matches every topic id.
    """
    offsets: dict[int, int] = {}
    for application, version in transactions.items():
        topic_id, partition = _parse_app_id(topic, application)
        if partition is not None and (topic.topic_id is None or topic_id in (topic.topic_id, "-")):
            offsets[partition] = max(offsets.get(partition, 0), version + 1)
    return offsets


def covered_offsets(name: str, transactions: Mapping[str, int]) -> dict[int, int]:
    """Return the next offsets of a topic name in any cluster, without asking a broker."""
    offsets: dict[int, int] = {}
    for application, version in transactions.items():
        kind, _, rest = application.partition("/")
        before, _, partition = rest.partition("/")[2].rpartition("/")
        matches = before == name or before.startswith(f"{name}/")
        if kind == "kafka" and matches and partition.isdecimal():
            offsets[int(partition)] = max(offsets.get(int(partition), 0), version + 1)
    return offsets


def recorded_start(topic: KafkaTopic, transactions: Mapping[str, int]) -> dict[int, int]:
    """Return the recorded start offsets of a first run with `starting-offsets: latest`."""
    partitions = {start_app_id(topic, p): p for p in topic.bounds}
    return {partitions[app]: version for app, version in transactions.items() if app in partitions}


def check_not_recreated(
    topic: KafkaTopic, transactions: Mapping[str, int], *, key: str, table: str = "the table"
) -> None:
    """Check that a table has no records of another topic of the same name.

    Args:
        topic: the topic.
        transactions: the table's transaction identifiers.
        key: the topic's key in the configuration, for messages.
        table: how messages call the table.

    Raises:
        PipelineError: the table has records of another cluster, or the topic was recreated.
    """
    clusters = {
        application.split("/")[1]
        for application in transactions
        if application.startswith("kafka/") and application.split("/")[2:3] == [topic.name]
    }
    if clusters and topic.cluster_id not in clusters:
        raise PipelineError(
            f"topic {key!r}: {table} has records of the topic {topic.name!r} of another Kafka "
            f"cluster (its id was {min(clusters)}, now it is {topic.cluster_id}). Correct "
            "bootstrap-servers, or set another table-path for the topic of this cluster.",
            topic=key,
        )
    if topic.topic_id is None:
        return
    ids = {i for i in (_parse_app_id(topic, application)[0] for application in transactions) if i}
    other_ids = sorted(ids - {topic.topic_id, "-"})
    if other_ids:
        raise recreated_error(topic.name, other_ids[0], topic.topic_id, key=key, table=table)


def recreated_error(
    name: str, was: str, now: str, *, key: str, table: str = "the table"
) -> PipelineError:
    """Return the error for a table with records of a topic that was deleted and recreated.

    Args:
        name: the topic's name.
        was: id of the topic whose records the table has.
        now: the topic's current id.
        key: the topic's key in the configuration.
        table: how the message calls the table.
    """
    return PipelineError(
        f"topic {key!r}: {table} has records of an earlier Kafka topic {name!r}, which was "
        f"deleted and recreated since (its id was {was}, now it is {now}). Set another table-path "
        "for the new topic, or move this table and the tables beside it away to start again.",
        topic=key,
    )


def resume_positions(
    topic: KafkaTopic,
    covered: Mapping[int, int],
    *,
    existing: Mapping[int, int] = MappingProxyType({}),
    recorded_start: Mapping[int, int] | None = None,
) -> dict[int, int]:
    """Return the known next offset of each partition; other partitions start at their first offset.

    Args:
        topic: the topic.
        covered: the table's next offsets.
        existing: the last offsets of existing rows or migrated records, used for partitions that
            `covered` lacks.
        recorded_start: with `starting-offsets: latest`, the recorded start of the first run; if
            nothing is known, partitions start at their end. None to start at the first offset.
    """
    known = {**(recorded_start or {}), **{p: last + 1 for p, last in existing.items()}, **covered}
    if recorded_start is None or known:
        return known
    return {p: bounds.end for p, bounds in topic.bounds.items()}


def lost_offsets(topic: KafkaTopic, covered: Mapping[int, int]) -> dict[int, OffsetSpan]:
    """Return the offsets that retention deleted before they were read, by partition.

    Args:
        topic: the topic.
        covered: the table's next offsets.
    """
    spans = {
        p: OffsetSpan(start=covered.get(p, bounds.start), end=bounds.start)
        for p, bounds in topic.bounds.items()
    }
    return {p: span for p, span in spans.items() if not span.empty}


def skip_lost_offsets(topic: KafkaTopic, covered: Mapping[int, int]) -> dict[int, int]:
    """Return the table's next offsets after skipping the offsets that retention deleted."""
    return {**covered, **{p: s.end for p, s in lost_offsets(topic, covered).items()}}


def starting_offsets(topic: KafkaTopic, covered: Mapping[int, int], *, key: str) -> dict[int, int]:
    """Return the start offset of a run in every partition.

    A partition that the table covers resumes at its next offset; other partitions start at their
    first record.

    Args:
        topic: the topic.
        covered: the table's next offsets, or the start offsets of a first run.
        key: the topic's key in the configuration, for messages.

    Raises:
        PipelineError: the topic doesn't have the table's next offset (any more).
        KafkaError: the brokers don't report a partition, although the topic's id is unchanged.
    """
    gone = sorted(covered.keys() - topic.bounds.keys())
    if gone and topic.topic_id is not None:
        # A topic never loses a partition, and a recreated one has another id.
        raise KafkaError(
            f"Topic {topic.name!r}: the brokers report no partition {gone[0]}, although the "
            f"topic's id is unchanged and the table of topic {key!r} has records of this partition "
            f"up to offset {covered[gone[0]]}. Check that all brokers are running.",
            topic=topic.name,
        )
    if gone:
        raise PipelineError(
            f"topic {key!r}: the table is at offset {covered[gone[0]]} of partition {gone[0]} of "
            f"{topic.name!r}, which has no such partition: it was deleted and recreated. Set "
            "another table-path for the new topic, or move this table and its dead letter table "
            "away to start again.",
            topic=key,
        )
    result = {}
    for partition, bounds in topic.bounds.items():
        if partition not in covered:
            result[partition] = bounds.start
            continue
        position = covered[partition]
        if position > bounds.end:
            raise PipelineError(
                f"topic {key!r}: the table is at offset {position} of partition {partition} of "
                f"{topic.name!r}, but the topic ends at {bounds.end}: it was deleted and "
                "recreated, or lost records. Set another table-path for the new topic, or move "
                "this table and the tables beside it away to start again.",
                topic=key,
            )
        if position < bounds.start:
            raise PipelineError(
                f"topic {key!r}: the table is at offset {position} of partition {partition} of "
                f"{topic.name!r}, but the topic begins at {bounds.start}: offsets {position} to "
                f"{bounds.start - 1} were removed by retention before they were read. Restore "
                "them, or set another table-path to start again with the remaining records, or "
                f"set connector.topics.{key}.on-data-loss: continue to continue without them.",
                topic=key,
            )
        result[partition] = position
    return result


def ranges_between(start: Mapping[int, int], end: Mapping[int, int]) -> dict[int, OffsetSpan]:
    """Return the non-empty offset ranges from `start` (default 0) to `end`, by partition."""
    ranges = {p: OffsetSpan(start=start.get(p, 0), end=offset) for p, offset in end.items()}
    return {p: r for p, r in ranges.items() if not r.empty}


def _parse_app_id(topic: KafkaTopic, application: str) -> tuple[str | None, int | None]:
    """Return topic id and partition of an `appId` of this topic, None for other topics."""
    prefix = f"kafka/{topic.cluster_id}/{topic.name}/"
    # A topic id is base64 and may contain slashes.
    topic_id, _, partition = application.removeprefix(prefix).rpartition("/")
    if not application.startswith(prefix) or not partition.isdecimal():
        return None, None
    return topic_id, int(partition)
