"""Writing deletion vectors (PROTOCOL.md, Deletion Vector File Storage Format)."""

from __future__ import annotations

import uuid

from pyroaring import BitMap64

from bayou.kernel.engine import Engine
from bayou.kernel.transaction_state import TransactionState
from bayou.protocol.actions import DeletionVectorDescriptor
from bayou.protocol.deletion_vectors import (
    FORMAT_VERSION,
    encode_bitmap,
    file_path,
    frame,
    vector_in_file,
)
from bayou.protocol.properties import TableProperties

_TARGET_BYTES = 2 * 1024 * 1024
"""Target size of a deletion vector file in bytes, as in delta-spark (`packing.targetSize`)."""


class DeletionVectorFiles:
    """Packs deletion vectors into deletion vector files of a table. Not thread-safe.

    `add` returns a descriptor before the vector's file is written. Call `finish` before the commit.

    Attributes:
        paths: absolute paths of the files that are already written, not URL-encoded.
    """

    def __init__(
        self, engine: Engine, state: TransactionState, *, target_bytes: int = _TARGET_BYTES
    ) -> None:
        self._engine = engine
        self._table = state.table
        self._target = target_bytes
        properties = TableProperties(state.configuration)
        self._prefix_length = (
            properties.random_prefix_length if properties.randomize_file_prefixes else 0
        )
        self.paths: list[str] = []
        self._start_file()

    def add(self, positions: BitMap64) -> DeletionVectorDescriptor:
        """Add a deletion vector and return its descriptor.

        Args:
            positions: row indexes (from 0) of the deleted rows; not empty.
        """
        compact = positions.copy()
        compact.run_optimize()
        body = encode_bitmap(compact.serialize())
        framed = frame(body)
        if len(self._data) > FORMAT_VERSION and len(self._data) + len(framed) > self._target:
            self.finish()
        offset = len(self._data)
        self._data += framed
        return vector_in_file(
            self._file,
            self._prefix,
            offset=offset,
            size=len(body),
            cardinality=len(positions),
        )

    def finish(self) -> None:
        """Write the current file. Vectors that are added later go to a new file."""
        if len(self._data) == FORMAT_VERSION:
            return
        path = f"{self._table}/{file_path(self._file, self._prefix)}"
        self.paths.append(path)
        if self._prefix:
            self._engine.files.mkdirs(path.rpartition("/")[0])
        self._engine.files.put(path, bytes(self._data))
        self._start_file()

    def _start_file(self) -> None:
        self._file = uuid.uuid4()
        self._prefix = uuid.uuid4().hex[: self._prefix_length]
        self._data = bytearray([FORMAT_VERSION])
