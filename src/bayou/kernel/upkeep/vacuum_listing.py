"""The listing of a table's folder, whole or in shares, and what of it nothing needs.

A share is a range of paths: stores list from a path on, and the log says how the paths of a table
are spread. Any process can list a share and compare it with the hashes of the files that are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from typing import Any, Self

import pyarrow as pa

from bayou.kernel.column_mapping import physical_name
from bayou.kernel.engine import UNFINISHED, Engine, FileStatus
from bayou.kernel.table_state import TableState
from bayou.kernel.upkeep.kept_files import KeptFiles
from bayou.protocol.file_names import LOG_DIRECTORY, escape_partition_value

__all__ = ["INVENTORY_SCHEMA", "FoundFiles", "ListingShare", "inventory", "list_share"]

_INVENTORY_FIELDS: list[pa.Field[Any]] = [
    pa.field("path", pa.string()),
    pa.field("size", pa.int64()),
    pa.field("modification_time", pa.int64()),
]
INVENTORY_SCHEMA = pa.schema(_INVENTORY_FIELDS)
"""Decoded, fully qualified path; bytes; ms since the epoch (of lite: when it was removed)."""

_BATCH = 8192
_NEVER_HIDDEN = ("_delta_index", "_change_data")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingShare:
    """A range of paths below a table, and which of them count; pickles.

    Attributes:
        root: the table's path.
        prefixes: of folders that are partitions whatever else they look like.
        iceberg: folders named `metadata` are Iceberg's.
        before: ms since the epoch; files changed then or later stay.
        after, until: only paths behind the one and up to the other; None: from the first, to the
            last.
    """

    root: str
    prefixes: tuple[str, ...]
    iceberg: bool
    before: int
    after: str | None = None
    until: str | None = None

    @classmethod
    def whole(cls, state: TableState, before: int) -> Self:
        """Everything below a table."""
        formats = state.properties.get("delta.universalFormat.enabledFormats", "")
        return cls(
            root=state.path,
            prefixes=tuple(
                f"{escape_partition_value(name)}="
                for field in state.schema
                if field.name in state.partition_columns
                for name in (field.name, physical_name(field))
            ),
            iceberg="iceberg" in formats.lower(),
            before=before,
        )

    def split(self, kept: KeptFiles, most: int) -> list[ListingShare]:
        """At most so many shares, of about as many kept files each."""
        ends = [f"{self.root}/{path}" for path in kept.boundaries(most)]
        ranges = pairwise([self.after, *ends, self.until])
        return [replace(self, after=after, until=until) for after, until in ranges]

    def is_hidden(self, name: str) -> bool:
        """Whether a file or folder of this name isn't the table's."""
        return (
            name.startswith((".", "_"))
            and not name.startswith(_NEVER_HIDDEN)
            and not (self.prefixes and name.startswith(self.prefixes))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFiles:
    """What a listing shows; pickles.

    Attributes:
        files: those that nothing needs, `INVENTORY_SCHEMA`.
        folders: those that the store has, the table's own left out.
        holding: folders with something in them.
        nested: folders with a log of their own, which are other tables.
    """

    files: pa.Table = field(default_factory=lambda: inventory(()))
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

    def empty_folders(self) -> list[str]:
        """Folders with nothing in them, deepest first."""
        return sorted(self.folders - self.holding, key=lambda f: f.count("/"), reverse=True)


def list_share(engine: Engine, share: ListingShare, kept: KeptFiles) -> FoundFiles:
    """List a share; memory is bounded by what nothing needs.

    Raises:
        StorageError: the store failed.
    """
    walk = _Walk(share)
    unneeded: list[FileStatus] = []
    tree = engine.files.list_tree(share.root, walk.skips, after=share.after, until=share.until)
    with tree as found:
        files = walk.files(found)
        while some := list(islice(files, _BATCH)):
            needed = kept.hold([path for path, _ in some])
            unneeded += [
                status
                for (_, status), keep in zip(some, needed, strict=True)
                if not keep and status.modification_time < share.before
            ]
    return FoundFiles(
        files=inventory((s.path, s.size, s.modification_time) for s in unneeded),
        folders=frozenset(walk.folders),
        holding=frozenset(walk.holding),
        nested=frozenset(walk.nested),
    )


def inventory(files: Iterable[tuple[str, int, int]]) -> pa.Table:
    """Path, size and time of each file, as columns."""
    rows = list(files)
    columns = [pa.array([row[i] for row in rows], f.type) for i, f in enumerate(INVENTORY_SCHEMA)]
    return pa.Table.from_arrays(columns, schema=INVENTORY_SCHEMA)


class _Walk:
    """What a listing shows besides its files; see `FoundFiles`."""

    def __init__(self, share: ListingShare) -> None:
        self._share = share
        self.folders: set[str] = set()
        self.holding: set[str] = set()
        self.nested: set[str] = set()

    def skips(self, folder: str) -> bool:
        """Whether a folder isn't the table's; see `FileSystemClient.list_tree`."""
        above, _, name = folder.rpartition("/")
        self.holding.add(above)
        if name == LOG_DIRECTORY and above != self._share.root:
            self.nested.add(above)
        return self._share.is_hidden(name) or (self._share.iceberg and name == "metadata")

    def files(self, found: Iterable[FileStatus]) -> Iterator[tuple[str, FileStatus]]:
        """Files that aren't hidden, and unfinished ones, with their paths relative to the table."""
        begin = len(self._share.root) + 1
        current = ""
        for status in found:
            path = status.path
            if path.endswith("/"):
                self.folders.add(path[:-1])
                continue
            above, _, name = path.rpartition("/")
            if above != current:  # the files of a folder follow each other
                current = above
                self.holding.add(above)
            if (
                name[:1] not in "._"
                or not self._share.is_hidden(name)
                or UNFINISHED.fullmatch(name)
            ):
                yield path[begin:], status
