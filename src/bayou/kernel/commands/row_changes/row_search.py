"""Which rows of a data file a condition is true for: a worker's part of finding them.

Which files of a table may hold a row that a condition is true for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute
from pyroaring import BitMap64

from bayou.kernel.arrow.closeable import closeable
from bayou.kernel.arrow.serialization import WireFormat
from bayou.kernel.checkpoint.add_files import CheckpointAdds
from bayou.kernel.deletion_vectors.deleted_rows import bitmap, num_rows
from bayou.kernel.engine import Engine
from bayou.kernel.expressions.evaluation import resolve
from bayou.kernel.expressions.model import IsNull, Not, Or, Predicate, referenced_columns
from bayou.kernel.expressions.serialization import from_wire, to_wire
from bayou.kernel.log.table_state import TableState
from bayou.kernel.scan.data_skipping.pruning import Pruning
from bayou.kernel.scan.data_skipping.skipping import SkippingPlan
from bayou.kernel.scan.scan import Scan, ScanBuilder
from bayou.kernel.scan.scan_file import ScanFile, ScanFileBatch
from bayou.kernel.scan.scan_state import ROW_INDEX_COLUMN, ScanState
from bayou.kernel.scan.transform import read_scan_file
from bayou.protocol.schema import BYTE, DATE, INTEGER, LONG, SHORT, StructType

__all__ = ["Candidate", "Matching", "RowSearch"]


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


pc: Any = pyarrow.compute

_EXACT_TYPES = frozenset({BYTE, SHORT, INTEGER, LONG, DATE})
"""Types whose bounds every writer writes exactly. Others are rounded, cut off, or leave out NaN:
good enough for leaving out files, not for taking all of a file's rows without a look."""


class Matching:
    """A condition over one version of a table. Holds no engine; safe in threads.

    Args:
        predicate: None matches every row.

    Raises:
        PredicateError: the predicate names an unknown column or function, or isn't a condition.

    Attributes:
        search: finds the rows in the files.
    """

    def __init__(
        self,
        engine: Engine,
        state: TableState,
        predicate: Predicate | None,
        *,
        time_zone: str = "UTC",
    ) -> None:
        resolved = None if predicate is None else resolve(predicate, state.schema)
        named = () if resolved is None else {p[0] for p in referenced_columns(resolved)}
        schema = StructType(tuple(f for f in state.schema if f.name in named))
        self._scan: Scan = (
            ScanBuilder(state)
            .with_filter(resolved)
            .with_read_schema(schema)
            .with_metadata_columns([ROW_INDEX_COLUMN])
            .with_time_zone(time_zone)
            .with_statistics()
            .build()
        )
        residual = self._scan.remaining_filter
        self.search = RowSearch(read=self._scan.scan_state(engine), condition=residual)
        self._doubtful: Pruning | None = None
        if residual is not None and _has_exact_bounds(residual, state):
            otherwise = resolve(Or((Not(residual), IsNull(residual))), state.schema)
            plan = SkippingPlan.build(otherwise, state.schema, state.partition_columns)
            self._doubtful = Pruning(state.path, state.schema, plan, time_zone=time_zone)

    @closeable
    def candidates(self, engine: Engine) -> Iterator[Candidate]:
        """Live files that may hold a matching row.

        Raises:
            EvaluationError: the condition fails for a file's partition values.
        """
        with self._scan.scan_files(engine) as batches:
            for batch in batches:
                doubtful = self._doubtful_paths(engine, batch)
                with batch.rows() as files:
                    for file in files:
                        certain = doubtful is not None and file.path not in doubtful
                        yield Candidate(file=file, certain=certain)

    def _doubtful_paths(self, engine: Engine, batch: ScanFileBatch) -> frozenset[str] | None:
        """Paths of files that may hold a row that doesn't match; None where any file may."""
        if self.search.condition is None:
            return frozenset()
        if self._doubtful is None:
            return None
        adds: Any = batch.selected().column("add")
        kept, selection = self._doubtful.keep(engine, CheckpointAdds(adds), None)
        paths: pa.Array[Any] = pc.struct_field(kept, "path")
        if selection is not None:
            paths = paths.filter(selection)
        found: list[Any] = paths.to_pylist()
        return frozenset(found)


def _has_exact_bounds(predicate: Predicate, state: TableState) -> bool:
    """Whether all that a condition names of data files are columns with exact bounds."""
    for path in referenced_columns(predicate):
        field = state.schema.get(path[0])
        if path[0] in state.partition_columns:
            continue
        if len(path) > 1 or field is None or field.data_type not in _EXACT_TYPES:
            return False
    return True
