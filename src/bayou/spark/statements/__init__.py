from bayou.spark.statements.execution import answer_sql, sql

__all__ = ["answer_sql", "sql"]
