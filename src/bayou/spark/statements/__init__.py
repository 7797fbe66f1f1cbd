from bayou.spark.statements.execution import sql

__all__ = ["sql"]
