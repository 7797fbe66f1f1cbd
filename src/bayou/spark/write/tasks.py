"""What runs in tasks on executors: rows to data files, and what is sent back of them.

Everything arrives serialized and leaves as serialized actions, so that a data source, a streaming
sink and a `mapInArrow` can all use it.
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

__all__ = ["decode_adds", "decode_files", "delete_task_files", "task_number", "write_task"]

_concat: Any = vars(pa)["concat_batches"]  # its stubs lack it
_BATCH_ROWS = 1 << 17
_BATCH_BYTES = 32 << 20


def write_task(
    description: EngineDescription,
    state: bytes,
    batches: Iterable[pa.RecordBatch],
    *,
    writer: tuple[int, int] | None = None,
) -> bytes:
    """Write a task's rows to data files, where they will stay.

    Files of an attempt that fails are deleted; those of one that succeeds are no part of the
    table until the driver commits their actions. Their names are the attempt's own, so that a
    retry or a speculative copy of the task never meets them.

    Args:
        description: how to reach the store.
        state: the `TransactionState`.
        batches: rows, with the table's columns in any order.
        writer: which task this is, and how many there are at most; for identity columns.

    Returns:
        The actions, encoded; empty for no rows.
    """
    transaction = TransactionState.from_bytes(state)
    if writer is not None:
        transaction = transaction.for_writer(*writer)
    engine = from_description(description)
    return encode_actions(write_task_data(engine, transaction, _put_together(batches)))


def _put_together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Spark's batches have 10,000 rows, each of which would have its rules and partitions alone."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if held and not held[0].schema.equals(batch.schema):
            yield _concat(held)
            held, rows, size = [], 0, 0
        held.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= _BATCH_ROWS or size >= _BATCH_BYTES:
            yield _concat(held)
            held, rows, size = [], 0, 0
    if held:
        yield _concat(held)


def decode_files(messages: Iterable[bytes]) -> list[AddFile | AddCDCFile]:
    """The actions that tasks sent back."""
    return [
        action
        for message in messages
        for action in decode_actions(message)
        if isinstance(action, AddFile | AddCDCFile)
    ]


def decode_adds(messages: Iterable[bytes]) -> list[AddFile]:
    """Those of the actions that tasks sent back that add data files."""
    return [action for action in decode_files(messages) if isinstance(action, AddFile)]


def delete_task_files(description: EngineDescription, path: str, messages: Iterable[bytes]) -> None:
    """Delete the files that tasks wrote for a commit that won't come.

    Args:
        description: how to reach the store.
        path: the table's path.
        messages: what `write_task` gave.
    """
    files = decode_files(messages)
    if files:
        delete_data_files(from_description(description), path, files)


def task_number() -> int:
    """The number of the task that runs here, the same for each of its attempts."""
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()
