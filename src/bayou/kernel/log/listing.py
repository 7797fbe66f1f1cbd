"""The log listing: commits, checkpoints, log compaction files and version checksums."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from bayou.errors import CorruptTableError
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
"""Minimum difference of two modification times in ms.

If the difference is smaller, it is unknown which of the two files is newer.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A complete checkpoint.

    Attributes:
        files: the checkpoint file, or the parts of a multi-part checkpoint in order. Sidecar files
            aren't included.
        uuid_named: whether the file name has a UUID, which means that the checkpoint follows the V2
            spec. A checkpoint with a classic name follows the V1 or the V2 spec.
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
        commit: the commit file of the checksum's version; None if log cleanup deleted it. Log
            cleanup may have deleted it only if the newest checkpoint has the checksum's version.
    """

    version: int
    file: FileStatus
    commit: FileStatus | None


class LogListing:
    """The log files up to a version.

    Args:
        version: the requested version; None for the latest.
        ignored_checkpoints: paths of checkpoint files to ignore.
        ratified: commits that a catalog has ratified, by version.

    Attributes:
        first_later_version: the first listed version that is above the requested version; None if
            there is none.
    """

    def __init__(
        self,
        version: int | None,
        ignored_checkpoints: Collection[str],
        ratified: Mapping[int, FileStatus],
    ) -> None:
        self.version = version
        self.ratified = ratified
        self.commits: dict[int, FileStatus] = {}
        self.first_later_version: int | None = None
        self._has_later_commit = False
        self._ignored_checkpoints = ignored_checkpoints
        self._parts: dict[tuple[int, int, str], dict[int, FileStatus]] = {}
        self._compacted: list[CompactedFile] = []
        self._checksums: dict[int, FileStatus] = {}

    def add(self, status: FileStatus) -> None:
        """Add a file of the log directory. Call this method in the order of file names."""
        match parse_log_file(file_name(status)):
            case (
                CommitFile() | ClassicCheckpoint() | MultiPartCheckpoint() | UuidCheckpoint()
            ) as file if self._is_above(file.version):
                if self.first_later_version is None:
                    self.first_later_version = file.version
                self._has_later_commit |= isinstance(file, CommitFile)
            case CommitFile(version=version):
                self.commits[version] = status
            case ClassicCheckpoint() | MultiPartCheckpoint() | UuidCheckpoint() as file:
                # Empty checkpoint files are ignored: on a store without atomic writes, a writer
                # that failed leaves one.
                if status.size > 0 and status.path not in self._ignored_checkpoints:
                    self._add_checkpoint(file, status)
            case CompactedCommits(version=first, end_version=last) if not self._is_above(last):
                self._compacted.append(CompactedFile(version=first, end_version=last, file=status))
            case ChecksumFile(version=version) if not self._is_above(version):
                self._checksums[version] = status
            case _:
                pass

    def reaches(self, version: int) -> bool:
        """Whether the newest commit in the log has this version or a later one.

        If the result is False, the log has lost its last commits: the log is an incomplete copy or
        an outdated replica. In this case, the checkpoint and the checksum of `version` can't be
        used.

        If the log has no commit, the result is True: log cleanup can delete all commits up to a
        checkpoint.
        """
        return not self.commits or self._has_later_commit or version <= max(self.commits)

    def version_bounds(self) -> tuple[int | None, int]:
        """Return the earliest version that can be rebuilt, and the latest version.

        The earliest version is None if no version can be rebuilt. The latest version is -1 if the
        listing has no commit and no complete checkpoint.
        """
        complete = [c.version for c in self.checkpoints() if self.reaches(c.version)]
        earliest = 0 if 0 in self.commits else min(complete, default=None)
        return earliest, max([*self.commits, *complete], default=-1)

    def checkpoint(self) -> Checkpoint | None:
        """Return the newest complete checkpoint; None if there is none.

        If a version has several checkpoints, this is the order of preference: a UUID-named
        checkpoint, a single file with a classic name, a multi-part checkpoint.
        """
        return max(self.checkpoints(), key=lambda c: c.version, default=None)

    def checkpoints(self) -> list[Checkpoint]:
        """Return the complete checkpoints in the order of versions.

        Checkpoints of the same version are in order of preference; see `checkpoint`.
        """
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
        """Return the log compaction files that are read instead of commits after version `base`.

        The commit of version `latest` is always read, because its `commitInfo` is needed.

        A log compaction file is ignored if it is older than the commit of its `end_version`. In
        this case, commits were lost after their compaction, and new commits have the same versions.
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
        """Return the newest usable checksum of version `base` or later; None if there is none.

        A checksum with a higher version than the last commit isn't usable, because the log has lost
        the commit of this checksum.
        """
        newest_first = sorted(self._checksums, reverse=True)
        version = next((v for v in newest_first if self.reaches(v)), None)
        if version is None or version < base:
            return None
        return ListedChecksum(version, self._checksums[version], self.commits.get(version))

    def _is_above(self, version: int) -> bool:
        return self.version is not None and version > self.version

    def _add_checkpoint(self, file: LogFile, status: FileStatus) -> None:
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


def damaged_checkpoint(table: str, problem: str, file: str | None = None) -> CorruptTableError:
    """Return the error for a damaged checkpoint.

    Args:
        problem: clause of the message that says what is wrong.
        file: path of the damaged file.
    """
    return CorruptTableError(
        f"{table}: {problem}. Restore the checkpoint, or delete it if the log still has all "
        "commits from version 0 on.",
        table=table,
        file=file,
    )


def file_name(status: FileStatus) -> str:
    """Return a file's name without its directory."""
    return status.path.rsplit("/", 1)[-1]
