"""Change files: files with changed rows, and the state that is needed to read them."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pyarrow as pa

from bayou.kernel.arrow.serialization import WireFormat
from bayou.kernel.arrow.types import to_arrow_schema
from bayou.kernel.scan.scan_file import ScanFile
from bayou.kernel.scan.scan_state import ScanState
from bayou.protocol.actions import CHANGE_COLUMNS, AddFile, DeletionVectorDescriptor


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
    """A file with rows that a commit changed.

    Attributes:
        file: the file; the rows that its deletion vector deletes are excluded.
        version: version of the commit.
        timestamp: timestamp of the commit, ms since the epoch.
        change_type: change type of all rows; None if the file has the column `_change_type`
            (PROTOCOL.md, Change Data Files).
        only: deletion vector that marks the changed rows; only these rows are read. If None, all
            rows of the file are read.

    Examples:
        >>> scan = table.changes(engine, CommitBoundary.at_version(0)).scan_builder().build()
        >>> with scan.change_files(engine) as files:
        ...     print([(file.version, file.size) for file in files])
    """

    file: ScanFile
    version: int
    timestamp: int
    change_type: str | None = None
    only: DeletionVectorDescriptor | None = None

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return self.file.size

    @property
    def deletion_vectors(self) -> tuple[DeletionVectorDescriptor | None, ...]:
        """The deletion vectors `file.deletion_vector` and `only`; each of them can be None."""
        return (self.file.deletion_vector, self.only)

    def to_bytes(self) -> bytes:
        """Serialize the file for another process."""
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
        """Deserialize a change file from the bytes that `to_bytes` returned.

        Raises:
            SerializationError: the bytes aren't a change file, or a newer version of Bayou wrote
                them.
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
    """The state that is needed to read any change file of a scan.

    Attributes:
        scan_state: state for reading data files. To read a change data file, the reader adds the
            column `_change_type` to this state.

    Examples:
        >>> scan = table.changes(engine, CommitBoundary.at_version(0)).scan_builder().build()
        >>> state = ChangeState.from_bytes(scan.change_state(engine).to_bytes())
        >>> print(state.logical_arrow_schema.names)
    """

    scan_state: ScanState

    @property
    def logical_arrow_schema(self) -> pa.Schema:
        """Schema of the changed rows.

        It has the requested columns, then `_change_type` (string), `_commit_version` (int64) and
        `_commit_timestamp` (timestamp in microseconds, UTC).
        """
        return pa.schema([*self.scan_state.logical_arrow_schema, *to_arrow_schema(CHANGE_COLUMNS)])

    def to_bytes(self) -> bytes:
        """Serialize the state for another process."""
        return _WIRE_STATE.encode(self.scan_state.to_bytes())

    @classmethod
    def from_bytes(cls, data: bytes) -> ChangeState:
        """Deserialize a change state from the bytes that `to_bytes` returned.

        Raises:
            SerializationError: the bytes aren't a change state, or a newer version of Bayou wrote
                them.
        """
        return _WIRE_STATE.decode(data, lambda wire: cls(scan_state=ScanState.from_bytes(wire)))
