"""Statements over a table of its own for each test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import bayou


class Run:
    """Runs statements in which `{t}` stands for the test's table, and shows what came of them."""

    def __init__(self, spark: Any, path: str) -> None:
        self.spark = spark
        self.path = path

    def __call__(self, text: str, args: Any = None, **frames: Any) -> Any:
        return self.spark.sql(text.replace("{t}", f"delta.`{self.path}`"), args, **frames)

    def rows(self, order: str = "id") -> list[tuple[Any, ...]]:
        """All rows, in order of a column."""
        found = bayou.table(self.path).to_arrow().sort_by(order).to_pylist()
        return [tuple(row.values()) for row in found]

    def last(self) -> dict[str, Any]:
        """The last commit."""
        return bayou.table(self.path).history(1)[0]

    @property
    def snapshot(self) -> Any:
        """The latest version."""
        return bayou.table(self.path).snapshot()


@pytest.fixture
def run(spark, tmp_path) -> Run:
    return Run(spark, str(tmp_path / "table"))


@pytest.fixture
def numbers(run) -> Callable[..., Run]:
    """Makes the table of ids, days 0 and 1, and names."""

    def made(rows: int = 6, properties: dict[str, str] | None = None, **given: Any) -> Run:
        frame = run.spark.range(rows).selectExpr("id", "id % 2 AS day", "concat('n', id) AS name")
        writer = frame.coalesce(1).write.format("delta").options(**(properties or {}))
        writer.partitionBy(*given.get("partition_by", [])).save(run.path)
        return run

    return made
