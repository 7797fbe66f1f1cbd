"""Delta's SQL statements, parsed and executed without Delta's Spark extension.

Start at `execution`. Each family of statements has a module.
"""

from bayou.spark.sql_statements.execution import sql, sql_hook

__all__ = ["sql", "sql_hook"]
