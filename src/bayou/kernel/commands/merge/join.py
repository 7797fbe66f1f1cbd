"""Hash join of a merge: the source is the build side, and the target is probed in chunks.

`Matcher` returns pairs of rows for which the ON condition is true. `MatchedSourceRows` records the
source rows that have a match.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa

from bayou.kernel.arrow.arrays import arange
from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.large_rows import slices_by_size, taken_sizes, total_sizes
from bayou.kernel.commands.merge.clauses import SOURCE, TARGET, Side, columns_of
from bayou.kernel.commands.merge.condition import MergeCondition
from bayou.kernel.expressions.evaluation import Evaluator, cast_for_comparison
from bayou.kernel.expressions.model import Expression, Predicate
from bayou.protocol.schema import StructType

_INDEX = pa.int64()


class Pairs:
    """Pairs of row numbers: target row `targets[i]` and source row `sources[i]`, non-null int64."""

    __slots__ = ("sources", "targets")

    def __init__(self, targets: pa.Int64Array, sources: pa.Int64Array) -> None:
        self.targets = targets
        self.sources = sources

    def __len__(self) -> int:
        return len(self.targets)

    def slice(self, offset: int, length: int) -> Pairs:
        return Pairs(self.targets.slice(offset, length), self.sources.slice(offset, length))

    def filter(self, mask: pa.BooleanArray) -> Pairs:
        if mask.true_count == len(mask):
            return self
        return Pairs(self.targets.filter(mask), self.sources.filter(mask))


_MAX_DENSE_RANGE = 8
"""Maximum size of a `_DenseKeys` table, as a multiple of the number of source rows."""


class SourceKeys(Protocol):
    """The join keys and row numbers of source rows; immutable."""

    def pairs(self, columns: Sequence[pa.Array[Any]], max_pairs: int) -> Iterator[Pairs]:
        """Yield all pairs with equal keys, in the order of the target rows.

        Args:
            columns: the target's key columns, in the types of the source's key columns.
            max_pairs: approximate maximum number of pairs in one `Pairs` object. If the source's
                keys are unique, all pairs are in one object.
        """


def source_keys(
    columns: Sequence[pa.Array[Any]], null_safe: Sequence[bool], rows: pa.Int64Array
) -> SourceKeys:
    """Return the keys of the source rows that can match.

    Args:
        columns: the key columns of these source rows. They must have at least one row.
        null_safe: for each column, whether NULL matches NULL. If False, the column has no nulls.
        rows: for each row in `columns`, its row number in the source.
    """
    dense = _dense_keys(columns[0], rows) if len(columns) == 1 else None
    return _HashedKeys(columns, null_safe, rows) if dense is None else dense


def _dense_keys(column: Any, rows: pa.Int64Array) -> _DenseKeys | None:
    """Return the keys as `_DenseKeys`; None if `_DenseKeys` doesn't support them.

    The keys must be integers without nulls, duplicates and large gaps.
    """
    if not pa.types.is_signed_integer(column.type) or column.null_count:
        return None
    keys = column.cast(pa.int64())
    bounds = pc.min_max(keys)
    first = bounds["min"].as_py()
    count = bounds["max"].as_py() - first + 1
    if count > _MAX_DENSE_RANGE * len(keys):
        return None
    offsets = pc.subtract(keys, first)
    small = pa.int32() if len(keys) < 1 << 31 else pa.int64()
    indices = pc.inverse_permutation(offsets, max_index=count - 1, output_type=small)
    if count - indices.null_count < len(keys):  # some keys are equal
        return None
    return _DenseKeys(first, indices, rows)


class _DenseKeys:
    """Lookup table for join keys that are unique integers without large gaps.

    Args:
        first: the smallest key.
        indices: index in `rows` for each integer from the smallest to the largest key; null if
            the integer isn't a key.
        rows: row number in the source for each key.
    """

    __slots__ = ("_first", "_indices", "_rows")

    def __init__(self, first: int, indices: Any, rows: Any) -> None:
        self._first = first
        self._indices = indices
        self._rows = rows

    def pairs(self, columns: Sequence[pa.Array[Any]], max_pairs: int) -> Iterator[Pairs]:
        """Yield one object that contains all pairs with equal keys; see `SourceKeys.pairs`."""
        # The difference wraps around, so the offset of a key outside the range is too large.
        offsets: Any = pc.subtract(columns[0].cast(pa.int64()), self._first).view(pa.uint64())
        in_range = pc.less(offsets, pa.scalar(len(self._indices), pa.uint64()))
        if in_range.true_count < len(offsets):
            offsets = pc.if_else(in_range, offsets, pa.scalar(None, pa.uint64()))
        indices = self._indices.take(offsets)
        targets = pc.indices_nonzero(indices.is_valid()).cast(_INDEX)
        yield Pairs(targets, self._rows.take(indices.drop_null()))


class _HashedKeys:
    """Hash table of the source's join keys.

    Each distinct key has an integer id. Keys of several columns are numbered column by column:
    first the distinct values of the first column, then the distinct combinations of the first two
    columns, and so on.

    Args:
        columns: the key columns of the source rows that can match. They must have at least one row.
        null_safe: for each column, whether NULL matches NULL. If False, the column has no nulls.
        rows: for each row in `columns`, its row number in the source.
    """

    __slots__ = ("_levels", "_max_rows", "_rows", "_rows_of")

    def __init__(
        self, columns: Sequence[pa.Array[Any]], null_safe: Sequence[bool], rows: pa.Int64Array
    ) -> None:
        self._levels: list[tuple[Any, Any]] = []
        numbers: Any = None
        for column, safe in zip(columns, null_safe, strict=True):
            keys = _comparable(column)
            values = keys.unique()
            assert safe or not values.null_count  # the caller removes rows with null keys
            if len(values) == len(keys):  # the ids are in the order of the rows
                codes = arange(0, len(keys))
            else:
                codes = pc.index_in(keys, value_set=values).cast(_INDEX)
            if numbers is None:
                self._levels.append((values, None))
                numbers = codes
                continue
            combined = pc.add(pc.multiply(numbers, len(values)), codes)
            distinct = combined.unique()
            self._levels.append((values, distinct))
            numbers = pc.index_in(combined, value_set=distinct).cast(_INDEX)
        order = pc.array_sort_indices(numbers)
        self._rows: Any = rows.take(order)
        ends = pc.run_end_encode(numbers.take(order), pa.int32()).run_ends
        self._rows_of: Any = None
        self._max_rows = 1
        if len(ends) < len(rows):
            offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
            self._rows_of = pa.ListArray.from_arrays(offsets, self._rows)
            self._max_rows = pc.max(pc.list_value_length(self._rows_of)).as_py()

    def pairs(self, columns: Sequence[pa.Array[Any]], max_pairs: int) -> Iterator[Pairs]:
        """Yield all pairs with equal keys, see `SourceKeys.pairs`."""
        rows: Any = None
        numbers: Any = None
        for column, (values, distinct) in zip(columns, self._levels, strict=True):
            keys = _comparable(column if rows is None else column.take(rows))
            codes = pc.index_in(keys, value_set=values)
            if distinct is not None:
                combined = pc.add(pc.multiply(numbers, len(values)), codes.cast(_INDEX))
                codes = pc.index_in(combined, value_set=distinct)
            if rows is None or codes.null_count:
                matching = pc.indices_nonzero(codes.is_valid()).cast(_INDEX)
                rows = matching if rows is None else rows.take(matching)
                codes = codes.drop_null()
            numbers = codes.cast(_INDEX)
        if self._rows_of is None:
            yield Pairs(rows, self._rows.take(numbers))
            return
        step = max(1, max_pairs // self._max_rows)
        for first in range(0, len(rows), step):
            lists = self._rows_of.take(numbers.slice(first, step))
            parents = pc.list_parent_indices(lists)
            yield Pairs(rows.slice(first, step).take(parents), lists.flatten())


def _comparable(values: Any) -> Any:
    """Replace -0.0 by 0.0: the two must match, but Arrow's hash tables treat them as different.

    NaN isn't replaced, because NaN already matches NaN.
    """
    if pa.types.is_floating(values.type):
        return pc.add(values, pa.scalar(0.0, values.type))
    return values


_MAX_PAIRS = 1 << 18
"""Maximum number of pairs that are evaluated at once."""
_MAX_JOINED_BYTES = 256 << 20
"""Approximate maximum size in bytes of the rows that are joined at once."""


class Matcher:
    """The build side of the join: the source rows that can match; immutable."""

    __slots__ = ("_condition", "_keys", "_schema", "_source", "candidates", "key_columns")

    def __init__(
        self, condition: MergeCondition, schema: StructType, source: pa.RecordBatch
    ) -> None:
        self._condition = condition
        self._schema = schema
        self._source = source
        eligible: Any = pa.repeat(pa.scalar(True), source.num_rows)
        if condition.source_filter is not None:
            eligible = self._is_true(condition.source_filter, source)
        keys = [
            cast_for_comparison(Evaluator(schema, key.source).values(source), key.arrow_type)
            for key in condition.keys
        ]
        for key, values in zip(condition.keys, keys, strict=True):
            if not key.null_safe and values.null_count:
                eligible = pc.and_(eligible, values.is_valid())
        self.candidates: pa.BooleanArray = eligible
        rows = pc.indices_nonzero(eligible).cast(pa.int64())
        if len(rows) < source.num_rows:
            keys = [values.take(rows) for values in keys]
        self.key_columns: tuple[pa.Array[Any], ...] = tuple(keys)
        null_safe = [key.null_safe for key in condition.keys]
        self._keys = source_keys(keys, null_safe, rows) if keys and len(rows) else None

    @property
    def is_empty(self) -> bool:
        """Whether no source row can match."""
        return self.candidates.true_count == 0

    def pairs(self, target: pa.RecordBatch) -> Iterator[Pairs]:
        """Yield pairs for which the condition is true, in the order of the target rows.

        If no part of the condition compares target columns with source columns, some pairs are
        omitted. Each target or source row that has a match is still in at least one pair. If target
        rows have several matches, at least one of these target rows is in several pairs.
        """
        if self.is_empty or target.num_rows == 0:
            return
        condition = self._condition
        rows: Any = None
        if condition.target_filter is not None:
            rows = pc.indices_nonzero(self._is_true(condition.target_filter, target)).cast(
                pa.int64()
            )
            if len(rows) == target.num_rows:
                rows = None
            else:
                target = target.take(rows)
        for pairs in self._joined(target):
            if rows is not None:
                yield Pairs(rows.take(pairs.targets), pairs.sources)
            else:
                yield pairs

    def _joined(self, target: pa.RecordBatch) -> Iterator[Pairs]:
        if self._keys is not None:
            blocks = self._equi_join(target)
        else:
            blocks = self._cross_join(target.num_rows)
        if self._condition.residual is None:
            yield from blocks
            return
        for block in blocks:
            for offset in range(0, len(block), _MAX_PAIRS):
                part = block.slice(offset, _MAX_PAIRS)
                yield from self._matching(self._condition.residual, target, part)

    def _equi_join(self, target: pa.RecordBatch) -> Iterator[Pairs]:
        assert self._keys is not None  # the caller checks this
        columns = [
            cast_for_comparison(Evaluator(self._schema, key.target).values(target), key.arrow_type)
            for key in self._condition.keys
        ]
        yield from self._keys.pairs(columns, _MAX_PAIRS)

    def _cross_join(self, count: int) -> Iterator[Pairs]:
        """Yield pairs of the target rows 0 to `count - 1` and the candidate source rows.

        If there is a residual condition, all pairs are yielded. Otherwise every pair matches, and
        only these pairs are yielded: all pairs of the first target row, and one pair of each other
        target row.
        """
        sources = pc.indices_nonzero(self.candidates).cast(pa.int64())
        if self._condition.residual is None:
            yield Pairs(pa.repeat(pa.scalar(0, pa.int64()), len(sources)), sources)
            rest = arange(1, count)
            yield Pairs(rest, pa.repeat(sources[0], len(rest)))
            return
        step = max(1, _MAX_PAIRS // len(sources))
        for first in range(0, count, step):
            size = min(step, count - first)
            index = arange(0, size * len(sources))
            row = pc.divide(index, len(sources))
            column = pc.subtract(index, pc.multiply(row, len(sources)))
            yield Pairs(pc.add(row, first), sources.take(column))

    def _matching(
        self, predicate: Predicate, target: pa.RecordBatch, pairs: Pairs
    ) -> Iterator[Pairs]:
        for part in joined_slices(target, self._source, pairs, (predicate,)):
            rows = joined_rows(target, self._source, part, (predicate,))
            yield part.filter(self._is_true(predicate, rows))

    def _is_true(self, predicate: Predicate, rows: pa.RecordBatch) -> Any:
        values = Evaluator(self._schema, predicate).values(rows)
        return pc.fill_null(pc.cast(values, pa.bool_()), False)


def joined_rows(
    target: pa.RecordBatch,
    source: pa.RecordBatch,
    pairs: Pairs,
    expressions: tuple[Expression, ...],
) -> pa.RecordBatch:
    """Return one joined row for each pair, with the columns that `expressions` reference.

    The rows are in the order of `pairs`. A large source row may match many target rows, so the
    joined rows may be too large for memory. Therefore, pass the slices that `joined_slices` yields.
    """
    columns = {
        name: column.take(indices)
        for side, indices in (
            (_referenced(target, TARGET, expressions), pairs.targets),
            (_referenced(source, SOURCE, expressions), pairs.sources),
        )
        for name, column in side.items()
    }
    if not columns:  # a batch without columns has no rows
        columns["row"] = pa.nulls(len(pairs))
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def joined_slices(
    target: pa.RecordBatch,
    source: pa.RecordBatch,
    pairs: Pairs,
    expressions: tuple[Expression, ...],
) -> Iterator[Pairs]:
    """Split `pairs` into slices whose joined rows have a limited size; yield at least one slice."""
    sizes = total_sizes(
        [
            taken_sizes(columns.values(), indices)
            for columns, indices in (
                (_referenced(target, TARGET, expressions), pairs.targets),
                (_referenced(source, SOURCE, expressions), pairs.sources),
            )
        ]
    )
    for offset, length in slices_by_size(sizes, len(pairs), _MAX_JOINED_BYTES):
        yield pairs.slice(offset, length)


def _referenced(
    rows: pa.RecordBatch, side: Side, expressions: tuple[Expression, ...]
) -> dict[str, Any]:
    """Return the columns of the source or target that `expressions` reference, by name."""
    referenced = columns_of(expressions, side)
    names = [n for n in rows.schema.names if n.partition(".")[2] in referenced]
    return {name: rows.column(name) for name in names}


class MatchedSourceRows:
    """A set of matched source row numbers; not thread-safe."""

    __slots__ = ("_matched",)

    def __init__(self, count: int) -> None:
        self._matched: Any = pa.repeat(pa.scalar(False), count)

    def add(self, rows: pa.Int64Array) -> None:
        """Add row numbers, in any order; duplicates are allowed."""
        if len(rows) == 0:
            return
        inverse = pc.inverse_permutation(rows, max_index=len(self._matched) - 1)
        self._matched = pc.or_(self._matched, pc.is_valid(inverse))

    def includes(self, rows: pa.BooleanArray) -> bool:
        """Whether the set contains every source row that the mask `rows` selects."""
        missing = pc.and_not(rows, self._matched)
        return bool(missing.true_count == 0)

    def unmatched(self) -> pa.Int64Array:
        """Return the row numbers that were never added, ascending."""
        unmatched: pa.Int64Array = pc.indices_nonzero(pc.invert(self._matched)).cast(pa.int64())
        return unmatched

    def rows(self) -> pa.Int64Array:
        """Return the row numbers that were added, ascending."""
        matched: pa.Int64Array = pc.indices_nonzero(self._matched).cast(pa.int64())
        return matched
