"""What of a listing nothing needs, column by column.

A listing is compared with the log as it comes, batch after batch. Of its files only those are kept
in memory that nothing needs, and a batch of those that may be such.

The listing of a table's folder, whole or in shares, and what of it nothing needs.

A share is a range of paths: stores list from a path on, and the log says how the paths of a table
are spread. Any process can list a share and compare it with the hashes of the files that are kept.
Where somebody else has listed the folder (an inventory, as object stores write them), that listing
takes the place of ours, and any process can look through a part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute

from bayou.kernel.commands.vacuum.referenced_files import KeptFiles
from bayou.kernel.commands.vacuum.table_folder import HiddenNames
from bayou.kernel.engine import Engine, FileStatus
from bayou.kernel.log.table_state import TableState
from bayou.protocol.file_names import LOG_DIRECTORY

__all__ = [
    "INVENTORY_SCHEMA",
    "LISTING_SCHEMA",
    "FoundFiles",
    "ListingShare",
    "ListingSieve",
    "inventory",
    "list_share",
    "look_through",
]


pc: Any = pyarrow.compute

_INVENTORY_FIELDS: list[pa.Field[Any]] = [
    pa.field("path", pa.string()),
    pa.field("size", pa.int64()),
    pa.field("modification_time", pa.int64()),
]
INVENTORY_SCHEMA = pa.schema(_INVENTORY_FIELDS)
"""Decoded, fully qualified path; bytes; ms since the epoch (of lite: when it was removed)."""

LISTING_SCHEMA = INVENTORY_SCHEMA.append(pa.field("is_folder", pa.bool_()))
"""The same, of folders too: their paths end without a slash."""

_LEAST_COMPARED = 65_536
_COMPARED_SHARE = 8


def inventory(files: Iterable[tuple[str, int, int]]) -> pa.Table:
    """Path, size and time of each file, as columns."""
    rows = list(files)
    columns = [pa.array([row[i] for row in rows], f.type) for i, f in enumerate(INVENTORY_SCHEMA)]
    return pa.Table.from_arrays(columns, schema=INVENTORY_SCHEMA)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFiles:
    """What a listing shows; pickles.

    Attributes:
        files: those that nothing needs, `INVENTORY_SCHEMA`.
        folders: those that the store has, the table's own left out.
        holding: folders with something in them.
        nested: folders with a log of their own, which are other tables.
    """

    files: pa.Table = field(default_factory=INVENTORY_SCHEMA.empty_table)
    folders: frozenset[str] = frozenset()
    holding: frozenset[str] = frozenset()
    nested: frozenset[str] = frozenset()

    @classmethod
    def combined(cls, shares: Iterable[FoundFiles]) -> FoundFiles:
        """Of all shares of a listing."""
        found = [cls(), *shares]
        return cls(
            files=pa.concat_tables([share.files for share in found]),
            folders=frozenset().union(*(share.folders for share in found)),
            holding=frozenset().union(*(share.holding for share in found)),
            nested=frozenset().union(*(share.nested for share in found)),
        )

    def own_files(self) -> pa.Table:
        """The files that aren't another table's."""
        if not self.nested:
            return self.files
        folders = pc.list_element(
            _ends(self.files.column("path").combine_chunks()), 0
        ).dictionary_encode()
        above: list[Any] = folders.dictionary.to_pylist()
        own: Any = pa.array([not self._is_nested(folder) for folder in above], pa.bool_())
        return self.files.filter(own.take(folders.indices))

    def empty_folders(self) -> list[str]:
        """Folders with nothing in them that aren't another table's, deepest first."""
        empty = (f for f in self.folders - self.holding if not self._is_nested(f))
        return sorted(empty, key=lambda f: f.count("/"), reverse=True)

    def _is_nested(self, folder: str) -> bool:
        while folder:
            if folder in self.nested:
                return True
            folder = folder.rpartition("/")[0]
        return False


class ListingSieve:
    """Takes a listing in batches, in any order, and gives what nothing needs of it.

    Args:
        root: the table's path.
        names: what isn't the table's.
        before: ms since the epoch; files changed then or later are needed.
        kept: so are these.
    """

    def __init__(self, root: str, names: HiddenNames, before: int, kept: KeptFiles) -> None:
        self._root = root
        self._names = names
        self._before = before
        self._kept = kept
        self._own = {root: True}
        self._folders: set[str] = set()
        self._holding: set[str] = set()
        self._nested: set[str] = set()
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0
        # What is compared with the kept files has them looked up anew each time.
        self._most = max(_LEAST_COMPARED, len(kept) // _COMPARED_SHARE)
        self._unneeded: list[pa.Table] = []

    def skips(self, folder: str) -> bool:
        """Whether nothing in a folder is the table's; see `FileSystemClient.list_tree`."""
        self._holding.add(folder.rpartition("/")[0])
        return not self._is_own(folder)

    def add(self, listed: pa.RecordBatch) -> None:
        """Another batch, `LISTING_SCHEMA`: whatever is below the root."""
        is_folder: Any = listed.column("is_folder")
        if pc.any(is_folder).as_py():
            self._add_folders(listed.filter(is_folder).column("path"))
            listed = listed.filter(pc.invert(is_folder))
        if not listed.num_rows:
            return
        ends = _ends(listed.column("path"))
        folders = pc.list_element(ends, 0).dictionary_encode()
        above: list[Any] = folders.dictionary.to_pylist()
        self._holding.update(above)
        own: Any = pa.array([self._is_own(folder) for folder in above], pa.bool_())
        hidden = self._names.hide_files(pc.list_element(ends, 1))
        old = pc.less(listed.column("modification_time"), self._before)
        candidates: Any = pc.and_(pc.and_not(own.take(folders.indices), hidden), old)
        some = listed.select(INVENTORY_SCHEMA.names).filter(candidates)
        if some.num_rows:
            self._waiting.append(some)
            self._rows += some.num_rows
        if self._rows >= self._most:
            self._compare()

    def found(self) -> FoundFiles:
        """What all batches so far show."""
        self._compare()
        return FoundFiles(
            files=pa.concat_tables([INVENTORY_SCHEMA.empty_table(), *self._unneeded]),
            folders=frozenset(self._folders),
            holding=frozenset(self._holding),
            nested=frozenset(self._nested),
        )

    def _add_folders(self, paths: pa.Array[Any]) -> None:
        found: list[Any] = paths.to_pylist()
        for path in found:
            self._holding.add(path.rpartition("/")[0])
            if path != self._root and self._is_own(path):
                self._folders.add(path)

    def _is_own(self, folder: str) -> bool:
        """Whether files in a folder may be the table's."""
        known = self._own.get(folder)
        if known is None:
            above, _, name = folder.rpartition("/")
            if name == LOG_DIRECTORY and above != self._root:
                self._nested.add(above)
            known = self._own[folder] = self._is_own(above) and not self._names.hide_folder(name)
        return known

    def _compare(self) -> None:
        if not self._waiting:
            return
        some = pa.Table.from_batches(self._waiting).combine_chunks()
        self._waiting, self._rows = [], 0
        below: Any = pc.utf8_slice_codeunits(some.column("path"), len(self._root) + 1)
        needed = self._kept.hold(below.to_pylist())
        self._unneeded.append(some.filter(pc.invert(needed)))


def _ends(paths: Any) -> Any:
    """What stands before the last slash of each path, and behind it, as lists."""
    return pc.split_pattern(paths, "/", max_splits=1, reverse=True)


_BATCH = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingShare:
    """A range of paths below a table, and which of them count; pickles.

    Attributes:
        root: the table's path.
        names: what isn't the table's.
        before: ms since the epoch; files changed then or later stay.
        after, until: only paths behind the one and up to the other; None: from the first, to the
            last.
    """

    root: str
    names: HiddenNames
    before: int
    after: str | None = None
    until: str | None = None

    @classmethod
    def whole(cls, state: TableState, before: int) -> Self:
        """Everything below a table."""
        return cls(root=state.path, names=HiddenNames.of(state), before=before)

    def split(self, kept: KeptFiles, most: int) -> list[ListingShare]:
        """At most so many shares, of about as many kept files each."""
        ends = [f"{self.root}/{path}" for path in kept.boundaries(most)]
        ranges = pairwise([self.after, *ends, self.until])
        return [replace(self, after=after, until=until) for after, until in ranges]

    def sieve(self, kept: KeptFiles) -> ListingSieve:
        """What takes this share's listing."""
        return ListingSieve(self.root, self.names, self.before, kept)


def list_share(engine: Engine, share: ListingShare, kept: KeptFiles) -> FoundFiles:
    """List a share; memory is bounded by what nothing needs.

    A file whose name isn't text stays: no log can name it, and no listing of ours either.

    Raises:
        StorageError: the store failed.
    """
    sieve = share.sieve(kept)
    tree = engine.files.list_tree(share.root, sieve.skips, after=share.after, until=share.until)
    with tree as found:
        while some := list(islice(found, _BATCH)):
            sieve.add(_columns(some))
    return sieve.found()


def look_through(
    share: ListingShare,
    kept: KeptFiles,
    listed: Iterable[pa.RecordBatch],
    spellings: Sequence[str] = (),
) -> FoundFiles:
    """Take a listing from somebody else; memory is bounded by what nothing needs.

    Paths that aren't below the table are passed over, and so is what lacks a path, a time, or
    whether it is a folder. A path stands there once.

    Args:
        share: the whole of it.
        listed: `LISTING_SCHEMA`; folders with a slash at the end or without.
        spellings: of the table's path, by which the listing may name it, besides the path itself.
    """
    sieve = share.sieve(kept)
    for batch in listed:
        known = batch.filter(_is_known(batch))
        for root in dict.fromkeys((share.root, *spellings)):
            sieve.add(_below(known, root, share.root))
    return sieve.found()


def _columns(some: list[FileStatus]) -> pa.RecordBatch:
    """Statuses as `LISTING_SCHEMA`."""
    try:
        paths: Any = pa.array([status.path for status in some], pa.string())
    except UnicodeEncodeError:
        some = [status for status in some if _is_text(status.path)]
        paths = pa.array([status.path for status in some], pa.string())
    return _listing(
        paths,
        pa.array([status.size for status in some], pa.int64()),
        pa.array([status.modification_time for status in some], pa.int64()),
        pc.ends_with(paths, "/"),
    )


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_known(listed: pa.RecordBatch) -> Any:
    known = pc.is_valid(listed.column("path"))
    for name in ("modification_time", "is_folder"):
        known = pc.and_(known, pc.is_valid(listed.column(name)))
    return known


def _below(listed: pa.RecordBatch, spelling: str, root: str) -> pa.RecordBatch:
    """What is below a table by one spelling of its path, by the other."""
    begin = f"{spelling.rstrip('/')}/"
    found: Any = listed.filter(pc.starts_with(listed.column("path"), begin))
    names = pc.utf8_slice_codeunits(found.column("path"), len(begin))
    found = found.filter(pc.greater(pc.utf8_length(names), 0))
    names = pc.utf8_slice_codeunits(found.column("path"), len(begin))
    return _listing(
        pc.binary_join_element_wise(root, names, "/"),
        pc.fill_null(found.column("size"), 0),
        found.column("modification_time"),
        found.column("is_folder"),
    )


def _listing(paths: Any, sizes: Any, times: Any, is_folder: Any) -> pa.RecordBatch:
    if pc.any(is_folder).as_py():
        paths = pc.if_else(is_folder, pc.utf8_rtrim(paths, "/"), paths)
    return pa.RecordBatch.from_arrays([paths, sizes, times, is_folder], schema=LISTING_SCHEMA)
