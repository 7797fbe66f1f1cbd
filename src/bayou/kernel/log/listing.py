"""A listing of the log: commits, checkpoints, log compaction files and version checksums."""

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

_CLOCK_TOLERANCE_MS = 60_000
"""If the modification times of two files differ by less than this, their order is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A complete checkpoint.

    Attributes:
        files: the file, or the parts of a multi-part checkpoint in order; without sidecars.
        uuid_named: whether the file name has a UUID. A checkpoint whose name has a UUID follows the
            V2 spec; a checkpoint with a classic name follows the V1 or the V2 spec.
    """

    version: int
    files: tuple[FileStatus, ...]
    uuid_named: bool = False

    @property
    def size(self) -> int:
        return sum(f.size for f in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedFile:
    """A log compaction file for the commits from `version` to `end_version`, both included."""

    version: int
    end_version: int
    file: FileStatus


class ListedChecksum(NamedTuple):
    """A version checksum in the log.

    Attributes:
        commit: the commit file of `version`. It is None if log cleanup deleted the file, which is
            only possible if the checkpoint has the same version.
    """

    version: int
    file: FileStatus
    commit: FileStatus | None


class LogListing:
    """The log files up to a version, and the first listed version above that version.

    Args:
        version: the requested version; None for the latest.
        without: paths of checkpoint files to ignore.
        ratified: commits that a catalog has ratified, by version.
    """

    def __init__(
        self, version: int | None, without: Collection[str], ratified: Mapping[int, FileStatus]
    ) -> None:
        self.version = version
        self.ratified = ratified
        self.commits: dict[int, FileStatus] = {}
        self.first_later_version: int | None = None
        self._has_later_commit = False
        self._without = without
        self._parts: dict[tuple[int, int, str], dict[int, FileStatus]] = {}
        self._compacted: list[CompactedFile] = []
        self._checksums: dict[int, FileStatus] = {}

    def add(self, status: FileStatus) -> None:
        match parse_log_file(file_name(status)):
            case None:
                pass
            case CommitFile(version=version):
                if self._is_above(version):
                    self.first_later_version = (
                        version if self.first_later_version is None else self.first_later_version
                    )
                    self._has_later_commit = True
                else:
                    self.commits[version] = status
            case ClassicCheckpoint() | MultiPartCheckpoint() | UuidCheckpoint() as file:
                if self._is_above(file.version):
                    self.first_later_version = (
                        file.version
                        if self.first_later_version is None
                        else self.first_later_version
                    )
                elif status.size > 0 and status.path not in self._without:
                    # A file is empty if its writer failed on a store without atomic writes.
                    self._take_checkpoint(file, status)
            case CompactedCommits(version=first, end_version=last):
                if not self._is_above(last):
                    self._compacted.append(
                        CompactedFile(version=first, end_version=last, file=status)
                    )
            case ChecksumFile(version=version):
                if not self._is_above(version):
                    self._checksums[version] = status
            case _:
                pass

    def reaches(self, version: int) -> bool:
        """Whether the commits reach `version`, so that its checkpoint and checksum are valid.

        If they don't, the log has lost its last commits: it is an interrupted copy or an outdated
        replica. If log cleanup has deleted all commits, the result is True.
        """
        return not self.commits or self._has_later_commit or version <= max(self.commits)

    def version_bounds(self) -> tuple[int | None, int]:
        """The earliest version that can be rebuilt, and the latest version.

        The earliest version is None if no version can be rebuilt. The latest version is -1 if the
        listing has no commit and no complete checkpoint.
        """
        complete = [c.version for c in self.checkpoints() if self.reaches(c.version)]
        earliest = 0 if 0 in self.commits else min(complete, default=None)
        return earliest, max([*self.commits, *complete], default=-1)

    def checkpoint(self) -> Checkpoint | None:
        """The newest complete checkpoint; None if there is none.

        If a version has several checkpoints, a UUID-named checkpoint is preferred to a single file
        with a classic name, and a single file to a multi-part checkpoint.
        """
        return max(self.checkpoints(), key=lambda c: c.version, default=None)

    def checkpoints(self) -> list[Checkpoint]:
        """List the complete checkpoints by ascending version; in one version by preference."""
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
        """Return the log compaction files to read in place of commits after version `base`.

        The commit of the latest version is always read, for its `commitInfo`. A compaction file is
        ignored if the commit of its `end_version` was modified after the compaction file: the
        compaction file then holds commits that were replaced.
        """
        longest: dict[int, CompactedFile] = {}
        for file in self._compacted:
            last = self.commits.get(file.end_version)
            if last is None:
                continue
            if file.file.modification_time + _CLOCK_TOLERANCE_MS < last.modification_time:
                continue
            candidate = longest.get(file.version)
            if candidate is None or candidate.end_version < file.end_version:
                longest[file.version] = file
        selected = []
        version = base + 1
        while version <= latest:
            candidate = longest.get(version)
            if candidate is not None and min(candidate.end_version, latest - 1) > version:
                selected.append(candidate)
                version = candidate.end_version
            version += 1
        return tuple(selected)

    def checksum(self, base: int) -> ListedChecksum | None:
        """Return the newest checksum that `reaches` accepts; None if it is older than `base`."""
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
    """A file's name without its directory."""
    return status.path.rsplit("/", 1)[-1]
