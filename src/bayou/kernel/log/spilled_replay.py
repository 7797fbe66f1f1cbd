"""Spilled replay: reconciles the file actions of many commits on the local disk.

The actions are partitioned by a hash of their paths into temporary files, and each file is
reconciled as columns. The results are memory-mapped files, so that the operating system can
reclaim their memory.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from bayou.kernel.arrow.compute import pc
from bayou.kernel.checkpoint.schema import REMOVE_TYPE, removes_to_array
from bayou.kernel.log.file_action_keys import KEY_SEPARATOR, FileActionKeys, key_strings
from bayou.kernel.scan.scan_file import ADD_TYPE, adds_to_array
from bayou.protocol.actions import AddFile, RemoveFile

__all__ = ["SpilledReplay"]

_PART_BYTES = 16 * 1024 * 1024
_MAX_PARTS = 128
_MAX_BUFFERED_ACTIONS = 16_384
_MAX_STRING_BYTES = 2**31 - 1

_FIELDS: list[Any] = [
    pa.field("commit", pa.int32()),
    pa.field("key", pa.string()),
    pa.field("add", ADD_TYPE),
    pa.field("remove", REMOVE_TYPE),
]
_SCHEMA = pa.schema(_FIELDS)
"""`commit`: counted from the newest. `key`: string of `AddFile.key`, equal for all spellings."""

_SINGLE_SPELLING = r"^[A-Za-z0-9_\-.=][A-Za-z0-9_\-.=/]*$"
"""Matches paths that have only one spelling; see `spellings`."""


class SpilledReplay:
    """Reconciles file actions of commits, newest commit first. Deletes its files on exit.

    Args:
        size: approximate total size of the commits in bytes.
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
        shutil.rmtree(self._folder, ignore_errors=True)  # mapped files stay valid

    def add(self, action: AddFile | RemoveFile) -> None:
        """Add an action of the current commit."""
        if isinstance(action, AddFile):
            self._adds.append(action)
        else:
            self._removes.append(action)
        self._commits[type(action)].append(self._commit)
        if len(self._adds) + len(self._removes) >= _MAX_BUFFERED_ACTIONS:
            self._write()

    def end_commit(self) -> None:
        """End the current commit. The actions that follow are of an older commit."""
        self._commit += 1

    def reconciled(
        self,
    ) -> tuple[tuple[pa.StructArray, ...], tuple[pa.StructArray, ...], FileActionKeys]:
        """Live files, tombstones and the keys of all files, unordered."""
        self._write()
        adds, removes = self._open_result("add", ADD_TYPE), self._open_result("remove", REMOVE_TYPE)
        paths, keys = _StringColumn(self._folder / "paths"), _StringColumn(self._folder / "keys")
        for number in sorted(self._writers):
            self._writers.pop(number).close()
            part = self._folder / f"part-{number}"
            with pa.memory_map(str(part)) as source:
                table = pa.ipc.open_stream(source).read_all()
                newest = table.filter(_newest(table))
                adds.write_batch(_valid_rows(newest, "add"))
                removes.write_batch(_valid_rows(newest, "remove"))
                _write_keys(table, paths, keys)
            part.unlink()
        return (
            self._map_result("add", adds),
            self._map_result("remove", removes),
            FileActionKeys(paths.mapped(), keys.mapped()),
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

    def _open_result(self, name: str, kind: Any) -> Any:
        return pa.ipc.new_file(str(self._folder / name), pa.schema([pa.field(name, kind)]))

    def _map_result(self, name: str, writer: Any) -> tuple[pa.StructArray, ...]:
        writer.close()
        reader = pa.ipc.open_file(pa.memory_map(str(self._folder / name)))
        arrays: list[Any] = [
            reader.get_batch(number).column(0) for number in range(reader.num_record_batches)
        ]
        return tuple(array for array in arrays if len(array)) or (
            adds_to_array([]) if name == "add" else removes_to_array([]),
        )


class _StringColumn:
    """A string column that is written in chunks and then memory-mapped."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("wb")
        self._ends: list[Any] = [pa.array([0], pa.int64())]
        self._size = 0

    def write(self, strings: Any) -> None:
        """Append strings without nulls."""
        lengths = pc.binary_length(strings).cast(pa.int64())
        ends = pc.add(pc.cumulative_sum(lengths), self._size)
        if len(ends):
            row = pa.ListArray.from_arrays(pa.array([0, len(strings)], pa.int32()), strings)
            self._file.write(pc.binary_join(row.cast(pa.list_(pa.binary())), b"")[0].as_py())
            self._size = ends[-1].as_py()
            self._ends.append(ends)

    def mapped(self) -> pa.Array[Any]:
        """The whole column as a memory-mapped array."""
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
    """Mask of the rows of the newest commit that has their key."""
    codes = table.column("key").combine_chunks().dictionary_encode().indices
    commits = table.column("commit")
    newest = (
        pa.table({"code": codes, "commit": commits}).group_by("code").aggregate([("commit", "min")])
    )
    by_code = newest.sort_by("code").column("commit_min")
    return pc.equal(commits, by_code.take(codes))


def _valid_rows(table: pa.Table, name: str) -> pa.RecordBatch:
    column = table.column(name).combine_chunks().drop_null()
    return pa.RecordBatch.from_arrays([column], schema=pa.schema([table.schema.field(name)]))


def _write_keys(table: pa.Table, paths: _StringColumn, keys: _StringColumn) -> None:
    """Write the distinct keys of a partition's files in all spellings."""
    files: list[Any] = [_valid_rows(table, name).column(0) for name in ("add", "remove")]
    file_paths = pa.concat_arrays([pc.struct_field(part, "path") for part in files])
    file_keys = pa.concat_arrays([key_strings(part) for part in files])
    has_single_spelling = pc.match_substring_regex(file_paths, _SINGLE_SPELLING)
    paths.write(pc.unique(file_paths.filter(has_single_spelling)))
    keys.write(pc.unique(file_keys.filter(has_single_spelling)))
    remaining = pc.unique(file_keys.filter(pc.invert(has_single_spelling))).to_pylist()
    if remaining:
        pairs = (key.split(KEY_SEPARATOR) for key in remaining)
        spelled = FileActionKeys.from_keys((path, dv_id) for path, dv_id in pairs)
        paths.write(spelled.paths)
        keys.write(spelled.keys)
