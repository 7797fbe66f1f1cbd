"""The schema of the pipeline's YAML file.

Keys are in kebab case. `bayou.ingest.config.notices` reports keys that have no effect, and keys
that can't be ignored without changing the resulting table.
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
        description="Topics by a key that you choose, which messages and metrics use."
    )
    kafka: KafkaConfig = Field(default_factory=KafkaConfig, description="The broker.")
    storage: StorageConfig = Field(default_factory=StorageConfig, description="The object store.")
    spark: SparkConfig = Field(default_factory=SparkConfig, description="Spark.")
    schema_registry: SchemaRegistryConfig | None = Field(
        default=None, description="The registry of the schemas of Avro and Protobuf records."
    )
    migration: MigrationConfig = Field(
        default_factory=MigrationConfig,
        description="Existing JSON files to migrate into the tables.",
    )
    maintenance: MaintenanceConfig = Field(
        default_factory=MaintenanceConfig, description="Scheduled maintenance of the tables."
    )
    monitoring: MonitoringConfig | None = Field(
        default=None,
        description="Metrics, health and the status page. Without this section no port is opened.",
    )
    state_path: str | None = Field(
        default=None,
        description="Local folder for locks, maintenance times and spark.log. It may be deleted, "
        "because the tables contain their offsets. Default: .bayou beside this file. "
        "Environment: BAYOU_STATE_PATH.",
    )


class PipelineConfig(Section):
    """The whole file."""

    connector: ConnectorConfig = Field(description="The pipeline.")
