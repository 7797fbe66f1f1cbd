"""The live files of a table version, and comparison with the live files of another version."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bayou.errors import DataFileError, FileMissingError
from bayou.kernel.arrow.closeable import CloseableIterator
from bayou.kernel.arrow.compute import pc
from bayou.kernel.engine import Engine
from bayou.kernel.expressions.model import Predicate
from bayou.kernel.log.file_action_keys import key_strings
from bayou.kernel.log.table_state import TableState
from bayou.kernel.scan.scan import ScanBuilder
from bayou.kernel.scan.scan_file import ScanFile, ScanFileBatch, vector_file_path

_REQUESTS = 16
_MAX_LISTED = 10
"""Maximum number of missing files in an error message."""


@dataclass(slots=True)
class FileCounts:
    """Number of files, and their total size in bytes."""

    files: int = 0
    size: int = 0


def live_files(
    engine: Engine,
    state: TableState,
    predicate: Predicate | None = None,
    *,
    time_zone: str = "UTC",
) -> CloseableIterator[ScanFile]:
    """Return the live files of a version with their whole `add` actions.

    Args:
        predicate: resolved condition on partition columns that selects files.
        time_zone: time zone of timestamp partition values that are stored without a time zone.
    """
    builder = ScanBuilder(state).with_filter(predicate).with_time_zone(time_zone)
    scan = builder.with_whole_adds().build()
    return scan.scan_files(engine).flat_map(lambda batch: batch.rows())


def file_keys(engine: Engine, state: TableState) -> pa.Array[Any]:
    """Return the log-replay key (path and deletion vector id) of each live file of a version."""
    keys: list[pa.Array[Any]] = [pa.array([], pa.string())]
    with ScanBuilder(state).build().scan_files(engine) as batches:
        keys += [key_strings(add_structs(batch)) for batch in batches]
    return pa.concat_arrays(keys)


def files_without_keys(
    engine: Engine, state: TableState, keys: pa.Array[Any], counts: FileCounts | None = None
) -> Iterator[ScanFile]:
    """Yield the live files whose log-replay keys aren't in `keys`.

    Args:
        keys: log-replay keys, as `file_keys` returns them.
        counts: object to which the number and the size of all live files are added, including
            files whose log-replay keys are in `keys`.
    """
    with ScanBuilder(state).with_whole_adds().build().scan_files(engine) as batches:
        for batch in batches:
            adds = add_structs(batch)
            if counts is not None:
                counts.files += len(adds)
                counts.size += pc.sum(pc.struct_field(adds, "size")).as_py() or 0
            selection = pc.invert(pc.is_in(key_strings(adds), value_set=keys))
            yield from ScanFileBatch(batch.selected(), selection).rows()


def add_structs(batch: ScanFileBatch) -> pa.StructArray:
    """Return the selected `add` actions of a batch."""
    adds: Any = batch.selected().column("add")
    assert isinstance(adds, pa.StructArray)
    return adds


def check_files_exist(
    engine: Engine, target: TableState, files: Sequence[ScanFile], purpose: str
) -> None:
    """Check that the data files and deletion vector files of a version exist.

    Args:
        purpose: participle for the error message: `restored` or `cloned`.

    Raises:
        DataFileError: a file is missing.
    """
    paths = list(dict.fromkeys(path for file in files for path in _paths(file)))

    def is_missing(path: str) -> bool:
        try:
            engine.files.status(path)
        except FileMissingError:
            return True
        return False

    with ThreadPoolExecutor(_REQUESTS, thread_name_prefix="bayou-status") as pool:
        flags = pool.map(is_missing, paths)
        missing = [path for path, flag in zip(paths, flags, strict=True) if flag]
    if missing:
        more = f" and {len(missing) - _MAX_LISTED} more" if len(missing) > _MAX_LISTED else ""
        raise DataFileError(
            f"{target.path}: version {target.version} can't be {purpose}, because {len(missing)} "
            f"of its files are missing: {', '.join(missing[:_MAX_LISTED])}{more}. "
            f"{_HINTS[purpose]}",
            table=target.path,
            file=missing[0],
        )


_HINTS = {
    "restored": "Restore a later version, restore the files, or set ignore_missing_files (reading "
    "those files will fail).",
    "cloned": "Clone a later version, or restore the files.",
}


def _paths(file: ScanFile) -> Iterator[str]:
    yield file.status.path
    vector = file.deletion_vector
    path = None if vector is None else vector_file_path(file.table_root, vector)
    if path is not None:
        yield path
