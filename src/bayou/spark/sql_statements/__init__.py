"""Delta's SQL statements, parsed and executed without Delta's Spark extension.

Start reading at `execution`, then read `parser`. Modules such as `merge` each parse and execute a
group of statements.
"""

from bayou.spark.sql_statements.execution import sql, sql_hook

__all__ = ["sql", "sql_hook"]
