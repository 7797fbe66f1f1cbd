"""Which Kafka offsets a table covers, and which a micro-batch brings.

A table carries one `txn` per Kafka partition. Its `appId` names cluster, topic and partition, its
version is the last offset of the covered range: every record up to it is in the table (or among
its dead letters), or never was, for offsets have gaps. So "the next offset to read" is version + 1,
and that is all a run needs to know: Spark's checkpoint is made new for every run and only tells
the bounds of its micro-batches, since a source's offsets, unlike the largest offset among the rows,
know of gaps at the end.
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
    "behind_lost",
    "check_not_recreated",
    "covered_offsets",
    "fixed_start",
    "lost_offsets",
    "next_offsets",
    "ranges_between",
    "recreated_error",
    "start_app_id",
    "starting_offsets",
    "where_it_goes_on",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaTopic:
    """A topic as the broker describes it.

    Attributes:
        name: its name.
        cluster_id: the cluster's id.
        topic_id: the topic's own id, which a recreated topic doesn't inherit; None where the
            broker doesn't tell it.
        bounds: for each partition the first offset that is there and the one after the last.
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
        """Whether there is no offset in it."""
        return self.end <= self.start


def app_id(topic: KafkaTopic, partition: int) -> str:
    """The `appId` under which a table keeps its place in a partition."""
    parts = ["kafka", topic.cluster_id, topic.name, topic.topic_id or "-", str(partition)]
    return "/".join(parts)


def start_app_id(topic: KafkaTopic, partition: int) -> str:
    """The `appId` under which the dead letters keep where a first run began, as its version."""
    return f"{app_id(topic, partition)}/start"


def next_offsets(topic: KafkaTopic, transactions: Mapping[str, int]) -> dict[int, int]:
    """The next offset to read of every partition that a table's transactions cover.

    What was written while the broker didn't tell the topic's id counts once it does, and the other
    way round.
    """
    found: dict[int, int] = {}
    for application, version in transactions.items():
        topic_id, partition = _of_topic(topic, application)
        if partition is not None and (topic.topic_id is None or topic_id in (topic.topic_id, "-")):
            found[partition] = max(found.get(partition, 0), version + 1)
    return found


def covered_offsets(name: str, transactions: Mapping[str, int]) -> dict[int, int]:
    """As `next_offsets`, for whatever cluster and topic of this name; no broker is asked."""
    found: dict[int, int] = {}
    for application, version in transactions.items():
        kind, _, rest = application.partition("/")
        before, _, partition = rest.partition("/")[2].rpartition("/")
        ours = before == name or before.startswith(f"{name}/")
        if kind == "kafka" and ours and partition.isdecimal():
            found[int(partition)] = max(found.get(int(partition), 0), version + 1)
    return found


def fixed_start(topic: KafkaTopic, transactions: Mapping[str, int]) -> dict[int, int]:
    """Where a first run began that was to begin at the end; see `start_app_id`."""
    ours = {start_app_id(topic, p): p for p in topic.bounds}
    return {ours[app]: version for app, version in transactions.items() if app in ours}


def check_not_recreated(
    topic: KafkaTopic, transactions: Mapping[str, int], *, key: str, table: str = "the table"
) -> None:
    """Refuse a table that has records of another topic of the same name.

    Args:
        topic: the topic.
        transactions: the table's.
        key: the topic's name in the configuration, for messages.
        table: what messages call the table.

    Raises:
        PipelineError: the topic was deleted and made again since the table was written.
    """
    clusters = {
        application.split("/")[1]
        for application in transactions
        if application.startswith("kafka/") and application.split("/")[2:3] == [topic.name]
    }
    if clusters and topic.cluster_id not in clusters:
        raise PipelineError(
            f"topic {key!r}: {table} has records of the topic {topic.name!r} of another Kafka "
            f"cluster (its id was {min(clusters)}, now it is {topic.cluster_id}), whose offsets "
            "mean other records. Correct bootstrap-servers, or write this cluster's topic to a "
            "table of its own (table-path).",
            topic=key,
        )
    if topic.topic_id is None:
        return
    ids = {i for i in (_of_topic(topic, application)[0] for application in transactions) if i}
    others = sorted(ids - {topic.topic_id, "-"})
    if others:
        raise recreated_error(topic.name, others[0], topic.topic_id, key=key, table=table)


def recreated_error(
    name: str, was: str, now: str, *, key: str, table: str = "the table"
) -> PipelineError:
    """The error for a topic that isn't the one whose records a table has.

    Args:
        name: the topic's.
        was: id of the topic whose records the table has.
        now: its id now.
        key: the topic's name in the configuration.
        table: what the message calls the table.
    """
    return PipelineError(
        f"topic {key!r}: {table} has records of an earlier Kafka topic {name!r}, which was "
        f"deleted and recreated since (its id was {was}, now it is {now}). Write the new topic to "
        "a table of its own (table-path), or move this table and those beside it aside to begin "
        "again.",
        topic=key,
    )


def where_it_goes_on(
    topic: KafkaTopic,
    covered: Mapping[int, int],
    *,
    existing: Mapping[int, int] = MappingProxyType({}),
    fixed: Mapping[int, int] | None = None,
) -> dict[int, int]:
    """The next offset of each partition of which anything is known; others begin at their first.

    Args:
        topic: the topic.
        covered: the table's next offsets.
        existing: the last offsets that rows or migrated records name, of partitions without those.
        fixed: with `starting-offsets: latest` where the first run began, which is at the end where
            nothing else is known; None to begin at the first offset.
    """
    known = {**(fixed or {}), **{p: last + 1 for p, last in existing.items()}, **covered}
    if fixed is None or known:
        return known
    return {p: there.end for p, there in topic.bounds.items()}


def lost_offsets(topic: KafkaTopic, covered: Mapping[int, int]) -> dict[int, OffsetSpan]:
    """Offsets that retention took before they were read, of each partition that has such.

    Args:
        topic: the topic.
        covered: the table's next offsets.
    """
    spans = {
        p: OffsetSpan(start=covered.get(p, there.start), end=there.start)
        for p, there in topic.bounds.items()
    }
    return {p: span for p, span in spans.items() if not span.empty}


def behind_lost(topic: KafkaTopic, covered: Mapping[int, int]) -> dict[int, int]:
    """The table's next offsets, as if it had what retention took before it was read."""
    return {**covered, **{p: s.end for p, s in lost_offsets(topic, covered).items()}}


def starting_offsets(topic: KafkaTopic, covered: Mapping[int, int], *, key: str) -> dict[int, int]:
    """Where a run begins in every partition.

    A partition that the table covers goes on where it stands; one that it doesn't cover begins at
    its first record.

    Args:
        topic: the topic.
        covered: the table's next offsets, or where a first run was to begin.
        key: the topic's name in the configuration, for messages.

    Raises:
        PipelineError: the table stands where the topic has nothing (any more).
        KafkaError: a partition isn't told, though the topic is the same as before.
    """
    gone = sorted(covered.keys() - topic.bounds.keys())
    if gone and topic.topic_id is not None:
        # A topic never loses a partition, and a recreated one has another id.
        raise KafkaError(
            f"Topic {topic.name!r}: the brokers tell no partition {gone[0]}, of which the table of "
            f"topic {key!r} has records up to offset {covered[gone[0]]}, and the topic's id is the "
            "one that it was. Check that all brokers run.",
            topic=topic.name,
        )
    if gone:
        raise PipelineError(
            f"topic {key!r}: the table is at offset {covered[gone[0]]} of partition {gone[0]} of "
            f"{topic.name!r}, which has no such partition: it was deleted and recreated. Write the "
            "new topic to a table of its own (table-path), or move this table and its dead letters "
            "aside to begin again.",
            topic=key,
        )
    result = {}
    for partition, there in topic.bounds.items():
        if partition not in covered:
            result[partition] = there.start
            continue
        position = covered[partition]
        if position > there.end:
            raise PipelineError(
                f"topic {key!r}: the table is at offset {position} of partition {partition} of "
                f"{topic.name!r}, but the topic ends at {there.end}: it was deleted and recreated, "
                "or lost records. Write the new topic to a table of its own (table-path), or move "
                "this table and those beside it aside to begin again.",
                topic=key,
            )
        if position < there.start:
            raise PipelineError(
                f"topic {key!r}: the table is at offset {position} of partition {partition} of "
                f"{topic.name!r}, but the topic begins at {there.start}: offsets {position} to "
                f"{there.start - 1} were removed by retention before they were read. Restore them, "
                "or begin again with a table of its own (table-path) for what is left; to go on "
                f"without them set connector.topics.{key}.on-data-loss: continue.",
                topic=key,
            )
        result[partition] = position
    return result


def ranges_between(start: Mapping[int, int], end: Mapping[int, int]) -> dict[int, OffsetSpan]:
    """The range of every partition that has one: from `start`, 0 where it isn't there, to `end`."""
    ranges = {p: OffsetSpan(start=start.get(p, 0), end=offset) for p, offset in end.items()}
    return {p: r for p, r in ranges.items() if not r.empty}


def _of_topic(topic: KafkaTopic, application: str) -> tuple[str | None, int | None]:
    """Topic id and partition of an `appId` of this topic, None for any other."""
    before = f"kafka/{topic.cluster_id}/{topic.name}/"
    # A topic's id may have slashes in it: Kafka writes it in base 64.
    topic_id, _, partition = application.removeprefix(before).rpartition("/")
    if not application.startswith(before) or not partition.isdecimal():
        return None, None
    return topic_id, int(partition)
