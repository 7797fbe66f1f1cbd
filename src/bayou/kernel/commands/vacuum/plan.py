"""Plans of VACUUM: the unreferenced files of a table's folder.

A *full* plan compares a listing of the folder with the log. Files and folders whose names begin
with `.` or `_` are ignored, except for change data (`_change_data`), indexes (`_delta_index`) and
partition folders. A folder with its own log is another table and is ignored, too.

A *lite* plan needs no listing: it contains the files that commits removed since the last lite
vacuum. Removed files that are hidden or belong to another table aren't part of the plan. For
example, a shallow clone can remove files of a source table that is inside the clone's folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

from bayou.errors import FileMissingError, VersionNotFoundError
from bayou.json_decoding import decode_json
from bayou.kernel.arrow.arrays import to_array
from bayou.kernel.arrow.compute import pc
from bayou.kernel.commands.vacuum.orphan_files import (
    INVENTORY_SCHEMA,
    ListingRange,
    ListingResult,
    inventory,
    list_range,
)
from bayou.kernel.commands.vacuum.referenced_files import ReferencedFiles, referenced_files
from bayou.kernel.commands.vacuum.table_folder import HiddenNames, TableFolder
from bayou.kernel.engine import ByteRange, Engine
from bayou.kernel.log.commit_times import last_version_at_or_before
from bayou.kernel.log.replay import read_commits
from bayou.kernel.log.segment import commit_files, log_path
from bayou.kernel.log.table_state import TableState
from bayou.protocol.actions import Action, AddCDCFile, RemoveFile

ListRanges: TypeAlias = Callable[[ListingRange, ReferencedFiles], Iterable[ListingResult]]
"""Function that lists the table's folder in other processes, and returns the unreferenced files.

The function divides the range with `ListingRange.split`, and runs `list_range` for each part. If
there is an inventory of the object store, the function runs `filter_inventory` instead.
"""

_LAST_VACUUM = "_last_vacuum_info"
_REQUESTS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumPlan:
    """Files and folders that a vacuum deletes.

    Attributes:
        files: unreferenced files, in `INVENTORY_SCHEMA`.
        folders: empty folders, deepest first.
        num_folders: number of the listed folders, including the root; 1 for a lite plan.
        last_version: newest version that a lite plan covers; None for a full plan.
    """

    files: pa.Table
    folders: tuple[str, ...] = ()
    num_folders: int = 1
    last_version: int | None = None

    @property
    def size(self) -> int:
        total: Any = pc.sum(self.files.column("size"))
        return total.as_py() or 0


def plan_full(
    engine: Engine,
    state: TableState,
    before: int,
    list_ranges: ListRanges | None = None,
    *,
    lists_logs: bool = True,
) -> VacuumPlan:
    """Plan a full vacuum: find the unreferenced files in a listing of the table's folder.

    Memory holds a hash of each referenced file, and the list of the unreferenced files.

    Args:
        before: cutoff in milliseconds since the epoch; files modified or removed at or after it
            are retained.
        list_ranges: function that lists the folder in other processes. If None, this process lists
            it.
        lists_logs: whether the result of `list_ranges` includes the logs of other tables in the
            folder. If False, `plan_full` checks the folders of the unreferenced files for a log.
    """
    referenced = referenced_files(engine, state, before, stable_hash=list_ranges is not None)
    whole = ListingRange.whole(state, before)
    if list_ranges is None:
        listing = list_range(engine, whole, referenced)
    else:
        listing = ListingResult.combined(list_ranges(whole, referenced))
    files = TableFolder(engine, state.path).own_files(listing.own_files())
    return VacuumPlan(
        files=files if lists_logs else _outside_other_tables(engine, state, files),
        folders=tuple(listing.empty_folders()),
        num_folders=len(listing.folders) + 1,
    )


def plan_lite(engine: Engine, state: TableState, before: int) -> VacuumPlan:
    """Plan the deletion of the files that commits removed before a time.

    Args:
        before: the time in milliseconds since the epoch.
    """
    table = state.path
    end = last_version_at_or_before(engine, state, before)
    last = _last_vacuum(engine, table)
    if end is None:
        return VacuumPlan(files=inventory(()))
    files = [(v, f) for v, f in commit_files(engine, table, catalog=state.catalog) if v <= end]
    if files and files[0][0] > 0 and (last is None or last + 1 < files[0][0]):
        raise VersionNotFoundError(
            f"{table}: a lite vacuum isn't possible (DELTA_CANNOT_VACUUM_LITE). The log begins at "
            f"version {files[0][0]}, and the files that older commits removed are unknown. Run a "
            "full vacuum.",
            table=table,
            earliest=files[0][0],
        )
    start = 0 if last is None else last + 1
    referenced = referenced_files(engine, state, before)
    removed: dict[str, tuple[int, int]] = {}
    last_version = end
    folder = TableFolder(engine, table)
    for commit in read_commits(engine, table, [(v, f) for v, f in files if v >= start]):
        for path, size, time in _removed(folder, commit.actions):
            if time < before:
                removed[path] = (size, time)
            else:  # the clock of the writer was ahead of the storage's clock
                last_version = min(last_version, commit.version - 1)
    paths = list(removed)
    is_referenced: list[Any] = referenced.contains(paths).to_pylist()
    unreferenced = folder.own_files(
        inventory(
            (f"{table}/{path}", *removed[path])
            for path, keep in zip(paths, is_referenced, strict=True)
            if not keep
        )
    )
    files_to_delete = _outside_other_tables(engine, state, unreferenced)
    return VacuumPlan(files=files_to_delete, last_version=last_version)


def _outside_other_tables(engine: Engine, state: TableState, files: pa.Table) -> pa.Table:
    """Remove hidden files, and files in the folder of another table."""
    names = HiddenNames.of(state)
    ends = pc.split_pattern(files.column("path").combine_chunks(), "/", max_splits=1, reverse=True)
    folders = pc.list_element(ends, 0).dictionary_encode() if len(ends) else None
    if folders is None:
        return pa.Table.from_batches([], INVENTORY_SCHEMA)
    paths: list[str] = folders.dictionary.to_pylist()
    below = {folder for path in paths for folder in _folders_below(state.path, path)}
    visible = sorted(f for f in below if not names.hide_folder(f.rpartition("/")[2]))
    with ThreadPoolExecutor(_REQUESTS, thread_name_prefix="bayou-vacuum") as pool:
        nested = pool.map(lambda folder: _has_log(engine, folder), visible)
        own = {f for f, is_nested in zip(visible, nested, strict=True) if not is_nested}
    is_own = to_array([own.issuperset(_folders_below(state.path, f)) for f in paths], pa.bool_())
    hidden = names.hide_files(pc.list_element(ends, 1))
    return files.filter(pc.and_not(is_own.take(folders.indices), hidden))


def _folders_below(table: str, folder: str) -> Iterator[str]:
    """Yield a folder and its parent folders, up to the table's folder (excluded)."""
    while len(folder) > len(table):
        yield folder
        folder = folder.rpartition("/")[0]


def _has_log(engine: Engine, folder: str) -> bool:
    prefix = f"{log_path(folder)}/"
    try:
        with engine.files.list_from(prefix) as files:
            first = next(iter(files), None)
    except FileMissingError:
        return False
    return first is not None and first.path.startswith(prefix)


class _LastVacuum(msgspec.Struct, rename="camel"):
    latest_commit_version_outside_of_retention_window: int | None = None


def record_lite(engine: Engine, table: str, version: int) -> None:
    """Write `_last_vacuum_info`, which the next lite vacuum of Bayou or delta-spark reads.

    Args:
        version: newest version that this vacuum covers. The next lite vacuum begins with the
            following version.
    """
    info = _LastVacuum(latest_commit_version_outside_of_retention_window=version)
    engine.files.put(f"{log_path(table)}/{_LAST_VACUUM}", msgspec.json.encode(info))


def _last_vacuum(engine: Engine, table: str) -> int | None:
    path = f"{log_path(table)}/{_LAST_VACUUM}"
    try:
        data = next(iter(engine.files.read_files([ByteRange(path=path)])))
        info = decode_json(bytes(data), _LastVacuum)
    except (FileMissingError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return info.latest_commit_version_outside_of_retention_window


def _removed(folder: TableFolder, actions: Sequence[Action]) -> Iterator[tuple[str, int, int]]:
    """Yield (relative path, size, removal time) of the files that a commit's actions remove."""
    for action in actions:
        match action:
            case RemoveFile():
                time = action.deletion_timestamp or 0
                path = folder.relative_path(action.path)
                if path is not None:
                    yield path, action.size or 0, time
                vector = action.deletion_vector
                if vector is not None:
                    path = folder.vector_path(vector.storage_type, vector.path_or_inline_dv)
                    if path is not None:
                        yield path, vector.size_in_bytes, time
            case AddCDCFile():
                path = folder.relative_path(action.path)
                if path is not None:
                    yield path, action.size, 0
            case _:
                pass
