"""Files' actions of many commits, reconciled on the local disk instead of in memory.

They are parted by a hash of their paths into files, each of which is then reconciled by itself, as
columns. What comes out lies on the disk too, and is mapped: it takes no memory that the system
can't have back.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute

from bayou.kernel.checkpoint.schema import REMOVE_TYPE, removes_to_array
from bayou.kernel.log.file_action_keys import KEY_SEPARATOR, TouchedKeys, key_texts
from bayou.kernel.scan.scan_file import ADD_TYPE, adds_to_array
from bayou.protocol.actions import AddFile, RemoveFile

__all__ = ["LongTail"]

pc: Any = pyarrow.compute

_PART_BYTES = 16 * 1024 * 1024
_MAX_PARTS = 128
_HELD_ACTIONS = 16_384
_MAX_STRING_BYTES = 2**31 - 1

_FIELDS: list[Any] = [
    pa.field("commit", pa.int32()),
    pa.field("key", pa.string()),
    pa.field("add", ADD_TYPE),
    pa.field("remove", REMOVE_TYPE),
]
_SCHEMA = pa.schema(_FIELDS)
"""`commit`: counted from the newest. `key`: of `AddFile.key`, so equal for all spellings."""

_SPELLED_ALIKE = r"^[A-Za-z0-9_\-.=][A-Za-z0-9_\-.=/]*$"
"""Paths that have one spelling; see `spellings`."""


class LongTail:
    """Takes the actions of commits, the newest commit first; a context that ends with its files.

    Args:
        size: about how many bytes of commits there will be.
    """

    def __init__(self, size: int) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="bayou-tail-"))
        self._count = min(_MAX_PARTS, size // _PART_BYTES + 1)
        self._writers: dict[int, Any] = {}
        self._adds: list[AddFile] = []
        self._removes: list[RemoveFile] = []
        self._commits: dict[type, list[int]] = {AddFile: [], RemoveFile: []}
        self._commit = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for writer in self._writers.values():
            writer.close()
        shutil.rmtree(self._folder, ignore_errors=True)  # what is mapped stays until it is let go

    def take(self, action: AddFile | RemoveFile) -> None:
        """One action of the current commit."""
        if isinstance(action, AddFile):
            self._adds.append(action)
        else:
            self._removes.append(action)
        self._commits[type(action)].append(self._commit)
        if len(self._adds) + len(self._removes) >= _HELD_ACTIONS:
            self._write()

    def end_commit(self) -> None:
        """What comes from now on is of an older commit."""
        self._commit += 1

    def reconciled(
        self,
    ) -> tuple[tuple[pa.StructArray, ...], tuple[pa.StructArray, ...], TouchedKeys]:
        """Live files, tombstones, and the keys of all files that were taken; in no order."""
        self._write()
        adds, removes = self._results("add", ADD_TYPE), self._results("remove", REMOVE_TYPE)
        paths, keys = _Texts(self._folder / "paths"), _Texts(self._folder / "keys")
        for number in sorted(self._writers):
            self._writers.pop(number).close()
            part = self._folder / f"part-{number}"
            with pa.memory_map(str(part)) as source:
                table = pa.ipc.open_stream(source).read_all()
                newest = table.filter(_newest(table))
                adds.write_batch(_only(newest, "add"))
                removes.write_batch(_only(newest, "remove"))
                _note_keys(table, paths, keys)
            part.unlink()
        return (
            self._mapped("add", adds),
            self._mapped("remove", removes),
            TouchedKeys(paths.mapped(), keys.mapped()),
        )

    def _write(self) -> None:
        for name, actions, array in (
            ("add", self._adds, adds_to_array(self._adds)),
            ("remove", self._removes, removes_to_array(self._removes)),
        ):
            if actions:
                commits = self._commits[type(actions[0])]
                self._write_batch(name, actions, array, commits)
                commits.clear()
        self._adds, self._removes = [], []

    def _write_batch(
        self, name: str, actions: Any, array: pa.StructArray, commits: list[int]
    ) -> None:
        keys = [action.key for action in actions]
        parts = pa.array([hash(path) % self._count for path, _ in keys], pa.int32())
        columns = {
            "commit": pa.array(commits, pa.int32()),
            "key": pa.array([path + KEY_SEPARATOR + (dv_id or "") for path, dv_id in keys]),
            name: array,
        }
        batch = pa.RecordBatch.from_arrays(
            [columns.get(f.name, pa.nulls(len(array), f.type)) for f in _FIELDS], schema=_SCHEMA
        ).take(pc.sort_indices(parts))
        start = 0
        for counted in sorted(pc.value_counts(parts).to_pylist(), key=lambda c: c["values"]):
            number, rows = counted["values"], counted["counts"]
            if number not in self._writers:
                path = str(self._folder / f"part-{number}")
                self._writers[number] = pa.ipc.new_stream(path, _SCHEMA)
            self._writers[number].write_batch(batch.slice(start, rows))
            start += rows

    def _results(self, name: str, kind: Any) -> Any:
        return pa.ipc.new_file(str(self._folder / name), pa.schema([pa.field(name, kind)]))

    def _mapped(self, name: str, writer: Any) -> tuple[pa.StructArray, ...]:
        writer.close()
        reader = pa.ipc.open_file(pa.memory_map(str(self._folder / name)))
        found: list[Any] = [
            reader.get_batch(number).column(0) for number in range(reader.num_record_batches)
        ]
        return tuple(array for array in found if len(array)) or (
            adds_to_array([]) if name == "add" else removes_to_array([]),
        )


class _Texts:
    """A string column that is written piece by piece and then mapped whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("wb")
        self._ends: list[Any] = [pa.array([0], pa.int64())]
        self._size = 0

    def write(self, texts: Any) -> None:
        """More of it; no nulls."""
        lengths = pc.binary_length(texts).cast(pa.int64())
        ends = pc.add(pc.cumulative_sum(lengths), self._size)
        if len(ends):
            whole = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
            self._file.write(pc.binary_join(whole.cast(pa.list_(pa.binary())), b"")[0].as_py())
            self._size = ends[-1].as_py()
            self._ends.append(ends)

    def mapped(self) -> pa.Array[Any]:
        """All of it."""
        self._file.close()
        offsets: Any = pa.concat_arrays(self._ends)
        if self._size == 0:
            return pa.array([], pa.string())
        data = pa.memory_map(str(self._path)).read_buffer()
        if self._size > _MAX_STRING_BYTES:
            return pa.LargeStringArray.from_buffers(len(offsets) - 1, offsets.buffers()[1], data)
        ends = offsets.cast(pa.int32()).buffers()[1]
        return pa.StringArray.from_buffers(len(offsets) - 1, ends, data)


def _newest(table: pa.Table) -> Any:
    """Which rows are of the newest commit that names their file."""
    codes = table.column("key").combine_chunks().dictionary_encode().indices
    commits = table.column("commit")
    newest = (
        pa.table({"code": codes, "commit": commits}).group_by("code").aggregate([("commit", "min")])
    )
    by_code = newest.sort_by("code").column("commit_min")
    return pc.equal(commits, by_code.take(codes))


def _only(table: pa.Table, name: str) -> pa.RecordBatch:
    column = table.column(name).combine_chunks().drop_null()
    return pa.RecordBatch.from_arrays([column], schema=pa.schema([table.schema.field(name)]))


def _note_keys(table: pa.Table, paths: _Texts, keys: _Texts) -> None:
    """The keys of a part's files in all spellings, each once in the part."""
    files: list[Any] = [_only(table, name).column(0) for name in ("add", "remove")]
    named = pa.concat_arrays([pc.struct_field(part, "path") for part in files])
    texts = pa.concat_arrays([key_texts(part) for part in files])
    alike = pc.match_substring_regex(named, _SPELLED_ALIKE)
    paths.write(pc.unique(named.filter(alike)))
    keys.write(pc.unique(texts.filter(alike)))
    others = pc.unique(texts.filter(pc.invert(alike))).to_pylist()
    if others:
        pairs = (text.split(KEY_SEPARATOR) for text in others)
        spelled = TouchedKeys.of((path, dv_id) for path, dv_id in pairs)
        paths.write(spelled.paths)
        keys.write(spelled.keys)
