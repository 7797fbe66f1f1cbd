"""The listing of a table's folder, whole or in shares, and what of it nothing needs.

A share is a range of paths: stores list from a path on, and the log says how the paths of a table
are spread. Any process can list a share and compare it with the hashes of the files that are kept.
Where somebody else has listed the folder (an inventory, as object stores write them), that listing
takes the place of ours, and any process can look through a part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute

from bayou.kernel.commands.vacuum.hidden_files import HiddenNames
from bayou.kernel.commands.vacuum.orphan_files import LISTING_SCHEMA, FoundFiles, ListingSieve
from bayou.kernel.commands.vacuum.referenced_files import KeptFiles
from bayou.kernel.engine import Engine, FileStatus
from bayou.kernel.log.table_state import TableState

__all__ = ["ListingShare", "list_share", "look_through"]

pc: Any = pyarrow.compute

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
