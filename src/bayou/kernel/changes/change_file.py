"""Files of changes: what a worker needs to read the rows that a commit changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from bayou.errors import SerializationError
from bayou.kernel.arrow_types import to_arrow_schema
from bayou.kernel.scan_file import ScanFile
from bayou.kernel.transform import ScanState
from bayou.protocol.actions import AddFile, DeletionVectorDescriptor
from bayou.protocol.change_data import CHANGE_COLUMNS

__all__ = ["ChangeFile", "ChangeState"]

_FORMAT = 1


class _WireChangeFile(msgspec.Struct, frozen=True, array_like=True):
    format: int
    table_root: str
    add: AddFile
    version: int
    timestamp: int
    change_type: str | None
    only: DeletionVectorDescriptor | None


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

    def to_bytes(self) -> bytes:
        """For another process."""
        return msgspec.msgpack.encode(
            _WireChangeFile(
                _FORMAT,
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
        wire = _decode(data, _WireChangeFile, "a file of changes")
        return cls(
            file=ScanFile(table_root=wire.table_root, add=wire.add),
            version=wire.version,
            timestamp=wire.timestamp,
            change_type=wire.change_type,
            only=wire.only,
        )


class _WireChangeState(msgspec.Struct, frozen=True, array_like=True):
    format: int
    scan_state: bytes


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
        return msgspec.msgpack.encode(_WireChangeState(_FORMAT, self.scan_state.to_bytes()))

    @classmethod
    def from_bytes(cls, data: bytes) -> ChangeState:
        """The inverse of `to_bytes`.

        Raises:
            SerializationError: not such bytes, or of a newer version of the package.
        """
        wire = _decode(data, _WireChangeState, "a state of changes")
        return cls(scan_state=ScanState.from_bytes(wire.scan_state))


def _decode(data: bytes, kind: type[Any], what: str) -> Any:
    try:
        head = msgspec.msgpack.decode(data, type=list[Any])
        if head and isinstance(head[0], int) and head[0] > _FORMAT:
            raise SerializationError(
                f"These bytes are {what} of format {head[0]}; this version of Bayou reads up to "
                f"{_FORMAT}. Run the same version in every process."
            )
        return msgspec.msgpack.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise SerializationError(f"These bytes aren't {what}: {error}.") from error
