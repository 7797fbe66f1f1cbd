"""A write under way: planned beside the driver, carried to tasks, committed beside the driver."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from bayou.engines import for_path, from_description
from bayou.kernel import Engine
from bayou.kernel.commands.write import TableWrite, WritePlan, commit_write, plan_write
from bayou.kernel.engine.engine import EngineDescription
from bayou.kernel.transaction.commit import discard_unless_committed
from bayou.spark.write.options import WriteOptions
from bayou.spark.write.tasks import decode_files, delete_task_files, write_task

__all__ = ["BegunWrite", "begin"]

_MOST_TASKS = 1 << 16
"""Tasks of a write where nobody says how many there are: that many values of identity columns lie
between two of a task's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunWrite:
    """A write that has begun; pickles.

    Attributes:
        write: what was asked for.
        plan: the version that it builds on, and the state for tasks.
        engine: how to reach the store.
    """

    write: TableWrite
    plan: WritePlan
    engine: EngineDescription

    @property
    def done(self) -> bool:
        """There is nothing to do: see `WritePlan.done`."""
        return self.plan.done

    def write_task(
        self, batches: Iterable[pa.RecordBatch], task: int, tasks: int | None = None
    ) -> bytes:
        """A task's part, on an executor.

        Args:
            batches: its rows.
            task: its number, from 0, the same for every attempt.
            tasks: how many there are at most, None where nobody knows.

        Returns:
            The encoded actions of its files, to be sent to the driver.
        """
        writer = (task, tasks or _MOST_TASKS) if self.plan.generates_identity else None
        return write_task(self.engine, self.plan.state, batches, writer=writer)

    def commit(self, messages: Sequence[bytes], engine: Engine | None = None) -> int | None:
        """Commit what the tasks that succeeded sent back.

        Files that the table doesn't take are deleted: it holds the write already, or the commit
        can't be. Where nobody knows whether the commit is there they stay.

        Args:
            messages: of all tasks.
            engine: reaches the store; None: one of its own does.

        Returns:
            The table's version afterwards, None where there still is no table.

        Raises:
            CommitConflictError, CommitFailedError, TableAlreadyExistsError: see `commit_write`.
        """
        written = decode_files(messages)
        engine = engine or from_description(self.engine)
        with discard_unless_committed(lambda: self.delete(messages)):
            outcome = commit_write(engine, self.write, self.plan, written)
        if not outcome.takes_files:
            self.delete(messages)
        return outcome.version

    def delete(self, messages: Sequence[bytes]) -> None:
        """Delete what tasks wrote, for a commit that won't come."""
        delete_task_files(self.engine, self.plan.table, messages)

    def of_application(self, app_id: str, version: int) -> BegunWrite:
        """The same write, done once for this version of an application."""
        return replace(self, write=replace(self.write, application=(app_id, version)))

    def without_state(self) -> BegunWrite:
        """What the commit needs of it."""
        return replace(self, plan=replace(self.plan, state=b""))


def begin(options: WriteOptions, write: TableWrite, *, builds_on: int | None = None) -> BegunWrite:
    """Begin a write.

    Args:
        builds_on: see `plan_write`.

    Raises:
        BayouError: the write can't be; see `plan_write`.
    """
    engine = for_path(options.path, options.storage)
    plan = plan_write(engine, write, builds_on=builds_on)
    return BegunWrite(write=write, plan=plan, engine=engine.description())
