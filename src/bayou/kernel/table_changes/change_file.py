"""Files of changes: what a worker needs to read the rows that a commit changed."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pyarrow as pa

from bayou.kernel.arrow.serialization import WireFormat
from bayou.kernel.arrow.types import to_arrow_schema
from bayou.kernel.scan.scan_file import ScanFile
from bayou.kernel.scan.scan_state import ScanState
from bayou.protocol.actions import CHANGE_COLUMNS, AddFile, DeletionVectorDescriptor

__all__ = ["ChangeFile", "ChangeState"]


class _WireChangeFile(msgspec.Struct, frozen=True, array_like=True):
    table_root: str
    add: AddFile
    version: int
    timestamp: int
    change_type: str | None
    only: DeletionVectorDescriptor | None


_WIRE_FILE = WireFormat("file of changes", 1, _WireChangeFile)
_WIRE_STATE = WireFormat("state of changes", 1, bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFile:
    """Rows that a commit changed, all in one file.

    Attributes:
        file: the file, and the deletion vector whose rows don't count.
        version: of the commit.
        timestamp: of the commit, ms since the epoch.
        change_type: what happened to each row; None where the file says it row by row, in the
            column `_change_type` (PROTOCOL.md, Change Data Files).
        only: of the rows that count only those marked in this vector; None for all.
    """

    file: ScanFile
    version: int
    timestamp: int
    change_type: str | None = None
    only: DeletionVectorDescriptor | None = None

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.file.size

    @property
    def deletion_vectors(self) -> tuple[DeletionVectorDescriptor | None, ...]:
        """Vectors that are needed to read it, for `with_vectors`."""
        return (self.file.deletion_vector, self.only)

    def to_bytes(self) -> bytes:
        """For another process."""
        return _WIRE_FILE.encode(
            _WireChangeFile(
                self.file.table_root,
                self.file.add,
                self.version,
                self.timestamp,
                self.change_type,
                self.only,
            )
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> ChangeFile:
        """The inverse of `to_bytes`.

        Raises:
            SerializationError: not such bytes, or of a newer version of the package.
        """
        return _WIRE_FILE.decode(
            data,
            lambda wire: cls(
                file=ScanFile(table_root=wire.table_root, add=wire.add),
                version=wire.version,
                timestamp=wire.timestamp,
                change_type=wire.change_type,
                only=wire.only,
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeState:
    """What is common to all files of a range of changes.

    Attributes:
        scan_state: how a data file's rows become the table's.
    """

    scan_state: ScanState

    @property
    def logical_arrow_schema(self) -> pa.Schema:
        """The table's columns that are read, then `_change_type`, `_commit_version` (int64) and
        `_commit_timestamp` (us, UTC).
        """
        return pa.schema([*self.scan_state.logical_arrow_schema, *to_arrow_schema(CHANGE_COLUMNS)])

    def to_bytes(self) -> bytes:
        """For another process."""
        return _WIRE_STATE.encode(self.scan_state.to_bytes())

    @classmethod
    def from_bytes(cls, data: bytes) -> ChangeState:
        """The inverse of `to_bytes`.

        Raises:
            SerializationError: not such bytes, or of a newer version of the package.
        """
        return _WIRE_STATE.decode(data, lambda wire: cls(scan_state=ScanState.from_bytes(wire)))
