"""Types and string literals in the SQL statements that Bayou generates for Spark."""

from __future__ import annotations

from pyspark.sql import types

from bayou.protocol.sql import quote_identifier, string_literal


def type_sql(data_type: types.DataType) -> str:
    """Return a type as SQL.

    Nested fields are written with their names in backticks, `NOT NULL` and their comments.
    """
    match data_type:
        case types.TimestampType():
            return "TIMESTAMP_LTZ"  # the meaning of `TIMESTAMP` depends on spark.sql.timestampType
        case types.StructType(fields=fields):
            return f"STRUCT<{', '.join(map(_field_sql, fields))}>"
        case types.ArrayType(elementType=element):
            return f"ARRAY<{type_sql(element)}>"
        case types.MapType(keyType=key, valueType=value):
            return f"MAP<{type_sql(key)}, {type_sql(value)}>"
        case _:
            return data_type.simpleString().upper()


def _field_sql(field: types.StructField) -> str:
    sql = f"{quote_identifier(field.name)}: {type_sql(field.dataType)}"
    if not field.nullable:
        sql += " NOT NULL"
    comment = field.metadata.get("comment")
    return sql if comment is None else f"{sql} COMMENT {literal_sql(str(comment))}"


def literal_sql(text: str) -> str:
    """Return a string as a SQL literal; escape `${name}`, which Spark would substitute."""
    return string_literal(text).replace("${", "$\\{")
