"""Which rows of a data file a condition is true for: a worker's part of finding them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from pyroaring import BitMap64

from bayou.kernel.arrow.serialization import WireFormat
from bayou.kernel.deletion_vectors.row_positions import bitmap, num_rows
from bayou.kernel.engine import Engine
from bayou.kernel.expressions.model import Predicate
from bayou.kernel.expressions.serialization import from_wire, to_wire
from bayou.kernel.scan.scan_file import ScanFile
from bayou.kernel.scan.scan_state import ROW_INDEX_COLUMN, ScanState
from bayou.kernel.scan.transform import read_scan_file

__all__ = ["Candidate", "RowSearch"]


class _WireCandidate(msgspec.Struct, frozen=True, array_like=True):
    file: bytes
    certain: bool


class _WireSearch(msgspec.Struct, frozen=True, array_like=True):
    read: bytes
    condition: list[Any] | None


_CANDIDATE = WireFormat("file to be searched", 1, _WireCandidate)
_SEARCH = WireFormat("search for rows", 1, _WireSearch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A file that may hold matching rows.

    Attributes:
        certain: every row of it matches.
    """

    file: ScanFile
    certain: bool

    def all_positions(self, engine: Engine) -> BitMap64:
        """Those of all rows, deleted ones included.

        Raises:
            DataFileError: the file can't be read.
        """
        return BitMap64(range(num_rows(engine, self.file)))

    def to_bytes(self) -> bytes:
        """For another process."""
        return _CANDIDATE.encode(_WireCandidate(self.file.to_bytes(), self.certain))

    @classmethod
    def from_bytes(cls, data: bytes) -> Candidate:
        """The inverse of `to_bytes`.

        Raises:
            SerializationError: not such bytes, or of a newer version of the package.
        """
        return _CANDIDATE.decode(
            data, lambda wire: cls(file=ScanFile.from_bytes(wire.file), certain=wire.certain)
        )


@dataclass(frozen=True, kw_only=True)
class RowSearch:
    """What is looked for in each file.

    Attributes:
        read: how files are read: the columns that the condition names, and the row's index.
        condition: resolved; None: every row matches.
    """

    read: ScanState
    condition: Predicate | None

    def positions(self, engine: Engine) -> Callable[[ScanFile], BitMap64]:
        """Gives the matching rows of a file, by their positions, without rows deleted before.

        It reads the columns that the condition names, of row groups that may hold a matching row.
        It raises EvaluationError where the condition fails for a row, DataFileError where a file
        can't be read.
        """
        evaluator = None
        if self.condition is not None:
            schema = self.read.logical_schema
            evaluator = engine.expressions.predicate_evaluator(schema, self.condition)

        def of_file(file: ScanFile) -> BitMap64:
            found = BitMap64()
            with read_scan_file(engine, self.read, file) as batches:
                for batch in batches:
                    rows = batch.column(ROW_INDEX_COLUMN)
                    if evaluator is not None:
                        rows = rows.filter(evaluator.eval(batch))
                    if len(rows):
                        found |= bitmap(rows)
            return found

        return of_file

    def to_bytes(self) -> bytes:
        """For another process."""
        condition = None if self.condition is None else to_wire(self.condition)
        return _SEARCH.encode(_WireSearch(self.read.to_bytes(), condition))

    @classmethod
    def from_bytes(cls, data: bytes) -> RowSearch:
        """The inverse of `to_bytes`.

        Raises:
            SerializationError: not such bytes, or of a newer version of the package.
        """
        return _SEARCH.decode(
            data,
            lambda wire: cls(
                read=ScanState.from_bytes(wire.read),
                condition=None if wire.condition is None else from_wire(wire.condition),
            ),
        )
