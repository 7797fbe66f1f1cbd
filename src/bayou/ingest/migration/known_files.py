"""Which files were already migrated, so that no record is written twice.

A file is known by its path, with symbolic links resolved. A file that was renamed, moved or
compressed afterwards has a new path. It is recognized by its records: they are equal to those of
a migrated file that no longer exists.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cached_property
from itertools import islice

from bayou.errors import FileMissingError, PipelineError
from bayou.ingest.migration.json_files import JsonFile, records_of
from bayou.ingest.migration.ledger import LedgerState, Part
from bayou.kernel import Engine

__all__ = ["KnownFiles", "checksum_of"]


class KnownFiles:
    """The files of a ledger.

    Args:
        state: of the ledger.
        listed: paths of files that are there.
    """

    def __init__(self, engine: Engine, state: LedgerState, listed: Iterable[str]) -> None:
        self._engine = engine
        self._by_path = state.by_path()
        self._listed = frozenset(listed)

    def parts(self, file: JsonFile) -> list[Part]:
        """What was migrated of a file, in the order of its records."""
        real = self._engine.files.real_path(file.path)
        if real == file.path and not self._has_links:
            return self._by_path.get(file.path, [])
        return self._by_real_path.get(real, [])

    def renamed(self, file: JsonFile) -> str | None:
        """The path of a migrated file that is gone, whose records a new file begins with."""
        try:
            return self._renamed(file) if self._gone else None
        except PipelineError:  # it can't be read to its end, which its migration tells
            return None

    def _renamed(self, file: JsonFile) -> str | None:
        firsts = self._gone
        digest = hashlib.sha256()
        most = max(count for count, _ in firsts)
        for number, record in enumerate(islice(records_of(self._engine, file), most), 1):
            digest.update(record)
            digest.update(b"\n")
            for parts in firsts.get((number, digest.hexdigest()), ()):
                if self._is_gone(parts[0].path) and self._begins_with(file, parts):
                    return parts[0].path
        return None

    @cached_property
    def _has_links(self) -> bool:
        return any(path != self._engine.files.real_path(path) for path in self._by_path)

    @cached_property
    def _by_real_path(self) -> dict[str, list[Part]]:
        """Of files that were reached by several paths the parts that follow one another."""
        every: dict[str, list[Part]] = {}
        for path, parts in self._by_path.items():
            every.setdefault(self._engine.files.real_path(path), []).extend(parts)
        return {path: _following(parts) for path, parts in every.items()}

    @cached_property
    def _gone(self) -> dict[tuple[int, str], list[list[Part]]]:
        """Files that may be gone, by the number and the checksum of their first records."""
        found: dict[tuple[int, str], list[list[Part]]] = {}
        for path, parts in self._by_path.items():
            if path not in self._listed and parts[0].skipped == 0 and parts[0].records:
                found.setdefault((parts[0].records, parts[0].checksum), []).append(parts)
        return found

    def _is_gone(self, path: str) -> bool:
        try:
            self._engine.files.status(path)
        except FileMissingError:
            return True
        return False

    def _begins_with(self, file: JsonFile, parts: Iterable[Part]) -> bool:
        records = records_of(self._engine, file)
        return all(checksum_of(islice(records, part.records)) == part.checksum for part in parts)


def _following(parts: Iterable[Part]) -> list[Part]:
    found: list[Part] = []
    end = 0
    for part in sorted(parts, key=lambda p: (p.skipped, p.records)):
        if part.skipped >= end:  # else a file that was migrated by two paths
            found.append(part)
            end = part.skipped + part.records
    return found


def checksum_of(values: Iterable[bytes]) -> str:
    """SHA-256 of records as they stand in their file."""
    digest = hashlib.sha256()
    for value in values:
        digest.update(value)
        digest.update(b"\n")
    return digest.hexdigest()
