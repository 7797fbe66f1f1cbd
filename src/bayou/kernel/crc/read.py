"""Version checksums: a version's protocol, metadata, transactions and domains in one small file.

They save reading the checkpoint, and tell of a log that was tampered with (PROTOCOL.md, Version
Checksum File).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from bayou.errors import CorruptTableError, StorageError
from bayou.kernel.engine import ByteRange, Engine
from bayou.kernel.log.replay import ReplayState, read_commit_info
from bayou.kernel.log.segment import LogSegment, log_path
from bayou.protocol import features, version_checksum
from bayou.protocol.actions import CommitInfo, Protocol
from bayou.protocol.file_names import checksum_file_name
from bayou.protocol.version_checksum import VersionChecksum

__all__ = [
    "FileTotals",
    "compare_totals",
    "describes_commit",
    "read_checksum",
    "stated_totals",
    "usable_checksum",
]

_LOG = logging.getLogger(__name__)

_LARGEST = 16 * 1024 * 1024
"""Bytes: a checksum may list all files of the table."""


@dataclass(frozen=True, slots=True)
class FileTotals:
    """Number of live files of a version, and bytes of all of them."""

    files: int
    size: int


def stated_totals(segment: LogSegment, found: VersionChecksum | None) -> FileTotals | None:
    """What a segment's checksum says; None where it is of an older version, or not there."""
    if found is None or segment.checksum is None or segment.checksum.version != segment.version:
        return None
    return FileTotals(found.num_files, found.table_size_bytes)


def compare_totals(
    table: str, version: int, stated: FileTotals | None, counted: FileTotals
) -> None:
    """Log a warning where a version's checksum counts its files otherwise than the log does.

    It is no error: the checksum may be the one that is wrong.
    """
    if stated is None or stated == counted:
        return
    _LOG.warning(
        "Checksum %s of %s says %d files of %d bytes, the log has %d of %d. Delete the checksum if "
        "a tool changed the log and left it as it was; else compare the log with a backup.",
        f"{log_path(table)}/{checksum_file_name(version)}",
        table,
        stated.files,
        stated.size,
        counted.files,
        counted.size,
    )


def describes_commit(stated: VersionChecksum, commit: CommitInfo | None) -> bool:
    """Whether a checksum is of this commit, and not of another one that the log has lost since.

    Args:
        commit: None where the commit has no commitInfo, or has been deleted by log cleanup.
    """
    txn_id = None if commit is None else commit.string("txnId")
    return txn_id is None or stated.txn_id is None or stated.txn_id == txn_id


def read_checksum(
    engine: Engine, segment: LogSegment, latest: CommitInfo | None = None
) -> VersionChecksum | None:
    """The segment's newest checksum; None where it has none, or one that doesn't count.

    A checksum that can't be read doesn't count, nor does one of another commit.

    Args:
        latest: commitInfo of the segment's version; None where it isn't known.
    """
    listed = segment.checksum
    if listed is None or listed.file.size > _LARGEST:
        return None
    wanted = ByteRange(path=listed.file.path)
    try:
        found = version_checksum.parse(bytes(next(iter(engine.files.read_files([wanted])))))
        if found is None or found.txn_id is None:
            return found
        commit = latest if listed.version == segment.version else None
        if commit is None and listed.commit is not None:
            commit = read_commit_info(engine, segment.table, listed.version, listed.commit)
    except (StorageError, CorruptTableError):  # a hint, and readers go on without it
        return None
    return found if describes_commit(found, commit) else None


def usable_checksum(
    engine: Engine, segment: LogSegment, replay: ReplayState
) -> VersionChecksum | None:
    """A checksum that stands for the checkpoint: at its version or behind it, and complete.

    One that contradicts the commits isn't used: some tools change a log and leave it as it was.
    """
    if segment.checkpoint is None:
        return None
    found = read_checksum(engine, segment, replay.commit_info)
    if found is None or found.protocol is None or found.metadata is None:
        return None
    if found.num_metadata != 1 or found.num_protocol != 1 or found.set_transactions is None:
        return None
    if found.domain_metadata is None and _may_have_domains(found.protocol):
        return None
    assert segment.checksum is not None  # it was read
    if segment.checksum.version == segment.version and (
        replay.protocol not in (None, found.protocol)
        or replay.metadata not in (None, found.metadata)
    ):
        return None
    return found


def _may_have_domains(protocol: Protocol) -> bool:
    return features.DOMAIN_METADATA in features.writer_features(protocol)
