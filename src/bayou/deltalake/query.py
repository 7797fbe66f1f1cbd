"""`QueryBuilder`: SQL over tables, executed by DuckDB."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from bayou.api.queries.duckdb_query import query_batches


class QueryBuilder:
    """SQL queries in DuckDB's dialect over registered tables.

    Args:
        session_config: settings of DataFusion. Bayou ignores them.

    Examples:
        >>> reader = QueryBuilder().register("orders", table).execute("SELECT * FROM orders")
    """

    def __init__(self, session_config: Mapping[str, str] | None = None) -> None:
        self._tables: dict[str, Any] = {}

    def register(self, table_name: str, delta_table: Any) -> QueryBuilder:
        """Add a table under a name. Accepts the same kinds of tables as `bayou.sql`."""
        self._tables[table_name] = delta_table
        return self

    def execute(self, sql: str) -> pa.RecordBatchReader:
        """Run one SELECT statement and stream its rows."""
        return query_batches(sql, self._tables)
