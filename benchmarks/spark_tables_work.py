"""Executes the changes of `spark_tables.py` in a session of `spark_session.py`.

The variant is `enable` (Bayou with default settings), `driver` or `executors` (work forced there),
`plan` (rows joined by Spark) or `delta-spark`. A request has a case, a table and its number of
rows; the response has the seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spark_variant import PEER
from spark_write_work import COLUMNS

WIDE_SHARE, WIDE_COLUMNS = 8, 100
CHANGED = [*COLUMNS[:3], "-1D AS amount", *COLUMNS[4:]]
WIDE_CHANGED = ["id", *(f"id % {n + 7} AS c{n}" for n in range(1, WIDE_COLUMNS))]
BOTH_DAYS = "t.id = s.id AND t.day = s.day"
SOURCE_IN_MEMORY = {"bayou.rowOperations.sourceBytes": str(1 << 30)}
CONF: Mapping[str, Mapping[str, str]] = {
    "driver": {"bayou.rowOperations.localBytes": str(1 << 40), **SOURCE_IN_MEMORY},
    "executors": {"bayou.rowOperations.localBytes": "0", **SOURCE_IN_MEMORY},
    "plan": {"bayou.rowOperations.sourceBytes": "0"},
}


Change = Callable[[Any, Any, int], None]


def merge(columns: Sequence[str], step: int, on: str = "t.id = s.id", share: int = 1) -> Change:
    """Return a change that upserts every `step`-th row.

    Args:
        columns: SQL expressions of the source's columns.
        step: distance of the ids.
        on: condition of the MERGE.
        share: divisor of the requested number of rows, which gives the table's number of rows.
    """

    def work(spark: Any, table: Any, rows: int) -> None:
        source = spark.range(0, rows // share, step, 2).selectExpr(*columns).alias("s")
        merging = table.alias("t").merge(source, on)
        merging.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

    return work


def insert(spark: Any, table: Any, rows: int) -> None:
    """Merge new rows, with a single NOT MATCHED clause."""
    source = spark.range(rows, rows + rows // 100, 1, 2).selectExpr(*CHANGED).alias("s")
    table.alias("t").merge(source, "t.id = s.id").whenNotMatchedInsertAll().execute()


def delete(condition: str) -> Change:
    """Return a change that deletes rows; `{middle}` in the condition is the id of a middle row."""
    return lambda _, table, rows: table.delete(condition.format(middle=rows // 2 + 1))


CASES: dict[str, Change] = {
    "merge": merge(CHANGED, 100),
    "merge-half": merge(CHANGED, 2),
    "merge-inserts": insert,
    "merge-partitioned": merge(CHANGED, 100, BOTH_DAYS),
    "merge-rewriting": merge(CHANGED, 100),
    "merge-wide": merge(WIDE_CHANGED, 100, share=WIDE_SHARE),
    "update": lambda *given: given[1].update("id % 100 = 7", {"amount": "amount + 1"}),
    "delete": delete("id % 100 = 7"),
    "delete-point": delete("id = {middle}"),
    "delete-partition": delete("day = DATE'2024-01-08'"),
}


def work(spark: Any, variant: str, asked: dict[str, Any]) -> dict[str, Any]:
    """Answer a request."""
    if variant == PEER:
        from delta.tables import DeltaTable
    else:
        from bayou.spark import DeltaTable
    for key, value in CONF.get(variant, {}).items():
        spark.conf.set(key, value)
    table = DeltaTable.forPath(spark, asked["table"])
    began = time.perf_counter()
    CASES[asked["case"]](spark, table, asked["rows"])
    return {"seconds": time.perf_counter() - began}
