"""Runs the queries of `spark_scan.py` in a session of `spark_session.py`.

A request has a case and a table; the response has the seconds and the result of the query.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def every_column(frame: Any) -> int:
    """Count the values of every column, because delta-spark reads nothing for a `noop` write."""
    counts = frame.selectExpr(*(f"count(`{name}`)" for name in frame.columns)).first()
    return sum(counts)


def two_columns(frame: Any) -> int:
    """Aggregate two columns."""
    return int(frame.selectExpr("sum(id) + cast(round(sum(amount), -3) AS long) AS s").first().s)


def three_columns(frame: Any) -> int:
    """Aggregate three columns of the wide table."""
    return int(frame.selectExpr("sum(c3) + sum(c50) + sum(c97) AS s").first().s)


def point(frame: Any) -> int:
    """Count the rows of a filter for which data skipping skips all files."""
    return int(frame.where("id = -5").count())


def one_row(frame: Any) -> int:
    """Read all columns of one row of the table of 8,000,000 rows."""
    return len(frame.where("id = 4000000").collect())


def planned(frame: Any) -> int:
    """Plan a query without running tasks: select the files, and assign them to tasks."""
    assert frame._jdf.queryExecution().toRdd().getNumPartitions()  # noqa: SLF001
    return 0


CASES: dict[str, Callable[[Any], int]] = {
    "all": every_column,
    "2": two_columns,
    "3": three_columns,
    "one": one_row,
    "point": point,
    "range": lambda frame: planned(frame.where("id >= 100000000 AND id < 104000000")),
    "every-file": planned,
}


def work(spark: Any, _: str, asked: dict[str, Any]) -> dict[str, Any]:
    """Answer a request."""
    began = time.perf_counter()
    result = CASES[asked["case"]](spark.read.format("delta").load(asked["table"]))
    return {"seconds": time.perf_counter() - began, "result": result}
