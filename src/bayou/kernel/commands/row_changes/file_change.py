"""What is to happen to the rows of one data file: the unit of work of a row operation."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
from pyroaring import BitMap64

from bayou.kernel.arrow.serialization import WireFormat
from bayou.kernel.scan.scan_file import ScanFile

__all__ = ["FileChange"]


class _WireFileChange(msgspec.Struct, frozen=True, array_like=True):
    file: bytes
    deleted: bytes
    updated: bytes
    rewrite: bool


_WIRE = WireFormat("change of a file", 1, _WireFileChange)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """Which rows of a data file go away.

    Positions are physical ones, from 0, whole file and rows that a deletion vector deletes
    included; those that it deletes already don't matter here.

    Attributes:
        file: as a scan with statistics gave it.
        deleted: rows that go away for good.
        updated: rows that go away because there is a new version of each.
        rewrite: what is left is copied to a new file; else a deletion vector marks what isn't.
    """

    file: ScanFile
    deleted: BitMap64 = field(default_factory=BitMap64)
    updated: BitMap64 = field(default_factory=BitMap64)
    rewrite: bool

    @property
    def gone(self) -> BitMap64:
        """All rows that go away."""
        return self.deleted | self.updated

    def to_bytes(self) -> bytes:
        """For another process."""
        return _WIRE.encode(
            _WireFileChange(
                self.file.to_bytes(),
                self.deleted.serialize(),
                self.updated.serialize(),
                self.rewrite,
            )
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> FileChange:
        """The inverse of `to_bytes`.

        Raises:
            SerializationError: not such bytes, or of a newer version of the package.
        """
        return _WIRE.decode(
            data,
            lambda wire: cls(
                file=ScanFile.from_bytes(wire.file),
                deleted=BitMap64.deserialize(wire.deleted),
                updated=BitMap64.deserialize(wire.updated),
                rewrite=wire.rewrite,
            ),
        )
