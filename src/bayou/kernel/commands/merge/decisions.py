"""Selection of the WHEN clause that applies to each target row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from bayou.errors import MultipleMatchesError
from bayou.kernel.arrow.arrays import arange
from bayou.kernel.arrow.compute import pc
from bayou.kernel.commands.merge.clauses import TARGET, columns_of
from bayou.kernel.commands.merge.join import (
    MatchedSourceRows,
    Matcher,
    Pairs,
    joined_rows,
    joined_slices,
)
from bayou.kernel.commands.merge.plan import MergePlan, PlannedClause
from bayou.kernel.engine import Engine
from bayou.kernel.expressions.evaluation import Evaluator
from bayou.kernel.scan.scan_file import ScanFile
from bayou.kernel.scan.scan_state import ROW_INDEX_COLUMN, ScanState
from bayou.kernel.scan.transform import read_scan_file
from bayou.protocol.schema import StructType


def first_clauses(
    schema: StructType, clauses: Sequence[PlannedClause], rows: pa.RecordBatch
) -> Any:
    """Return the index of the clause that applies to each row, as int8; null if none applies.

    A condition is evaluated only for rows to which no earlier clause applies.
    """
    result: Any = pa.nulls(rows.num_rows, pa.int8())
    open_rows: Any = pa.repeat(pa.scalar(True), rows.num_rows)
    for number, clause in enumerate(clauses):
        chosen = open_rows
        if clause.condition is not None:
            values = Evaluator(schema, clause.condition).values(rows, open_rows)
            chosen = pc.and_(pc.fill_null(pc.cast(values, pa.bool_()), False), open_rows)
        result = pc.if_else(chosen, pa.scalar(number, pa.int8()), result)
        open_rows = pc.and_not(open_rows, chosen)
    return result


def clauses_of_pairs(
    schema: StructType,
    clauses: Sequence[PlannedClause],
    target: pa.RecordBatch,
    source: pa.RecordBatch,
    pairs: Pairs,
) -> Any:
    """Return the index of the clause that applies to each pair of a target and a source row.

    The result is int8, with null if no clause applies.
    """
    conditions = tuple(c.condition for c in clauses if c.condition is not None)
    return pa.concat_arrays(
        [
            first_clauses(schema, clauses, joined_rows(target, source, part, conditions))
            for part in joined_slices(target, source, pairs, conditions)
        ]
    )


_concat: Any = pa.concat_batches  # type: ignore[attr-defined]  # the stubs lack it

_CHUNK_ROWS = 1 << 20
_CHUNK_BYTES = 1 << 29


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDecisions:
    """The changed rows of one file, and the clause that applies to each of these rows.

    Attributes:
        positions: row indexes of the changed rows in the file, ascending.
        clauses: index of each row's clause in `MergePlan.target_clauses`.
        sources: row number of the source row that matches each row; null if none matches.
    """

    file: ScanFile
    positions: pa.Int64Array
    clauses: pa.Int8Array
    sources: pa.Int64Array

    def of(self, chosen: pa.BooleanArray) -> FileDecisions:
        """Return the decisions for the rows where `chosen` is true."""
        return FileDecisions(
            file=self.file,
            positions=self.positions.filter(chosen),
            clauses=self.clauses.filter(chosen),
            sources=self.sources.filter(chosen),
        )

    def slice(self, offset: int, length: int) -> FileDecisions:
        return FileDecisions(
            file=self.file,
            positions=self.positions.slice(offset, length),
            clauses=self.clauses.slice(offset, length),
            sources=self.sources.slice(offset, length),
        )

    def from_position(self, position: int, count: int) -> FileDecisions:
        """Return the decisions for at most `count` rows, from the row index `position` on."""
        return self.slice(_count_below(self.positions, position), count)


@dataclass(slots=True)
class _FileParts:
    """Decisions for a file, with one part for each chunk that contains rows of the file."""

    file: ScanFile
    parts: list[tuple[Any, Any, Any]] = field(default_factory=list)


class Decisions:
    """Selects clauses for target rows, and records which source rows match.

    Target rows are processed in chunks; a chunk can contain rows of several files.

    Args:
        read: scan state for reading `plan.condition_columns` and the row index.
        rows: maximum number of target rows in a chunk. If the source has more rows, the maximum is
            the number of source rows.
    """

    def __init__(
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
        """Yield the decisions for each file with changed rows.

        Only the columns `plan.condition_columns` of the target rows are read. One chunk of target
        rows at a time is in memory. A chunk ends when it has the configured number of rows, or
        before it exceeds 512 MiB.
        """
        pending: list[_FileParts] = []
        chunk: list[tuple[int, pa.RecordBatch]] = []
        size = nbytes = 0
        for file in files:
            pending.append(_FileParts(file))
            with read_scan_file(self._engine, self._read, file) as batches:
                for batch in batches:
                    added = batch.nbytes
                    if chunk and nbytes + added > _CHUNK_BYTES:
                        self._decide(chunk, pending)
                        chunk, size, nbytes = [], 0, 0
                    chunk.append((len(pending) - 1, batch))
                    size += batch.num_rows
                    nbytes += added
                    if size >= self._rows or nbytes >= _CHUNK_BYTES:
                        self._decide(chunk, pending)
                        chunk, size, nbytes = [], 0, 0
                        if self._is_done():
                            return
            if not chunk:
                yield from map(_combined, (s for s in pending if s.parts))
                pending = []
        self._decide(chunk, pending)
        yield from map(_combined, (s for s in pending if s.parts))

    def _is_done(self) -> bool:
        """Whether the result is complete, so that no more files need to be read.

        A merge that only inserts rows is complete if each source row that can match has a match.
        """
        return self._plan.only_inserts and self.matched.includes(self._matcher.candidates)

    def _decide(
        self, chunk: Sequence[tuple[int, pa.RecordBatch]], pending: Sequence[_FileParts]
    ) -> None:
        if not chunk:
            return
        rows = _concat([batch for _, batch in chunk])
        names = [
            name if name == ROW_INDEX_COLUMN else f"{TARGET}.{name}" for name in rows.schema.names
        ]
        rows = rows.rename_columns(names)
        if self._plan.only_inserts:
            for pairs in self._matcher.pairs(rows):
                self.matched.add(pairs.sources)
            return
        indices, clauses, sources = self._changes(rows)
        positions = rows.column(ROW_INDEX_COLUMN).take(indices)
        batch_end = 0  # index in `rows` after the batch
        first = 0  # the batch's first entry in `indices`
        for number, batch in chunk:
            batch_end += batch.num_rows
            end = _count_below(indices, batch_end)
            if end > first:
                part = (
                    positions.slice(first, end - first),
                    clauses.slice(first, end - first),
                    sources.slice(first, end - first),
                )
                pending[number].parts.append(part)
            first = end

    def _changes(self, rows: pa.RecordBatch) -> tuple[Any, Any, Any]:
        """Select the changed rows of a chunk.

        Returns:
            Three arrays with one item for each changed row: the index in `rows` (ascending), the
            index of the clause, and the row number of the source row (see `FileDecisions`).
        """
        pairs = self._unique_pairs(rows)
        indices, clauses, sources = _with_clause(
            pairs.targets,
            self._clauses_of(self._plan.matched, rows, pairs),
            pairs.sources,
        )
        if not self._plan.not_matched_by_source:
            return indices, clauses, sources
        unmatched = _without(rows.num_rows, pairs.targets)
        no_sources = pa.nulls(len(unmatched), pa.int64())
        numbers = self._clauses_of(
            self._plan.not_matched_by_source, rows, Pairs(unmatched, no_sources)
        )
        numbers = pc.add(numbers, pa.scalar(len(self._plan.matched), pa.int8()))
        more = _with_clause(unmatched, numbers, no_sources)
        indices, clauses, sources = (
            pa.concat_arrays([one, other])
            for one, other in zip((indices, clauses, sources), more, strict=True)
        )
        order = pc.array_sort_indices(indices)
        return indices.take(order), clauses.take(order), sources.take(order)

    def _clauses_of(
        self, clauses: Sequence[PlannedClause], rows: pa.RecordBatch, pairs: Pairs
    ) -> Any:
        return clauses_of_pairs(self._plan.names.schema, clauses, rows, self._source, pairs)

    def _unique_pairs(self, rows: pa.RecordBatch) -> Pairs:
        """Return the matching pairs of target and source rows, at most one for each target row.

        If `MergePlan.may_match_several` is False, a target row with several matches is an error.
        """
        targets: list[Any] = [pa.array([], pa.int64())]
        sources: list[Any] = [pa.array([], pa.int64())]
        last: Any = None
        for pairs in self._matcher.pairs(rows):
            if len(pairs) == 0:
                continue
            self.matched.add(pairs.sources)
            previous = pa.array([last if last is not None else -1], pa.int64())
            shifted = pa.concat_arrays([previous, pairs.targets.slice(0, len(pairs) - 1)])
            is_first = pc.not_equal(pairs.targets, shifted)
            last = pairs.targets[-1].as_py()
            unique = pairs
            if is_first.true_count < len(pairs):
                if not self._plan.may_match_several:
                    index = pc.index(is_first, False).as_py()
                    raise self._multiple_matches(rows, pairs.targets[index].as_py())
                unique = pairs.filter(is_first)
            targets.append(unique.targets)
            sources.append(unique.sources)
        return Pairs(pa.concat_arrays(targets), pa.concat_arrays(sources))

    def _multiple_matches(self, rows: pa.RecordBatch, index: int) -> MultipleMatchesError:
        keys = columns_of((key.target for key in self._plan.condition.keys), TARGET)
        values = ", ".join(
            f"{name} = {rows.column(f'{TARGET}.{name}')[index].as_py()!r}" for name in sorted(keys)
        )
        example = f", for example the row with {values}" if values else ""
        return multiple_matches_error(self._plan.table, example)


def multiple_matches_error(table: str, example: str = "") -> MultipleMatchesError:
    """Return the error for several source rows that match one target row.

    Args:
        example: description of one target row with several matches; the message contains it.
    """
    return MultipleMatchesError(
        f"{table}: multiple source rows matched the same target row{example} "
        "(DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE). Nothing was committed "
        "to the table. Deduplicate the source, or make the ON condition more specific.",
        table=table,
    )


def _with_clause(indices: Any, clauses: Any, sources: Any) -> tuple[Any, Any, Any]:
    if clauses.null_count == 0:
        return indices, clauses, sources
    valid = clauses.is_valid()
    return indices.filter(valid), clauses.filter(valid), sources.filter(valid)


def _without(count: int, indices: Any) -> Any:
    if len(indices) == 0:
        return arange(0, count)
    inverse = pc.inverse_permutation(indices, max_index=count - 1)
    return pc.indices_nonzero(pc.is_null(inverse)).cast(pa.int64())


def _count_below(ascending: Any, limit: int) -> int:
    """Return how many of the ascending numbers are below a limit."""
    low, high = 0, len(ascending)
    while low < high:
        middle = (low + high) // 2
        if ascending[middle].as_py() < limit:
            low = middle + 1
        else:
            high = middle
    return low


def _combined(file: _FileParts) -> FileDecisions:
    columns = [pa.concat_arrays(list(parts)) for parts in zip(*file.parts, strict=True)]
    return FileDecisions(
        file=file.file, positions=columns[0], clauses=columns[1], sources=columns[2]
    )
