"""A pipeline around a broker of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable

from bayou.ingest.config import load_configuration
from bayou.ingest.runtime.pipeline import run_pipeline
from bayou.spark.kafka import EmbeddedBroker
from support.running_pipelines import Recorder, Running


class Pipeline:
    """A configuration with one topic, `events`, and what it leaves behind."""

    def __init__(self, folder: Path, broker: EmbeddedBroker, spark) -> None:
        self.folder = folder
        self.broker = broker
        self.spark = spark
        self.file = folder / "pipeline.yaml"
        self.table = folder / "lake" / "events"
        self.state = folder / ".bayou"

    def configure(
        self,
        *,
        partition_columns=(),
        batch_size=100_000,
        evolution=False,
        schema=None,
        delta=None,
        processing=None,
        kafka=None,
        ordering=None,
        others=None,
        **topic,
    ) -> None:
        if schema is not None:
            (self.folder / "schema.json").write_text(json.dumps(schema))
            topic["schema-file"] = "schema.json"
        config = {
            "connector": {
                "kafka": {"bootstrap-servers": self.broker.bootstrap_servers, **(kafka or {})},
                "spark": {"master": "local[2]"},
                "topics": {
                    "events": {
                        "kafka-topic": "events",
                        "destination": {
                            "table-path": "lake/events",
                            "partition-columns": list(partition_columns),
                            "ordering-column": ordering,
                            "delta-config": {
                                "enable-schema-evolution": evolution,
                                **(delta or {}),
                            },
                        },
                        "processing": {"batch-size": batch_size, **(processing or {})},
                        **topic,
                    },
                    **(others or {}),
                },
            }
        }
        self.file.write_text(json.dumps(config))  # JSON is YAML

    def configuration(self):
        """What the file says."""
        return load_configuration(self.file, environment={})

    def run(self):
        """Drain the topic; what was reported."""
        recorder = Recorder()
        run_pipeline(
            self.configuration(),
            once=True,
            reporter=recorder,
            spark=self.spark,
        )
        return recorder

    def start(self) -> Running:
        """Run the topic until `stop`, in a thread of its own."""
        return Running(self.configuration(), self.spark)

    def rows(self) -> list[dict]:
        """All rows of the table, as another reader sees them."""
        return DeltaTable(str(self.table)).to_pyarrow_table().to_pylist()

    def dead_letters(self) -> list[dict]:
        path = f"{self.table}_dead_letters"
        return DeltaTable(path).to_pyarrow_table().to_pylist()

    def version(self) -> int:
        return DeltaTable(str(self.table)).version()


@pytest.fixture
def pipeline(tmp_path, spark):
    with EmbeddedBroker({"events": 4}) as broker:
        yield Pipeline(tmp_path, broker, spark)
