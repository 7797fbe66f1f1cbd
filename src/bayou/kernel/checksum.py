"""Version checksums: a version's protocol, metadata, transactions and domains in one small file.

They save reading the checkpoint, and tell of a log that was tampered with (PROTOCOL.md, Version
Checksum File).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from bayou.errors import StorageError
from bayou.kernel.engine import ByteRange, Engine
from bayou.kernel.log_segment import LogSegment, log_path
from bayou.kernel.replay import ReplayState
from bayou.protocol import checksum, features
from bayou.protocol.actions import Protocol
from bayou.protocol.checksum import VersionChecksum
from bayou.protocol.file_names import checksum_file_name

__all__ = [
    "FileTotals",
    "compare_totals",
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
    if found is None or segment.checksum is None or segment.checksum[0] != segment.version:
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


def read_checksum(engine: Engine, segment: LogSegment) -> VersionChecksum | None:
    """The segment's newest checksum; None where it has none, or one that can't be read."""
    if segment.checksum is None or segment.checksum[1].size > _LARGEST:
        return None
    path = segment.checksum[1].path
    try:
        return checksum.parse(bytes(next(iter(engine.files.read_files([ByteRange(path=path)])))))
    except StorageError:  # a hint, and readers go on without it
        return None


def usable_checksum(
    engine: Engine, segment: LogSegment, replay: ReplayState
) -> VersionChecksum | None:
    """A checksum that stands for the checkpoint: at its version or behind it, and complete.

    One that contradicts the commits isn't used: some tools change a log and leave it as it was.
    """
    if segment.checkpoint is None:
        return None
    found = read_checksum(engine, segment)
    if found is None or found.protocol is None or found.metadata is None:
        return None
    if found.num_metadata != 1 or found.num_protocol != 1 or found.set_transactions is None:
        return None
    if found.domain_metadata is None and _may_have_domains(found.protocol):
        return None
    assert segment.checksum is not None  # it was read
    if segment.checksum[0] == segment.version and (
        replay.protocol not in (None, found.protocol)
        or replay.metadata not in (None, found.metadata)
    ):
        return None
    return found


def _may_have_domains(protocol: Protocol) -> bool:
    return features.DOMAIN_METADATA in features.writer_features(protocol)
