"""The live files and tombstones of a version, as columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from bayou.errors import StorageError
from bayou.kernel.checkpoint.add_files import CheckpointAdds, StatsForm, read_checkpoint_adds
from bayou.kernel.checkpoint.read import (
    CheckpointContents,
    check_paths,
    locate_checkpoint_files,
    unreadable_checkpoint,
)
from bayou.kernel.checkpoint.schema import REMOVE_TYPE, removes_to_array
from bayou.kernel.engine import Engine, FileSplit
from bayou.kernel.log.file_action_keys import FileActionKeys
from bayou.kernel.log.table_state import TableState
from bayou.kernel.scan.scan_file import ADD_TYPE

_ALL_COLUMNS = tuple(f.name for f in ADD_TYPE)
_FORMS: tuple[StatsForm, ...] = ("json", "struct")


def base_checkpoint(engine: Engine, state: TableState) -> CheckpointContents | None:
    """Return the contents of the log segment's checkpoint; None if there is no checkpoint."""
    checkpoint = state.log_segment.checkpoint
    if checkpoint is None:
        return None
    return state.checkpoint_contents or locate_checkpoint_files(engine, state.path, checkpoint)


def checkpoint_adds(
    engine: Engine,
    table: str,
    split: FileSplit,
    seen_keys: FileActionKeys,
    *,
    columns: Sequence[str] = _ALL_COLUMNS,
    parsed: pa.DataType | None = None,
    forms: Sequence[StatsForm] = _FORMS,
) -> Iterator[CheckpointAdds]:
    """Yield the live files in a range of row groups of a checkpoint.

    Args:
        seen_keys: log-replay keys (path and deletion vector id) of the files added or removed by
            later commits; these files are omitted.
        columns: fields of `ADD_TYPE` to read; the other fields are null.
        parsed: type with which `stats_parsed` is read, with physical names. If None, statistics
            are read only as JSON.
        forms: forms of statistics to look for, the preferred form first.
    """
    with read_checkpoint_adds(engine, table, split, columns, parsed=parsed, forms=forms) as batches:
        for batch in batches:
            unseen = seen_keys.unseen_mask(batch.adds)
            yield batch if unseen is None else batch.filter(unseen)


def checkpoint_tombstones(
    engine: Engine, table: str, split: FileSplit, seen_keys: FileActionKeys
) -> Iterator[pa.StructArray]:
    """Yield the tombstones in a range of row groups of a checkpoint, as `REMOVE_TYPE` arrays.

    Args:
        seen_keys: log-replay keys (path and deletion vector id) of the files added or removed by
            later commits; the tombstones of these files are omitted.
    """
    schema = pa.schema([pa.field("remove", REMOVE_TYPE)])
    try:
        for batch in engine.parquet.read_parquet_files([split], schema):
            removes: Any = batch.column("remove")
            if removes.null_count == len(removes):
                continue
            removes = removes.drop_null()
            check_paths(table, split.path, removes)
            unseen = seen_keys.unseen_mask(removes)
            yield removes if unseen is None else removes.filter(unseen)
    except StorageError as error:
        raise unreadable_checkpoint(table, split.path, error) from error


def tail_tombstones(
    state: TableState, base_checkpoint: CheckpointContents | None
) -> Iterator[pa.StructArray]:
    """Yield the tombstones that aren't in the checkpoint's Parquet files, as `REMOVE_TYPE` arrays.

    The tombstones of a JSON checkpoint come first, then the tombstones of commits after the
    checkpoint.
    """
    if base_checkpoint is not None and base_checkpoint.removes:
        removes = removes_to_array(base_checkpoint.removes)
        unseen = state.replay_state.seen_keys.unseen_mask(removes)
        yield removes if unseen is None else removes.filter(unseen)
    yield from state.replay_state.removes
