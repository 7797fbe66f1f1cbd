"""State reconstruction by Spark alone: all actions, brought together by key, the newest counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody has it

from bayou.kernel import Engine, Scan, Snapshot
from bayou.kernel.log.file_actions import FileActions, tail_bytes
from bayou.spark.log_replay.tasks import ACTION_COLUMNS, ActionTasks

__all__ = ["TASK_BYTES", "dealt", "reconciled", "task_numbers"]

TASK_BYTES = 4 * 1024 * 1024
"""About how much of a log a task replays: 40,000 files of a checkpoint."""


def reconciled(spark: Any, engine: Engine, snapshot: Snapshot, scan: Scan, tasks: int) -> Any:
    """The live files of a version, a DataFrame with one struct column `add`.

    Of all actions on a file (path and deletion vector) that of the newest version counts, of
    several in one version one that changes data. Removes are among them: an add that was removed
    would be the newest one else, and come back. The scan's filter isn't applied: an older add must
    not take the place of a newer one that the filter leaves out.

    Args:
        scan: of the snapshot; says which fields of `add` are wanted.
        tasks: of the reading; the window has more where the tail is long.
    """
    actions = FileActions.of(snapshot, scan)
    parts = [(part.to_bytes(), part.estimated_bytes) for part in actions.slices(engine, tasks)]
    function = ActionTasks(
        engine=engine.description(), actions=actions.to_bytes(), tasks=dealt(parts, tasks)
    )
    rows = task_numbers(spark, tasks).mapInArrow(function.rows, ACTION_COLUMNS)
    return newest(rows, max(tasks, tail_bytes(snapshot) // TASK_BYTES))


def newest(actions: Any, tasks: int) -> Any:
    """The live files out of a DataFrame of actions: `key`, `version`, `dataChange`, `add`."""
    window = Window if _is_classic(actions) else _connect_window()
    newest_first = window.partitionBy("key").orderBy(
        F.col("version").desc(), F.col("dataChange").desc(), F.col("add").isNull()
    )
    return (
        actions.repartition(tasks, "key")
        .withColumn("place", F.row_number().over(newest_first))
        .where("place = 1 AND add IS NOT NULL")
        .select("add")
    )


def task_numbers(spark: Any, tasks: int) -> Any:
    """A DataFrame of as many partitions, each with its number."""
    return spark.range(0, tasks, 1, tasks)


def dealt(parts: Sequence[tuple[bytes, int]], tasks: int) -> list[list[bytes]]:
    """Parts of a log dealt out to tasks, the largest first, each to the one that has least.

    Args:
        parts: serialized, with their bytes.
    """
    shares: list[list[bytes]] = [[] for _ in range(tasks)]
    load = [0] * tasks
    for data, size in sorted(parts, key=lambda part: -part[1]):
        least = min(range(tasks), key=load.__getitem__)
        shares[least].append(data)
        load[least] += size + len(data)
    return shares


def _is_classic(frame: Any) -> bool:
    return isinstance(frame.sparkSession, SparkSession)


def _connect_window() -> Any:
    from pyspark.sql.connect.window import Window as ConnectWindow

    return ConnectWindow
