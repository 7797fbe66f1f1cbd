"""The records of the Kafka benchmarks, JSON of about 300 bytes, and their JSON Schema.

Needs confluent-kafka, but not Bayou.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

from confluent_kafka import Producer
from kafka_spark import SPARK_FIELDS

__all__ = ["JSON_SCHEMA", "PARTITIONS", "produce", "values"]

PARTITIONS = 4
_JSON_TYPES = {"string": "string", "long": "integer", "double": "number", "boolean": "boolean"}
_PROPERTIES: dict[str, dict[str, str]] = {
    name: {"type": "string", "format": "date-time"}
    if kind == "timestamp"
    else {"type": _JSON_TYPES[kind]}
    for name, kind in (field.strip().split(" ") for field in SPARK_FIELDS.split(","))
}

JSON_SCHEMA = json.dumps(
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": _PROPERTIES,
        "required": ["event_id", "event_type", "user_id", "event_time"],
    },
    indent=2,
)

_EVENTS = ("page_view", "click", "add_to_cart", "purchase", "search", "logout")
_COUNTRIES = ("de", "fr", "us", "jp", "br", "in", "za")
_PAGES = ("home", "product/lamp-120", "product/chair-7", "basket", "checkout/payment", "help/faq")
_FLUSH_EVERY = 50_000


def produce(servers: str, topic: str, count: int) -> float:
    """Produce `count` records to a topic, distributed evenly over its partitions.

    Every call produces the same records.

    Returns:
        The mean size of a record's value in bytes.
    """
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "linger.ms": 50,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 2 * _FLUSH_EVERY,
        }
    )
    size = 0
    for number, value in enumerate(values(count)):
        producer.produce(topic, value, partition=number % PARTITIONS)
        size += len(value)
        if number % _FLUSH_EVERY == 0:
            producer.flush()
    if producer.flush(60):
        raise RuntimeError(f"{topic}: the broker doesn't take the records")
    return size / count


def values(count: int) -> Iterator[bytes]:
    """Yield the values of `count` records, the same in every call."""
    chance = random.Random(7)  # it only has to be the same every time
    for number in range(count):
        bits = chance.getrandbits(128)
        yield (
            f'{{"event_id":"{bits:032x}","event_type":"{_EVENTS[bits % 6]}",'
            f'"user_id":{bits % 999_983},"session_id":"s-{bits % 99_991:016x}",'
            f'"event_time":"2026-03-{1 + bits % 28:02}T{bits % 24:02}:{bits % 60:02}:'
            f'{number % 60:02}.{bits % 1000:03}Z","country":"{_COUNTRIES[bits % 7]}",'
            f'"page":"/{_PAGES[bits % 6]}","amount":{bits % 100_000 / 100},'
            f'"quantity":{bits % 9},"is_member":{"true" if bits & 1 else "false"},'
            f'"referrer":"search?q={bits >> 1:032x}"}}'
        ).encode()
