"""Version checksums: a version's protocol, metadata, transactions and domains in one small file.

They save reading the checkpoint, and tell of a log that was tampered with (PROTOCOL.md, Version
Checksum File).
"""

from __future__ import annotations

from bayou.errors import StorageError
from bayou.kernel.engine import ByteRange, Engine
from bayou.kernel.log_segment import LogSegment
from bayou.kernel.replay import ReplayState
from bayou.protocol import checksum, features
from bayou.protocol.actions import Protocol
from bayou.protocol.checksum import VersionChecksum

__all__ = ["read_checksum", "usable_checksum"]

_LARGEST = 16 * 1024 * 1024
"""Bytes: a checksum may list all files of the table."""


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
