"""Listing of a table's folder, and comparison with the referenced files.

Memory holds only the unreferenced files and one batch of files to compare. Any process can list a
range of paths (`ListingRange`) and compare it with the hashes of the referenced files. An inventory
of the object store can replace the listing (`filter_inventory`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from typing import Any, Self

import pyarrow as pa

from bayou.kernel.arrow.arrays import to_array, to_scalar
from bayou.kernel.arrow.compute import pc
from bayou.kernel.commands.vacuum.referenced_files import ReferencedFiles
from bayou.kernel.commands.vacuum.table_folder import HiddenNames
from bayou.kernel.engine import Engine, FileStatus
from bayou.kernel.log.table_state import TableState
from bayou.protocol.file_names import LOG_DIRECTORY

_INVENTORY_FIELDS: list[pa.Field[Any]] = [
    pa.field("path", pa.string()),
    pa.field("size", pa.int64()),
    pa.field("modification_time", pa.int64()),
]
INVENTORY_SCHEMA = pa.schema(_INVENTORY_FIELDS)
"""Columns of a list of files.

- `path`: fully qualified path, not URL-encoded.
- `size`: size in bytes.
- `modification_time`: modification time in ms since the epoch. A lite vacuum doesn't list files, so
  it uses the time when a commit removed the file.
"""

LISTING_SCHEMA = INVENTORY_SCHEMA.append(pa.field("is_folder", pa.bool_()))
"""`INVENTORY_SCHEMA` with a column for folders, whose paths have no trailing slash."""

_FIRST, _SECOND = to_scalar(0, pa.int64()), to_scalar(1, pa.int64())
"""Indexes for `pc.list_element`, as scalars: with Python numbers, pyarrow would import pandas."""

_MIN_COMPARED = 65_536
_COMPARED_FRACTION = 8


def inventory(files: Iterable[tuple[str, int, int]]) -> pa.Table:
    """Build a table of `INVENTORY_SCHEMA` from (path, size, modification time) of files."""
    rows = list(files)
    columns = [to_array([row[i] for row in rows], f.type) for i, f in enumerate(INVENTORY_SCHEMA)]
    return pa.Table.from_arrays(columns, schema=INVENTORY_SCHEMA)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingResult:
    """Result of a listing; can be pickled.

    Attributes:
        files: unreferenced files, in `INVENTORY_SCHEMA`.
        folders: listed folders, without the table's root folder.
        non_empty_folders: folders that contain a listed file or folder.
        other_tables: folders that contain the log of another table.
    """

    files: pa.Table = field(default_factory=lambda: pa.Table.from_batches([], INVENTORY_SCHEMA))
    folders: frozenset[str] = frozenset()
    non_empty_folders: frozenset[str] = frozenset()
    other_tables: frozenset[str] = frozenset()

    @classmethod
    def combined(cls, results: Iterable[ListingResult]) -> ListingResult:
        all_results = [cls(), *results]
        return cls(
            files=pa.concat_tables([result.files for result in all_results]),
            folders=frozenset().union(*(result.folders for result in all_results)),
            non_empty_folders=frozenset().union(
                *(result.non_empty_folders for result in all_results)
            ),
            other_tables=frozenset().union(*(result.other_tables for result in all_results)),
        )

    def own_files(self) -> pa.Table:
        """Return the files that don't belong to another table."""
        if not self.other_tables:
            return self.files
        parents_and_names = _split_names(self.files.column("path").combine_chunks())
        folders = pc.list_element(parents_and_names, _FIRST).dictionary_encode()
        parents: list[Any] = folders.dictionary.to_pylist()
        own: Any = to_array([not self._is_in_other_table(folder) for folder in parents], pa.bool_())
        return self.files.filter(own.take(folders.indices))

    def empty_folders(self) -> list[str]:
        """Return the empty folders that don't belong to another table, deepest first."""
        empty = (f for f in self.folders - self.non_empty_folders if not self._is_in_other_table(f))
        return sorted(empty, key=lambda f: f.count("/"), reverse=True)

    def _is_in_other_table(self, folder: str) -> bool:
        while folder:
            if folder in self.other_tables:
                return True
            folder = folder.rpartition("/")[0]
        return False


class ListingFilter:
    """Finds the unreferenced files in a listing. Batches can be added in any order.

    Args:
        root: the table's path.
        before: cutoff in milliseconds since the epoch; files modified at or after it are retained.
    """

    def __init__(
        self, root: str, names: HiddenNames, before: int, referenced: ReferencedFiles
    ) -> None:
        self._root = root
        self._names = names
        self._before = before
        self._referenced = referenced
        self._own = {root: True}
        self._folders: set[str] = set()
        self._non_empty_folders: set[str] = set()
        self._other_tables: set[str] = set()
        self._candidates: list[pa.RecordBatch] = []
        self._rows = 0
        # Many files are compared at once, because each comparison builds a hash table of all
        # referenced files.
        self._max_candidates = max(_MIN_COMPARED, len(referenced) // _COMPARED_FRACTION)
        self._unreferenced: list[pa.Table] = []

    def skips(self, folder: str) -> bool:
        """Whether the listing skips a folder; True if the folder can't have files of the table."""
        self._non_empty_folders.add(folder.rpartition("/")[0])
        return not self._is_own(folder)

    def add(self, listed: pa.RecordBatch) -> None:
        """Add a batch of files and folders below the root, in `LISTING_SCHEMA`."""
        is_folder: Any = listed.column("is_folder")
        if pc.any(is_folder).as_py():
            self._add_folders(listed.filter(is_folder).column("path"))
            listed = listed.filter(pc.invert(is_folder))
        if not listed.num_rows:
            return
        parts = _split_names(listed.column("path"))
        folders = pc.list_element(parts, _FIRST).dictionary_encode()
        parents: list[Any] = folders.dictionary.to_pylist()
        self._non_empty_folders.update(parents)
        own: Any = to_array([self._is_own(folder) for folder in parents], pa.bool_())
        hidden = self._names.hide_files(pc.list_element(parts, _SECOND))
        before = to_scalar(self._before, pa.int64())
        old = pc.less(_latest_times(listed.column("modification_time")), before)
        mask: Any = pc.and_(pc.and_not(own.take(folders.indices), hidden), old)
        candidates = listed.select(INVENTORY_SCHEMA.names).filter(mask)
        if candidates.num_rows:
            self._candidates.append(candidates)
            self._rows += candidates.num_rows
        if self._rows >= self._max_candidates:
            self._compare()

    def result(self) -> ListingResult:
        """Return the result for all batches so far."""
        self._compare()
        return ListingResult(
            files=pa.concat_tables(
                [pa.Table.from_batches([], INVENTORY_SCHEMA), *self._unreferenced]
            ),
            folders=frozenset(self._folders),
            non_empty_folders=frozenset(self._non_empty_folders),
            other_tables=frozenset(self._other_tables),
        )

    def _add_folders(self, paths: pa.Array[Any]) -> None:
        folders: list[Any] = paths.to_pylist()
        for path in folders:
            self._non_empty_folders.add(path.rpartition("/")[0])
            if path != self._root and self._is_own(path):
                self._folders.add(path)

    def _is_own(self, folder: str) -> bool:
        """Whether a folder can contain files of the table.

        Hidden folders and the folders below them can't.
        """
        own = self._own.get(folder)
        if own is None:
            parent, _, name = folder.rpartition("/")
            if name == LOG_DIRECTORY and parent != self._root:
                self._other_tables.add(parent)
            own = self._own[folder] = self._is_own(parent) and not self._names.hide_folder(name)
        return own

    def _compare(self) -> None:
        if not self._candidates:
            return
        candidates = pa.Table.from_batches(self._candidates).combine_chunks()
        self._candidates, self._rows = [], 0
        relative: Any = pc.utf8_slice_codeunits(candidates.column("path"), len(self._root) + 1)
        is_referenced = self._referenced.contains(relative.to_pylist())
        self._unreferenced.append(candidates.filter(pc.invert(is_referenced)))


def _split_names(paths: Any) -> Any:
    """Split each path into a list of two strings: the folder and the name."""
    return pc.split_pattern(paths, "/", max_splits=1, reverse=True)


def _latest_times(times: Any) -> Any:
    """Return the latest possible modification times of files.

    A listed time without milliseconds may be truncated, so 999 ms are added to it.

    Args:
        times: listed modification times in milliseconds since the epoch.
    """
    seconds = pc.multiply(pc.divide(times, 1000), 1000)
    return pc.if_else(pc.equal(times, seconds), pc.add(times, 999), times)


_BATCH_SIZE = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingRange:
    """A range of paths below a table, to be listed by one task; can be pickled.

    Attributes:
        before: cutoff in milliseconds since the epoch; files modified at or after it are retained.
        after, until: exclusive start and inclusive end of the range. None means unlimited.
    """

    root: str
    names: HiddenNames
    before: int
    after: str | None = None
    until: str | None = None

    @classmethod
    def whole(cls, state: TableState, before: int) -> Self:
        """Return the range of all paths below a table."""
        return cls(root=state.path, names=HiddenNames.of(state), before=before)

    def split(self, referenced: ReferencedFiles, max_ranges: int) -> list[ListingRange]:
        """Split this range into at most `max_ranges` ranges.

        The ranges have similar numbers of referenced files.
        """
        ends = [f"{self.root}/{path}" for path in referenced.boundaries(max_ranges)]
        ranges = pairwise([self.after, *ends, self.until])
        return [replace(self, after=after, until=until) for after, until in ranges]

    def filter(self, referenced: ReferencedFiles) -> ListingFilter:
        return ListingFilter(self.root, self.names, self.before, referenced)


def list_range(
    engine: Engine, listing_range: ListingRange, referenced: ReferencedFiles
) -> ListingResult:
    """List a range of paths, and return the unreferenced files. Memory holds only these files.

    Files whose names aren't valid Unicode are ignored, because no log can reference them.
    """
    listing_filter = listing_range.filter(referenced)
    tree = engine.files.list_tree(
        listing_range.root,
        listing_filter.skips,
        after=listing_range.after,
        until=listing_range.until,
    )
    with tree as statuses:
        while batch := list(islice(statuses, _BATCH_SIZE)):
            listing_filter.add(_columns(batch))
    return listing_filter.result()


def filter_inventory(
    listing_range: ListingRange,
    referenced: ReferencedFiles,
    listed: Iterable[pa.RecordBatch],
    spellings: Sequence[str] = (),
) -> ListingResult:
    """Return the unreferenced files of an inventory. Memory holds only these files.

    A row is ignored if its path is outside the table, or if its path, `modification_time` or
    `is_folder` is null.

    Args:
        listing_range: a range that covers all paths of the table.
        listed: batches of `LISTING_SCHEMA` with unique paths; folders may have a trailing slash.
        spellings: other URIs of the table's folder with which paths in the inventory may begin,
            such as `s3a://bucket/table`.
    """
    listing_filter = listing_range.filter(referenced)
    for batch in listed:
        complete = batch.filter(_is_complete(batch))
        for root in dict.fromkeys((listing_range.root, *spellings)):
            listing_filter.add(_below(complete, root, listing_range.root))
    return listing_filter.result()


def _columns(statuses: list[FileStatus]) -> pa.RecordBatch:
    try:
        paths: Any = to_array([status.path for status in statuses], pa.string())
    except UnicodeEncodeError:
        statuses = [status for status in statuses if _is_unicode(status.path)]
        paths = to_array([status.path for status in statuses], pa.string())
    return _listing(
        paths,
        to_array([status.size for status in statuses], pa.int64()),
        to_array([status.modification_time for status in statuses], pa.int64()),
        pc.ends_with(paths, "/"),
    )


def _is_unicode(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_complete(listed: pa.RecordBatch) -> Any:
    complete = pc.is_valid(listed.column("path"))
    for name in ("modification_time", "is_folder"):
        complete = pc.and_(complete, pc.is_valid(listed.column(name)))
    return complete


def _below(listed: pa.RecordBatch, spelling: str, root: str) -> pa.RecordBatch:
    """Return the rows whose path begins with `spelling/`, and replace this prefix by `root/`."""
    prefix = f"{spelling.rstrip('/')}/"
    below: Any = listed.filter(pc.starts_with(listed.column("path"), prefix))
    names = pc.utf8_slice_codeunits(below.column("path"), len(prefix))
    below = below.filter(pc.greater(pc.utf8_length(names), 0))
    names = pc.utf8_slice_codeunits(below.column("path"), len(prefix))
    return _listing(
        pc.binary_join_element_wise(root, names, "/"),
        pc.fill_null(below.column("size"), 0),
        below.column("modification_time"),
        below.column("is_folder"),
    )


def _listing(paths: Any, sizes: Any, times: Any, is_folder: Any) -> pa.RecordBatch:
    if pc.any(is_folder).as_py():
        paths = pc.if_else(is_folder, pc.utf8_rtrim(paths, "/"), paths)
    return pa.RecordBatch.from_arrays([paths, sizes, times, is_folder], schema=LISTING_SCHEMA)
