"""What a listing of the log has: commits, checkpoints, compaction files, checksums."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

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

__all__ = ["Checkpoint", "CompactedFile", "LogListing", "file_name"]


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
        self._without = without
        self._parts: dict[tuple[int, int, str], dict[int, FileStatus]] = {}
        self._compacted: list[CompactedFile] = []
        self._checksum: tuple[int, FileStatus] | None = None

    def take(self, status: FileStatus) -> None:
        """Sort one file in."""
        match parse_log_file(file_name(status)):
            case None:
                pass
            case CommitFile(version=found):
                if self._is_above(found):
                    self.later = found if self.later is None else self.later
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
                    self._checksum = found, status  # ascending: the last is the newest
            case _:
                pass

    def ends(self) -> tuple[int | None, int]:
        """The earliest version that can be rebuilt, None for none, and the latest there is."""
        complete = [key[0] for key, files in self._parts.items() if len(files) == key[1]]
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

        The commit of the latest version is read in any case, for its `commitInfo`.
        """
        longest: dict[int, CompactedFile] = {}
        for file in self._compacted:
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

    def checksum(self, base: int) -> tuple[int, FileStatus] | None:
        """The newest at or above version `base`."""
        if self._checksum is None or self._checksum[0] < base:
            return None
        return self._checksum

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
