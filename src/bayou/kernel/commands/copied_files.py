"""Copies of data files for a deep clone.

Each copy gets a new name, so no file is overwritten. A tag in the copy's `add` action identifies
the source file. A repeated clone copies only new files of the source: earlier copies stay in the
clone if their source files are still live. A connector can copy the files in other processes, such
as Spark's executors (`CopyFiles`).
"""

from __future__ import annotations

import posixpath
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from bayou.errors import CorruptTableError
from bayou.json_decoding import decode_json
from bayou.kernel.arrow.read_ahead import map_ahead
from bayou.kernel.commands.version_files import live_files
from bayou.kernel.engine import Engine
from bayou.kernel.log.table_state import TableState
from bayou.kernel.scan.scan_file import ScanFile, vector_file_path
from bayou.kernel.transaction.commit_table_actions import current_time_ms, to_remove
from bayou.protocol.actions import AddFile, DeletionVectorDescriptor, RemoveFile
from bayou.protocol.deletion_vectors import file_path, stored_vector, vector_in_file
from bayou.protocol.file_names import (
    canonical_path,
    data_file_path_to_uri,
    is_absolute_uri,
)

CLONE_SOURCE_TAG = "CLONE_SOURCE"
"""Tag of the `add` action of a copied file; its value is a `_CloneSource` in JSON."""

COPY_THREADS = 16
"""Number of files that one process copies at a time."""
_CHUNK_BYTES = 8 << 20


class _CloneSource(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The source file from which a file of a clone was copied.

    Attributes:
        path: path of the source file, decoded, so that all encodings of the path are equal.
        vector: `uniqueId` of the source file's deletion vector at the time of the copy.
        copied_vector: `uniqueId` of the deletion vector that CLONE wrote for the copy. If the copy
            has another deletion vector now, rows were deleted from the copy later.
    """

    table_id: str
    path: str
    size: int
    modification_time: int
    vector: str | None = None
    copied_vector: str | None = None


@dataclass(frozen=True, slots=True)
class _Copy:
    """A live file of an existing deep clone.

    `origin` is the source file from which CLONE copied this file. It is None if another command
    wrote this file.
    """

    add: AddFile
    origin: _CloneSource | None

    def has_same_deleted_rows(self, file: ScanFile) -> bool:
        """Whether the copy and the source file `file` have the same deleted rows."""
        assert self.origin is not None  # only copies are compared
        own = _vector_id(self.add.deletion_vector)
        return own == self.origin.copied_vector and self.origin.vector == _vector_id(
            file.deletion_vector
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCopy:
    """A file to copy.

    Attributes:
        table: path of the source table, for error messages.
        source, destination: absolute paths of the file and of the copy, not URL-encoded.
        size: size of the file according to the log; None if the log doesn't have it.
    """

    table: str
    source: str
    destination: str
    size: int | None

    def run(self, engine: Engine) -> None:
        """Copy the file.

        Raises:
            StorageError: the file can't be copied.
            CorruptTableError: the copied bytes don't have the size that the log records.
        """
        copied = 0
        with (
            engine.files.open_input(self.source, self.size) as source,
            engine.files.open_output(self.destination) as output,
        ):
            while chunk := source.read(_CHUNK_BYTES):
                output.write(chunk)
                copied += len(chunk)
            if self.size is not None and copied != self.size:
                raise CorruptTableError(
                    f"{self.table}: file {self.source} has {copied} bytes, but the log says "
                    f"{self.size} bytes. Restore the file, or an earlier version of the table.",
                    table=self.table,
                    file=self.source,
                )


CopyFiles: TypeAlias = Callable[[Sequence[FileCopy]], None]
"""Function that copies files. If it fails, some of the copies may exist."""


def copy_files(engine: Engine, copies: Sequence[FileCopy]) -> None:
    """Copy files in this process, several at a time."""
    for _ in map_ahead(lambda copy: copy.run(engine), copies, COPY_THREADS):
        pass


class CopiedFiles:
    """Copies the data files of a source into a deep clone, and builds the clone's file actions.

    Args:
        table: path of the clone.
        existing: table that the clone replaces, usually an earlier clone; None if there is none.
        row_tracking: whether row tracking is enabled in the clone. If True, retained copies without
            row ids are added again, and the commit assigns row ids to them.

    Attributes:
        actions: the file actions to commit. New copies and retained copies without row ids are
            added. Files of the clone that aren't live in the source are removed. A copy whose
            deletion vector changes is removed and added again.
        copied, removed: numbers of copied and removed data files.
        copied_bytes, removed_bytes: total sizes of these files in bytes.
    """

    def __init__(
        self,
        engine: Engine,
        source: TableState,
        table: str,
        existing: TableState | None,
        *,
        row_tracking: bool,
    ) -> None:
        self._engine = engine
        self._table = table
        self._source = source
        self._existing = existing
        self._row_tracking = row_tracking
        self._copies: list[FileCopy] = []
        self._vectors: dict[str, uuid.UUID] = {}
        self.actions: list[AddFile | RemoveFile] = []
        self.copied = self.copied_bytes = self.removed = self.removed_bytes = 0

    def copy(self, run: CopyFiles) -> None:
        """Copy the source files that have no copy in the existing clone.

        Also sets `actions`, and the numbers and sizes of copied and removed files.

        Raises:
            StorageError: a file can't be copied. Call `discard` to delete the copies.
        """
        deleted_at = current_time_ms()
        copies = self._existing_copies()
        with live_files(self._engine, self._source) as files:
            for file in files:
                copy = copies.pop(_key(_origin(self._source, file)), None)
                if copy is None:
                    self.actions.append(self._copied(file))
                    self.copied += 1
                    self.copied_bytes += file.add.size
                elif not copy.has_same_deleted_rows(file):
                    self.actions.append(to_remove(copy.add, deleted_at))
                    self.actions.append(self._with_vector(copy.add, file))
                elif self._row_tracking and copy.add.base_row_id is None:
                    self.actions.append(msgspec.structs.replace(copy.add, data_change=False))
        for copy in copies.values():
            self.actions.append(to_remove(copy.add, deleted_at))
            self.removed += 1
            self.removed_bytes += copy.add.size
        run(self._copies)

    def discard(self) -> None:
        """Delete the copies of an uncommitted clone."""
        self._engine.files.delete_files([copy.destination for copy in self._copies])

    def _existing_copies(self) -> dict[bytes, _Copy]:
        """Return the live files of the existing clone by a key that identifies the source file.

        For a file that CLONE didn't copy, the key is the file's own path.
        """
        copies: dict[bytes, _Copy] = {}
        if self._existing is not None:
            with live_files(self._engine, self._existing) as files:
                for file in files:
                    origin = _tagged_origin(file.add)
                    key = file.add.path.encode() if origin is None else _key(origin)
                    copies[key] = _Copy(file.add, origin)
        return copies

    def _copied(self, file: ScanFile) -> AddFile:
        """Plan the copy of a data file and its deletion vector; return the copy's `add` action."""
        path = file.status.path
        relative = path.removeprefix(f"{file.table_root}/")
        folder = "" if relative == path else posixpath.dirname(relative)
        name = posixpath.join(folder, f"part-00000-{uuid.uuid4()}-c000.parquet")
        self._copy(path, f"{self._table}/{name}", file.add.size)
        add = msgspec.structs.replace(
            file.add,
            path=data_file_path_to_uri(name),
            modification_time=current_time_ms(),
            base_row_id=None,
            default_row_commit_version=None,
        )
        return self._with_vector(add, file)

    def _with_vector(self, add: AddFile, file: ScanFile) -> AddFile:
        """Return `add` with a copy of the deletion vector of the source file `file`."""
        vector = self._copied_vector(file)
        origin = msgspec.structs.replace(
            _origin(self._source, file), copied_vector=_vector_id(vector)
        )
        tag = msgspec.json.encode(origin).decode()
        return msgspec.structs.replace(
            add,
            stats=file.add.stats,
            deletion_vector=vector,
            data_change=True,
            tags={**(file.add.tags or {}), CLONE_SOURCE_TAG: tag},
        )

    def _copied_vector(self, file: ScanFile) -> DeletionVectorDescriptor | None:
        vector = file.deletion_vector
        if vector is None or vector.storage_type == "i":
            return vector
        path = vector_file_path(file.table_root, vector)
        assert path is not None  # the vector isn't inline
        copy = self._vectors.get(path)  # several vectors may be in one file
        if copy is None:
            copy = self._vectors[path] = uuid.uuid4()
            self._copy(path, f"{self._table}/{file_path(copy)}", None)
        return vector_in_file(
            copy,
            "",
            offset=stored_vector(vector).offset,
            size=vector.size_in_bytes,
            cardinality=vector.cardinality,
        )

    def _copy(self, path: str, destination: str, size: int | None) -> None:
        self._copies.append(
            FileCopy(table=self._source.path, source=path, destination=destination, size=size)
        )


def _origin(source: TableState, file: ScanFile) -> _CloneSource:
    return _CloneSource(
        table_id=source.table_id,
        path=canonical_path(file.add.path),
        size=file.add.size,
        modification_time=file.add.modification_time,
        vector=_vector_id(file.deletion_vector),
    )


def _tagged_origin(add: AddFile) -> _CloneSource | None:
    """Return the source file from which CLONE copied the file of `add`; None if it isn't a copy."""
    value = (add.tags or {}).get(CLONE_SOURCE_TAG)
    if value is None or is_absolute_uri(add.path):
        return None
    try:
        return decode_json(value, _CloneSource)
    except msgspec.DecodeError:
        return None


def _key(origin: _CloneSource) -> bytes:
    """Return bytes that identify a source file, independent of the file's deletion vector."""
    return msgspec.json.encode(msgspec.structs.replace(origin, vector=None, copied_vector=None))


def _vector_id(vector: DeletionVectorDescriptor | None) -> str | None:
    return None if vector is None else vector.unique_id
