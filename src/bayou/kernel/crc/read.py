"""Reading of version checksums (PROTOCOL.md, Version Checksum File).

A checksum contains protocol, metadata, transaction identifiers and domain metadata of a version in
one small file. A reader can use this file instead of the checkpoint. The number and total size of
files in the checksum show whether a tool has damaged the log.
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

_LOG = logging.getLogger(__name__)

_MAX_CHECKSUM_BYTES = 16 * 1024 * 1024
"""Maximum size of a checksum file that is read.

A larger checksum file probably contains the list of all data files, which isn't used.
"""


@dataclass(frozen=True, slots=True)
class FileTotals:
    """The number of live files of a version and their total size in bytes."""

    files: int
    size: int


def checksum_totals(segment: LogSegment, checksum: VersionChecksum | None) -> FileTotals | None:
    """Return the totals in a checksum; None if the segment's version has no checksum.

    Args:
        checksum: content of `segment.checksum`; None if this file is missing or invalid.
    """
    if checksum is None or segment.checksum is None or segment.checksum.version != segment.version:
        return None
    return FileTotals(checksum.num_files, checksum.table_size_bytes)


def compare_totals(
    table: str, version: int, checksum_totals: FileTotals | None, log_totals: FileTotals
) -> None:
    """Log a warning if the number or size of files in a version's checksum differs from the log."""
    if checksum_totals is None or checksum_totals == log_totals:
        return
    _LOG.warning(
        "%s: the version checksum %s has %d files of %d bytes, but the log has %d files of %d "
        "bytes. Delete the checksum file if a tool changed the log without updating the "
        "checksum. Otherwise compare the log with a backup.",
        table,
        f"{log_path(table)}/{checksum_file_name(version)}",
        checksum_totals.files,
        checksum_totals.size,
        log_totals.files,
        log_totals.size,
    )


def describes_commit(checksum: VersionChecksum, commit: CommitInfo | None) -> bool:
    """Whether a checksum and the commit of its version have the same `txnId`.

    If they differ, another writer committed the version, and the checksum doesn't describe it. The
    result is True if the checksum or the commit has no `txnId`.

    Args:
        commit: the commit's `commitInfo`; None if the commit has none, or if log cleanup deleted
            the commit.
    """
    txn_id = None if commit is None else commit.string("txnId")
    return txn_id is None or checksum.txn_id is None or checksum.txn_id == txn_id


def read_checksum(
    engine: Engine, segment: LogSegment, latest: CommitInfo | None = None
) -> VersionChecksum | None:
    """Read the checksum of a log segment.

    Args:
        latest: `commitInfo` of the segment's version; None if unknown.

    Returns:
        The checksum. The result is None in these cases:

        - The checksum file is missing, unreadable or larger than 16 MB.
        - The commit of the checksum's version has another `txnId`, so the checksum belongs to the
          commit of another writer.
    """
    listed = segment.checksum
    if listed is None or listed.file.size > _MAX_CHECKSUM_BYTES:
        return None
    file = ByteRange(path=listed.file.path)
    try:
        checksum = version_checksum.parse(bytes(next(iter(engine.files.read_files([file])))))
        if checksum is None or checksum.txn_id is None:
            return checksum
        commit = latest if listed.version == segment.version else None
        if commit is None and listed.commit is not None:
            commit = read_commit_info(engine, segment.table, listed.version, listed.commit)
    except (StorageError, CorruptTableError):  # checksums are optional
        return None
    return checksum if describes_commit(checksum, commit) else None


def usable_checksum(
    engine: Engine, segment: LogSegment, replay: ReplayState
) -> VersionChecksum | None:
    """Return a checksum that can be read instead of the checkpoint; None if there is none.

    The checksum contains protocol, metadata, transaction identifiers and domain metadata. It
    describes the version of the checkpoint or a later version.

    Some tools change a log without updating the checksum. Therefore, a checksum of the segment's
    version isn't used if the replayed commits set a different protocol or different metadata.
    """
    if segment.checkpoint is None:
        return None
    checksum = read_checksum(engine, segment, replay.commit_info)
    if checksum is None or checksum.protocol is None or checksum.metadata is None:
        return None
    if (
        checksum.num_metadata != 1
        or checksum.num_protocol != 1
        or checksum.set_transactions is None
    ):
        return None
    if checksum.domain_metadata is None and _may_have_domains(checksum.protocol):
        return None
    assert segment.checksum is not None  # `read_checksum` read it
    if segment.checksum.version == segment.version and (
        replay.protocol not in (None, checksum.protocol)
        or replay.metadata not in (None, checksum.metadata)
    ):
        return None
    return checksum


def _may_have_domains(protocol: Protocol) -> bool:
    return features.DOMAIN_METADATA in features.writer_features(protocol)
