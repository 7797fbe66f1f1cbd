"""Fallback for an unreadable checkpoint: load the live files without it.

The live files come from an older checkpoint and later commits.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from bayou.errors import CorruptTableError, TableError
from bayou.kernel.checkpoint.parsed_stats import full_stats_type
from bayou.kernel.checkpoint.read import locate_checkpoint_files
from bayou.kernel.engine import Engine
from bayou.kernel.log.slices import replay_checkpoint_adds
from bayou.kernel.log.table_state import load_table_state
from bayou.kernel.scan.scan_definition import ScanSource
from bayou.kernel.scan.scan_file import ADD_TYPE
from bayou.kernel.table_features.column_mapping import to_physical_schema


def live_files_without_checkpoint(
    engine: Engine, source: ScanSource, error: CorruptTableError
) -> pa.StructArray:
    """Load the live files of a version from an older checkpoint and later commits.

    Each live file is a struct of the type `ADD_TYPE`.

    Args:
        source: the version, with the checkpoint that can't be read.
        error: the error that reading this checkpoint raised. The function raises `error` again if
            the older log files are missing or can't be read.
    """
    assert source.checkpoint is not None
    try:
        state = load_table_state(
            engine,
            source.table,
            source.version,
            ignored_checkpoints=[f.path for f in source.checkpoint.files],
            catalog=source.catalog,
        )
    except TableError:
        raise error from None
    contents = state.checkpoint_contents
    if contents is None and state.log_segment.checkpoint is not None:
        contents = locate_checkpoint_files(engine, source.table, state.log_segment.checkpoint)
    columns = [field.name for field in ADD_TYPE]
    parsed = full_stats_type(to_physical_schema(source.schema, source.column_mapping))
    seen_keys = state.replay_state.seen_keys
    parts: list[Any] = [*state.tail]
    for split in () if contents is None else contents.splits:
        with replay_checkpoint_adds(
            engine, source.table, split, seen_keys, columns, parsed=parsed
        ) as batches:
            for adds, unseen in batches:
                parts.append(adds if unseen is None else adds.filter(unseen))
    live = pa.concat_arrays(parts)
    assert isinstance(live, pa.StructArray)
    return live
