"""Checkpoints of large tables, written by workers that an engine has.

An engine may have more than this process to work with. One that is a `CheckpointWorkers` is asked
how many parts a checkpoint is worth, and has them written; any other engine writes it here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from bayou.kernel.catalog import Catalog
from bayou.kernel.checkpoint.parts import (
    CheckpointPart,
    CheckpointPlan,
    WrittenPart,
    plan_parts,
)
from bayou.kernel.checkpoint.state_files import checkpoint_behind
from bayou.kernel.checkpoint.write import load_for_checkpoint, write_checkpoint
from bayou.kernel.engine import Engine
from bayou.kernel.log.table_state import TableState

__all__ = ["CheckpointWorkers", "checkpoint_by_workers"]


@runtime_checkable
class CheckpointWorkers(Protocol):
    """What an engine with workers offers besides an `Engine`'s handlers."""

    def checkpoint_parts(self, log_bytes: int) -> int:
        """Into how many parts a checkpoint is cut; at most 1: it is written in this process.

        Args:
            log_bytes: of the checkpoint that it builds on.
        """
        ...

    def write_checkpoint_parts(
        self, table: str, parts: Sequence[CheckpointPart]
    ) -> Sequence[WrittenPart] | None:
        """Run `write_checkpoint_part` for each part, anywhere.

        Args:
            table: its path.

        Returns:
            What that gave; None where the workers can't be had, and this process does it.

        Raises:
            BayouError: a part can't be written.
        """
        ...


def checkpoint_by_workers(
    engine: Engine, table: str, version: int | None = None, catalog: Catalog | None = None
) -> int:
    """`checkpoint`, by the engine's workers where it has some and the checkpoint is large.

    The parts of a classic checkpoint have the same names whoever writes them: where some of that
    version lie there already, of another process or of one that died, one file is written instead.

    Raises:
        BayouError: see `checkpoint`.
    """
    state = load_for_checkpoint(engine, table, version, catalog)
    if isinstance(engine, CheckpointWorkers):
        plan = _plan(engine, engine, state)
        if plan is not None:
            written = engine.write_checkpoint_parts(state.path, plan.parts)
            if written is not None:
                return plan.finish(engine, written)
            plan.release(engine)
    return write_checkpoint(engine, state)


def _plan(engine: Engine, workers: CheckpointWorkers, state: TableState) -> CheckpointPlan | None:
    """In parts, None where one file is better."""
    behind = checkpoint_behind(engine, state)
    count = 0 if behind is None else workers.checkpoint_parts(behind.size)
    if count <= 1:
        return None
    plan = plan_parts(engine, state, count)
    if len(plan.parts) <= 1:
        plan.release(engine)
        return None
    return plan
