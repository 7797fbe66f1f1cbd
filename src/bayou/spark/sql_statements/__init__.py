"""Delta's SQL statements, parsed and executed without Delta's Spark extension.

Start at `execution`, then `parser`. A module such as `merge` parses and executes a group of
statements.
"""

from bayou.spark.sql_statements.execution import sql, sql_hook

__all__ = ["sql", "sql_hook"]
