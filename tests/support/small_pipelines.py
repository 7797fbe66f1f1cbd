"""Fixtures: a topic of an embedded broker, its configuration and its tables, without Spark."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from pathlib import Path

import pytest

import bayou
from bayou.ingest.config import load_configuration
from bayou.spark.kafka import EmbeddedBroker
from bayou.spark.kafka.embedded_broker import ProducedRecord
from support.in_process_pipeline import take_in

SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}


@dataclass
class SmallPipeline:
    """A pipeline for one topic with two partitions; its table is `lake/events` in `folder`."""

    folder: Path
    broker: EmbeddedBroker
    kafka_topic: str
    evolves: bool = False
    more: str = ""
    upserts: bool = False

    @property
    def file(self):
        return self.folder / "pipeline.yaml"

    @property
    def path(self):
        return str(self.folder / "lake" / "events")

    @property
    def table(self):
        return bayou.table(self.path)

    @property
    def dead_letters(self):
        return bayou.table(f"{self.path}_dead_letters")

    @property
    def configuration(self):
        return load_configuration(self.file, environment={})

    @property
    def topic(self):
        return self.configuration.topics[0]

    def write_schema(self, schema):
        (self.folder / "schema.json").write_text(json.dumps(schema))

    def write_file(self):
        upsert = "        key-columns: [id]\n" if self.upserts else ""
        self.file.write_text(
            f"connector:\n"
            f"  kafka: {{bootstrap-servers: '{self.broker.bootstrap_servers}'}}\n"
            f"  topics:\n    events:\n      kafka-topic: {self.kafka_topic}\n"
            f"      schema-file: schema.json\n"
            f"      destination:\n        table-path: lake/events\n{upsert}"
            f"        delta-config:\n"
            f"          enable-schema-evolution: {str(self.evolves).lower()}\n"
            f"          enable-upsert: {str(self.upserts).lower()}\n"
            f"{self.more}"
        )

    def produce(self, *values, partition=0, keys=None):
        """Produce values; `Ellipsis` is a record without a value."""
        records = [
            ProducedRecord(
                None
                if value is ...
                else value
                if isinstance(value, bytes)
                else json.dumps(value).encode(),
                partition=partition,
                key=key,
            )
            for value, key in zip(values, keys or [None] * len(values), strict=True)
        ]
        self.broker.produce(self.kafka_topic, records)

    def take_in(self, heard=None, session=None):
        return take_in(self.file, heard=heard, session=session)[0]


@pytest.fixture(scope="session")
def embedded_broker():
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
def small_pipeline(new_pipeline):
    return new_pipeline()


@pytest.fixture
def new_pipeline(embedded_broker, tmp_path, request):
    """Return a function that creates a `SmallPipeline` with its own topic and folder."""
    numbers = itertools.count()

    def make(*, upserts=False):
        number = next(numbers)
        name = f"t{abs(hash((request.node.nodeid, number))) % 10**12}"
        embedded_broker.create_topic(name, 2)
        folder = tmp_path / str(number) if number else tmp_path
        folder.mkdir(exist_ok=True)
        pipeline = SmallPipeline(
            folder=folder, broker=embedded_broker, kafka_topic=name, upserts=upserts
        )
        pipeline.write_schema(SCHEMA)
        pipeline.write_file()
        return pipeline

    return make
