"""Files that a table version references and that VACUUM must not delete.

A folder may have several URIs (`abfs://` and `abfss://`, host aliases, mount points). An absolute
path in the log that seems to be outside the table's folder may therefore refer to a file inside it.
VACUUM retains all files in the table's folder that have the same file name as such a path. Names of
data files are unique, so hardly any unreferenced file is retained.

Local file systems may ignore the case and the Unicode normal form of names, as on macOS. The names
`p=A` and `p=a` then refer to one folder, and a listing returns the name with which the folder was
created. Therefore, local paths that differ only in case or normal form are equal.

Paths are stored as 64-bit hashes: a million files need 8 MB. An unreferenced file that has the same
hash as a referenced file is retained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any
from unicodedata import normalize

import pyarrow as pa

from bayou.kernel.arrow.arrays import to_array, to_scalar
from bayou.kernel.arrow.compute import pc
from bayou.kernel.checkpoint.state_files import (
    base_checkpoint,
    checkpoint_adds,
    checkpoint_tombstones,
    tail_tombstones,
)
from bayou.kernel.commands.vacuum.table_folder import TableFolder
from bayou.kernel.engine import Engine, FileSplit
from bayou.kernel.log.table_state import TableState
from bayou.protocol.file_names import decode_data_file_uri

_COLUMNS = ("path", "deletionVector")
_SPECIAL = r"[%:]|^/|//|(?:^|/)\.{1,2}(?:/|$)"
"""Regular expression that matches paths in the log that are encoded, absolute or not normalized."""

_SAMPLE_SIZE = 4096


_ANY_FOLDER = "//"
"""Prefix for a file name without a folder: `//<name>` references files `<name>` in all folders."""


class ReferencedFiles:
    """Set of the referenced files below a table.

    Args:
        paths: batches of paths relative to the table, not URL-encoded. The path `//<name>`
            references all files with this name, in any folder.
        stable_hash: whether to use a hash that is the same in all processes. If False, Python's
            `hash` is used, which is faster.
        ignores_case: whether paths are equal if they differ only in case or Unicode normal form.
    """

    def __init__(
        self,
        paths: Iterable[Sequence[str]],
        *,
        stable_hash: bool = False,
        ignores_case: bool = False,
    ) -> None:
        self._digest: Callable[[str], int] = _digest if stable_hash else hash
        self._ignores_case = ignores_case
        self._sample: list[str] = []
        self._has_names = False
        stride = 1
        hashes = []
        for batch in paths:
            hashes.append(self._hashed(batch))
            below = [path for path in batch if not path.startswith(_ANY_FOLDER)]
            self._has_names = self._has_names or len(below) < len(batch)
            self._sample += below[::stride]
            while len(self._sample) > _SAMPLE_SIZE:
                self._sample = self._sample[::2]
                stride *= 2
        self._hashes: Any = pc.unique(pa.chunked_array(hashes, pa.int64()))

    def __len__(self) -> int:
        return len(self._hashes)

    def contains(self, paths: Sequence[str]) -> pa.BooleanArray:
        """Return a mask that is true for referenced paths, and rarely also for other paths.

        Each call takes time proportional to the number of referenced files, so pass many paths.
        """
        by_path = self._contain(paths)
        if not self._has_names:
            return by_path
        by_name = self._contain([_in_any_folder(path) for path in paths])
        either: pa.BooleanArray = pc.or_(by_path, by_name)
        return either

    def boundaries(self, parts: int) -> list[str]:
        """Return ascending paths that split the files into up to `parts` groups of similar size."""
        paths = sorted(set(self._sample))
        indices = sorted({part * len(paths) // parts for part in range(1, parts)} - {0})
        return [paths[index] for index in indices]

    def _contain(self, paths: Sequence[str]) -> pa.BooleanArray:
        contained: pa.BooleanArray = pc.is_in(self._hashed(paths), value_set=self._hashes)
        return contained

    def _hashed(self, paths: Iterable[str]) -> Any:
        if self._ignores_case:
            paths = map(_without_case, paths)
        return to_array(list(map(self._digest, paths)), pa.int64())


def referenced_files(
    engine: Engine, state: TableState, deleted_before: int, *, stable_hash: bool = False
) -> ReferencedFiles:
    """Return the live and the recently removed data files, and their deletion vector files.

    Memory holds a hash of each path, and one batch of the log.

    Args:
        deleted_before: cutoff in milliseconds since the epoch; files that were removed at or after
            the cutoff are referenced.
        stable_hash: whether to use a hash that is the same in all processes. Required if the result
            is sent to other processes.
    """
    return ReferencedFiles(
        _paths(engine, state, deleted_before),
        stable_hash=stable_hash,
        ignores_case="://" not in state.path,  # object stores distinguish names by their bytes
    )


def _without_case(path: str) -> str:
    if path.isascii():
        return path.lower()
    return normalize("NFD", normalize("NFD", path).casefold())


def _digest(path: str) -> int:
    """Return a hash that is the same in every process."""
    data = path.encode("utf-8", "surrogateescape")
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big", signed=True)


def _in_any_folder(path: str) -> str:
    """Return `//<file name>` for a path (see `ReferencedFiles`)."""
    return _ANY_FOLDER + path.rpartition("/")[2]


def _paths(engine: Engine, state: TableState, deleted_before: int) -> Iterator[list[str]]:
    folder = TableFolder(engine, state.path)
    for files in _files(engine, state, deleted_before):
        yield _below(folder, files.field("path"))
        vectors = pc.struct_field(files, "deletionVector")
        if vectors.null_count < len(vectors):
            yield _vector_files(folder, vectors.drop_null())


def _files(engine: Engine, state: TableState, deleted_before: int) -> Iterator[pa.StructArray]:
    table, seen_keys = state.path, state.replay_state.seen_keys
    checkpoint = base_checkpoint(engine, state)
    yield from state.tail
    splits = () if checkpoint is None else checkpoint.files
    for split in (FileSplit(path=f.path, size=f.size) for f in splits):
        for batch in checkpoint_adds(engine, table, split, seen_keys, columns=_COLUMNS):
            yield batch.adds
        for removes in checkpoint_tombstones(engine, table, split, seen_keys):
            yield _recent(removes, deleted_before)
    for removes in tail_tombstones(state, checkpoint):
        yield _recent(removes, deleted_before)


def _recent(removes: pa.StructArray, deleted_before: int) -> pa.StructArray:
    times = pc.fill_null(pc.struct_field(removes, "deletionTimestamp"), to_scalar(0, pa.int64()))
    cutoff = to_scalar(deleted_before, pa.int64())
    recent: pa.StructArray = removes.filter(pc.greater_equal(times, cutoff))
    return recent


def _below(folder: TableFolder, paths: Any) -> list[str]:
    """Return the paths below the table that VACUUM must retain for paths in the log.

    For each path in the log, the result contains:

    - the path as it is in the log, because some writers don't encode a percent sign.
    - if the path contains a symbolic link, the path with the link resolved.
    - if the path is encoded, absolute or not normalized, the decoded real path relative to the
      table; or `//<file name>` if this path is outside the table (see `ReferencedFiles`).
    """
    files: list[Any] = paths.to_pylist()
    special = pc.match_substring_regex(paths, _SPECIAL)
    files += folder.real_paths(paths.filter(pc.invert(special)))
    if not pc.any(special).as_py():
        return files
    uris: list[Any] = paths.filter(special).to_pylist()
    for uri in uris:
        path = folder.relative_path(uri)
        files.append(_in_any_folder(decode_data_file_uri(uri)) if path is None else path)
    return files


def _vector_files(folder: TableFolder, vectors: pa.StructArray) -> list[str]:
    """Return the relative paths of the files that contain deletion vectors.

    The path of a file outside the table is `//<file name>` (see `ReferencedFiles`).
    """
    pairs = pc.unique(
        pc.binary_join_element_wise(
            pc.struct_field(vectors, "storageType"), pc.struct_field(vectors, "pathOrInlineDv"), ""
        )
    )
    files = []
    for pair in pairs.to_pylist():
        path = folder.vector_path(pair[:1], pair[1:])
        if path is not None:
            files.append(path)
        elif pair[:1] == "p":
            files.append(_in_any_folder(decode_data_file_uri(pair[1:])))
    return files
