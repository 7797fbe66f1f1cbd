"""A Spark session that reads when told, for `spark_scan.py`; it runs in either environment.

usage: spark_scan_session.py DOOR

A question has a case and a table, the answer the seconds and the result.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from spark_door import answer, session


def every_column(frame: Any) -> int:
    """Every column is read, its values counted: delta-spark doesn't read for a `noop` write."""
    counts = frame.selectExpr(*(f"count(`{name}`)" for name in frame.columns)).first()
    return sum(counts)


def two_columns(frame: Any) -> int:
    """An aggregate over two columns."""
    return int(frame.selectExpr("sum(id) + cast(sum(amount) AS long) AS s").first().s)


def three_columns(frame: Any) -> int:
    """An aggregate over three of the wide table's columns."""
    return int(frame.selectExpr("sum(c3) + sum(c50) + sum(c97) AS s").first().s)


def point(frame: Any) -> int:
    """A filter for which no file is left."""
    return int(frame.where("id = -5").count())


def planned(frame: Any) -> int:
    """Everything before a task runs: which files are read, and by which task."""
    assert frame._jdf.queryExecution().toRdd().getNumPartitions()  # noqa: SLF001
    return 0


CASES: dict[str, Callable[[Any], int]] = {
    "all": every_column,
    "2": two_columns,
    "3": three_columns,
    "point": point,
    "range": lambda frame: planned(frame.where("id >= 100000000 AND id < 104000000")),
    "every-file": planned,
}


def main(arguments: Sequence[str]) -> None:
    """The command line."""
    (door,) = arguments
    spark = session(door, memory="4g")
    spark.range(1000).selectExpr("sum(id)").collect()

    def query(asked: dict[str, Any]) -> dict[str, Any]:
        began = time.perf_counter()
        result = CASES[asked["case"]](spark.read.format("delta").load(asked["table"]))
        return {"seconds": time.perf_counter() - began, "result": result}

    answer(query)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
