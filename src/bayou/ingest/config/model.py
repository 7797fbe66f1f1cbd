"""What the pipeline's YAML may say, key by key.

Keys are written in kebab case. Every key means what its description says; one that has no effect,
or would change what ends up in the table if it were ignored, is told by
`bayou.ingest.config.notices`.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from bayou.ingest.config.connections import (
    KafkaConfig,
    SchemaRegistryConfig,
    SparkConfig,
    StorageConfig,
)
from bayou.ingest.config.operations import MaintenanceConfig, MigrationConfig, MonitoringConfig
from bayou.ingest.config.section import Section
from bayou.ingest.config.topic import TopicConfig

__all__ = ["ConnectorConfig", "PipelineConfig"]


class ConnectorConfig(Section):
    """Everything under `connector`."""

    topics: Annotated[dict[str, TopicConfig], Field(min_length=1)] = Field(
        description="Topics by a name of your own, which messages and metrics use."
    )
    kafka: KafkaConfig = Field(default_factory=KafkaConfig, description="The broker.")
    storage: StorageConfig = Field(default_factory=StorageConfig, description="The object store.")
    spark: SparkConfig = Field(default_factory=SparkConfig, description="Spark.")
    schema_registry: SchemaRegistryConfig | None = Field(
        default=None, description="Where the schemas of Avro and Protobuf records are."
    )
    migration: MigrationConfig = Field(
        default_factory=MigrationConfig,
        description="JSON files that were there before the tables.",
    )
    maintenance: MaintenanceConfig = Field(
        default_factory=MaintenanceConfig, description="When tables are looked after by the clock."
    )
    monitoring: MonitoringConfig | None = Field(
        default=None,
        description="Metrics, health and the status page; no port opens without this section.",
    )
    state_path: str | None = Field(
        default=None,
        description="Local folder for locks and Spark's checkpoints; it may be deleted, the "
        "tables know where they stand. Default: .bayou beside this file. "
        "Environment: BAYOU_STATE_PATH.",
    )


class PipelineConfig(Section):
    """The whole file."""

    connector: ConnectorConfig = Field(description="The pipeline.")
