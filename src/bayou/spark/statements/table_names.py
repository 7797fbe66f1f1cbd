"""Names of Spark's session catalog that stand for a Delta table: where the table is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

__all__ = ["table_location"]


def table_location(spark: Any, parts: Sequence[str]) -> str | None:
    """Where the table of a name is, if the session catalog says that it is a Delta table.

    None for temporary views, tables of other formats, names that aren't there, and under Spark
    Connect, whose client can't see the location of a table.

    Args:
        parts: `(table,)`, `(database, table)` or `("spark_catalog", database, table)`.
    """
    if not isinstance(spark, SparkSession) or len(parts) > 3:
        return None
    session: Any = spark._jsparkSession  # noqa: SLF001  # the location can be seen nowhere else
    quoted = ".".join("`" + part.replace("`", "``") + "`" for part in parts)
    try:
        state = session.sessionState()
        name = state.sqlParser().parseTableIdentifier(quoted)
        catalog = state.catalog()
        if catalog.isTempView(name) or not catalog.tableExists(name):
            return None
        found = catalog.getTableMetadata(name)
        provider, location = found.provider(), found.storage().locationUri()
    except Py4JError:
        return None
    if provider.isEmpty() or provider.get().lower() != "delta" or location.isEmpty():
        return None
    place = location.get()
    if place.getScheme() == "file":
        return str(place.getPath())
    jvm: Any = spark._jvm  # noqa: SLF001
    return str(jvm.org.apache.hadoop.fs.Path(place).toString())
