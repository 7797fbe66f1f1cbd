"""Which files of a table's folder nothing needs any more; nothing is deleted here.

*Full* compares a listing of the folder with the log. Hidden files and folders, whose names begin
with `.` or `_`, aren't the table's, but for change data (`_change_data`), indexes (`_delta_index`)
and partitions of columns with such a name. A folder with a log of its own is another table. *Lite*
takes what the commits since the last one removed, without a listing; what no commit ever named
stays. Hidden files and files of other tables stay, too: the log of a table may name them, as that
of a shallow clone does whose folder holds the source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute

from bayou.errors import FileMissingError, VersionNotFoundError
from bayou.kernel.commands.vacuum.orphan_files import (
    INVENTORY_SCHEMA,
    FoundFiles,
    ListingShare,
    inventory,
    list_share,
)
from bayou.kernel.commands.vacuum.referenced_files import KeptFiles, kept_files
from bayou.kernel.commands.vacuum.table_folder import HiddenNames, TableFolder
from bayou.kernel.engine import ByteRange, Engine
from bayou.kernel.log.commit_times import last_version_at_or_before
from bayou.kernel.log.replay import read_commits
from bayou.kernel.log.segment import commit_files, log_path
from bayou.kernel.log.table_state import TableState
from bayou.protocol.actions import Action, AddCDCFile, RemoveFile
from bayou.protocol.json_decoding import decode_json

__all__ = ["ListShares", "VacuumPlan", "plan_full", "plan_lite", "record_lite"]

pc: Any = pyarrow.compute

ListShares: TypeAlias = Callable[[ListingShare, KeptFiles], Iterable[FoundFiles]]
"""Has a listing's shares (`ListingShare.split`) run by `list_share`, anywhere; or has somebody
else's listing looked through (`look_through`)."""

_LAST_VACUUM = "_last_vacuum_info"
_REQUESTS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumPlan:
    """What a vacuum would delete.

    Attributes:
        files: `listing_sieve.INVENTORY_SCHEMA`.
        folders: those with nothing in them, deepest first.
        folders_seen: how many folders the table has, its own included; 1 where none were listed.
        last_version: of lite, the newest version whose removes are among the files.
    """

    files: pa.Table
    folders: tuple[str, ...] = ()
    folders_seen: int = 1
    last_version: int | None = None

    @property
    def size(self) -> int:
        """Bytes of all files."""
        total: Any = pc.sum(self.files.column("size"))
        return total.as_py() or 0


def plan_full(
    engine: Engine,
    state: TableState,
    before: int,
    list_shares: ListShares | None = None,
    *,
    lists_everything: bool = True,
) -> VacuumPlan:
    """Compare the table's folder with the log.

    Memory is bounded by the hashes of the kept files, and what is to be deleted.

    Args:
        before: ms since the epoch; files changed then or later stay, and files of tombstones
            since then.
        list_shares: lists the folder in other processes; None: this one does.
        lists_everything: whether the listing shows the logs of other tables. If it may lack some,
            the store is asked for them.

    Raises:
        CorruptTableError: the log can't be read.
        StorageError: the store failed.
    """
    kept = kept_files(engine, state, before, travels=list_shares is not None)
    whole = ListingShare.whole(state, before)
    if list_shares is None:
        found = list_share(engine, whole, kept)
    else:
        found = FoundFiles.combined(list_shares(whole, kept))
    files = TableFolder(engine, state.path).own_files(found.own_files())
    return VacuumPlan(
        files=files if lists_everything else _outside_other_tables(engine, state, files),
        folders=tuple(found.empty_folders()),
        folders_seen=len(found.folders) + 1,
    )


def plan_lite(engine: Engine, state: TableState, before: int) -> VacuumPlan:
    """Take from the commits what they removed before a time.

    Raises:
        VersionNotFoundError: commits that no lite vacuum has seen are gone from the log.
        CorruptTableError: the log can't be read.
        StorageError: the store failed.
    """
    table = state.path
    end = last_version_at_or_before(engine, state, before)
    seen = _last_vacuum(engine, table)
    if end is None:
        return VacuumPlan(files=inventory(()))
    files = [(v, f) for v, f in commit_files(engine, table, catalog=state.catalog) if v <= end]
    if files and files[0][0] > 0 and (seen is None or seen + 1 < files[0][0]):
        raise VersionNotFoundError(
            f"{table} can't be vacuumed from its log alone (lite): the log begins at version "
            f"{files[0][0]}, and what older commits removed isn't known "
            "(DELTA_CANNOT_VACUUM_LITE). Run a full vacuum.",
            table=table,
            earliest=files[0][0],
        )
    start = 0 if seen is None else seen + 1
    kept = kept_files(engine, state, before)
    unneeded: dict[str, tuple[int, int]] = {}
    folder = TableFolder(engine, table)
    for commit in read_commits(engine, table, [(v, f) for v, f in files if v >= start]):
        for path, size, time in _removed(folder, commit.actions):
            if time < before:
                unneeded[path] = (size, time)
    paths = list(unneeded)
    needed: list[Any] = kept.hold(paths).to_pylist()
    found = folder.own_files(
        inventory(
            (f"{table}/{path}", *unneeded[path])
            for path, keep in zip(paths, needed, strict=True)
            if not keep
        )
    )
    return VacuumPlan(files=_outside_other_tables(engine, state, found), last_version=end)


def _outside_other_tables(engine: Engine, state: TableState, files: pa.Table) -> pa.Table:
    """The files that a complete listing would give: neither hidden nor another table's."""
    names = HiddenNames.of(state)
    ends = pc.split_pattern(files.column("path").combine_chunks(), "/", max_splits=1, reverse=True)
    folders = pc.list_element(ends, 0).dictionary_encode() if len(ends) else None
    if folders is None:
        return INVENTORY_SCHEMA.empty_table()
    found: list[str] = folders.dictionary.to_pylist()
    below = {folder for path in found for folder in _folders_below(state.path, path)}
    shown = sorted(f for f in below if not names.hide_folder(f.rpartition("/")[2]))
    with ThreadPoolExecutor(_REQUESTS, thread_name_prefix="bayou-vacuum") as pool:
        nested = pool.map(lambda folder: _has_log(engine, folder), shown)
        own = {f for f, other in zip(shown, nested, strict=True) if not other}
    is_own = pa.array([own.issuperset(_folders_below(state.path, f)) for f in found], pa.bool_())
    hidden = names.hide_files(pc.list_element(ends, 1))
    return files.filter(pc.and_not(is_own.take(folders.indices), hidden))


def _folders_below(table: str, folder: str) -> Iterator[str]:
    """A folder and those above it, up to the table's, which is left out."""
    while len(folder) > len(table):
        yield folder
        folder = folder.rpartition("/")[0]


def _has_log(engine: Engine, folder: str) -> bool:
    begin = f"{log_path(folder)}/"
    try:
        with engine.files.list_from(begin) as files:
            first = next(iter(files), None)
    except FileMissingError:
        return False
    return first is not None and first.path.startswith(begin)


class _LastVacuum(msgspec.Struct, rename="camel"):
    latest_commit_version_outside_of_retention_window: int | None = None


def record_lite(engine: Engine, table: str, version: int) -> None:
    """Note up to which version removes were vacuumed, where delta-spark's lite vacuum looks too."""
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
    """(path relative to the table, size, time) of what a commit's actions leave to nobody."""
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
