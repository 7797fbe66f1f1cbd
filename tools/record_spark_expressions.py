"""Records Spark's results of the expressions in tests/kernel/expressions/recorded/spark.json.

usage: record_spark_expressions.py

The file has input rows, and one entry per expression; add an expression as `{"sql": ...}`. Tests
compare the kernel's evaluator with the recorded results. Needs Java; takes some minutes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

FILE = Path(__file__).resolve().parent.parent / "tests/kernel/expressions/recorded/spark.json"


def canonical(column: pa.Array[Any]) -> list[str | None]:
    """Return a string for each value, equal only for equal values; dates and times as integers."""
    if pa.types.is_temporal(column.type):
        width = pa.int32() if pa.types.is_date32(column.type) else pa.int64()
        column = column.cast(width)
    if pa.types.is_string(column.type):
        column = column.cast(pa.binary())
        return [
            None if v is None else v.decode("utf-8", "backslashreplace") for v in column.to_pylist()
        ]
    return [None if value is None else repr(value) for value in column.to_pylist()]


def record(spark: SparkSession, expressions: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield type and values of each expression, or its error.

    One query evaluates all expressions. If it fails, both halves are evaluated separately.
    """
    selected = ", ".join(f"{sql} AS r{i}" for i, sql in enumerate(expressions))
    try:
        frame = spark.sql("SELECT " + selected + " FROM t")  # noqa: S608  # our own expressions
        table = frame.toArrow().combine_chunks()
    except (PySparkException, Py4JJavaError) as error:
        if len(expressions) > 1:
            half = len(expressions) // 2
            yield from record(spark, expressions[:half])
            yield from record(spark, expressions[half:])
        else:
            condition = error.getCondition() if isinstance(error, PySparkException) else None
            yield {"sql": expressions[0], "error": condition or type(error).__name__}
        return
    for sql, field, column in zip(expressions, frame.schema, table.columns, strict=True):
        kind = field.dataType.simpleString()
        values = canonical(column.combine_chunks()) if table.num_rows else []
        yield {"sql": sql, "type": kind, "values": values}


def main() -> None:
    """Evaluate all expressions, and rewrite the file."""
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.codegen.wholeStage", "false")
        .getOrCreate()
    )
    recorded = json.loads(FILE.read_text())
    rows, columns = recorded["rows"], recorded["columns"]
    table = spark.sql("SELECT * FROM VALUES " + rows + " AS t(" + columns + ")")  # noqa: S608
    table.coalesce(1).createOrReplaceTempView("t")
    expressions = list(dict.fromkeys(entry["sql"] for entry in recorded["expressions"]))
    entries = [
        entry
        for i in range(0, len(expressions), 8)
        for entry in record(spark, expressions[i : i + 8])
    ]
    head = json.dumps({"spark": spark.version, "columns": columns, "rows": rows}, indent=0)
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
    FILE.write_text(f'{head[:-2]},\n"expressions": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
