"""Registers a topic's table in the catalog of the pipeline's session, and updates the entry."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from pyspark.sql import SparkSession

from bayou.api import table as open_table
from bayou.errors import ArgumentError, PipelineError
from bayou.ingest.config import Topic
from bayou.spark.catalog_tables import CatalogEntry


class CatalogRegistration:
    """The entry of a topic's table in the catalog.

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
        """Write the entry if the table exists and its columns, comment or properties changed.

        Topics that share the table may call this method at the same time.

        Raises:
            PipelineError: the catalog has another table or a view with this name.
            StorageError: the catalog isn't reachable, or doesn't accept the entry.
        """
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
