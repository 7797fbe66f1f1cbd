"""Rewrites of files on executors: an item a task."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from bayou.engines import from_description
from bayou.errors import BayouError
from bayou.kernel import Engine, EngineDescription
from bayou.kernel.commands.optimize.rewrite import Rewrite, rewrite
from bayou.kernel.commands.optimize.rewrite_plan import RunItems
from bayou.protocol.actions import AddFile, decode_actions, encode_actions
from bayou.spark.executors.executor_tasks import run_shares
from bayou.spark.write.tasks import delete_task_files

__all__ = ["adds_in", "discarding", "rewrite_on_executors"]


def rewrite_on_executors(spark: Any, engine: Engine, table: str, description: str) -> RunItems:
    """What runs the items of a rewrite as tasks of a Spark job, the large ones first.

    Args:
        spark: a classic session.
        engine: reaches the table's store; its description travels.
        table: the table's path.
        description: what Spark's UI shows.
    """
    reach = engine.description()

    def task(_: int, item: bytes) -> bytes:
        return _rewritten(reach, item)

    def run(items: Sequence[Rewrite]) -> list[list[AddFile]]:
        order = sorted(range(len(items)), key=lambda number: -items[number].size)
        outcomes = run_shares(
            spark,
            [items[number].to_bytes() for number in order],
            task,
            table=table,
            description=description,
            discard=discarding(reach, table),
        )
        found = dict(zip(order, outcomes, strict=True))
        return [adds_in(found[number]) for number in range(len(items))]

    return run


def adds_in(outcome: bytes) -> list[AddFile]:
    """The actions that a task sent back."""
    return [action for action in decode_actions(outcome) if isinstance(action, AddFile)]


class discarding:  # noqa: N801  # reads as what it does
    """Deletes what tasks wrote, for a commit that won't come."""

    def __init__(self, engine: EngineDescription, table: str) -> None:
        self._engine = engine
        self._table = table

    def __call__(self, outcomes: list[bytes]) -> None:
        with contextlib.suppress(BayouError):
            delete_task_files(self._engine, self._table, outcomes)


def _rewritten(engine: EngineDescription, item: bytes) -> bytes:
    return encode_actions(rewrite(from_description(engine), Rewrite.from_bytes(item)))
