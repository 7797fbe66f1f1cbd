"""The files that a version of a table needs: what a vacuum must leave alone.

A file that the log names by an absolute path elsewhere keeps every file of its name below the
table: a store may have more than one URI for a folder (`abfs://` and `abfss://`, two names of a
host, a mount point), and only the store knows them all. Names of data files are unique, so that
hardly a file stays that could have gone.

Paths are remembered as hashes of 64 bits: a million files take 8 MB. Two paths with one hash only
mean that a file stays which could have gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.kernel.checkpoint.state_files import (
    checkpoint_adds,
    checkpoint_behind,
    checkpoint_tombstones,
    tail_tombstones,
)
from bayou.kernel.commands.vacuum.table_folder import TableFolder
from bayou.kernel.engine import Engine, FileSplit
from bayou.kernel.log.table_state import TableState
from bayou.protocol.file_names import decode_data_file_uri

__all__ = ["KeptFiles", "kept_files"]

pc: Any = pyarrow.compute

_COLUMNS = ("path", "deletionVector")
_ODD = r"[%:]|^/|//|(?:^|/)\.{1,2}(?:/|$)"
"""What makes a path in the log something else than the name of a file below the table."""

_SAMPLE = 4096


_ANYWHERE = "//"
"""Stands before the name of a file that is kept in every folder; no path below a table has it."""


class KeptFiles:
    """Paths below a table, decoded and relative to it.

    Args:
        paths: in batches; `//` and a name for a file that is kept in every folder.
        travels: other processes ask, too; where they don't, Python's own hash is quicker.
    """

    def __init__(self, paths: Iterable[Sequence[str]], *, travels: bool = False) -> None:
        self._digest = _digest if travels else hash
        self._sample: list[str] = []
        self._has_names = False
        stride = 1
        hashes = []
        for some in paths:
            hashes.append(pa.array(list(map(self._digest, some)), pa.int64()))
            below = [path for path in some if not path.startswith(_ANYWHERE)]
            self._has_names = self._has_names or len(below) < len(some)
            self._sample += below[::stride]
            while len(self._sample) > _SAMPLE:
                self._sample = self._sample[::2]
                stride *= 2
        self._hashes: Any = pc.unique(pa.chunked_array(hashes, pa.int64()))

    def __len__(self) -> int:
        return len(self._hashes)

    def hold(self, paths: Sequence[str]) -> pa.BooleanArray:
        """Which of some paths are among them; now and then one that isn't.

        Takes a while for each of the kept files, so ask for many at once.
        """
        found = self._contain(paths)
        if not self._has_names:
            return found
        either: pa.BooleanArray = pc.or_(found, self._contain([_anywhere(path) for path in paths]))
        return either

    def boundaries(self, parts: int) -> list[str]:
        """Paths that cut them into at most so many parts of about the same size, in order."""
        paths = sorted(set(self._sample))
        places = sorted({part * len(paths) // parts for part in range(1, parts)} - {0})
        return [paths[place] for place in places]

    def _contain(self, paths: Sequence[str]) -> pa.BooleanArray:
        found: pa.BooleanArray = pc.is_in(
            pa.array(list(map(self._digest, paths)), pa.int64()), value_set=self._hashes
        )
        return found


def kept_files(
    engine: Engine, state: TableState, deleted_before: int, *, travels: bool = False
) -> KeptFiles:
    """Live data files, files of tombstones that aren't old, and the files of their vectors.

    Memory is bounded by a batch of the log, and the hashes.

    Args:
        deleted_before: time of a tombstone in ms from which on its file still counts.
        travels: see `KeptFiles`.

    Raises:
        CorruptTableError: the checkpoint can't be read, or a deletion vector can't be found.
    """
    return KeptFiles(_paths(engine, state, deleted_before), travels=travels)


def _digest(path: str) -> int:
    """A hash that is the same in every process."""
    data = path.encode("utf-8", "surrogateescape")
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big", signed=True)


def _anywhere(path: str) -> str:
    """A file of this name, whatever its folder."""
    return _ANYWHERE + path.rpartition("/")[2]


def _paths(engine: Engine, state: TableState, deleted_before: int) -> Iterator[list[str]]:
    folder = TableFolder(engine, state.path)
    for files in _files(engine, state, deleted_before):
        yield _below(folder, files.field("path"))
        vectors = pc.struct_field(files, "deletionVector")
        if vectors.null_count < len(vectors):
            yield _vector_files(folder, vectors.drop_null())


def _files(engine: Engine, state: TableState, deleted_before: int) -> Iterator[pa.StructArray]:
    table, touched = state.path, state.replay_state.touched
    behind = checkpoint_behind(engine, state)
    yield from state.tail
    splits = () if behind is None else behind.files
    for split in (FileSplit(path=f.path, size=f.size) for f in splits):
        for batch in checkpoint_adds(engine, table, split, touched, columns=_COLUMNS):
            yield batch.adds
        for removes in checkpoint_tombstones(engine, table, split, touched):
            yield _young(removes, deleted_before)
    for removes in tail_tombstones(state, behind):
        yield _young(removes, deleted_before)


def _young(removes: pa.StructArray, deleted_before: int) -> pa.StructArray:
    times = pc.fill_null(pc.struct_field(removes, "deletionTimestamp"), 0)
    young: pa.StructArray = removes.filter(pc.greater_equal(times, deleted_before))
    return young


def _below(folder: TableFolder, paths: Any) -> list[str]:
    """Paths below the table, as they stand, and decoded and by their real folders if that differs.

    A writer may have left a percent sign as it is: both files stay. Of files elsewhere the names.
    """
    texts: list[Any] = paths.to_pylist()
    odd = pc.match_substring_regex(paths, _ODD)
    texts += folder.real_paths(paths.filter(pc.invert(odd)))
    if not pc.any(odd).as_py():
        return texts
    some: list[Any] = paths.filter(odd).to_pylist()
    for text in some:
        found = folder.relative_path(text)
        texts.append(_anywhere(decode_data_file_uri(text)) if found is None else found)
    return texts


def _vector_files(folder: TableFolder, vectors: pa.StructArray) -> list[str]:
    """Files of deletion vectors below the table; several vectors may be in one."""
    pairs = pc.unique(
        pc.binary_join_element_wise(
            pc.struct_field(vectors, "storageType"), pc.struct_field(vectors, "pathOrInlineDv"), ""
        )
    )
    files = []
    for text in pairs.to_pylist():
        found = folder.vector_path(text[:1], text[1:])
        if found is not None:
            files.append(found)
        elif text[:1] == "p":
            files.append(_anywhere(decode_data_file_uri(text[1:])))
    return files
