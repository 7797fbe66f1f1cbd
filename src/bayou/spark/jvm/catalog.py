"""Tables and views of Spark's session catalog."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from pyspark.errors import PySparkException

from bayou.protocol.sql import quote_identifier
from bayou.spark.jvm.objects import (
    JavaObject,
    JvmError,
    error_reason,
    java_class,
    scala_items,
    tested_with,
)

__all__ = ["CatalogTable"]


@tested_with("4.2", "4.3")
class CatalogTable:
    """The name of a table in the session catalog; the table need not exist.

    The constructor and the methods raise `JvmError` if the catalog rejects the name.

    Attributes:
        catalog, database, table: the parts of the name; catalog and database are None if the name
            doesn't contain them. If `catalog` isn't None, it is the session catalog.
    """

    def __init__(self, spark: Any, name: str) -> None:
        self._session = spark._jsparkSession
        state = self._session.sessionState()
        self._catalog = state.catalog()
        try:
            self.catalog, name = _split_catalog(state, name)
            self._identifier = state.sqlParser().parseTableIdentifier(name)
        except PySparkException as error:  # such as a table of another catalog
            raise JvmError(error_reason(error)) from error
        self.database: str | None = _value(self._identifier.database())
        self.table = str(self._identifier.table())

    def is_temp_view(self) -> bool:
        return bool(self._catalog.isTempView(self._identifier))

    def exists(self) -> bool:
        return bool(self._catalog.tableExists(self._identifier))

    def default_location(self) -> str:
        """Return the location that the catalog would choose for a new table of this name."""
        return _path(self._catalog.defaultTablePath(self._identifier))

    @property
    def provider(self) -> str | None:
        """The table's format; None for a view."""
        provider: str | None = _value(self._metadata.provider())
        return provider

    @property
    def location(self) -> str | None:
        """The table's location; None for a view."""
        location = _value(self._metadata.storage().locationUri())
        return None if location is None else _path(location)

    @property
    def type(self) -> str:
        """The table's type: `MANAGED`, `EXTERNAL` or `VIEW`.

        `DROP TABLE` deletes the files of a managed table.
        """
        return str(self._metadata.tableType().name())

    def set_columns(self, schema: str) -> None:
        """Replace the table's columns in the catalog.

        Args:
            schema: JSON of a Spark schema with the new columns.
        """
        identifier = self._metadata.identifier()
        columns = self._session.parseDataType(schema)
        external = self._session.sharedState().externalCatalog()
        external.alterTableDataSchema(identifier.database().get(), identifier.table(), columns)
        self._catalog.refreshTable(identifier)

    @cached_property
    def _metadata(self) -> JavaObject:
        return self._catalog.getTableMetadata(self._identifier)


def _split_catalog(state: JavaObject, name: str) -> tuple[str | None, str]:
    """Split `spark_catalog.schema.table` into the catalog and the rest of the name.

    For all other names, return None and the unchanged name.
    """
    if name.count(".") < 2:
        return None, name
    parts = [str(part) for part in scala_items(state.sqlParser().parseMultipartIdentifier(name))]
    if len(parts) != 3 or parts[0].lower() != "spark_catalog":
        return None, name
    return parts[0], ".".join(map(quote_identifier, parts[1:]))


def _value(option: JavaObject) -> Any:
    return None if option.isEmpty() else option.get()


def _path(uri: JavaObject) -> str:
    if uri.getScheme() in (None, "file"):
        return str(uri.getPath())
    return str(java_class(uri, "org.apache.hadoop.fs.Path")(uri).toString())
