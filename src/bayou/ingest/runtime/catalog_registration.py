"""Registers a topic's table in a catalog, and updates the catalog entry."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Protocol

from pyspark.sql import SparkSession

from bayou.api import table as open_table
from bayou.errors import ArgumentError, PipelineError
from bayou.ingest.config import Topic
from bayou.ingest.config.model import ConnectorConfig
from bayou.kernel import Snapshot
from bayou.spark.catalog_tables import CatalogEntry
from bayou.unity.client import UnityClient
from bayou.unity.names import TableName
from bayou.unity.tables import update_entry


class Registration(Protocol):
    """The catalog entry of a topic's table."""

    def update(self, spark: SparkSession) -> None:
        """Write the catalog entry if the table exists and the entry has changed.

        Topics that share the table may call this method at the same time.

        Raises:
            PipelineError: the catalog has another table with this name.
            StorageError: the catalog isn't reachable, or doesn't accept the entry.
        """
        ...


def registration(topic: Topic, connector: ConnectorConfig) -> Registration | None:
    """Return the catalog entry of a topic's table; None if no catalog is configured."""
    catalog, options = connector.catalog, connector.storage.storage_options()
    if catalog is None:
        return None
    if catalog.unity is not None:
        client = UnityClient(catalog.unity.settings())
        name = catalog.unity.table_name(topic.config.destination.name)
        return UnityRegistration(topic, client, name, options)
    return CatalogRegistration(
        topic, catalog.qualified_name(topic.config.destination.name), options
    )


class UnityRegistration:
    """The `Registration` of a topic's table in Unity Catalog, as an external table.

    Args:
        name: the name of the table in the catalog.
    """

    def __init__(
        self,
        topic: Topic,
        client: UnityClient,
        name: TableName,
        storage_options: Mapping[str, str],
    ) -> None:
        self._topic = topic
        self._client = client
        self._name = name
        self._storage_options = dict(storage_options)
        self._lock = threading.Lock()
        self._written: tuple[object, ...] | None = None

    def update(self, spark: SparkSession) -> None:
        """Write the catalog entry if the table exists and its metadata or protocol has changed."""
        with self._lock:
            self._update()

    def _update(self) -> None:
        table = open_table(self._topic.table_path, self._storage_options)
        if not table.exists():
            return
        snapshot: Snapshot = table.snapshot().kernel
        entry = (snapshot.metadata, snapshot.protocol)
        if entry == self._written:
            return
        try:
            update_entry(self._client, self._name, snapshot)
        except ArgumentError as error:
            raise PipelineError(
                f"topic {self._topic.key!r}: {error.message}", topic=self._topic.key
            ) from error
        self._written = entry


class CatalogRegistration:
    """The `Registration` of a topic's table in the catalog of the pipeline's Spark session.

    Args:
        name: the quoted name of the table in the catalog.
    """

    def __init__(self, topic: Topic, name: str, storage_options: Mapping[str, str]) -> None:
        self._topic = topic
        self._name = name
        self._storage_options = dict(storage_options)
        self._lock = threading.Lock()
        self._written: CatalogEntry | None = None

    def update(self, spark: SparkSession) -> None:
        """Write the catalog entry if the table exists and it has changed; see `CatalogEntry`."""
        with self._lock:
            self._update(spark)

    def _update(self, spark: SparkSession) -> None:
        path = self._topic.table_path
        table = open_table(path, self._storage_options)
        if not table.exists():
            return
        snapshot = table.snapshot().kernel
        entry = CatalogEntry(
            columns=snapshot.schema,
            comment=snapshot.metadata.description,
            properties=snapshot.properties,
        )
        if entry == self._written:
            return
        try:
            entry.write(spark, self._name, path)
        except ArgumentError as error:
            raise PipelineError(
                f"topic {self._topic.key!r}: {error.message}", topic=self._topic.key
            ) from error
        self._written = entry
