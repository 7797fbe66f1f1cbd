"""Reads a checkpoint's non-file actions, and lists the files that contain its file actions.

File actions are `add` and `remove` actions. Non-file actions are the protocol, the metadata,
transaction identifiers and domain metadata. A V1 checkpoint consists of Parquet files that contain
all actions. The top-level file of a V2 checkpoint is a Parquet or JSON file that may reference
sidecars (PROTOCOL.md, V2 Spec). A checkpoint with a classic file name may follow the V1 or the V2
spec.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa

from bayou.errors import CorruptTableError, FileMissingError, StorageError
from bayou.kernel.arrow.compute import pc
from bayou.kernel.checkpoint.schema import METADATA_SCHEMA, SIDECAR_SCHEMA
from bayou.kernel.engine import ByteRange, Engine, FileSplit, FileStatus
from bayou.kernel.engine.file_system import check_length
from bayou.kernel.log.listing import Checkpoint, damaged_checkpoint
from bayou.kernel.log.replay import read_commit
from bayou.kernel.log.segment import log_path
from bayou.protocol.actions import (
    Action,
    AddFile,
    CheckpointMetadata,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SidecarFile,
    Transaction,
)
from bayou.protocol.file_names import SIDECAR_DIRECTORY, decode_data_file_uri


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointContents:
    """The non-file actions of a checkpoint, and the location of its file actions.

    Attributes:
        actions: non-file actions; empty if `locate_checkpoint_files` created this object.
        files: Parquet files that contain file actions: files of the checkpoint, and sidecars.
        adds: `add` actions of a JSON checkpoint.
        removes: `remove` actions of a JSON checkpoint.
        file_contents: contents of small files in `files`, by path. Later reads use these bytes
            instead of reading the files again.
    """

    checkpoint: Checkpoint
    actions: tuple[Action, ...] = ()
    files: tuple[FileStatus, ...]
    adds: tuple[AddFile, ...] = ()
    removes: tuple[RemoveFile, ...] = ()
    file_contents: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def splits(self) -> tuple[FileSplit, ...]:
        """One split for each file in `files`, with the file's bytes if the file is small."""
        return tuple(_split(file, self.file_contents) for file in self.files)


def read_checkpoint(engine: Engine, table: str, checkpoint: Checkpoint) -> CheckpointContents:
    """Read a checkpoint's non-file actions, and list the Parquet files with its file actions.

    Only a few rows of a large checkpoint are non-file actions. To find these rows, the function
    first reads one required field of each kind of non-file action.

    Raises:
        CorruptTableError: the checkpoint can't be read, or it doesn't list all of its sidecars.
    """
    top = checkpoint.files[0]
    if _is_json(top):
        return _from_json(engine, table, checkpoint, top)
    actions: list[Action] = []
    try:
        file_contents = _read_small_files(engine, checkpoint.files)
        for file in checkpoint.files:
            actions.extend(_read_actions(engine, table, _split(file, file_contents)))
    except StorageError as error:
        raise unreadable_checkpoint(table, error.path, error) from error
    return _contents(engine, table, checkpoint, actions, file_contents)


def locate_checkpoint_files(
    engine: Engine, table: str, checkpoint: Checkpoint
) -> CheckpointContents:
    """List the Parquet files with a checkpoint's file actions, and check that they can be opened.

    Raises:
        CorruptTableError: see `read_checkpoint`.
    """
    if _is_json(checkpoint.files[0]):
        return read_checkpoint(engine, table, checkpoint)
    sidecars: list[Action] = []
    try:
        file_contents = _read_small_files(engine, checkpoint.files)
        for split in [_split(file, file_contents) for file in checkpoint.files]:
            for batch in engine.parquet.read_parquet_files([split], _SIDECARS):
                sidecars.extend(_to_actions(table, split, batch.column("sidecar"), SidecarFile))
    except StorageError as error:
        raise unreadable_checkpoint(table, error.path, error) from error
    return _contents(engine, table, checkpoint, sidecars, file_contents)


def unreadable_checkpoint(table: str, path: str, error: StorageError) -> CorruptTableError:
    """Return the error for a checkpoint file that can't be read."""
    problem = "is missing" if isinstance(error, FileMissingError) else "can't be read"
    detail = str(error).rstrip(".")
    return damaged_checkpoint(table, f"checkpoint file {path} {problem}: {detail}", path)


def check_paths(table: str, checkpoint: str, actions: pa.StructArray) -> None:
    """Check that each add or remove of a checkpoint file has a path."""
    if "path" in {field.name for field in actions.type} and actions.field("path").null_count:
        raise damaged_checkpoint(
            table,
            f"checkpoint file {checkpoint} is damaged: an add or remove action has no path",
            checkpoint,
        )


_KEY_FIELDS = pa.schema(
    [
        pa.field("protocol", pa.struct([pa.field("minReaderVersion", pa.int32())])),
        pa.field("metaData", pa.struct([pa.field("id", pa.string())])),
        pa.field("txn", pa.struct([pa.field("appId", pa.string())])),
        pa.field("domainMetadata", pa.struct([pa.field("domain", pa.string())])),
        pa.field("checkpointMetadata", pa.struct([pa.field("version", pa.int64())])),
        pa.field("sidecar", pa.struct([pa.field("path", pa.string())])),
    ]
)
"""One required field of each kind of non-file action."""

_FILE_PATHS = pa.schema(
    [pa.field(name, pa.struct([pa.field("path", pa.string())])) for name in ("add", "remove")]
)
_SIDECARS = pa.schema([SIDECAR_SCHEMA.field("sidecar")])
_SCHEMA = pa.schema([*METADATA_SCHEMA, *SIDECAR_SCHEMA])

_WIRE_TYPES: dict[str, type[Any]] = {
    "protocol": Protocol,
    "metaData": Metadata,
    "txn": Transaction,
    "domainMetadata": DomainMetadata,
    "checkpointMetadata": CheckpointMetadata,
    "sidecar": SidecarFile,
}


_SMALL_FILE_BYTES = 1 << 20
"""Maximum size in bytes of a file that is read at once and kept in memory for later reads."""


def _read_small_files(engine: Engine, files: Sequence[FileStatus]) -> dict[str, bytes]:
    small = [file.path for file in files if file.size <= _SMALL_FILE_BYTES]
    with engine.files.read_files(ByteRange(path=path) for path in small) as contents:
        return dict(zip(small, map(bytes, contents), strict=True))


def _split(file: FileStatus, file_contents: Mapping[str, bytes]) -> FileSplit:
    return FileSplit(path=file.path, size=file.size, content=file_contents.get(file.path))


def _is_json(file: FileStatus) -> bool:
    return file.path.endswith(".json")


def _from_json(
    engine: Engine, table: str, checkpoint: Checkpoint, top: FileStatus
) -> CheckpointContents:
    try:
        data = next(iter(engine.files.read_files([ByteRange(path=top.path)])))
        check_length(top, len(data))
    except StorageError as error:
        raise unreadable_checkpoint(table, top.path, error) from error
    actions = read_commit(table, checkpoint.version, top, data).actions
    return _contents(engine, table, checkpoint, actions, {})


def _contents(
    engine: Engine,
    table: str,
    checkpoint: Checkpoint,
    actions: Iterable[Action],
    file_contents: Mapping[str, bytes],
) -> CheckpointContents:
    non_file_actions: list[Action] = []
    adds: list[AddFile] = []
    removes: list[RemoveFile] = []
    sidecars: list[SidecarFile] = []
    metadata: CheckpointMetadata | None = None
    for action in actions:
        match action:
            case SidecarFile():
                sidecars.append(action)
            case CheckpointMetadata():
                metadata = action
            case AddFile():
                adds.append(action)
            case RemoveFile():
                removes.append(action)
            case _:
                non_file_actions.append(action)
    _check_sidecars(table, checkpoint, metadata, sidecars)
    own_files = () if _is_json(checkpoint.files[0]) else checkpoint.files
    if sidecars:
        own_files = _with_file_actions(engine, table, own_files, file_contents)
    return CheckpointContents(
        checkpoint=checkpoint,
        actions=tuple(non_file_actions),
        files=(*(_sidecar_status(table, s) for s in sidecars), *own_files),
        adds=tuple(adds),
        removes=tuple(removes),
        file_contents=file_contents if own_files else {},
    )


def _with_file_actions(
    engine: Engine, table: str, files: tuple[FileStatus, ...], file_contents: Mapping[str, bytes]
) -> tuple[FileStatus, ...]:

    def has_file_actions(file: FileStatus) -> bool:
        try:
            with engine.parquet.read_parquet_files(
                [_split(file, file_contents)], _FILE_PATHS
            ) as batches:
                return any(
                    column.null_count < len(column) for batch in batches for column in batch.columns
                )
        except StorageError as error:
            raise unreadable_checkpoint(table, file.path, error) from error

    return tuple(file for file in files if has_file_actions(file))


def _check_sidecars(
    table: str,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata | None,
    sidecars: list[SidecarFile],
) -> None:
    """Raise if the total size of the sidecars differs from the tag `sidecarSizeInBytes`.

    A JSON checkpoint that was truncated at the end of a line can be parsed, but lists only some of
    its sidecars. The check detects the truncation.
    """
    tags = (metadata and metadata.tags) or {}
    expected = tags.get("sidecarSizeInBytes")
    actual = sum(s.size_in_bytes for s in sidecars)
    if expected is not None and expected.isdigit() and int(expected) != actual:
        path = checkpoint.files[0].path
        raise damaged_checkpoint(
            table,
            f"checkpoint file {path} is incomplete: the listed sidecars have {actual} bytes, but "
            f"the checkpoint metadata says {expected} bytes",
            path,
        )


def _sidecar_status(table: str, sidecar: SidecarFile) -> FileStatus:
    """Return the file status of a sidecar, which is in the directory `_delta_log/_sidecars`.

    Only the file name of the sidecar's path in the checkpoint is used. Raise an error if this path
    has no file name or contains `..`.
    """
    path = decode_data_file_uri(sidecar.path)
    name = path.rsplit("/", 1)[-1]
    if ".." in path.split("/") or name in ("", "."):
        raise damaged_checkpoint(
            table,
            f"a checkpoint references the sidecar {path!r}, which is outside the table's directory",
            path,
        )
    return FileStatus(
        path=f"{log_path(table)}/{SIDECAR_DIRECTORY}/{name}",
        size=sidecar.size_in_bytes,
        modification_time=sidecar.modification_time,
    )


def _read_actions(engine: Engine, table: str, file: FileSplit) -> Iterator[Action]:
    present, rows = _locate(engine, file)
    if not present:
        return
    schema = pa.schema([_SCHEMA.field(name) for name in present])
    with engine.parquet.read_parquet_files([file], schema) as batches:
        for batch in batches:
            for name in present:
                yield from _to_actions(table, file, batch.column(name), _WIRE_TYPES[name])
            rows -= batch.num_rows
            if rows <= 0:
                break


def _locate(engine: Engine, file: FileSplit) -> tuple[list[str], int]:
    """Find the non-file actions in a checkpoint file.

    Returns:
        The columns that contain non-file actions, and the number of rows to read until the last
        non-file action is included.
    """
    present: dict[str, None] = {}
    rows = previous_rows = 0
    for batch in engine.parquet.read_parquet_files([file], _KEY_FIELDS):
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if column.null_count == len(column):
                continue
            present[name] = None
            last = pc.max(pc.indices_nonzero(pc.is_valid(column))).as_py()
            rows = max(rows, previous_rows + last + 1)
        previous_rows += batch.num_rows
    return list(present), rows


def _to_actions(table: str, file: FileSplit, column: Any, wire_type: type[Any]) -> Iterator[Any]:
    try:
        for value in column.drop_null().to_pylist(maps_as_pydicts="lossy"):
            yield msgspec.convert(_without_nulls(value), wire_type)
    except (msgspec.ValidationError, UnicodeDecodeError) as error:
        raise damaged_checkpoint(
            table, f"checkpoint file {file.path} has an invalid action: {error}", file.path
        ) from error


def _without_nulls(value: dict[str, Any]) -> dict[str, Any]:
    return {
        k: _without_nulls(v) if isinstance(v, dict) else v
        for k, v in value.items()
        if v is not None
    }
