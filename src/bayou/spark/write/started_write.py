"""A planned write: created next to the driver, sent to the tasks, committed next to the driver."""

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

__all__ = ["StartedWrite", "start_write"]

_MAX_TASKS = 1 << 16
"""Assumed number of tasks if it is unknown; the step between a task's identity values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedWrite:
    """A planned write; can be pickled.

    Attributes:
        write: the requested write.
        plan: the version that the write is based on, and the state for tasks.
        engine: description of the engine.
    """

    write: TableWrite
    plan: WritePlan
    engine: EngineDescription

    @property
    def done(self) -> bool:
        """Whether there is nothing to write; see `WritePlan.done`."""
        return self.plan.is_noop

    def write_task(
        self, batches: Iterable[pa.RecordBatch], task: int, tasks: int | None = None
    ) -> bytes:
        """Write the rows of a task on an executor.

        Args:
            batches: the rows.
            task: number of the task, from 0; the same for every attempt.
            tasks: maximum number of tasks; None if it is unknown.

        Returns:
            The encoded actions of the task's files.
        """
        writer = (task, tasks or _MAX_TASKS) if self.plan.generates_identity else None
        return write_task(self.engine, self.plan.state, batches, writer=writer)

    def commit(self, messages: Sequence[bytes], engine: Engine | None = None) -> int | None:
        """Commit the results of the successful tasks.

        The files are deleted if the table already contains the write or the commit fails. They stay
        if it is unknown whether the commit succeeded.

        Args:
            messages: results of all tasks.
            engine: engine for the commit; None creates one.

        Returns:
            The table's version after the write; None if the table still doesn't exist.

        Raises:
            CommitConflictError, CommitFailedError, TableAlreadyExistsError: see `commit_write`.
        """
        written = decode_files(messages)
        engine = engine or from_description(self.engine)
        with discard_unless_committed(lambda: self.delete(messages)):
            result = commit_write(engine, self.write, self.plan, written)
        if not result.files_committed:
            self.delete(messages)
        return result.version

    def delete(self, messages: Sequence[bytes]) -> None:
        """Delete the files of tasks that won't be committed."""
        delete_task_files(self.engine, self.plan.table, messages)

    def with_transaction_identifier(self, app_id: str, version: int) -> StartedWrite:
        """Return a copy with a transaction identifier, which makes the write idempotent."""
        return replace(self, write=replace(self.write, application=(app_id, version)))

    def without_state(self) -> StartedWrite:
        """Return a copy without the state for tasks, which the commit doesn't need."""
        return replace(self, plan=replace(self.plan, state=b""))


def start_write(
    options: WriteOptions, write: TableWrite, *, builds_on: int | None = None
) -> StartedWrite:
    """Plan a write.

    Args:
        builds_on: see `plan_write`.

    Raises:
        BayouError: the write isn't possible; see `plan_write`.
    """
    engine = for_path(options.path, options.storage)
    plan = plan_write(engine, write, base_version=builds_on)
    return StartedWrite(write=write, plan=plan, engine=engine.description())
