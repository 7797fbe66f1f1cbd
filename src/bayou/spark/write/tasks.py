"""Tasks of writes: write rows to data files and return their actions.

The transaction's state and the actions are bytes. Data sources, streaming sinks and `mapInArrow`
send them between the driver and the tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from bayou.engines import from_description
from bayou.kernel import TransactionState, delete_data_files
from bayou.kernel.data_writer.task_writer import write_task_data
from bayou.kernel.engine.engine import EngineDescription
from bayou.protocol.actions import AddCDCFile, AddFile, decode_actions, encode_actions

_concat: Any = vars(pa)["concat_batches"]  # pyarrow's stubs lack it
_BATCH_ROWS = 1 << 17
_BATCH_BYTES = 32 << 20


def write_task(
    description: EngineDescription,
    state: bytes,
    batches: Iterable[pa.RecordBatch],
    *,
    writer: tuple[int, int] | None = None,
) -> bytes:
    """Write the rows of a task to data files of the table, and return the encoded actions.

    The files aren't part of the table until the driver commits the actions. The files of a failed
    attempt are deleted. File names are unique, so that retries and speculative tasks don't
    conflict.

    Args:
        state: serialized `TransactionState`.
        batches: rows, with the table's columns in any order.
        writer: index of the task and maximum number of tasks, for identity columns.
    """
    transaction = TransactionState.from_bytes(state)
    if writer is not None:
        transaction = transaction.for_writer(*writer)
    engine = from_description(description)
    return encode_actions(write_task_data(engine, transaction, _joined(batches)))


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Concatenate Spark's batches, which have 10,000 rows by default, to larger batches."""
    pending: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if pending and not pending[0].schema.equals(batch.schema):
            yield _concat(pending)
            pending, rows, size = [], 0, 0
        pending.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= _BATCH_ROWS or size >= _BATCH_BYTES:
            yield _concat(pending)
            pending, rows, size = [], 0, 0
    if pending:
        yield _concat(pending)


def decode_files(messages: Iterable[bytes]) -> list[AddFile | AddCDCFile]:
    """Decode the actions in task results."""
    return [
        action
        for message in messages
        for action in decode_actions(message)
        if isinstance(action, AddFile | AddCDCFile)
    ]


def decode_adds(messages: Iterable[bytes]) -> list[AddFile]:
    """Decode the `add` actions in task results."""
    return [action for action in decode_files(messages) if isinstance(action, AddFile)]


def delete_task_files(description: EngineDescription, path: str, messages: Iterable[bytes]) -> None:
    """Delete the files of a failed write; `messages` are the results of `write_task`."""
    files = decode_files(messages)
    if files:
        delete_data_files(from_description(description), path, files)


def task_number() -> int:
    """Return the current task's number, which is the same for all attempts; 0 outside tasks."""
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()
