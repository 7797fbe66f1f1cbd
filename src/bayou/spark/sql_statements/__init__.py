"""Delta's SQL statements, parsed and executed without Delta's Spark extension.

Start at `execution`. Each family of statements has a module.
"""

from bayou.spark.sql_statements.execution import answer_sql, sql

__all__ = ["answer_sql", "sql"]
