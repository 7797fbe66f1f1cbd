"""Kafka offsets as transaction identifiers of a table, and the offset ranges of micro-batches.

A table has one transaction identifier (`txn` action) for each Kafka partition. The `appId` of the
identifier contains cluster, topic and partition. Its `version` is the last *covered* offset: all
records up to this offset have been processed, and the next offset to read is `version + 1`. A
partition has no covered offset before a batch has processed its first records. Therefore the first
commit of a topic also records the *start* offset of each partition; see `start_app_id`. A run needs
no other state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from bayou.errors import KafkaError, PipelineError
from bayou.ingest.topic_key import section_key


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaTopic:
    """A Kafka topic with its ids and offsets, from the brokers.

    Attributes:
        topic_id: the id that the brokers give to the topic. A recreated topic has another id. None
            if the brokers have no topic ids.
        bounds: for each partition, the range of offsets that the brokers have.
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
        return self.end <= self.start


def app_id(topic: KafkaTopic, partition: int) -> str:
    """Return the `appId` of the transaction identifier of a Kafka partition."""
    parts = ["kafka", topic.cluster_id, topic.name, topic.topic_id or "-", str(partition)]
    return "/".join(parts)


def start_app_id(topic: KafkaTopic, partition: int) -> str:
    """Return the `appId` that records the start offset of a Kafka partition.

    The start offset is the offset at which the topic's first run starts to read the partition. The
    first commit to the target records it. The dead letter table records it before the first batch,
    in case the run ends before this commit. If `starting-offsets` is `earliest`, the dead letter
    table records it only after a failed batch.
    """
    return f"{app_id(topic, partition)}{_START}"


def is_start(application: str) -> bool:
    """Whether an `appId` was created by `start_app_id`."""
    return application.endswith(_START)


_START = "/start"


def next_offsets(topic: KafkaTopic, transactions: Mapping[str, int]) -> dict[int, int]:
    """Return the next offset to read from each Kafka partition that has a covered offset.

    Covered offsets of another topic id are ignored. If the brokers or the identifier have no topic
    id, topic ids aren't compared.

    Args:
        transactions: the transaction identifiers of a table.
    """
    offsets: dict[int, int] = {}
    for application, version in transactions.items():
        topic_id, partition = _parse_app_id(topic, application)
        if partition is not None and (topic.topic_id is None or topic_id in (topic.topic_id, "-")):
            offsets[partition] = max(offsets.get(partition, 0), version + 1)
    return offsets


def covered_offsets(name: str, transactions: Mapping[str, int]) -> dict[int, int]:
    """Return the next offset to read from each partition of the Kafka topic `name`.

    Unlike `next_offsets`, this function doesn't compare the cluster id and the topic id in an
    `appId`.
    """
    offsets: dict[int, int] = {}
    for application, version in transactions.items():
        kind, _, rest = application.partition("/")
        before, _, partition = rest.partition("/")[2].rpartition("/")
        matches = before == name or before.startswith(f"{name}/")
        if kind == "kafka" and matches and partition.isdecimal():
            offsets[int(partition)] = max(offsets.get(int(partition), 0), version + 1)
    return offsets


def recorded_topics(transactions: Mapping[str, int]) -> set[str]:
    """Return the names of the Kafka topics whose offsets a table has recorded."""
    return {a.split("/")[2] for a in transactions if a.startswith("kafka/") and a.count("/") > 2}


def recorded_start(topic: KafkaTopic, transactions: Mapping[str, int]) -> dict[int, int]:
    """Return the recorded start offset of each Kafka partition; see `start_app_id`.

    Start offsets of another topic id are ignored, as in `next_offsets`.
    """
    starts: dict[int, int] = {}
    exact = {start_app_id(topic, partition) for partition in topic.bounds}
    for application in sorted(filter(is_start, transactions), key=exact.__contains__):
        topic_id, partition = _parse_app_id(topic, application.removesuffix(_START))
        same_id = topic.topic_id is None or topic_id in (topic.topic_id, "-")
        if partition is not None and partition in topic.bounds and same_id:
            starts[partition] = transactions[application]
    return starts


def check_not_recreated(
    topic: KafkaTopic, transactions: Mapping[str, int], *, key: str, table: str = "the table"
) -> None:
    """Check that a table has no offsets of another topic with the same name.

    Args:
        transactions: the table's transaction identifiers.
        key: the topic's key, for the error message.
        table: the name of the table in the error message.

    Raises:
        PipelineError: the offsets are from another cluster, or the topic was recreated.
    """
    clusters = {
        application.split("/")[1]
        for application in transactions
        if application.startswith("kafka/") and application.split("/")[2:3] == [topic.name]
    }
    if clusters and topic.cluster_id not in clusters:
        raise PipelineError(
            f"topic {key!r}: {table} has records of topic {topic.name!r} from Kafka cluster "
            f"{min(clusters)}, but bootstrap-servers leads to cluster {topic.cluster_id}. Correct "
            f"bootstrap-servers, or set another table-path for the records of {topic.cluster_id}.",
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
    """Return the error for a table that has records of a topic from before it was recreated.

    Args:
        name: the name of the Kafka topic.
        was: the topic id that the table has recorded.
        now: the current topic id.
        key: the topic's key.
        table: the name of the table in the message.
    """
    return PipelineError(
        f"topic {key!r}: {table} has records of an earlier Kafka topic {name!r}, which was "
        f"deleted and recreated since (the topic's id was {was} and is now {now}). Set another "
        "table-path for the new topic. Or, to start again in the same place, move away this table "
        "and its tables _dead_letters, _deleted_keys and _migration.",
        topic=key,
    )


def resume_positions(
    topic: KafkaTopic,
    transactions: Mapping[str, int],
    dead_letter_transactions: Mapping[str, int],
    existing: Mapping[int, int] = MappingProxyType({}),
) -> dict[int, int]:
    """Return the next offset to read from each Kafka partition.

    The result is empty in a topic's first run: no partition has a covered offset, rows or migrated
    records. Otherwise, the next offset of a partition is the first of these that exists:

    - The offset after the covered offset.
    - The offset after the existing rows and migrated records.
    - The recorded start offset.
    - Offset 0, because the partition was created after the first commit.

    If Kafka no longer has the returned offset, records were deleted before they were read.

    Args:
        transactions: the target's transaction identifiers.
        dead_letter_transactions: the transaction identifiers of the dead letter table.
        existing: for each partition, the last offset of existing rows or migrated records.
    """
    covered = next_offsets(topic, transactions)
    if not covered and not existing:
        return {}
    starts = recorded_start(topic, transactions)
    if starts:
        starts = dict.fromkeys(topic.bounds, 0) | starts
    else:
        starts = recorded_start(topic, dead_letter_transactions)
    return {**starts, **{p: last + 1 for p, last in existing.items()}, **covered}


def lost_offsets(topic: KafkaTopic, covered: Mapping[int, int]) -> dict[int, OffsetSpan]:
    """For each partition, return the offsets that Kafka deleted before they were read.

    Args:
        covered: the next offset to read from each partition.
    """
    spans = {
        p: OffsetSpan(start=covered.get(p, bounds.start), end=bounds.start)
        for p, bounds in topic.bounds.items()
    }
    return {p: span for p, span in spans.items() if not span.empty}


def skip_lost_offsets(topic: KafkaTopic, covered: Mapping[int, int]) -> dict[int, int]:
    """Return the next offset to read from each partition, after the offsets that Kafka deleted.

    Args:
        covered: the next offset to read from each partition, which Kafka may have deleted.
    """
    return {**covered, **{p: s.end for p, s in lost_offsets(topic, covered).items()}}


def starting_offsets(topic: KafkaTopic, covered: Mapping[int, int], *, key: str) -> dict[int, int]:
    """Return the offset at which a run starts to read each Kafka partition, after checks.

    Args:
        covered: the next offset to read from each partition. A partition that isn't in this dict
            starts at the first offset that the brokers have.
        key: the topic's key, for error messages.

    Raises:
        PipelineError: the topic doesn't have a partition or an offset of `covered`, because it was
            recreated or has lost records, or because Kafka deleted records before they were read.
        KafkaError: the brokers don't report a partition, although the topic wasn't recreated.
    """
    missing = sorted(covered.keys() - topic.bounds.keys())
    if missing and topic.topic_id is not None:
        # A topic never loses a partition, and a recreated topic has another id.
        raise KafkaError(
            f"Topic {topic.name!r}: the brokers report no partition {missing[0]}, although the "
            f"topic's id is unchanged and the table of topic {key!r} has records of this partition "
            f"up to offset {covered[missing[0]]}. Check that all brokers are running.",
            topic=topic.name,
        )
    if missing:
        raise PipelineError(
            f"topic {key!r}: the table is at offset {covered[missing[0]]} of partition "
            f"{missing[0]} of {topic.name!r}, but this partition doesn't exist any more: the "
            "topic was deleted and recreated. Set another table-path for the new topic. Or, to "
            "start again in the same place, move away this table and its tables _dead_letters, "
            "_deleted_keys and _migration.",
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
                f"{topic.name!r}, but the topic ends at {bounds.end}: the topic was deleted and "
                "recreated, or lost records. Set another table-path for the new topic. Or, to "
                "start again in the same place, move away this table and its tables "
                "_dead_letters, _deleted_keys and _migration.",
                topic=key,
            )
        if position < bounds.start:
            raise PipelineError(
                f"topic {key!r}: the table is at offset {position} of partition {partition} of "
                f"{topic.name!r}, but the topic begins at {bounds.start}, because offsets "
                f"{position} to {bounds.start - 1} were removed by retention before they were "
                "read. To continue without these records, set "
                f"connector.topics.{section_key(key)}.on-data-loss: continue. To start again "
                "with the remaining records, set another table-path.",
                topic=key,
            )
        result[partition] = position
    return result


def ranges_between(start: Mapping[int, int], end: Mapping[int, int]) -> dict[int, OffsetSpan]:
    """For each partition, return the range from its offset in `start` to its offset in `end`.

    A partition that isn't in `start` starts at 0. Empty ranges are omitted.
    """
    ranges = {p: OffsetSpan(start=start.get(p, 0), end=offset) for p, offset in end.items()}
    return {p: r for p, r in ranges.items() if not r.empty}


def _parse_app_id(topic: KafkaTopic, application: str) -> tuple[str | None, int | None]:
    """Return the topic id and the partition in an `appId` of a topic.

    The result is (None, None) if the `appId` belongs to another topic.
    """
    prefix = f"kafka/{topic.cluster_id}/{topic.name}/"
    # A topic id is base64 and may contain slashes.
    topic_id, _, partition = application.removeprefix(prefix).rpartition("/")
    if not application.startswith(prefix) or not partition.isdecimal():
        return None, None
    return topic_id, int(partition)


_MAX_SPANS = 16


def join_spans(ranges: Iterable[OffsetSpan]) -> list[OffsetSpan]:
    """Join ranges of offsets until at most 16 ranges remain, and return them in ascending order.

    Ranges with the smallest gaps between them are joined.
    """
    distinct: list[OffsetSpan] = []
    for span in sorted(ranges, key=lambda span: span.start):
        if distinct and span.start <= distinct[-1].end:
            last = distinct.pop()
            span = OffsetSpan(start=last.start, end=max(last.end, span.end))  # noqa: PLW2901
        distinct.append(span)
    if len(distinct) <= _MAX_SPANS:
        return distinct
    distances = sorted(
        range(1, len(distinct)),
        key=lambda i: distinct[i].start - distinct[i - 1].end,
        reverse=True,
    )
    cuts = sorted(distances[: _MAX_SPANS - 1])
    return [
        OffsetSpan(start=distinct[a].start, end=distinct[b - 1].end)
        for a, b in zip([0, *cuts], [*cuts, len(distinct)], strict=True)
    ]
