"""Records that are kept for a look."""

from __future__ import annotations

from bayou.ingest.inspection.kafka_records import sampled_records
from bayou.ingest.offsets import OffsetSpan

SPANS = [(partition, OffsetSpan(start=0, end=900)) for partition in (0, 1)]


def sampled(pipeline, **limits):
    """How many records of each partition."""
    properties = pipeline.configuration.connector.kafka.client_properties()
    found = {}
    for partition, batch in sampled_records(properties, pipeline.kafka_topic, SPANS, **limits):
        found[partition] = found.get(partition, 0) + batch.num_rows
    return found


def test_of_large_records_fewer_are_kept_of_every_partition(small_pipeline):
    for partition in (0, 1):
        small_pipeline.produce(*({"name": "x" * 1_000} for _ in range(900)), partition=partition)
    assert sampled(small_pipeline) == {0: 900, 1: 900}
    first, second = sampled(small_pipeline, max_bytes=200_000).values()
    assert first < 900
    assert 50 < second < 100
    assert sampled(small_pipeline, max_bytes=1)[1] == 20
