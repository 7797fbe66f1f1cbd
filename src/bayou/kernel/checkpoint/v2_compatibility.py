"""Copies V2 checkpoints to a classic file name (PROTOCOL.md, Classic checkpoint, V2 Spec).

Readers without support for V2 checkpoints ignore UUID-named checkpoints. After log cleanup, such a
reader finds no protocol and reports that there is no table. The copy with a classic name contains
the protocol, so the reader reports instead that it doesn't support the feature `v2Checkpoint`.
"""

from __future__ import annotations

from bayou.kernel.checkpoint.format import CheckpointFormat
from bayou.kernel.checkpoint.read import read_checkpoint
from bayou.kernel.checkpoint.rows import metadata_rows
from bayou.kernel.checkpoint.schema import METADATA_SCHEMA
from bayou.kernel.checkpoint.write import checkpoint_rows
from bayou.kernel.checkpoint.write_v2 import write_top_file
from bayou.kernel.engine import ByteRange, Engine
from bayou.kernel.engine.file_system import check_length
from bayou.kernel.log.listing import Checkpoint
from bayou.kernel.log.segment import log_path
from bayou.kernel.log.table_state import TableState, load_table_state
from bayou.protocol import features
from bayou.protocol.file_names import (
    ClassicCheckpoint,
    MultiPartCheckpoint,
    UuidCheckpoint,
    checkpoint_file_name,
    list_prefix,
    parse_log_file,
)


def write_compatibility_checkpoint(engine: Engine, state: TableState) -> str | None:
    """Copy the top-level file of the checkpoint in `state.log_segment` to a classic name.

    The copy references the same sidecars.

    Returns:
        The path of the copy. The result is None in these cases:

        - There is no checkpoint.
        - The checkpoint's version already has a classic or multi-part checkpoint.
        - The table doesn't have the feature `v2Checkpoint`.
    """
    newest = state.log_segment.checkpoint
    if newest is None or features.V2_CHECKPOINT not in features.all_features(state.protocol):
        return None
    top = newest.files[0]
    if not isinstance(parse_log_file(_name(top.path)), UuidCheckpoint):
        return None
    if _has_classic(engine, state.path, newest.version):
        return None
    path = f"{log_path(state.path)}/{checkpoint_file_name(newest.version)}"
    if top.path.endswith(".parquet"):
        data = b"".join(engine.files.read_files([ByteRange(path=top.path)]))
        check_length(top, len(data))
        engine.files.put(path, data)
    else:
        _write_from_json(engine, state, newest, path)
    return path


def _has_classic(engine: Engine, table: str, version: int) -> bool:
    with engine.files.list_from(f"{log_path(table)}/{list_prefix(version)}") as statuses:
        for status in statuses:
            match parse_log_file(_name(status.path)):
                case ClassicCheckpoint(version=listed) | MultiPartCheckpoint(version=listed):
                    if listed == version:
                        return True
                case None:
                    continue
                case other if getattr(other, "version", version) > version:
                    break
    return False


def _write_from_json(engine: Engine, state: TableState, newest: Checkpoint, path: str) -> None:
    contents = read_checkpoint(engine, state.path, newest)
    old = load_table_state(engine, state.path, newest.version, catalog=state.catalog)
    layout = CheckpointFormat.of(old.schema, old.partition_columns, old.properties)
    if contents.adds or contents.removes:
        engine.parquet.write_parquet_file_atomically(
            path, layout.schema, checkpoint_rows(engine, old, layout)
        )
        return
    non_file_actions = [
        batch.select(METADATA_SCHEMA.names) for batch in metadata_rows(old, layout, 0)
    ]
    write_top_file(engine, state.path, newest.version, non_file_actions, contents.files, path=path)


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]
