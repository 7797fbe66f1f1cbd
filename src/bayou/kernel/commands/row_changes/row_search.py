"""Search for the rows that match a condition: candidate files, then row indexes in each file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyroaring import BitMap64

from bayou.kernel.arrow.closeable import closeable
from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.serialization import PickledTask
from bayou.kernel.checkpoint.add_files import CheckpointAdds
from bayou.kernel.deletion_vectors.deleted_rows import num_rows, to_bitmap
from bayou.kernel.engine import Engine
from bayou.kernel.expressions.literals import normalize_time_zone
from bayou.kernel.expressions.model import IsNull, Not, Or, Predicate, referenced_columns
from bayou.kernel.expressions.resolution import resolve
from bayou.kernel.log.table_state import TableState
from bayou.kernel.scan.data_skipping.pruning import Pruning
from bayou.kernel.scan.data_skipping.skipping import SkippingPlan
from bayou.kernel.scan.scan import Scan, ScanBuilder
from bayou.kernel.scan.scan_file import ScanFile, ScanFileBatch
from bayou.kernel.scan.scan_state import ROW_INDEX_COLUMN, ScanState
from bayou.kernel.scan.transform import read_scan_file
from bayou.protocol.schema import BYTE, DATE, INTEGER, LONG, SHORT, StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate(PickledTask):
    """A file that may have matching rows.

    Attributes:
        all_rows_match: whether every row of the file matches.
    """

    file: ScanFile
    all_rows_match: bool

    def all_positions(self, engine: Engine) -> BitMap64:
        """Return the row indexes of all rows of the file, including deleted rows."""
        return BitMap64(range(num_rows(engine, self.file)))


@dataclass(frozen=True, kw_only=True)
class RowSearch(PickledTask):
    """Finds the rows of a file that match a condition; can be pickled for workers.

    Attributes:
        scan_state: scan state for reading the columns of the condition and the row index.
        condition: the condition with resolved columns; None if every row matches.
    """

    scan_state: ScanState
    condition: Predicate | None

    def positions(self, engine: Engine) -> Callable[[ScanFile], BitMap64]:
        """Return a function that finds the row indexes of a file's live rows that match.

        The function reads only the columns of the condition, and skips row groups by statistics.
        """
        evaluator = None
        if self.condition is not None:
            schema = self.scan_state.logical_schema
            evaluator = engine.expressions.predicate_evaluator(schema, self.condition)

        def matching_positions(file: ScanFile) -> BitMap64:
            positions = BitMap64()
            with read_scan_file(engine, self.scan_state, file) as batches:
                for batch in batches:
                    rows = batch.column(ROW_INDEX_COLUMN)
                    if evaluator is not None:
                        rows = rows.filter(evaluator.eval(batch))
                    if len(rows):
                        positions |= to_bitmap(rows)
            return positions

        return matching_positions


_EXACT_TYPES = frozenset({BYTE, SHORT, INTEGER, LONG, DATE})
"""Types for which all writers store exact minimums and maximums in the statistics.

For other types, the bounds may be rounded or truncated, or ignore NaN. Such bounds can prove that
no row of a file matches a condition, but not that all rows match.
"""


class CandidateFiles:
    """Finds, in one table version, the files that may have matching rows; thread-safe.

    Args:
        predicate: condition; None matches every row.
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
        referenced = () if resolved is None else {p[0] for p in referenced_columns(resolved)}
        schema = StructType(tuple(f for f in state.schema if f.name in referenced))
        self._scan: Scan = (
            ScanBuilder(state)
            .with_filter(resolved)
            .with_read_schema(schema)
            .with_metadata_columns([ROW_INDEX_COLUMN])
            .with_time_zone(time_zone)
            .with_whole_adds()
            .build()
        )
        residual = self._scan.remaining_filter
        self.search = RowSearch(scan_state=self._scan.scan_state(engine), condition=residual)
        self._uncertain: Pruning | None = None
        if residual is not None and _has_exact_bounds(residual, state):
            otherwise = resolve(Or((Not(residual), IsNull(residual))), state.schema)
            plan = SkippingPlan.build(otherwise, state.schema, state.partition_columns)
            zone = normalize_time_zone(time_zone)
            self._uncertain = Pruning(state.path, state.schema, plan, time_zone=zone)

    @closeable
    def candidates(self, engine: Engine) -> Iterator[Candidate]:
        """Yield the live files that may have a matching row."""
        with self._scan.scan_files(engine) as batches:
            for batch in batches:
                uncertain = self._uncertain_paths(engine, batch)
                with batch.rows() as files:
                    for file in files:
                        certain = uncertain is not None and file.path not in uncertain
                        yield Candidate(file=file, all_rows_match=certain)

    def _uncertain_paths(self, engine: Engine, batch: ScanFileBatch) -> frozenset[str] | None:
        """Return the paths of the files for which it is uncertain whether all rows match.

        All rows of the other files match. None means that all files are uncertain.
        """
        if self.search.condition is None:
            return frozenset()
        if self._uncertain is None:
            return None
        adds: Any = batch.selected().column("add")
        retained, selection = self._uncertain.select(engine, CheckpointAdds(adds), None)
        column: pa.Array[Any] = pc.struct_field(retained, "path")
        if selection is not None:
            column = column.filter(selection)
        paths: list[Any] = column.to_pylist()
        return frozenset(paths)


def _has_exact_bounds(predicate: Predicate, state: TableState) -> bool:
    """Whether the files' statistics have exact bounds of all data columns in a condition."""
    for path in referenced_columns(predicate):
        field = state.schema.get(path[0])
        if path[0] in state.partition_columns:
            continue
        if len(path) > 1 or field is None or field.data_type not in _EXACT_TYPES:
            return False
    return True
