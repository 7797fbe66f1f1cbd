"""What a checkpoint says besides its files, and which Parquet files hold those.

A checkpoint of the V2 spec may name sidecars, in one Parquet or JSON file (PROTOCOL.md, V2 Spec);
one of the V1 spec is Parquet and holds its files itself. Under a classic name it may be either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute

from bayou.errors import CorruptTableError, FileMissingError, StorageError
from bayou.kernel.checkpoint.schema import METADATA_SCHEMA, SIDECAR_SCHEMA
from bayou.kernel.engine import ByteRange, Engine, FileSplit, FileStatus
from bayou.kernel.log.listing import Checkpoint
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

__all__ = [
    "CheckpointContents",
    "locate_checkpoint_files",
    "read_checkpoint",
    "unreadable_checkpoint",
]

pc: Any = pyarrow.compute


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointContents:
    """A checkpoint's top level.

    Attributes:
        checkpoint: where it stands.
        actions: protocol, metadata, transactions and domains; empty where only files were asked
            for.
        files: Parquet files that hold its adds and removes: its own, or its sidecars.
        adds, removes: those that stand in a JSON file, without sidecars.
        held: bytes of small ones of `files`, by path: they had to be read anyway.
    """

    checkpoint: Checkpoint
    actions: tuple[Action, ...] = ()
    files: tuple[FileStatus, ...]
    adds: tuple[AddFile, ...] = ()
    removes: tuple[RemoveFile, ...] = ()
    held: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    @property
    def size(self) -> int:
        """Bytes that replaying its files reads."""
        return sum(file.size for file in self.files)

    @property
    def splits(self) -> tuple[FileSplit, ...]:
        """`files`, each whole, with what is held of them."""
        return tuple(_split(file, self.held) for file in self.files)


def read_checkpoint(engine: Engine, table: str, checkpoint: Checkpoint) -> CheckpointContents:
    """Everything in a checkpoint but files, and where those are.

    A checkpoint of many files has few other rows. One required field of each kind tells which they
    are, and what else they hold is read no further than to the last of them.

    Raises:
        CorruptTableError: the checkpoint can't be read, or lacks sidecars that it says it has.
    """
    top = checkpoint.files[0]
    if _is_json(top):
        return _from_json(engine, table, checkpoint, top)
    actions: list[Action] = []
    try:
        held = _hold_small(engine, checkpoint.files)
        for file in checkpoint.files:
            actions.extend(_read_actions(engine, table, _split(file, held)))
    except StorageError as error:
        raise unreadable_checkpoint(table, error.path, error) from error
    return _contents(table, checkpoint, actions, held)


def locate_checkpoint_files(
    engine: Engine, table: str, checkpoint: Checkpoint
) -> CheckpointContents:
    """Only where a checkpoint's files are; its Parquet files are opened, so that they can be.

    Raises:
        CorruptTableError: as `read_checkpoint`.
    """
    if _is_json(checkpoint.files[0]):
        return read_checkpoint(engine, table, checkpoint)
    sidecars: list[Action] = []
    try:
        held = _hold_small(engine, checkpoint.files)
        for split in [_split(file, held) for file in checkpoint.files]:
            for batch in engine.parquet.read_parquet_files([split], _SIDECARS):
                sidecars.extend(_to_actions(table, split, batch.column("sidecar"), SidecarFile))
    except StorageError as error:
        raise unreadable_checkpoint(table, error.path, error) from error
    return _contents(table, checkpoint, sidecars, held)


def unreadable_checkpoint(table: str, path: str, error: StorageError) -> CorruptTableError:
    """The error for a checkpoint file that can't be read."""
    what = "is gone" if isinstance(error, FileMissingError) else "can't be read"
    return CorruptTableError(
        f"Checkpoint file {path} of {table} {what}: {error} Restore it, or delete the checkpoint "
        "if all commits from version 0 on are still there.",
        table=table,
        file=path,
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
"""One required field of each kind of action that isn't a file."""

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


_SMALL = 1 << 20
"""Bytes: a file up to this size is got in one request, however often it is read then."""


def _hold_small(engine: Engine, files: Sequence[FileStatus]) -> dict[str, bytes]:
    small = [file.path for file in files if file.size <= _SMALL]
    with engine.files.read_files(ByteRange(path=path) for path in small) as contents:
        return dict(zip(small, map(bytes, contents), strict=True))


def _split(file: FileStatus, held: Mapping[str, bytes]) -> FileSplit:
    return FileSplit(path=file.path, size=file.size, content=held.get(file.path))


def _is_json(file: FileStatus) -> bool:
    return file.path.endswith(".json")


def _from_json(
    engine: Engine, table: str, checkpoint: Checkpoint, top: FileStatus
) -> CheckpointContents:
    try:
        data = next(iter(engine.files.read_files([ByteRange(path=top.path)])))
    except StorageError as error:
        raise unreadable_checkpoint(table, top.path, error) from error
    actions = read_commit(table, checkpoint.version, top, data).actions
    return _contents(table, checkpoint, actions)


def _contents(
    table: str,
    checkpoint: Checkpoint,
    actions: Iterable[Action],
    held: Mapping[str, bytes] | None = None,
) -> CheckpointContents:
    others: list[Action] = []
    adds: list[AddFile] = []
    removes: list[RemoveFile] = []
    sidecars: list[SidecarFile] = []
    description: CheckpointMetadata | None = None
    for action in actions:
        match action:
            case SidecarFile():
                sidecars.append(action)
            case CheckpointMetadata():
                description = action
            case AddFile():
                adds.append(action)
            case RemoveFile():
                removes.append(action)
            case _:
                others.append(action)
    _check_sidecars(table, checkpoint, description, sidecars)
    own = () if _is_json(checkpoint.files[0]) else checkpoint.files
    return CheckpointContents(
        checkpoint=checkpoint,
        actions=tuple(others),
        files=tuple(_sidecar_status(table, s) for s in sidecars) if sidecars else own,
        adds=tuple(adds),
        removes=tuple(removes),
        held={} if sidecars or held is None else held,
    )


def _check_sidecars(
    table: str,
    checkpoint: Checkpoint,
    description: CheckpointMetadata | None,
    sidecars: list[SidecarFile],
) -> None:
    """The tag `sidecarSizeInBytes` tells of a JSON file that was cut between two lines."""
    tags = (description and description.tags) or {}
    stated = tags.get("sidecarSizeInBytes")
    found = sum(s.size_in_bytes for s in sidecars)
    if stated is not None and stated.isdigit() and int(stated) != found:
        path = checkpoint.files[0].path
        raise CorruptTableError(
            f"Checkpoint {path} of {table} names sidecars of {found} bytes and says that they have "
            f"{stated}: it isn't whole. Restore it, or delete it if all commits from version 0 on "
            "are still there.",
            table=table,
            file=path,
        )


def _sidecar_status(table: str, sidecar: SidecarFile) -> FileStatus:
    """A sidecar always stands in the table's own folder, however its path is written."""
    path = decode_data_file_uri(sidecar.path)
    name = path.rsplit("/", 1)[-1]
    if ".." in path.split("/") or name in ("", "."):
        raise CorruptTableError(
            f"A checkpoint of {table} names the sidecar {path!r}, which leaves the table's folder. "
            "Delete the checkpoint if all commits from version 0 on are still there, else restore "
            "it.",
            table=table,
            file=path,
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
    """Kinds of actions other than files that a checkpoint file has, and how many rows to read."""
    present: dict[str, None] = {}
    rows = seen = 0
    for batch in engine.parquet.read_parquet_files([file], _KEY_FIELDS):
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if column.null_count == len(column):
                continue
            present[name] = None
            last = pc.max(pc.indices_nonzero(pc.is_valid(column))).as_py()
            rows = max(rows, seen + last + 1)
        seen += batch.num_rows
    return list(present), rows


def _to_actions(table: str, file: FileSplit, column: Any, wire_type: type[Any]) -> Iterator[Any]:
    try:
        for value in column.drop_null().to_pylist(maps_as_pydicts="lossy"):
            yield msgspec.convert(_without_nulls(value), wire_type)
    except (msgspec.ValidationError, UnicodeDecodeError) as error:
        raise CorruptTableError(
            f"Checkpoint {file.path} of {table} holds an action that isn't one: {error}.",
            table=table,
            file=file.path,
        ) from error


def _without_nulls(value: dict[str, Any]) -> dict[str, Any]:
    """A null field of a struct is one that isn't there."""
    return {
        k: _without_nulls(v) if isinstance(v, dict) else v
        for k, v in value.items()
        if v is not None
    }
