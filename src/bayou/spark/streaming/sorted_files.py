"""The initial snapshot's files in their order, in memory or, where they are many, on disk."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.kernel.scan.scan_file import ADD_TYPE
from bayou.spark.streaming.external_sort import BATCH_ROWS, evened, sorted_batches

__all__ = ["DEFAULT_SORT_MEMORY", "SortedFiles"]

pc: Any = pyarrow.compute

DEFAULT_SORT_MEMORY = 64 * 1024 * 1024

_TOTALS = "totals.json"

_KEYS = ("time", "order")
_FIELDS: list[pa.Field[Any]] = [
    pa.field("time", pa.int64()),
    pa.field("order", pa.string()),
    *ADD_TYPE,  # one by one: a struct takes three times as long to put in order
]
_SCHEMA = pa.schema(_FIELDS)


class SortedFiles:
    """Files sorted by (modification time, path), each with its place from 0 on.

    `build` sorts with bounded memory. What doesn't fit stays in a file of the local disk, from
    which ranges are read as they are asked for; `close` deletes it.
    """

    def __init__(
        self,
        *,
        count: int,
        size: int,
        batches: list[pa.RecordBatch],
        folder: Path | None,
    ) -> None:
        self.count = count
        self.size = size
        self._batches = batches
        self._folder = folder
        self._reader: Any = None

    @classmethod
    def build(
        cls, files: Iterable[tuple[pa.StructArray, pa.Array[Any]]], memory: int | None = None
    ) -> SortedFiles:
        """Sort files.

        Args:
            files: `ADD_TYPE`, and the text that orders files of one time, one for each.
            memory: about how many bytes of them may be held, `DEFAULT_SORT_MEMORY` if None.
        """
        limit = memory or DEFAULT_SORT_MEMORY
        folder = Path(tempfile.mkdtemp(prefix="bayou-stream-", dir=_local_folder()))
        count = size = held = 0
        kept: list[pa.RecordBatch] = []
        writer: Any = None
        try:
            for batch in sorted_batches((_keyed(*f) for f in files), _KEYS, folder, limit):
                count += len(batch)
                size += pc.sum(batch.column("size")).as_py() or 0
                if writer is None:
                    kept.append(batch)
                    held += batch.nbytes
                    if held > limit:
                        writer = pa.ipc.new_file(str(_index(folder)), _SCHEMA)
                        for earlier in kept:
                            writer.write_batch(earlier)
                        kept = []
                else:
                    writer.write_batch(batch)
            if writer is not None:
                writer.close()
                return cls(count=count, size=size, batches=[], folder=folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        shutil.rmtree(folder, ignore_errors=True)
        return cls(count=count, size=size, batches=kept, folder=None)

    @classmethod
    def open(cls, folder: Path) -> SortedFiles | None:
        """What another process has written to a folder by `write`; None where it hasn't (yet).

        From then on the folder is this object's: `close` deletes it.
        """
        try:
            totals = json.loads((folder / _TOTALS).read_text())
        except OSError:
            return None
        found = cls(count=totals["count"], size=totals["size"], batches=[], folder=folder)
        found._open()  # another stream of the same folder may delete it
        return found

    @staticmethod
    def write(files: Iterable[tuple[pa.StructArray, pa.Array[Any]]], folder: Path) -> None:
        """Write files that come in order to a folder, for `open`; a batch of them is held.

        Args:
            files: see `build`.
        """
        count = size = 0
        with pa.ipc.new_file(str(_index(folder)), _SCHEMA) as writer:
            for batch in evened(_keyed(*f) for f in files):
                count += len(batch)
                size += pc.sum(batch.column("size")).as_py() or 0
                writer.write_batch(batch)
        unfinished = folder / f"{_TOTALS}.part"
        unfinished.write_text(json.dumps({"count": count, "size": size}))
        unfinished.rename(folder / _TOTALS)

    @property
    def is_there(self) -> bool:
        """Whether the files can still be read; someone may have cleaned up the disk."""
        return self._folder is None or self._reader is not None or _index(self._folder).exists()

    def adds(self, start: int, end: int | None = None) -> Iterator[pa.StructArray]:
        """The files from one place to before another, `ADD_TYPE`, in pieces."""
        end = self.count if end is None else min(end, self.count)
        place = start
        while place < end:
            number, offset = divmod(place, BATCH_ROWS)
            batch = self._batch(number).slice(offset, end - place)
            yield pa.StructArray.from_arrays(batch.columns[2:], fields=list(ADD_TYPE))
            place += len(batch)

    def sizes(self, start: int) -> Iterator[pa.Array[Any]]:
        """The files' sizes from a place on, in pieces."""
        place = start
        while place < self.count:
            number, offset = divmod(place, BATCH_ROWS)
            sizes = self._batch(number).column("size").slice(offset)
            yield sizes
            place += len(sizes)

    def close(self) -> None:
        """Delete what is on disk."""
        self._reader = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _batch(self, number: int) -> pa.RecordBatch:
        if self._folder is None:
            return self._batches[number]
        if self._reader is None:
            self._open()
        batch: pa.RecordBatch = self._reader.get_batch(number)
        return batch

    def _open(self) -> None:
        assert self._folder is not None  # batches in memory need no reader
        self._reader = pa.ipc.open_file(pa.memory_map(str(_index(self._folder))))


def _keyed(adds: pa.StructArray, order: pa.Array[Any]) -> pa.RecordBatch:
    times = pc.fill_null(pc.struct_field(adds, "modificationTime"), 0)
    fields = [pc.struct_field(adds, field.name) for field in ADD_TYPE]
    return pa.RecordBatch.from_arrays([times, order, *fields], schema=_SCHEMA)


def _index(folder: Path) -> Path:
    return folder / "sorted.arrow"


def _local_folder() -> str | None:
    """Where Spark has its own temporary files, which it cleans up after a crash."""
    folders = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
    usable = [f for f in folders if f and os.path.isdir(f) and os.access(f, os.W_OK)]
    return usable[0] if usable else None
