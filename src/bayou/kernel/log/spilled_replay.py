"""Spilled replay: reconciliation of the file actions of many commits on the local disk.

Actions are distributed over several temporary files by a hash of their paths, and each temporary
file is reconciled separately. The results are memory-mapped files, so the operating system can free
their memory.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from bayou.kernel.arrow.compute import pc
from bayou.kernel.checkpoint.schema import REMOVE_TYPE
from bayou.kernel.log.action_reconciliation import ActionColumns, ReconciledFiles, reconcile
from bayou.kernel.log.file_action_keys import KEY_SEPARATOR, FileActionKeys
from bayou.kernel.log.widened_double_stats import ChangeToDouble
from bayou.kernel.scan.scan_file import ADD_TYPE

_PART_BYTES = 16 * 1024 * 1024
_MAX_PARTS = 128
_MAX_STRING_BYTES = 2**31 - 1

_FIELDS: list[Any] = [
    pa.field("commit", pa.int32()),
    pa.field("key", pa.string()),
    pa.field("add", ADD_TYPE),
    pa.field("remove", REMOVE_TYPE),
]
_SCHEMA = pa.schema(_FIELDS)


class SpilledStore:
    """Stores file actions in temporary files, which are deleted at the end of the `with` block.

    Args:
        size: approximate total size of the commits in bytes. It determines the number of temporary
            files.
    """

    def __init__(self, size: int) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="bayou-tail-"))
        self._count = min(_MAX_PARTS, size // _PART_BYTES + 1)
        self._writers: dict[int, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self._writers.values():
            writer.close()
        shutil.rmtree(self._folder, ignore_errors=True)  # mapped files stay valid

    def write(self, adds: ActionColumns | None, removes: ActionColumns | None) -> None:
        for name, actions in (("add", adds), ("remove", removes)):
            if actions is not None:
                self._write(name, actions)

    def _write(self, name: str, actions: ActionColumns) -> None:
        keys: list[Any] = actions.keys.to_pylist()
        parts = pa.array(
            [hash(key.partition(KEY_SEPARATOR)[0]) % self._count for key in keys], pa.int32()
        )
        columns = {"commit": actions.commits, "key": actions.keys, name: actions.files}
        batch = pa.RecordBatch.from_arrays(
            [columns.get(f.name, pa.nulls(len(keys), f.type)) for f in _FIELDS], schema=_SCHEMA
        ).take(pc.sort_indices(parts))
        start = 0
        for counted in sorted(pc.value_counts(parts).to_pylist(), key=lambda c: c["values"]):
            number, rows = counted["values"], counted["counts"]
            if number not in self._writers:
                path = str(self._folder / f"part-{number}")
                self._writers[number] = pa.ipc.new_stream(path, _SCHEMA)
            self._writers[number].write_batch(batch.slice(start, rows))
            start += rows

    def reconciled(self, change: ChangeToDouble | None) -> ReconciledFiles:
        """Reconcile all actions. The arrays of the result are unordered and memory-mapped."""
        adds = _Structs(self._folder / "adds", ADD_TYPE)
        removes = _Structs(self._folder / "removes", REMOVE_TYPE)
        paths, keys, exact_double_files = (
            _Strings(self._folder / name) for name in ("paths", "keys", "double")
        )
        for number in sorted(self._writers):
            self._writers.pop(number).close()
            part = self._folder / f"part-{number}"
            with pa.memory_map(str(part)) as source:
                actions = pa.ipc.open_stream(source).read_all()
                files = reconcile(_actions(actions, "add"), _actions(actions, "remove"), change)
            adds.write(*files.adds)
            removes.write(*files.removes)
            paths.write(files.seen_keys.paths)
            keys.write(files.seen_keys.keys)
            exact_double_files.write(files.exact_double_files)
            part.unlink()
        return ReconciledFiles(
            adds=adds.mapped(),
            removes=removes.mapped(),
            seen_keys=FileActionKeys(paths.mapped(), keys.mapped()),
            exact_double_files=exact_double_files.mapped(),
        )


def _actions(table: pa.Table, name: str) -> ActionColumns:
    rows: Any = table.filter(pc.is_valid(table.column(name))).combine_chunks()
    columns = (rows.column(n).combine_chunks() for n in ("commit", "key", name))
    return ActionColumns(*columns)


class _Structs:
    """A struct column that is written to a file in chunks and then memory-mapped."""

    def __init__(self, path: Path, kind: pa.StructType) -> None:
        self._path = str(path)
        self._kind = kind
        self._schema = pa.schema([pa.field("file", kind)])
        self._writer: Any = pa.ipc.new_file(self._path, self._schema)

    def write(self, structs: pa.StructArray) -> None:
        self._writer.write_batch(pa.RecordBatch.from_arrays([structs], schema=self._schema))

    def mapped(self) -> tuple[pa.StructArray, ...]:
        """Return the chunks as memory-mapped arrays; one empty array if there are no chunks."""
        self._writer.close()
        reader = pa.ipc.open_file(pa.memory_map(self._path))
        chunks: list[Any] = [
            reader.get_batch(number).column(0) for number in range(reader.num_record_batches)
        ]
        empty: Any = pa.array([], self._kind)
        return tuple(chunk for chunk in chunks if len(chunk)) or (empty,)


class _Strings:
    """A string column that is written to a file in chunks and then memory-mapped."""

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
            self._file.write(pc.binary_join(row.cast(pa.list_(pa.binary())), b"")[0].as_buffer())
            self._size = ends[-1].as_py()
            self._ends.append(ends)

    def mapped(self) -> pa.Array[Any]:
        self._file.close()
        offsets: Any = pa.concat_arrays(self._ends)
        if self._size == 0:
            return pa.array([], pa.string())
        data = pa.memory_map(str(self._path)).read_buffer()
        if self._size > _MAX_STRING_BYTES:
            return pa.LargeStringArray.from_buffers(len(offsets) - 1, offsets.buffers()[1], data)
        ends = offsets.cast(pa.int32()).buffers()[1]
        return pa.StringArray.from_buffers(len(offsets) - 1, ends, data)
