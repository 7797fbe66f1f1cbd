"""Which files of a table may hold a row that a condition is true for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.kernel.arrow.closeable import closeable
from bayou.kernel.checkpoint.add_files import CheckpointAdds
from bayou.kernel.commands.row_changes.row_search import Candidate, RowSearch
from bayou.kernel.engine import Engine
from bayou.kernel.expressions.evaluation import resolve
from bayou.kernel.expressions.model import IsNull, Not, Or, Predicate, referenced_columns
from bayou.kernel.log.table_state import TableState
from bayou.kernel.scan.data_skipping.pruning import Pruning
from bayou.kernel.scan.data_skipping.skipping import SkippingPlan
from bayou.kernel.scan.scan import Scan, ScanBuilder
from bayou.kernel.scan.scan_file import ScanFileBatch
from bayou.kernel.scan.scan_state import ROW_INDEX_COLUMN
from bayou.protocol.schema import BYTE, DATE, INTEGER, LONG, SHORT, StructType

__all__ = ["Matching"]

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
