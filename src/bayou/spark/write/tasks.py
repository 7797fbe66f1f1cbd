"""Functions that run in the tasks of a write: they write rows to data files and return actions.

The state of the transaction and the actions are serialized, because Spark sends them between the
driver and the tasks.
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
        writer: for identity columns, the pair (number of the task, maximum number of tasks). None
            if the write doesn't generate identity values.
    """
    transaction = TransactionState.from_bytes(state)
    if writer is not None:
        transaction = transaction.for_writer(*writer)
    engine = from_description(description)
    return encode_actions(write_task_data(engine, transaction, _joined(batches)))


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Concatenate Spark's batches, which have 10,000 rows by default, into larger batches."""
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
    """Decode the `add` and `cdc` actions in task results."""
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
    """Return the number of the current task; 0 outside tasks.

    All attempts of a task have the same number.
    """
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()
