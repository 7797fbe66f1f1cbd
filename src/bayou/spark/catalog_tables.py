"""Tables of Spark's session catalog: resolve names to locations, and register new tables.

Spark passes no path to a Python data source for a catalog table. Bayou asks the catalog for the
table's location, and reads and writes there.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import PySparkException

from bayou.errors import ArgumentError, BayouError, StorageError
from bayou.protocol.schema import StructType
from bayou.protocol.sql import quote_identifier
from bayou.spark.connect_catalog import ConnectCatalogTable
from bayou.spark.ddl import literal_sql, type_sql
from bayou.spark.hooks.hooks import plain_sql
from bayou.spark.hooks.requests import TableReadRequest
from bayou.spark.jvm.catalog import CatalogTable
from bayou.spark.jvm.objects import JvmError, error_reason
from bayou.spark.jvm.plans import with_qualifier
from bayou.spark.session.connection import is_classic

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTable:
    """The name of a Delta table and its location, as resolved by the session catalog.

    Attributes:
        path: the table's location. If the table doesn't exist, the location that the catalog would
            choose for it.
        exists: whether the catalog has the table; always true for path names.
        is_path: whether the name is a path name (``delta.`/path` ``).
    """

    name: str
    path: str
    exists: bool
    is_path: bool = False

    def register(self, spark: Any, path: str) -> None:
        """Create a catalog table with this name for the existing Delta table at `path`.

        Raises:
            StorageError: the catalog doesn't accept the table. The message asks the user not to
                write the rows again, because `path` already contains them.
        """
        location = literal_sql(path)
        try:
            schema = spark.read.format("delta").load(path).schema
            columns = ", ".join(
                f"{quote_identifier(f.name)} {type_sql(f.dataType)}" for f in schema.fields
            )
            create = f"CREATE TABLE {self.name} ({columns}) USING delta LOCATION {location}"
            plain_sql(spark, create)
        except (BayouError, JvmError, PySparkException) as error:
            raise StorageError(
                f"{self.name}: the table exists at {path}, but can't be added to the catalog: "
                f"{error_reason(error).removesuffix('.')}. Don't write the rows again; run CREATE "
                f"TABLE {self.name} USING delta LOCATION {location}.",
                path=path,
            ) from error

    def is_at(self, location: str | None) -> bool:
        """Whether the location in a statement is this table's location; True if `location` is None.

        The comparison ignores different spellings, such as `s3a://` and `s3://`, or `file:/a/` and
        `/a`.
        """
        return location is None or _comparable(location) == _comparable(self.path)

    def check_location(self, location: str | None) -> None:
        """Check that a statement doesn't replace an existing table at another location.

        Args:
            location: the location in the statement; None if it has none.

        Raises:
            ArgumentError: the table exists at another location.
        """
        if not self.exists or self.is_at(location):
            return
        raise ArgumentError(
            f"{self.name}: the location of the existing table is {self.path}. It doesn't match the "
            f"specified location {location} (DELTA_TABLE_LOCATION_MISMATCH). Remove the location, "
            "or use another name.",
            argument="location",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogEntry:
    """The metadata that Bayou writes to the session catalog for a table.

    Attributes:
        columns: the columns, with their comments.
        comment: the table's comment; None leaves the comment in the catalog unchanged.
        properties: the table's properties.
    """

    columns: StructType
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    def write(self, spark: Any, name: str, path: str) -> None:
        """Create or update the session catalog's entry for a table.

        If the catalog already has the table, properties that aren't in `properties` stay unchanged.

        Args:
            name: the table's name, such as `database.table`. The caller has quoted parts that need
                backticks.
            path: the table's location.

        Raises:
            ArgumentError: the name belongs to a view, or to a table with another format or
                location.
            StorageError: the catalog isn't reachable, or doesn't accept the entry.
        """
        try:
            table = CatalogTable(spark, name)
            if table.is_temp_view():
                raise ArgumentError(
                    f"{name}: this is the name of a temporary view. Use another name.",
                    argument="name",
                )
            if table.exists():
                _check_entry(table, name, path)
                table.set_columns(self.columns.to_json())
            else:
                location = literal_sql(path)
                plain_sql(spark, f"CREATE TABLE {name} USING delta LOCATION {location}")
                CatalogTable(spark, name).set_columns(self.columns.to_json())
            items = [
                f"{literal_sql(key)} = {literal_sql(value)}"
                for key, value in self.properties.items()
                if key.lower() not in _RESERVED
            ]
            if items:
                plain_sql(spark, f"ALTER TABLE {name} SET TBLPROPERTIES ({', '.join(items)})")
            if self.comment is not None:
                plain_sql(spark, f"COMMENT ON TABLE {name} IS {literal_sql(self.comment)}")
        except (JvmError, PySparkException) as error:
            raise StorageError(
                f"{name}: the catalog doesn't accept the table: {error_reason(error)}", path=path
            ) from error


_RESERVED = frozenset(
    {
        *("comment", "external", "is_managed_location", "location", "owner", "provider"),
        "table_type",
    }
)
"""Keys of table properties that Spark's SQL statements can't set."""


def _check_entry(table: CatalogTable, name: str, path: str) -> None:
    """Raise `ArgumentError` if a catalog entry describes a table other than the one at `path`."""
    location = table.location
    if location is None or (table.provider or "").lower() != "delta":
        raise ArgumentError(
            f"{name}: in the catalog, a view or a table of another format has this name. Use "
            "another name, or drop the view or table.",
            argument="name",
        )
    if _comparable(location) != _comparable(path):
        raise ArgumentError(
            f"{name}: the catalog has a table with this name at {location}, not at {path}. Use "
            "another name, or drop the other table from the catalog.",
            argument="name",
        )


def _comparable(path: str) -> str:
    """Normalize a location, so that equal results mean the same location.

    `s3a://` becomes `s3://`. A local path becomes absolute and loses the scheme `file:`.
    """
    scheme, separator, location = path.rstrip("/").partition(":")
    if separator and scheme == "file":
        return "/" + location.lstrip("/")
    if not separator:
        return os.path.abspath(path)
    return f"s3:{location}" if scheme in ("s3a", "s3n") else path.rstrip("/")


def read(request: TableReadRequest) -> Any:
    """Handler of the hook `table`: return the DataFrame of a Delta table in the session catalog.

    Returns NotImplemented if the catalog has no Delta table with the requested name.
    """
    table = named_table(request.spark, request.table)
    if table is None or not table.exists:
        return NotImplemented
    reader = request.spark.read if request.reader is None else request.reader
    frame = reader.format("delta").load(table.path)
    return frame if table.is_path else _with_name(request.spark, frame, request.table)


def _with_name(spark: Any, frame: Any, name: str) -> Any:
    """Qualify the columns of a table's DataFrame with the table's name, so that `db.t.id` works.

    Under Spark Connect, the DataFrame is returned unchanged.
    """
    if not is_classic(spark):
        return frame
    try:
        table = CatalogTable(spark, name)
        database = table.database or spark.catalog.currentDatabase()
        return with_qualifier(frame, (_SESSION_CATALOG, database, table.table))
    except JvmError:
        return frame


_SESSION_CATALOG = "spark_catalog"


def named_table(spark: Any, name: str, *, behind_views: bool = False) -> NamedTable | None:
    """Return the `NamedTable` for a name in the session catalog.

    If no table or view has the name, the result has `exists=False`. The result is None in these
    cases:

    - The name is malformed, or its schema doesn't exist.
    - The name belongs to a view, to a table of another format, or to another catalog.

    Args:
        behind_views: whether an unqualified name that belongs to a temporary view is resolved to a
            table in the current schema. DataFrame methods that create tables resolve names in this
            way.
    """
    table: CatalogTable | ConnectCatalogTable
    try:
        table = CatalogTable(spark, name) if is_classic(spark) else ConnectCatalogTable(spark, name)
    except JvmError:
        return None
    if table.database is not None and table.database.lower() == "delta":
        return NamedTable(name=name, path=table.table, exists=True, is_path=True)
    if table.is_temp_view():
        if not behind_views or table.database is not None:
            return None
        parts = (spark.catalog.currentDatabase(), table.table)
        return named_table(spark, ".".join(map(quote_identifier, parts)))
    if _catalog(spark, table).lower() != _SESSION_CATALOG:
        return None
    if not table.exists():
        try:
            path = table.default_location()
        except (JvmError, PySparkException):
            return None
        return NamedTable(name=name, path=path, exists=False)
    location = table.location
    if location is None or (table.provider or "").lower() != "delta":
        return None
    return NamedTable(name=name, path=location, exists=True)


def _catalog(spark: Any, table: CatalogTable | ConnectCatalogTable) -> str:
    return str(table.catalog or spark.catalog.currentCatalog())


def why_unusable(spark: Any, name: str) -> str:
    """Return the reason why a name can't be the name of a Delta table, for errors.

    Called if `named_table` has returned None for the name.
    """
    try:
        table = CatalogTable(spark, name) if is_classic(spark) else ConnectCatalogTable(spark, name)
        schema, catalog = table.database, _catalog(spark, table)
        if catalog.lower() != _SESSION_CATALOG:
            return (
                f"the name belongs to the catalog {catalog}. Write the full name of a Delta table, "
                f"such as {_SESSION_CATALOG}.default.visits."
            )
        if schema is not None and not spark.catalog.databaseExists(schema):
            return (
                f"the schema {schema} doesn't exist (SCHEMA_NOT_FOUND). Create it with CREATE "
                "SCHEMA, or use another name."
            )
    except (JvmError, PySparkException) as error:
        return f"this isn't a valid table name: {error_reason(error)}"
    return (
        "the name belongs to a view, or to a table of another format. Use another name, or a path: "
        "delta.`/path`."
    )


def table_type(spark: Any, name: str) -> str:
    """Return the type of an existing table: `EXTERNAL` or `MANAGED`."""
    table = CatalogTable(spark, name) if is_classic(spark) else ConnectCatalogTable(spark, name)
    return table.type


def refresh_columns(spark: Any, name: str, path: str) -> None:
    """Update the columns of a catalog table to the current schema of the Delta table at `path`.

    Does nothing under Spark Connect. An error is logged and not raised: the table has already
    changed, and no read or write depends on the columns in the catalog.
    """
    if not is_classic(spark):
        return
    try:
        schema = spark.read.format("delta").load(path).schema
        CatalogTable(spark, name).set_columns(schema.json())
    except (BayouError, JvmError, PySparkException) as error:
        _LOG.warning(
            "%s: the table has changed, but its columns in the catalog couldn't be updated: %s. "
            "The next ALTER TABLE repeats the update.",
            name,
            error_reason(error).removesuffix("."),
        )
