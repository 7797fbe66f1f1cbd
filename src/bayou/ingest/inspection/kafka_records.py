"""Records of a topic, read here and not by Spark: few of them, for a look."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from bayou.ingest.offsets import OffsetSpan
from bayou.spark.kafka import KafkaShares, OffsetRange, TopicPartition

__all__ = ["first_record_time", "kafka_records", "sampled_records"]

_SAMPLE_BYTES = 64 << 20
_LEAST = 20
"""Records of a partition that are looked at, however large they are."""


def kafka_records(
    properties: Mapping[str, str], topic: str, spans: Sequence[tuple[int, OffsetSpan]]
) -> Generator[pa.RecordBatch]:
    """Records of some spans of a topic's partitions, with the columns of the source `bayou-kafka`.

    Args:
        properties: librdkafka's, `bootstrap.servers` among them.
        topic: its name at the brokers.
        spans: partitions and offsets.

    Raises:
        KafkaError: the brokers don't answer, or records of a span are gone.
    """
    ranges = [OffsetRange(TopicPartition(topic, p), s.start, s.end) for p, s in spans]
    if not ranges:
        return
    options = {"subscribe": topic, **{f"kafka.{name}": v for name, v in properties.items()}}
    shares = KafkaShares.of(options, ranges, tasks=1)
    for share in range(len(shares.shares)):
        yield from shares.read(share)


def sampled_records(
    properties: Mapping[str, str],
    topic: str,
    spans: Sequence[tuple[int, OffsetSpan]],
    *,
    most_bytes: int = _SAMPLE_BYTES,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Records for whoever keeps all of them: the first of each span, fewer where they are large.

    Args:
        most_bytes: about how many bytes; each partition has its share.

    Raises:
        KafkaError: as for `kafka_records`.
    """
    share = most_bytes // max(1, len(spans))
    count = size = 0
    for partition, span in spans:
        fitting = max(_LEAST, share * count // size) if size else span.end - span.start
        wanted = OffsetSpan(start=span.start, end=min(span.end, span.start + fitting))
        taken = 0
        with contextlib.closing(kafka_records(properties, topic, [(partition, wanted)])) as batches:
            for batch in batches:
                yield partition, batch
                taken += batch.nbytes
                count += batch.num_rows
                if taken > share:
                    break
        size += taken


def first_record_time(
    properties: Mapping[str, str], topic: str, partition: int, span: OffsetSpan
) -> float | None:
    """Kafka's timestamp of the first record of a span, seconds since the epoch.

    None where no record is in it: offsets have gaps.
    """
    with contextlib.closing(kafka_records(properties, topic, [(partition, span)])) as batches:
        for batch in batches:
            moments: Any = batch.column("timestamp").cast(pa.timestamp("us", "UTC"))
            first = moments.cast(pa.int64())[0].as_py()
            return None if first is None else first / 1e6
    return None
