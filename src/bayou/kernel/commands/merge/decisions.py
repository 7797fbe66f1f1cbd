"""What happens to which row of which file of the target.

Of the clauses of a kind the first counts whose condition is true.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.errors import MultipleMatchesError
from bayou.kernel.commands.merge.clauses import TARGET, columns_of
from bayou.kernel.commands.merge.join import (
    MatchedSourceRows,
    Matcher,
    Pairs,
    joined_rows,
    numbered,
)
from bayou.kernel.commands.merge.plan import MergePlan, PlannedClause
from bayou.kernel.engine import Engine
from bayou.kernel.expressions.evaluation import Evaluation
from bayou.kernel.scan.scan_file import ScanFile
from bayou.kernel.scan.scan_state import ROW_INDEX_COLUMN, ScanState
from bayou.kernel.scan.transform import read_scan_file
from bayou.protocol.schema import StructType

__all__ = ["Decisions", "FileDecisions", "first_clauses"]


pc: Any = pyarrow.compute


def first_clauses(
    schema: StructType, clauses: Sequence[PlannedClause], rows: pa.RecordBatch
) -> Any:
    """The number of each row's clause, int8, null for none.

    A condition is only looked at for rows that no clause before it has taken.

    Args:
        schema: of the joined rows.
        rows: joined rows with the columns that the conditions name.

    Raises:
        EvaluationError: a condition that can't be computed for a row.
    """
    result: Any = pa.nulls(rows.num_rows, pa.int8())
    open_rows: Any = pa.repeat(pa.scalar(True), rows.num_rows)
    for number, clause in enumerate(clauses):
        chosen = open_rows
        if clause.condition is not None:
            values = Evaluation(schema, clause.condition).values(rows, open_rows)
            chosen = pc.and_(pc.fill_null(pc.cast(values, pa.bool_()), False), open_rows)
        result = pc.if_else(chosen, pa.scalar(number, pa.int8()), result)
        open_rows = pc.and_not(open_rows, chosen)
    return result


_concatenated: Any = pa.concat_batches  # type: ignore[attr-defined]  # the stubs lack it

_CHUNK_ROWS = 1 << 20
_CHUNK_BYTES = 1 << 29


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDecisions:
    """What happens to the rows of one file; rows that stay aren't here.

    Attributes:
        positions: of the rows in the file, ascending.
        clauses: numbers of clauses, those of `matched` first, then `not_matched_by_source`.
        sources: the matching rows of the source, null for clauses of the latter.
    """

    file: ScanFile
    positions: pa.Int64Array
    clauses: pa.Int8Array
    sources: pa.Int64Array

    def of(self, chosen: pa.BooleanArray) -> FileDecisions:
        """Those of some of the rows."""
        return FileDecisions(
            file=self.file,
            positions=self.positions.filter(chosen),
            clauses=self.clauses.filter(chosen),
            sources=self.sources.filter(chosen),
        )

    def slice(self, offset: int, length: int) -> FileDecisions:
        """Those of some rows one after another."""
        return FileDecisions(
            file=self.file,
            positions=self.positions.slice(offset, length),
            clauses=self.clauses.slice(offset, length),
            sources=self.sources.slice(offset, length),
        )

    def from_position(self, position: int, count: int) -> FileDecisions:
        """Those of some rows one after another, the first of which has a position or a later."""
        return self.slice(_count_below(self.positions, position), count)


@dataclass(slots=True)
class _Share:
    """Rows of a file that were looked at."""

    file: ScanFile
    parts: list[tuple[Any, Any, Any]] = field(default_factory=list)


class Decisions:
    """Looks at the target's rows, some files together, and notes which source rows match.

    Args:
        source: its columns under their joined names.
        read: how files are read: `plan.deciding_columns`, and the row's index.
        rows: how many of the target are looked at together, at least where there are so many.
    """

    def __init__(  # each is one of a kind
        self,
        engine: Engine,
        plan: MergePlan,
        matcher: Matcher,
        source: pa.RecordBatch,
        read: ScanState,
        *,
        rows: int = _CHUNK_ROWS,
    ) -> None:
        self._engine = engine
        self._plan = plan
        self._matcher = matcher
        self._source = source
        self._read = read
        self._rows = max(rows, source.num_rows)
        self.matched = MatchedSourceRows(source.num_rows)

    def of_files(self, files: Iterable[ScanFile]) -> Iterator[FileDecisions]:
        """What happens to the files' rows; files that stay as they are aren't given.

        Memory holds the deciding columns of as many rows as the source has, or a million, and no
        more than half a gigabyte of them.

        Raises:
            MultipleMatchesError: several source rows match one of the target's.
            DataFileError: a file can't be read.
            EvaluationError: a condition that can't be computed for a row.
        """
        shares: list[_Share] = []
        waiting: list[tuple[int, pa.RecordBatch]] = []
        size = nbytes = 0
        for file in files:
            shares.append(_Share(file))
            with read_scan_file(self._engine, self._read, file) as batches:
                for batch in batches:
                    waiting.append((len(shares) - 1, batch))
                    size += batch.num_rows
                    nbytes += batch.nbytes
                    if size >= self._rows or nbytes >= _CHUNK_BYTES:
                        self._decide(waiting, shares)
                        waiting, size, nbytes = [], 0, 0
                        if self._is_done():
                            return
            if not waiting:
                yield from map(_gathered, (s for s in shares if s.parts))
                shares = []
        self._decide(waiting, shares)
        yield from map(_gathered, (s for s in shares if s.parts))

    def _is_done(self) -> bool:
        """Nothing that is still to be read can change anything."""
        return self._plan.only_inserts and self.matched.includes(self._matcher.candidates)

    def _decide(
        self, waiting: Sequence[tuple[int, pa.RecordBatch]], shares: Sequence[_Share]
    ) -> None:
        if not waiting:
            return
        rows = _concatenated([batch for _, batch in waiting])
        names = [
            name if name == ROW_INDEX_COLUMN else f"{TARGET}.{name}" for name in rows.schema.names
        ]
        rows = rows.rename_columns(names)
        if self._plan.only_inserts:
            for pairs in self._matcher.pairs(rows):
                self.matched.add(pairs.sources)
            return
        places, clauses, sources = self._changes(rows)
        positions = rows.column(ROW_INDEX_COLUMN).take(places)
        begin = 0  # of the batch among the rows
        first = 0  # of its rows among the places
        for number, batch in waiting:
            begin += batch.num_rows
            end = _count_below(places, begin)
            if end > first:
                part = (
                    positions.slice(first, end - first),
                    clauses.slice(first, end - first),
                    sources.slice(first, end - first),
                )
                shares[number].parts.append(part)
            first = end

    def _changes(self, rows: pa.RecordBatch) -> tuple[Any, Any, Any]:
        """Places of the rows that change, ascending, with their clauses and source rows."""
        pairs = self._unique_pairs(rows)
        places, clauses, sources = _kept(
            pairs.targets,
            self._clauses_of(self._plan.matched, rows, pairs),
            pairs.sources,
        )
        if not self._plan.not_matched_by_source:
            return places, clauses, sources
        alone = _without(rows.num_rows, pairs.targets)
        nothing = pa.nulls(len(alone), pa.int64())
        found = self._clauses_of(self._plan.not_matched_by_source, rows, Pairs(alone, nothing))
        found = pc.add(found, pa.scalar(len(self._plan.matched), pa.int8()))
        more = _kept(alone, found, nothing)
        places, clauses, sources = (
            pa.concat_arrays([one, other])
            for one, other in zip((places, clauses, sources), more, strict=True)
        )
        order = pc.array_sort_indices(places)
        return places.take(order), clauses.take(order), sources.take(order)

    def _clauses_of(
        self, clauses: Sequence[PlannedClause], rows: pa.RecordBatch, pairs: Pairs
    ) -> Any:
        conditions = tuple(c.condition for c in clauses if c.condition is not None)
        joined = joined_rows(rows, self._source, pairs, conditions)
        return first_clauses(self._plan.names.schema, clauses, joined)

    def _unique_pairs(self, rows: pa.RecordBatch) -> Pairs:
        """The matches; one a target row.

        Raises:
            MultipleMatchesError: several, and it isn't all the same which.
        """
        targets: list[Any] = [pa.array([], pa.int64())]
        sources: list[Any] = [pa.array([], pa.int64())]
        last: Any = None
        for pairs in self._matcher.pairs(rows):
            found = pairs
            if len(found) == 0:
                continue
            self.matched.add(found.sources)
            before = pa.array([last if last is not None else -1], pa.int64())
            shifted = pa.concat_arrays([before, found.targets.slice(0, len(found) - 1)])
            fresh = pc.not_equal(found.targets, shifted)
            last = found.targets[-1].as_py()
            if fresh.true_count < len(found):
                if not self._plan.may_match_several:
                    place = pc.index(fresh, False).as_py()
                    raise self._several(rows, found.targets[place].as_py())
                found = found.filter(fresh)
            targets.append(found.targets)
            sources.append(found.sources)
        return Pairs(pa.concat_arrays(targets), pa.concat_arrays(sources))

    def _several(self, rows: pa.RecordBatch, place: int) -> MultipleMatchesError:
        keys = columns_of((key.target for key in self._plan.condition.keys), TARGET)
        shown = ", ".join(
            f"{name} = {rows.column(f'{TARGET}.{name}')[place].as_py()!r}" for name in sorted(keys)
        )
        return MultipleMatchesError(
            f"Several rows of the source match one row of {self._plan.table}"
            + (f", such as the one with {shown}" if shown else "")
            + ": which of them is to change it isn't clear "
            "(DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE). Leave one source row a "
            "target row, or make the ON condition tell them apart. Nothing was changed.",
            table=self._plan.table,
        )


def _kept(places: Any, clauses: Any, sources: Any) -> tuple[Any, Any, Any]:
    """Without the rows that no clause takes."""
    if clauses.null_count == 0:
        return places, clauses, sources
    taken = clauses.is_valid()
    return places.filter(taken), clauses.filter(taken), sources.filter(taken)


def _without(count: int, places: Any) -> Any:
    """The numbers below `count` that aren't among the places."""
    if len(places) == 0:
        return numbered(count)
    found = pc.inverse_permutation(places, max_index=count - 1)
    return pc.indices_nonzero(pc.is_null(found)).cast(pa.int64())


def _count_below(ascending: Any, limit: int) -> int:
    """How many of ascending numbers are below a limit."""
    low, high = 0, len(ascending)
    while low < high:
        middle = (low + high) // 2
        if ascending[middle].as_py() < limit:
            low = middle + 1
        else:
            high = middle
    return low


def _gathered(share: _Share) -> FileDecisions:
    columns = [pa.concat_arrays(list(parts)) for parts in zip(*share.parts, strict=True)]
    return FileDecisions(
        file=share.file, positions=columns[0], clauses=columns[1], sources=columns[2]
    )
