"""Prints which library serves each call in a session: Bayou, delta-spark, or neither.

usage: both_libraries.py CONF FOLDER

CONF is a JSON object of session settings; with `remote`, the session is one of Spark Connect. The
program prints one JSON object for a session without `bayou.spark.enable`, and one after it.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

import bayou
import bayou.spark

BAYOU, DELTA_SPARK, NEITHER = "Bayou", "delta-spark", "error"
NOT_CONFIGURED = "DELTA_CONFIGURE_SPARK_SESSION_WITH_EXTENSION_AND_CATALOG"


def refused_by(error: Exception) -> str:
    """The library that raises an error."""
    print(str(error)[:300], file=sys.stderr)
    return "delta-spark's error" if NOT_CONFIGURED in str(error) else NEITHER


def by_commit(path: Path, call: Callable[[], object]) -> str:
    """The library that commits during a call, by the name in the commit."""
    try:
        call()
    except Exception as error:
        return refused_by(error)
    newest = max((path / "_delta_log").glob("*.json"))
    infos = [json.loads(line).get("commitInfo") for line in newest.read_text().splitlines()]
    engine = next(info for info in infos if info)["engineInfo"]
    return BAYOU if engine.startswith("bayou") else DELTA_SPARK


def by_columns(frame: Callable[[], Any]) -> str:
    """The library that reads a DataFrame: only Bayou has the option `metadataColumn`."""
    try:
        return BAYOU if "_metadata" in frame().columns else DELTA_SPARK
    except Exception as error:
        return refused_by(error)


def served_by(spark: Any, folder: Path) -> dict[str, str]:
    """Which library serves each call; every call has a table of its own."""

    def table(name: str) -> Path:
        path = folder / name
        bayou.write(str(path), pa.table({"id": [1, 2]}))
        return path

    def write(name: str, call: Callable[[Path], object]) -> str:
        path = table(name)
        return by_commit(path, lambda: call(path))

    rows = spark.range(2)
    read = table("read")
    return {
        "read": by_columns(
            lambda: spark.read.format("delta").option("metadataColumn", "true").load(str(read))
        ),
        "write": write("write", lambda p: rows.write.format("delta").mode("append").save(str(p))),
        "sql": write("sql", lambda p: spark.sql(f"DELETE FROM delta.`{p}` WHERE id = 1").collect()),
        "bayou.spark.DeltaTable": write(
            "delta_table",
            lambda p: bayou.spark.DeltaTable.forPath(spark, str(p)).update("id = 1", {"id": "3"}),
        ),
        "bayou.spark.sql": write(
            "bayou_sql", lambda p: bayou.spark.sql(spark, f"DELETE FROM delta.`{p}` WHERE id = 1")
        ),
        "bayou.write": write("bayou_write", lambda p: bayou.write(str(p), pa.table({"id": [3]}))),
    }


def main() -> None:
    """Create the session, and print the results."""
    conf, folder = json.loads(sys.argv[1]), Path(sys.argv[2])
    remote = conf.pop("remote", None)
    builder = SparkSession.builder.config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    for key, value in conf.items():
        builder = builder.config(key, value)
    builder = builder.remote(remote) if remote else builder.master("local[2]")
    spark = builder.getOrCreate()
    print(json.dumps(served_by(spark, folder / "plain")))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        bayou.spark.enable(spark)
    answers = served_by(spark, folder / "enabled")
    answers["warning"] = str(any("delta-spark's JAR" in str(w.message) for w in caught))
    print(json.dumps(answers))
    spark.stop()


if __name__ == "__main__":
    main()
