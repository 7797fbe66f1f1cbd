"""Finds files that were already migrated, so that no record is written twice.

A migrated file is recognized by its path, with symbolic links resolved. A file that was renamed,
moved or compressed after the migration has a new path. Such a file is recognized by its records if
these conditions are true:

- Its first records are the records of a migrated file.
- The path of the migrated file now has no file, or a file with other records. For example, log
  rotation creates a new file at the path of a renamed file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import islice

from bayou.errors import FileMissingError, PipelineError
from bayou.ingest.migration.json_files import JsonFile, json_files, records_of
from bayou.ingest.migration.ledger import LedgerState, Part
from bayou.kernel import Engine


class KnownFiles:
    """Finds the ledger rows of a file by its path, or by its records if it was renamed.

    Args:
        state: the rows of the ledger.
        listed: the files in the folder to migrate.
    """

    def __init__(self, engine: Engine, state: LedgerState, listed: Iterable[JsonFile]) -> None:
        self._engine = engine
        self._by_path = state.by_path()
        self._listed = {file.path: file for file in listed}

    def parts(self, file: JsonFile) -> list[Part]:
        real = self._engine.files.real_path(file.path)
        if real == file.path and not self._has_links:
            return self._by_path.get(file.path, [])
        return self._by_real_path.get(real, [])

    def renamed(self, file: JsonFile) -> str | None:
        """Return the path under which a file was migrated before it was renamed.

        None if `file` isn't a renamed file; see the conditions in the docstring of this module.
        """
        try:
            return self._renamed(file) if self._moved else None
        except PipelineError:  # the file is damaged; its migration reports the error
            return None

    def _renamed(self, file: JsonFile) -> str | None:
        firsts = self._moved
        digest = hashlib.sha256()
        limit = max(count for count, _ in firsts)
        for number, record in enumerate(islice(records_of(self._engine, file), limit), 1):
            digest.update(record)
            digest.update(b"\n")
            for parts in firsts.get((number, digest.hexdigest()), ()):
                if self._begins_with(file, parts) and self._is_moved(parts):
                    return parts[0].path
        return None

    @cached_property
    def _has_links(self) -> bool:
        return any(path != self._engine.files.real_path(path) for path in self._by_path)

    @cached_property
    def _by_real_path(self) -> dict[str, list[Part]]:
        """The parts of each file. The keys are file paths with symbolic links resolved.

        If a file was migrated under two paths, the parts with the same records are included only
        once.
        """
        all_parts: dict[str, list[Part]] = {}
        for path, parts in self._by_path.items():
            all_parts.setdefault(self._engine.files.real_path(path), []).extend(parts)
        return {path: _consecutive(parts) for path, parts in all_parts.items()}

    @cached_property
    def _moved(self) -> dict[tuple[int, str], list[list[Part]]]:
        """The migrated files that may have been renamed, each as a list of its parts.

        A file that is unchanged in the folder to migrate isn't included. The lists don't contain
        parts without records, such as a part of a file that was empty at its first migration. The
        keys are pairs: the number of records in a file's first part, and the checksum of these
        records. Several files can have the same key.
        """
        moved: dict[tuple[int, str], list[list[Part]]] = {}
        for path, all_parts in self._by_path.items():
            file = self._listed.get(path)
            if file is not None and any(is_complete(part, file) for part in all_parts):
                continue
            parts = [part for part in all_parts if part.records]
            if parts and parts[0].skipped == 0:
                moved.setdefault((parts[0].records, parts[0].checksum), []).append(parts)
        return moved

    def _is_moved(self, parts: Sequence[Part]) -> bool:
        """Whether a migrated file no longer exists, or doesn't begin with its migrated records."""
        try:
            self._engine.files.status(parts[0].path)
            files = json_files(self._engine, parts[0].path)
            return not any(self._begins_with(file, parts) for file in files)
        except (FileMissingError, PipelineError):  # a damaged file has other records
            return True

    def _begins_with(self, file: JsonFile, parts: Iterable[Part]) -> bool:
        records = records_of(self._engine, file)
        return all(checksum_of(islice(records, part.records)) == part.checksum for part in parts)


def is_complete(part: Part, file: JsonFile) -> bool:
    """Whether a part ends at the current end of a file, so that the file has no new records.

    The modification time is also compared, because a different file can have the same size.
    """
    same_time = part.modified is None or part.modified == file.modified
    return part.complete and part.size == file.size and same_time


def _consecutive(parts: Iterable[Part]) -> list[Part]:
    result: list[Part] = []
    end = 0
    for part in sorted(parts, key=lambda p: (p.skipped, p.records)):
        if part.skipped >= end:  # otherwise the part was migrated twice, by two paths of the file
            result.append(part)
            end = part.skipped + part.records
    return result


def checksum_of(values: Iterable[bytes]) -> str:
    """Return the hexadecimal SHA-256 of records. Each record is followed by a newline."""
    digest = hashlib.sha256()
    for value in values:
        digest.update(value)
        digest.update(b"\n")
    return digest.hexdigest()
