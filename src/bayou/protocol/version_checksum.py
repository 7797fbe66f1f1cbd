"""Version checksum files (PROTOCOL.md, Version Checksum File Schema)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

import msgspec

from bayou.json_decoding import JsonDecoder
from bayou.protocol.actions import DomainMetadata, Metadata, Protocol, Transaction

_MB = 1 << 20
_SIZE_BINS: tuple[int, ...] = (
    0,
    *(8192 << i for i in range(7)),
    *(
        megabytes * _MB
        for megabytes in (
            1,
            2,
            4,
            *range(8, 41, 4),
            *range(48, 121, 8),
            *range(124, 145, 4),
            *range(160, 577, 16),
            *range(640, 1409, 64),
            *range(1536, 2049, 128),
            *range(2304, 4097, 256),
            *(8192 << i for i in range(6)),
        )
    ),
)
"""Lower bounds of the bins of a new `FileSizeHistogram` in bytes, as in delta-spark."""

_DELETED_BINS = (0, 1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 2_147_483_647)
"""Lower bounds of the bins of a new `DeletedRecordCountsHistogram`, as in PROTOCOL.md."""


class FileSizeHistogram(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Distribution of the sizes of live files (PROTOCOL.md, File Size Histogram Schema).

    Each bin covers a range of file sizes. The bin stores the number of files in this range and
    their total size.
    """

    sorted_bin_boundaries: tuple[int, ...]
    file_counts: tuple[int, ...]
    total_bytes: tuple[int, ...]

    @classmethod
    def empty(cls) -> FileSizeHistogram:
        """Create the histogram of a table without files."""
        zeros = (0,) * len(_SIZE_BINS)
        return cls(sorted_bin_boundaries=_SIZE_BINS, file_counts=zeros, total_bytes=zeros)

    def updated(self, added: Iterable[int], removed: Iterable[int]) -> FileSizeHistogram | None:
        """Return the histogram after files of these sizes (bytes) are added and removed.

        The result is None if a count would become negative, or if this histogram is malformed.
        """
        counts, totals = list(self.file_counts), list(self.total_bytes)
        if not len(self.sorted_bin_boundaries) == len(counts) == len(totals) > 0:
            return None
        for sizes, sign in ((added, 1), (removed, -1)):
            for size in sizes:
                bin_index = bisect_right(self.sorted_bin_boundaries, size) - 1
                counts[bin_index] += sign
                totals[bin_index] += sign * size
        if min(counts) < 0 or min(totals) < 0:
            return None
        return FileSizeHistogram(
            sorted_bin_boundaries=self.sorted_bin_boundaries,
            file_counts=tuple(counts),
            total_bytes=tuple(totals),
        )


class DeletedRecordCountsHistogram(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Distribution of the number of deleted rows per live file.

    Each bin covers a range of numbers of deleted rows, and stores the number of files in this range
    (PROTOCOL.md, Deleted Record Counts Histogram Schema).
    """

    deleted_record_counts: tuple[int, ...] = (0,) * len(_DELETED_BINS)

    def updated(
        self, added: Iterable[int], removed: Iterable[int]
    ) -> DeletedRecordCountsHistogram | None:
        """Return the histogram after files are added and removed.

        The result is None if a count would become negative, or if this histogram is malformed.

        Args:
            added: number of deleted rows of each added file.
            removed: number of deleted rows of each removed file.
        """
        counts = list(self.deleted_record_counts)
        if len(counts) != len(_DELETED_BINS):
            return None
        for files, sign in ((added, 1), (removed, -1)):
            for deleted in files:
                counts[bisect_right(_DELETED_BINS, deleted) - 1] += sign
        return (
            None
            if min(counts) < 0
            else DeletedRecordCountsHistogram(deleted_record_counts=tuple(counts))
        )


class VersionChecksum(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True
):
    """The fields of a `.crc` file, except for the list of all files. Missing fields are None.

    Attributes:
        num_metadata, num_protocol: number of metadata and protocol actions; always 1.
        metadata, protocol: metadata and protocol of the version; None in checksums of old writers.
        in_commit_timestamp_opt: ms since the epoch; None if the table has no in-commit timestamps.
        num_deleted_records_opt, num_deletion_vectors_opt, deleted_record_counts_histogram_opt:
            statistics of the deletion vectors.
    """

    txn_id: str | None = None
    table_size_bytes: int
    num_files: int
    num_deleted_records_opt: int | None = None
    num_deletion_vectors_opt: int | None = None
    num_metadata: int
    num_protocol: int
    in_commit_timestamp_opt: int | None = None
    set_transactions: list[Transaction] | None = None
    domain_metadata: list[DomainMetadata] | None = None
    metadata: Metadata | None = None
    protocol: Protocol | None = None
    file_size_histogram: FileSizeHistogram | None = None
    histogram_opt: FileSizeHistogram | None = None
    deleted_record_counts_histogram_opt: DeletedRecordCountsHistogram | None = None


def parse(data: bytes) -> VersionChecksum | None:
    """Parse a `.crc` file; return None if it is malformed."""
    try:
        checksum = _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if checksum.histogram_opt is None:
        return checksum
    histogram = checksum.file_size_histogram or checksum.histogram_opt
    return msgspec.structs.replace(checksum, file_size_histogram=histogram, histogram_opt=None)


def encode(checksum: VersionChecksum) -> bytes:
    """Encode a `.crc` file as one line of JSON."""
    return _ENCODER.encode(checksum) + b"\n"


_DECODER = JsonDecoder(VersionChecksum)
_ENCODER = msgspec.json.Encoder()
