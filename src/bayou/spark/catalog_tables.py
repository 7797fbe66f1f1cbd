"""Names of Spark's session catalog: where their tables are, and how a new one is registered.

Spark hands a Python data source no path for a table of its catalog. The catalog knows the location
all the same, and that is where a named table is read and written.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError

from bayou.errors import ArgumentError
from bayou.spark.hooks.hooks import plain_sql
from bayou.spark.hooks.requests import TableReadRequest
from bayou.spark.jvm.classes import java_class

__all__ = ["NamedTable", "named_table", "read", "refresh_columns"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTable:
    """A name, and the place that it stands for.

    Attributes:
        name: as it was given.
        path: where the table is; for one that isn't there, where the catalog would put it.
        exists: whether the catalog has it. A path as a name (``delta.`/path` ``) counts as there.
        is_path: whether it is such a path.
    """

    name: str
    path: str
    exists: bool
    is_path: bool = False

    def register(self, spark: Any, path: str) -> None:
        """Put the name into the catalog, for a table that is at the path now."""
        schema = spark.read.format("delta").load(path).schema
        columns = ", ".join(
            f"`{f.name.replace('`', '``')}` {f.dataType.simpleString()}" for f in schema.fields
        )
        quoted = path.replace("\\", "\\\\").replace("'", "\\'")
        plain_sql(spark, f"CREATE TABLE {self.name} ({columns}) USING delta LOCATION '{quoted}'")


def read(request: TableReadRequest) -> Any:
    """`table` of a session, a reader or a stream's reader: a Delta table's location is read."""
    table = named_table(request.spark, request.table)
    if table is None or not table.exists:
        return NotImplemented
    reader = request.spark.read if request.reader is None else request.reader
    return reader.format("delta").load(table.path)


def named_table(spark: Any, name: str) -> NamedTable | None:
    """What a name stands for; None where it isn't a Delta table of the session's catalog, nor free.

    Args:
        spark: a classic session.

    Raises:
        ArgumentError: it can't be a name.
    """
    session: Any = spark._jsparkSession  # noqa: SLF001  # the location can be seen nowhere else
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
            place = catalog.defaultTablePath(identifier)
        except Py4JError as error:
            raise ArgumentError(
                f"{name} can't be a table: {str(error).splitlines()[0]}", argument="name"
            ) from error
        return NamedTable(name=name, path=_text(spark, place), exists=False)
    found = catalog.getTableMetadata(identifier)
    provider, location = found.provider(), found.storage().locationUri()
    if provider.isEmpty() or provider.get().lower() != "delta" or location.isEmpty():
        return None
    return NamedTable(name=name, path=_text(spark, location.get()), exists=True)


def refresh_columns(spark: Any, name: str, path: str) -> None:
    """Have the catalog show a table's columns as they are now, where the catalog takes that.

    Reads and writes go by the path and see them in any case.

    Args:
        spark: a classic session.
    """
    session: Any = spark._jsparkSession  # noqa: SLF001  # published nowhere
    schema = spark.read.format("delta").load(path).schema
    catalog = session.sessionState().catalog()
    with contextlib.suppress(Py4JError):
        identifier = session.sessionState().sqlParser().parseTableIdentifier(name)
        found = catalog.getTableMetadata(identifier).identifier()
        columns = session.parseDataType(schema.json())
        external = session.sharedState().externalCatalog()
        external.alterTableDataSchema(found.database().get(), found.table(), columns)
        catalog.refreshTable(found)


def _text(spark: Any, place: Any) -> str:
    if place.getScheme() in (None, "file"):
        return str(place.getPath())
    jvm: Any = spark._jvm  # noqa: SLF001
    return str(java_class(jvm, "org.apache.hadoop.fs.Path")(place).toString())
