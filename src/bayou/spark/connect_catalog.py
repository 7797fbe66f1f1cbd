"""Tables of the session catalog under Spark Connect, where Python can't access the JVM."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from bayou.protocol.sql import quote_identifier, string_literal, tokenize
from bayou.spark.hooks.hooks import plain_sql
from bayou.spark.session.settings import conf_flag


class ConnectCatalogTable:
    """The name of a table in the session catalog of a Spark Connect server.

    The table need not exist. The class has the read-only methods of
    `bayou.spark.jvm.catalog.CatalogTable`. These methods send requests to the server, and raise
    `PySparkException` if the server rejects the name.

    Attributes:
        catalog, database, table: the parts of the name; catalog and database are None if the name
            doesn't contain them.
    """

    def __init__(self, spark: Any, name: str) -> None:
        parts = [token.text for token in tokenize(name) if token.is_name]
        self._spark = spark
        self._name = name
        self.catalog = parts[0] if len(parts) > 2 else None
        self.database = parts[-2] if len(parts) > 1 else None
        self.table = parts[-1] if parts else name

    def is_temp_view(self) -> bool:
        return self.exists() and "Provider" not in self._details

    def exists(self) -> bool:
        return self._exists

    def default_location(self) -> str:
        """Return the location that the catalog would choose for a new table of this name."""
        catalog = self._spark.catalog
        database = catalog.getDatabase(self.database or catalog.currentDatabase())
        case_sensitive = conf_flag(self._spark, "spark.sql.caseSensitive")
        table = self.table if case_sensitive else self.table.lower()
        return f"{_path(database.locationUri).rstrip('/')}/{table}"

    @property
    def provider(self) -> str | None:
        """The table's format; None for a view."""
        return self._details.get("Provider")

    @property
    def type(self) -> str:
        """The table's type: `MANAGED`, `EXTERNAL` or `VIEW`.

        `DROP TABLE` deletes the files of a managed table.
        """
        return self._details.get("Type", "EXTERNAL")

    @property
    def location(self) -> str | None:
        """The table's location; None for a view."""
        location = self._details.get("Location")
        return None if location is None else _path(location)

    @cached_property
    def _exists(self) -> bool:
        return bool(self._spark.catalog.tableExists(self._name))

    @cached_property
    def _details(self) -> Mapping[str, str]:
        """The output of `SHOW TABLE EXTENDED` as a mapping; empty for a temporary view.

        `DESCRIBE TABLE EXTENDED` isn't used, because it doesn't print the format and location of a
        table with a Python data source.
        """
        database = quote_identifier(self.database or self._spark.catalog.currentDatabase())
        if self.catalog is not None:
            database = f"{quote_identifier(self.catalog)}.{database}"
        pattern = string_literal(re.sub(r"\W", ".", self.table))  # a regular expression
        entries = plain_sql(self._spark, f"SHOW TABLE EXTENDED IN {database} LIKE {pattern}")
        rows = [row for row in entries.collect() if row["tableName"].lower() == self.table.lower()]
        if self.database is None and any(row["isTemporary"] for row in rows):
            return {}  # a temporary view hides a table of the same name
        tables = [row["information"] for row in rows if not row["isTemporary"]]
        lines = [line for table in tables for line in table.splitlines()]
        return {name: value for name, _, value in (line.partition(": ") for line in lines)}


def _path(uri: str) -> str:
    scheme, separator, path = uri.partition(":")
    return "/" + path.lstrip("/") if separator and scheme == "file" else uri
