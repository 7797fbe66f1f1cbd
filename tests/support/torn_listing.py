"""A file handler whose first listing misses a commit, as while other processes write."""

from __future__ import annotations

from collections.abc import Iterator

from bayou.engines.arrow.files import ArrowFiles
from bayou.kernel.arrow.closeable import closeable
from bayou.kernel.engine import FileStatus

__all__ = ["TornListing"]


class TornListing(ArrowFiles):
    """File handler whose first listing misses the commit of `version`; later listings have it."""

    def __init__(self, version: int = 3) -> None:
        super().__init__({})
        self.listings = 0
        self._missed = f"{version:020d}.json"

    @closeable
    def list_from(self, path: str) -> Iterator[FileStatus]:
        self.listings += 1
        first = self.listings == 1
        for file in super().list_from(path):
            if not (first and self._missed in file.path):
                yield file
