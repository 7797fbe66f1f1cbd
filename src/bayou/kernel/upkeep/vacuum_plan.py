"""Which files of a table's folder nothing needs any more; nothing is deleted here.

*Full* compares a listing of the folder with the log. Hidden files and folders, whose names begin
with `.` or `_`, aren't the table's, but for change data (`_change_data`), indexes (`_delta_index`)
and partitions of columns with such a name. A folder with a log of its own is another table. *Lite*
takes what the commits since the last one removed, without a listing; what no commit ever named
stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute

from bayou.errors import FileMissingError, VersionNotFoundError
from bayou.kernel.column_mapping import physical_name
from bayou.kernel.commit_times import last_version_at_or_before
from bayou.kernel.engine import UNFINISHED, ByteRange, Engine, FileStatus
from bayou.kernel.log_segment import commit_files, log_path
from bayou.kernel.replay import read_commits
from bayou.kernel.table_state import TableState
from bayou.kernel.upkeep.kept_files import kept_files, relative_path, vector_file
from bayou.protocol.actions import Action, AddCDCFile, RemoveFile
from bayou.protocol.file_names import LOG_DIRECTORY, escape_partition_value

__all__ = ["INVENTORY_SCHEMA", "VacuumPlan", "plan_full", "plan_lite", "record_lite"]

pc: Any = pyarrow.compute

_INVENTORY_FIELDS: list[pa.Field[Any]] = [
    pa.field("path", pa.string()),
    pa.field("size", pa.int64()),
    pa.field("modification_time", pa.int64()),
]
INVENTORY_SCHEMA = pa.schema(_INVENTORY_FIELDS)
"""Decoded, fully qualified path; bytes; ms since the epoch (of lite: when it was removed)."""

_BATCH = 8192
_NEVER_HIDDEN = ("_delta_index", "_change_data")
_LAST_VACUUM = "_last_vacuum_info"


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumPlan:
    """What a vacuum would delete.

    Attributes:
        files: `INVENTORY_SCHEMA`.
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


def plan_full(engine: Engine, state: TableState, before: int) -> VacuumPlan:
    """Compare the table's folder with the log.

    Memory is bounded by the hashes of the kept files, and what is to be deleted.

    Args:
        before: ms since the epoch; files changed then or later stay, and files of tombstones
            since then.

    Raises:
        CorruptTableError: the log can't be read.
        StorageError: the store failed.
    """
    kept = kept_files(engine, state, before)
    walk = _Walk(state)
    unneeded: list[FileStatus] = []
    with engine.files.list_tree(state.path, walk.skips) as found:
        files = walk.files(found)
        while some := list(islice(files, _BATCH)):
            needed = kept.hold([path for path, _ in some])
            unneeded += [
                status
                for (_, status), keep in zip(some, needed, strict=True)
                if not keep and status.modification_time < before
            ]
    nested = walk.nested_tables
    if nested:
        unneeded = [s for s in unneeded if not _is_below(s.path, nested)]
    return VacuumPlan(
        files=_inventory((s.path, s.size, s.modification_time) for s in unneeded),
        folders=tuple(f for f in walk.empty_folders() if not _is_below(f, nested)),
        folders_seen=walk.folders_seen,
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
        return VacuumPlan(files=_inventory(()))
    files = [(v, f) for v, f in commit_files(engine, table, catalog=state.catalog) if v <= end]
    if files and files[0][0] > 0 and (seen is None or seen + 1 < files[0][0]):
        raise VersionNotFoundError(
            f"{table} can't be vacuumed from its log alone (lite): the log begins at version "
            f"{files[0][0]}, and what older commits removed isn't known. Run a full vacuum.",
            table=table,
            earliest=files[0][0],
        )
    start = 0 if seen is None else seen + 1
    kept = kept_files(engine, state, before)
    unneeded: dict[str, tuple[int, int]] = {}
    for commit in read_commits(engine, table, [(v, f) for v, f in files if v >= start]):
        for path, size, time in _removed(engine, table, commit.actions):
            if time < before:
                unneeded[path] = (size, time)
    paths = list(unneeded)
    needed = kept.hold(paths)
    return VacuumPlan(
        files=_inventory(
            (f"{table}/{path}", *unneeded[path])
            for path, keep in zip(paths, needed, strict=True)
            if not keep
        ),
        last_version=end,
    )


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
        info = msgspec.json.decode(bytes(data), type=_LastVacuum)
    except (FileMissingError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return info.latest_commit_version_outside_of_retention_window


def _removed(
    engine: Engine, table: str, actions: Sequence[Action]
) -> Iterator[tuple[str, int, int]]:
    """(path relative to the table, size, time) of what a commit's actions leave to nobody."""
    for action in actions:
        match action:
            case RemoveFile():
                time = action.deletion_timestamp or 0
                path = relative_path(engine, table, action.path)
                if path is not None:
                    yield path, action.size or 0, time
                vector = action.deletion_vector
                if vector is not None:
                    path = vector_file(engine, table, vector.storage_type, vector.path_or_inline_dv)
                    if path is not None:
                        yield path, vector.size_in_bytes, time
            case AddCDCFile():
                path = relative_path(engine, table, action.path)
                if path is not None:
                    yield path, action.size, 0
            case _:
                pass


class _Walk:
    """What a listing of the table's folder shows, besides its files."""

    def __init__(self, state: TableState) -> None:
        self._root = state.path
        self._prefixes = tuple(
            f"{escape_partition_value(name)}="
            for field in state.schema
            if field.name in state.partition_columns
            for name in (field.name, physical_name(field))
        )
        formats = state.properties.get("delta.universalFormat.enabledFormats", "")
        self._iceberg = "iceberg" in formats.lower()
        self._folders: set[str] = set()
        self._holding: set[str] = set()  # folders with something in them
        self._nested: set[str] = set()

    @property
    def nested_tables(self) -> tuple[str, ...]:
        """Folders below with a log of their own."""
        return tuple(self._nested)

    @property
    def folders_seen(self) -> int:
        """Folders, the table's own included."""
        return len(self._folders) + 1

    def skips(self, folder: str) -> bool:
        """Whether a folder isn't the table's; see `FileSystemClient.list_tree`."""
        above, _, name = folder.rpartition("/")
        self._holding.add(above)
        if name == LOG_DIRECTORY and above != self._root:
            self._nested.add(above)
        return self._is_hidden(name) or (self._iceberg and name == "metadata")

    def files(self, found: Iterable[FileStatus]) -> Iterator[tuple[str, FileStatus]]:
        """Files that aren't hidden, and unfinished ones, with their paths relative to the table."""
        begin = len(self._root) + 1
        for status in found:
            path = status.path
            if path.endswith("/"):
                self._folders.add(path[:-1])
                continue
            above, _, name = path.rpartition("/")
            self._holding.add(above)
            if not self._is_hidden(name) or UNFINISHED.fullmatch(name):
                yield path[begin:], status

    def empty_folders(self) -> list[str]:
        """Folders with nothing in them, deepest first."""
        return sorted(self._folders - self._holding, key=lambda f: f.count("/"), reverse=True)

    def _is_hidden(self, name: str) -> bool:
        return (
            name.startswith((".", "_"))
            and not name.startswith(_NEVER_HIDDEN)
            and not (self._prefixes and name.startswith(self._prefixes))
        )


def _is_below(path: str, folders: Sequence[str]) -> bool:
    return any(path.startswith(f"{folder}/") or path == folder for folder in folders)


def _inventory(files: Iterable[tuple[str, int, int]]) -> pa.Table:
    rows = list(files)
    columns = [pa.array([row[i] for row in rows], f.type) for i, f in enumerate(INVENTORY_SCHEMA)]
    return pa.Table.from_arrays(columns, schema=INVENTORY_SCHEMA)
