"""Log slices, which processes can replay independently of each other.

A slice is either a range of row groups of a checkpoint's Parquet file, or a range of the tail. The
tail consists of all live files that aren't in the checkpoint's Parquet files. These are the files
that commits after the checkpoint added, and the files of a JSON checkpoint.

Slices can be serialized. To list a slice's files, a process needs the `Scan` and the slice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pyarrow as pa

from bayou.errors import StorageError
from bayou.kernel.arrow.closeable import closeable
from bayou.kernel.arrow.serialization import WireFormat, array_from_bytes, array_to_bytes
from bayou.kernel.checkpoint.add_files import read_checkpoint_adds
from bayou.kernel.checkpoint.read import CheckpointContents, unreadable_checkpoint
from bayou.kernel.engine import Engine, FileSplit, FileStatus
from bayou.kernel.log.file_action_keys import FileActionKeys

_TAIL_ROWS = 50_000


class _WireSlice(msgspec.Struct, frozen=True, array_like=True):
    estimated_bytes: int
    split: FileSplit | None
    adds: bytes | None


_WIRE = WireFormat("log slice", 1, _WireSlice)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSlice:
    """A slice of a log: either row groups of a checkpoint file, or live files of the tail.

    The tail consists of the live files that aren't in the checkpoint's Parquet files.

    Attributes:
        split: the row groups of a checkpoint file; None for a slice of the tail.
        adds: live files of the tail as `ADD_TYPE`; None for a slice of a checkpoint file.
        estimated_bytes: estimated size of the row groups in storage; 0 for a slice of the tail.

    Examples:
        >>> for part in scan.slices(engine, max_slices=4):
        ...     with scan.replay_slice(engine, LogSlice.from_bytes(part.to_bytes())) as batches:
        ...         print(sum(batch.num_selected for batch in batches))
    """

    split: FileSplit | None = None
    adds: pa.StructArray | None = None
    estimated_bytes: int = 0

    def to_bytes(self) -> bytes:
        """Serialize the slice for another process."""
        adds = None if self.adds is None else array_to_bytes(self.adds)
        split = None if self.split is None else replace(self.split, content=None)
        return _WIRE.encode(_WireSlice(self.estimated_bytes, split, adds))

    @classmethod
    def from_bytes(cls, data: bytes) -> LogSlice:
        """Deserialize a slice from the bytes that `to_bytes` returned.

        Raises:
            SerializationError: the bytes aren't a slice, or a newer version of Bayou wrote them.
        """
        return _WIRE.decode(
            data,
            lambda wire: cls(
                split=wire.split,
                adds=None if wire.adds is None else array_from_bytes(wire.adds),
                estimated_bytes=wire.estimated_bytes,
            ),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)


def tail_slices(adds: pa.StructArray, max_slices: int | None) -> list[LogSlice]:
    """Split the live files that aren't in the checkpoint's Parquet files into slices.

    If `max_slices` is None, there is one slice. Otherwise, each slice except the last has
    `_TAIL_ROWS` files, and the value of `max_slices` is ignored.
    """
    if len(adds) == 0:
        return []
    rows = len(adds) if max_slices is None else _TAIL_ROWS
    return [LogSlice(adds=adds.slice(start, rows)) for start in range(0, len(adds), rows)]


def checkpoint_slices(
    engine: Engine, table: str, contents: CheckpointContents, max_slices: int | None
) -> list[LogSlice]:
    """Split a checkpoint's files into about `max_slices` slices of whole row groups.

    If `max_slices` is None, or the checkpoint has at least `max_slices` files, each file is one
    slice, and no Parquet footers are read.
    """
    files = contents.files
    whole = [LogSlice(split=split, estimated_bytes=split.size) for split in contents.splits]
    if max_slices is None or max_slices <= len(whole):
        return whole
    size = sum(f.size for f in files)
    return [
        part
        for f in files
        for part in _split_file(engine, table, f, round(max_slices * f.size / size))
    ]


@closeable
def replay_checkpoint_adds(
    engine: Engine,
    table: str,
    split: FileSplit,
    seen_keys: FileActionKeys,
    columns: Sequence[str],
    *,
    parsed: pa.DataType | None = None,
) -> Iterator[tuple[pa.StructArray, pa.BooleanArray | None]]:
    """Read `add` actions of a checkpoint; yield each batch with a mask of the live files.

    The mask is None if all files of the batch are live.

    Args:
        seen_keys: log-replay keys (path and deletion vector id) of the files that later commits
            added or removed. Files of the checkpoint with these keys aren't live.
        columns: fields of `ADD_TYPE` to read; the other fields are null.
        parsed: Arrow type of `stats_parsed`, which is read and converted to JSON if the checkpoint
            has no `stats`. If None, only `stats` is read.
    """
    with read_checkpoint_adds(
        engine, table, split, columns, parsed=parsed, forms=("json", "struct"), as_json=True
    ) as batches:
        for batch in batches:
            yield batch.adds, seen_keys.unseen_mask(batch.adds)


def _split_file(engine: Engine, table: str, file: FileStatus, count: int) -> Iterator[LogSlice]:
    """Split a file's row groups into at most `count` slices of about equal size.

    If `count` is 0, the file is one slice.
    """
    try:
        row_groups = engine.parquet.read_row_groups(file)
    except StorageError as error:
        raise unreadable_checkpoint(table, file.path, error) from error
    target = sum(r.total_bytes for r in row_groups) / max(1, count)
    start, size = 0, 0
    for i, row_group in enumerate(row_groups):
        size += row_group.total_bytes
        if size >= target or i == len(row_groups) - 1:
            split = FileSplit(
                path=file.path, size=file.size, first_row_group=start, end_row_group=i + 1
            )
            yield LogSlice(split=split, estimated_bytes=size)
            start, size = i + 1, 0
