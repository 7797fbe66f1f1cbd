"""What a listing of the log has: commits, checkpoints, compaction files, checksums."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from bayou.kernel.engine import FileStatus
from bayou.protocol.file_names import (
    ChecksumFile,
    ClassicCheckpoint,
    CommitFile,
    CompactedCommits,
    LogFile,
    MultiPartCheckpoint,
    UuidCheckpoint,
    parse_log_file,
)

__all__ = ["Checkpoint", "CompactedFile", "ListedChecksum", "LogListing", "file_name"]


_TOLERANCE_MS = 60_000
"""Modification times of two files tell their order where they are further apart than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A complete checkpoint: its version and its files, in the order of their parts.

    Attributes:
        version: the version it holds.
        files: one, or several of a multi-part checkpoint; sidecars aren't among them.
        uuid_named: it follows the V2 spec for certain; a classic name may hold either.
    """

    version: int
    files: tuple[FileStatus, ...]
    uuid_named: bool = False

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(f.size for f in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedFile:
    """The commits `version..end_version` in one file (PROTOCOL.md, Log Compaction Files)."""

    version: int
    end_version: int
    file: FileStatus


class ListedChecksum(NamedTuple):
    """A version checksum of the log.

    Attributes:
        version: the version it describes.
        file: the checksum.
        commit: the commit of that version; None where log cleanup has deleted it, which happens
            only at the version of the checkpoint.
    """

    version: int
    file: FileStatus
    commit: FileStatus | None


class LogListing:
    """What a listing of the log has up to a version, and the first version above it.

    Args:
        version: the version wanted, None for the latest.
        without: paths of checkpoint files to do without.
        ratified: commits that a catalog says count, by version.
    """

    def __init__(
        self, version: int | None, without: Collection[str], ratified: Mapping[int, FileStatus]
    ) -> None:
        self.version = version
        self.ratified = ratified
        self.commits: dict[int, FileStatus] = {}
        self.later: int | None = None
        self._goes_on = False  # a commit above `version` was listed
        self._without = without
        self._parts: dict[tuple[int, int, str], dict[int, FileStatus]] = {}
        self._compacted: list[CompactedFile] = []
        self._checksums: dict[int, FileStatus] = {}

    def take(self, status: FileStatus) -> None:
        """Sort one file in."""
        match parse_log_file(file_name(status)):
            case None:
                pass
            case CommitFile(version=found):
                if self._is_above(found):
                    self.later = found if self.later is None else self.later
                    self._goes_on = True
                else:
                    self.commits[found] = status
            case ClassicCheckpoint() | MultiPartCheckpoint() | UuidCheckpoint() as file:
                if self._is_above(file.version):
                    self.later = file.version if self.later is None else self.later
                elif status.size > 0 and status.path not in self._without:
                    # Empty where a writer died on a store without atomic writes.
                    self._take_checkpoint(file, status)
            case CompactedCommits(version=first, end_version=last):
                if not self._is_above(last):
                    self._compacted.append(
                        CompactedFile(version=first, end_version=last, file=status)
                    )
            case ChecksumFile(version=found):
                if not self._is_above(found):
                    self._checksums[found] = status
            case _:
                pass

    def reaches(self, version: int) -> bool:
        """Whether the log has the version, so that a file derived from it counts.

        Checkpoints, log compaction files and version checksums are derived from commits. A file of
        a version above the newest commit is left over from a log that lost its last commits: an
        interrupted copy, or a replica that is behind. A log without any commit has been cleaned up
        to its checkpoint.
        """
        return not self.commits or self._goes_on or version <= max(self.commits)

    def ends(self) -> tuple[int | None, int]:
        """The earliest version that can be rebuilt, None for none, and the latest there is."""
        complete = [c.version for c in self.checkpoints() if self.reaches(c.version)]
        earliest = 0 if 0 in self.commits else min(complete, default=None)
        return earliest, max([*self.commits, *complete], default=-1)

    def checkpoint(self) -> Checkpoint | None:
        """The newest one with all its parts.

        Of several at one version that with a UUID is preferred, then a single file.
        """
        return max(self.checkpoints(), key=lambda c: c.version, default=None)

    def checkpoints(self) -> list[Checkpoint]:
        """Those with all their parts, ascending; of several at a version the best one first."""
        order = sorted(self._parts, key=lambda key: (-key[0], bool(key[2]), -key[1], key[2]))
        return [
            Checkpoint(
                version=version,
                files=tuple(files[i] for i in sorted(files)),
                uuid_named=bool(uuid),
            )
            for version, count, uuid in reversed(order)
            if len(files := self._parts[version, count, uuid]) == count
        ]

    def compacted(self, base: int, latest: int) -> tuple[CompactedFile, ...]:
        """Those behind version `base` that save reads.

        The commit of the latest version is read in any case, for its `commitInfo`. A file that is
        older than its last commit was compacted from other commits, which the log has lost since.
        """
        longest: dict[int, CompactedFile] = {}
        for file in self._compacted:
            last = self.commits.get(file.end_version)
            if last is None or file.file.modification_time + _TOLERANCE_MS < last.modification_time:
                continue
            known = longest.get(file.version)
            if known is None or known.end_version < file.end_version:
                longest[file.version] = file
        chosen = []
        version = base + 1
        while version <= latest:
            found = longest.get(version)
            if found is not None and min(found.end_version, latest - 1) > version:
                chosen.append(found)
                version = found.end_version
            version += 1
        return tuple(chosen)

    def checksum(self, base: int) -> ListedChecksum | None:
        """The newest at or above version `base`, of a version that the log has."""
        newest_first = sorted(self._checksums, reverse=True)
        version = next((v for v in newest_first if self.reaches(v)), None)
        if version is None or version < base:
            return None
        return ListedChecksum(version, self._checksums[version], self.commits.get(version))

    def _is_above(self, version: int) -> bool:
        return self.version is not None and version > self.version

    def _take_checkpoint(self, file: LogFile, status: FileStatus) -> None:
        match file:
            case MultiPartCheckpoint():
                parts = self._parts.setdefault((file.version, file.parts, ""), {})
                parts[file.part] = status
            case UuidCheckpoint():
                self._parts[file.version, 1, file.uuid] = {1: status}
            case ClassicCheckpoint():
                self._parts[file.version, 1, ""] = {1: status}
            case _:
                pass


def file_name(status: FileStatus) -> str:
    """A file's name without its folder."""
    return status.path.rsplit("/", 1)[-1]
