"""The schema of the pipeline's YAML file.

Keys are in kebab case. `bayou.ingest.config.notices` reports keys that have no effect, and settings
that prevent a pipeline from starting.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator, model_validator

from bayou.ingest.config.base_section import Section
from bayou.ingest.config.connector.catalog import CatalogConfig
from bayou.ingest.config.connector.connections import (
    KafkaConfig,
    SparkConfig,
)
from bayou.ingest.config.connector.operations import (
    MaintenanceConfig,
    MigrationConfig,
    MonitoringConfig,
)
from bayou.ingest.config.connector.registry import SchemaRegistryConfig
from bayou.ingest.config.connector.storage import StorageConfig
from bayou.ingest.config.destination import TOPIC, DestinationConfig
from bayou.ingest.config.routing import VALUE
from bayou.ingest.config.topic import TopicConfig


class ConnectorConfig(Section):
    """The section `connector`, which contains all settings."""

    topics: Annotated[dict[str, TopicConfig], Field(min_length=1)] = Field(
        description="The topics. You choose the key of each topic; messages and metrics use it."
    )
    kafka: KafkaConfig = Field(default_factory=KafkaConfig, description="The broker.")
    storage: StorageConfig = Field(default_factory=StorageConfig, description="The object stores.")
    spark: SparkConfig = Field(default_factory=SparkConfig, description="Spark.")
    catalog: CatalogConfig | None = Field(
        default=None,
        description="The catalog in which the tables are registered by table-name. Without this "
        "section, tables are used by their paths.",
    )
    schema_registry: SchemaRegistryConfig | None = Field(
        default=None,
        description="The schema registry of Avro, Protobuf and JSON Schema records.",
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
        description="Local folder for locks, maintenance times and spark.log. The folder may be "
        "deleted, because offsets are stored in the tables. Default: .bayou beside this file. "
        "Environment: BAYOU_STATE_PATH.",
    )

    @field_validator("topics")
    @classmethod
    def _check_keys(cls, value: dict[str, TopicConfig]) -> dict[str, TopicConfig]:
        for key in value:
            if "/" in key:
                raise ValueError(f"the key {key!r} contains a '/'; write another key")
        return value

    @model_validator(mode="after")
    def _check_table_names(self) -> ConnectorConfig:
        if self.catalog is None:
            return self
        topics: dict[str, str] = {}
        for key, topic in self.topics.items():
            try:
                destination = topic.destination.for_topic("topic")
                name = self.catalog.qualified_name(destination.name).lower()
            except ValueError as error:
                raise ValueError(f"topics.{key}.destination: {error}") from error
            if topic.destination.is_template and TOPIC not in topic.destination.name:
                raise ValueError(
                    f"topics.{key}.destination: all tables of the section have the same name in "
                    f"the catalog, {name}; write {TOPIC} in table-name"
                )
            names = [name, *_route_names(key, destination, self.catalog)]
            for name in names:
                other = topics.setdefault(name, key)
                if other != key or names.count(name) > 1:
                    raise ValueError(
                        f"topics.{other} and topics.{key} have the same table {name} in the "
                        "catalog; write another table-name"
                    )
        return self


def _route_names(key: str, destination: DestinationConfig, catalog: CatalogConfig) -> list[str]:
    """Return the lowercase names of a topic's `route-by` tables, as registered in the catalog.

    The placeholder `{value}` in a name is replaced by the word `value`.

    Raises:
        ValueError: a name can't be used in the catalog. Or the table name for `route-by.table-path`
            lacks `{value}`, so that all tables of this path would have the same name.
    """
    routes = destination.route_by
    if routes is None:
        return []
    if routes.table_path is not None and VALUE not in routes.names[-1]:
        raise ValueError(
            f"topics.{key}.destination.route-by: all tables of table-path have the same name in "
            f"the catalog, {routes.names[-1]}; write {VALUE} in table-name"
        )
    try:
        names = [catalog.qualified_name(n.replace(VALUE, "value")).lower() for n in routes.names]
    except ValueError as error:
        raise ValueError(f"topics.{key}.destination.route-by: {error}") from error
    return names


class PipelineConfig(Section):
    """The root of the YAML file, which has one section: `connector`."""

    connector: ConnectorConfig = Field(description="The pipeline.")
