"""Delta's SQL statements, parsed and executed without Spark's extension.

Start at `execution`. One module for each family of statements.
"""

from bayou.spark.sql_statements.execution import answer_sql, sql

__all__ = ["answer_sql", "sql"]
