"""Copies the files of a deep clone on executors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bayou.engines import from_description
from bayou.kernel import Engine
from bayou.kernel.commands.copied_files import CopyFiles, FileCopy, copy_files
from bayou.spark.executors.executor_tasks import number_of_tasks, run_tasks, split_by_size
from bayou.spark.session.connection import is_classic
from bayou.spark.session.settings import CLONE_LOCAL_BYTES

_LOCAL_BYTES = 256 << 20


def copy_function(spark: Any, engine: Engine, table: str) -> CopyFiles | None:
    """Return a function that copies the files of a deep clone.

    The function copies in the driver, or on executors if the total size of the files exceeds a
    limit. Under Spark Connect, None is returned, and the caller must copy the files in the driver.
    """
    if not is_classic(spark):
        return None
    max_local = CLONE_LOCAL_BYTES.integer(spark=spark, default=_LOCAL_BYTES)
    description = engine.description()

    def task(_: int, copies: Sequence[FileCopy]) -> bytes:
        copy_files(from_description(description), copies)
        return b""

    def run(copies: Sequence[FileCopy]) -> None:
        if sum(map(_size, copies)) <= max_local:
            copy_files(engine, copies)
            return
        run_tasks(
            spark,
            split_by_size(copies, _size, number_of_tasks(spark)),
            task,
            table=table,
            description=f"DEEP CLONE {table}",
            discard=lambda _: None,  # the clone deletes all copies
        )

    return run


def _size(copy: FileCopy) -> int:
    return copy.size or 0
