"""Reads a few records of a Kafka topic, without Spark.

Parameters named `properties` are properties of librdkafka, including `bootstrap.servers`.
Parameters named `spans` are lists of pairs: a Kafka partition, and the range of offsets to read
from the partition.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from bayou.ingest.offsets import OffsetSpan
from bayou.spark.kafka.offsets import OffsetRange, TopicPartition

_SAMPLE_BYTES = 64 << 20
_MIN_RECORDS = 20
"""Minimum number of records to sample from each partition, even if the records are large."""


def kafka_records(
    properties: Mapping[str, str], topic: str, spans: Sequence[tuple[int, OffsetSpan]]
) -> Generator[pa.RecordBatch]:
    """Yield the records in ranges of offsets, with the columns of the data source `bayou-kafka`.

    Raises:
        KafkaError: the brokers don't answer, or Kafka has deleted records in a range.
    """
    ranges = [OffsetRange(TopicPartition(topic, p), s.start, s.end) for p, s in spans]
    if not ranges:
        return
    from bayou.spark.kafka.planning import KafkaTasks  # imports PySpark

    options = {"subscribe": topic, **{f"kafka.{name}": v for name, v in properties.items()}}
    tasks = KafkaTasks.of(options, ranges, tasks=1)
    for task in range(len(tasks.tasks)):
        yield from tasks.read(task)


def sampled_records(
    properties: Mapping[str, str],
    topic: str,
    spans: Sequence[tuple[int, OffsetSpan]],
    *,
    max_bytes: int = _SAMPLE_BYTES,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the first records of each range, each batch with its Kafka partition.

    About `max_bytes` bytes are read in total, divided equally among the partitions. At least one
    batch is read from each partition.
    """
    limit = max_bytes // max(1, len(spans))
    count = size = 0
    for partition, span in spans:
        records = max(_MIN_RECORDS, limit * count // size) if size else span.end - span.start
        sample = OffsetSpan(start=span.start, end=min(span.end, span.start + records))
        read = 0
        with contextlib.closing(kafka_records(properties, topic, [(partition, sample)])) as batches:
            for batch in batches:
                yield partition, batch
                read += batch.nbytes
                count += batch.num_rows
                if read > limit:
                    break
        size += read


def first_record_time(
    properties: Mapping[str, str], topic: str, partition: int, span: OffsetSpan
) -> float | None:
    """Return the Kafka timestamp of the first record of a range, in seconds since the epoch.

    None if the record has no timestamp, or if the range has no record. A range can have no record,
    because offsets have gaps.
    """
    with contextlib.closing(kafka_records(properties, topic, [(partition, span)])) as batches:
        for batch in batches:
            timestamps: Any = batch.column("timestamp").cast(pa.timestamp("us", "UTC"))
            first = timestamps.cast(pa.int64())[0].as_py()
            return None if first is None else first / 1e6
    return None
