"""Version checksum files (PROTOCOL.md, Version Checksum File Schema)."""

from __future__ import annotations

import msgspec

from bayou.protocol.actions import DomainMetadata, Metadata, Protocol, Transaction

__all__ = ["VersionChecksum", "parse"]


class VersionChecksum(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a `.crc` file says of its version; histograms and the list of files are left out.

    Attributes:
        table_size_bytes: sum of the live files' sizes.
        num_files: number of live files.
        num_metadata, num_protocol: 1.
        metadata, protocol: those of the version; old writers leave them out.
        set_transactions: live ones, None where the writer doesn't say.
        domain_metadata: without removed ones, None where the writer doesn't say.
        in_commit_timestamp_opt: ms since the epoch, None without in-commit timestamps.
        txn_id: of the transaction that made the version.
    """

    table_size_bytes: int
    num_files: int
    num_metadata: int
    num_protocol: int
    metadata: Metadata | None = None
    protocol: Protocol | None = None
    set_transactions: list[Transaction] | None = None
    domain_metadata: list[DomainMetadata] | None = None
    in_commit_timestamp_opt: int | None = None
    txn_id: str | None = None


def parse(data: bytes) -> VersionChecksum | None:
    """Parse the file; None where it isn't a checksum."""
    try:
        return _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


_DECODER = msgspec.json.Decoder(VersionChecksum)
