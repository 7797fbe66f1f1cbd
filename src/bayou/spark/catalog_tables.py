"""Tables of Spark's session catalog: resolve names to locations, and register new tables.

Spark passes no path to a Python data source for a catalog table. Bayou asks the catalog for the
table's location, and reads and writes there.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError

from bayou.errors import ArgumentError
from bayou.protocol.identifiers import quote_identifier
from bayou.spark.hooks.hooks import plain_sql
from bayou.spark.hooks.requests import TableReadRequest
from bayou.spark.jvm.classes import java_class

__all__ = ["NamedTable", "named_table", "read", "refresh_columns"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTable:
    """A table name and the location that it resolves to.

    Attributes:
        name: the name as the user wrote it.
        path: the table's location, or the catalog's default location if the table doesn't exist.
        exists: whether the catalog has the table; always true for path names (``delta.`/path` ``).
        is_path: whether the name is a path name.
    """

    name: str
    path: str
    exists: bool
    is_path: bool = False

    def register(self, spark: Any, path: str) -> None:
        """Register the name in the catalog for the existing table at `path`."""
        schema = spark.read.format("delta").load(path).schema
        columns = ", ".join(
            f"{quote_identifier(f.name)} {f.dataType.simpleString()}" for f in schema.fields
        )
        quoted = path.replace("\\", "\\\\").replace("'", "\\'")
        plain_sql(spark, f"CREATE TABLE {self.name} ({columns}) USING delta LOCATION '{quoted}'")


def read(request: TableReadRequest) -> Any:
    """Answer the `table` methods of sessions and readers by loading the table's location."""
    table = named_table(request.spark, request.table)
    if table is None or not table.exists:
        return NotImplemented
    reader = request.spark.read if request.reader is None else request.reader
    return reader.format("delta").load(table.path)


def named_table(spark: Any, name: str) -> NamedTable | None:
    """Resolve a table name; None if it is a view or a table of another format.

    Args:
        spark: a classic session.

    Raises:
        ArgumentError: the name isn't valid.
    """
    session: Any = spark._jsparkSession  # noqa: SLF001  # no public API has the location
    state = session.sessionState()
    try:
        identifier = state.sqlParser().parseTableIdentifier(name)
    except Py4JError:
        return None
    database = identifier.database()
    if not database.isEmpty() and database.get().lower() == "delta":
        return NamedTable(name=name, path=str(identifier.table()), exists=True, is_path=True)
    catalog = state.catalog()
    if catalog.isTempView(identifier):
        return None
    if not catalog.tableExists(identifier):
        try:
            location = catalog.defaultTablePath(identifier)
        except Py4JError as error:
            raise ArgumentError(
                f"{name}: this isn't a valid table name: {str(error).splitlines()[0]}",
                argument="name",
            ) from error
        return NamedTable(name=name, path=_path(spark, location), exists=False)
    metadata = catalog.getTableMetadata(identifier)
    provider, location = metadata.provider(), metadata.storage().locationUri()
    if provider.isEmpty() or provider.get().lower() != "delta" or location.isEmpty():
        return None
    return NamedTable(name=name, path=_path(spark, location.get()), exists=True)


def refresh_columns(spark: Any, name: str, path: str) -> None:
    """Update a table's columns in the catalog, if the catalog allows it.

    Reads and writes use the path, so they see the current columns in any case.

    Args:
        spark: a classic session.
    """
    session: Any = spark._jsparkSession  # noqa: SLF001  # no public API
    schema = spark.read.format("delta").load(path).schema
    catalog = session.sessionState().catalog()
    with contextlib.suppress(Py4JError):
        identifier = session.sessionState().sqlParser().parseTableIdentifier(name)
        qualified = catalog.getTableMetadata(identifier).identifier()
        columns = session.parseDataType(schema.json())
        external = session.sharedState().externalCatalog()
        external.alterTableDataSchema(qualified.database().get(), qualified.table(), columns)
        catalog.refreshTable(qualified)


def _path(spark: Any, uri: Any) -> str:
    if uri.getScheme() in (None, "file"):
        return str(uri.getPath())
    jvm: Any = spark._jvm  # noqa: SLF001
    return str(java_class(jvm, "org.apache.hadoop.fs.Path")(uri).toString())
