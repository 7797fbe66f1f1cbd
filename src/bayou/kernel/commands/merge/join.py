"""Pairs of rows for which the ON condition is true, chunk after chunk of the target.

Rows of the source by their keys: a hash join whose build side stays.

Which rows of the source have found a row of the target.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.kernel.commands.merge.clauses import SOURCE, TARGET, columns_of
from bayou.kernel.commands.merge.condition import MergeCondition
from bayou.kernel.expressions.evaluation import Evaluation, widened
from bayou.kernel.expressions.model import Expression, Predicate
from bayou.protocol.schema import StructType

__all__ = ["MatchedSourceRows", "Matcher", "Pairs", "SourceKeys", "joined_rows", "numbered"]


pc: Any = pyarrow.compute

_INDEX = pa.int64()


class Pairs:
    """Rows of two sides that go together: row `targets[i]` of one, row `sources[i]` of the other.

    Both are int64 without nulls.
    """

    __slots__ = ("sources", "targets")

    def __init__(self, targets: pa.Int64Array, sources: pa.Int64Array) -> None:
        self.targets = targets
        self.sources = sources

    def __len__(self) -> int:
        return len(self.targets)

    def slice(self, offset: int, length: int) -> Pairs:
        """Some of them."""
        return Pairs(self.targets.slice(offset, length), self.sources.slice(offset, length))

    def filter(self, mask: pa.BooleanArray) -> Pairs:
        """Those for which the mask is true."""
        if mask.true_count == len(mask):
            return self
        return Pairs(self.targets.filter(mask), self.sources.filter(mask))


class SourceKeys:
    """Finds the source rows whose keys equal a target row's. Holds no state.

    Each distinct key has a number. Those of several columns are put together column by column, the
    pairs numbered anew each time, so that numbers stay small.

    Args:
        columns: the key columns, each of a type that both sides are compared in.
        null_safe: for each column, whether NULL equals NULL; no other column has one.
        rows: numbers of the source rows that the values belong to; not empty.
    """

    __slots__ = ("_levels", "_most", "_rows", "_rows_of")

    def __init__(
        self, columns: Sequence[pa.Array[Any]], null_safe: Sequence[bool], rows: pa.Int64Array
    ) -> None:
        self._levels: list[tuple[Any, Any]] = []
        numbers: Any = None
        for column, safe in zip(columns, null_safe, strict=True):
            values = _comparable(column).unique()
            assert safe or not values.null_count  # such rows match nothing, and aren't here
            found = pc.index_in(_comparable(column), value_set=values).cast(_INDEX)
            if numbers is None:
                self._levels.append((values, None))
                numbers = found
                continue
            joined = pc.add(pc.multiply(numbers, len(values)), found)
            known = joined.unique()
            self._levels.append((values, known))
            numbers = pc.index_in(joined, value_set=known).cast(_INDEX)
        order = pc.array_sort_indices(numbers)
        self._rows: Any = rows.take(order)
        ends = pc.run_end_encode(numbers.take(order), pa.int32()).run_ends
        self._rows_of: Any = None
        self._most = 1
        if len(ends) < len(rows):
            offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
            self._rows_of = pa.ListArray.from_arrays(offsets, self._rows)
            self._most = pc.max(pc.list_value_length(self._rows_of)).as_py()

    def pairs(self, columns: Sequence[pa.Array[Any]], most: int) -> Iterator[Pairs]:
        """All pairs with equal keys, in the order of the target's rows.

        Args:
            columns: the target's key columns, of the types of the source's.
            most: about how many pairs come together where keys have several source rows.
        """
        rows: Any = None
        numbers: Any = None
        for column, (values, known) in zip(columns, self._levels, strict=True):
            found = _comparable(column if rows is None else column.take(rows))
            found = pc.index_in(found, value_set=values)
            if known is not None:
                joined = pc.add(pc.multiply(numbers, len(values)), found.cast(_INDEX))
                found = pc.index_in(joined, value_set=known)
            if rows is None or found.null_count:
                picked = pc.indices_nonzero(found.is_valid()).cast(_INDEX)
                rows = picked if rows is None else rows.take(picked)
                found = found.drop_null()
            numbers = found.cast(_INDEX)
        if self._rows_of is None:
            yield Pairs(rows, self._rows.take(numbers))
            return
        step = max(1, most // self._most)
        for first in range(0, len(rows), step):
            lists = self._rows_of.take(numbers.slice(first, step))
            parents = pc.list_parent_indices(lists)
            yield Pairs(rows.slice(first, step).take(parents), lists.flatten())


def _comparable(values: Any) -> Any:
    """Hash tables tell -0.0 from 0.0; NaN is one value to them, as in Spark."""
    if pa.types.is_floating(values.type):
        return pc.add(values, pa.scalar(0.0, values.type))
    return values


_MOST_PAIRS = 1 << 18
"""Pairs that are looked at together."""


class Matcher:
    """The source's side of the join, made once. Holds no state.

    Args:
        schema: of the joined rows.
        source: its columns under their joined names.

    Raises:
        EvaluationError: a key or filter of the source can't be computed.
    """

    __slots__ = ("_condition", "_keys", "_schema", "_source", "candidates", "key_columns")

    def __init__(
        self, condition: MergeCondition, schema: StructType, source: pa.RecordBatch
    ) -> None:
        self._condition = condition
        self._schema = schema
        self._source = source
        eligible: Any = pa.repeat(pa.scalar(True), source.num_rows)
        if condition.source_filter is not None:
            eligible = self._true(condition.source_filter, source)
        keys = [
            widened(Evaluation(schema, key.source).values(source), key.arrow_type)
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
        self._keys = SourceKeys(keys, null_safe, rows) if keys and len(rows) else None

    @property
    def finds_nothing(self) -> bool:
        """No row of the source can match any."""
        return self.candidates.true_count == 0

    def pairs(self, target: pa.RecordBatch) -> Iterator[Pairs]:
        """Pairs of rows for which the condition is true, in the order of the target's rows.

        Where the condition only says which rows of either side match, all of the other's, a target
        row's further pairs may be left out.

        Args:
            target: its columns under their joined names, those that the condition needs.
        """
        if self.finds_nothing or target.num_rows == 0:
            return
        condition = self._condition
        rows: Any = None
        if condition.target_filter is not None:
            rows = pc.indices_nonzero(self._true(condition.target_filter, target)).cast(pa.int64())
            if len(rows) == target.num_rows:
                rows = None
            else:
                target = target.take(rows)
        for found in self._joined(target):
            if rows is not None:
                yield Pairs(rows.take(found.targets), found.sources)
            else:
                yield found

    def _joined(self, target: pa.RecordBatch) -> Iterator[Pairs]:
        if self._keys is not None:
            found = self._equal(target)
        else:
            found = self._crossed(target.num_rows)
        if self._condition.residual is None:
            yield from found
            return
        for block in found:
            for offset in range(0, len(block), _MOST_PAIRS):
                part = block.slice(offset, _MOST_PAIRS)
                yield part.filter(self._holds(self._condition.residual, target, part))

    def _equal(self, target: pa.RecordBatch) -> Iterator[Pairs]:
        assert self._keys is not None  # the caller looked
        columns = [
            widened(Evaluation(self._schema, key.target).values(target), key.arrow_type)
            for key in self._condition.keys
        ]
        yield from self._keys.pairs(columns, _MOST_PAIRS)

    def _crossed(self, count: int) -> Iterator[Pairs]:
        """All pairs, some target rows at a time.

        Where nothing is left to be looked at, those of the first target row, and one for each
        other: which source rows match, and whether several do, is known by then.
        """
        sources = pc.indices_nonzero(self.candidates).cast(pa.int64())
        if self._condition.residual is None:
            yield Pairs(pa.repeat(pa.scalar(0, pa.int64()), len(sources)), sources)
            others = numbered(count).slice(1)
            yield Pairs(others, pa.repeat(sources[0], len(others)))
            return
        step = max(1, _MOST_PAIRS // len(sources))
        for first in range(0, count, step):
            size = min(step, count - first)
            place = numbered(size * len(sources))
            row = pc.divide(place, len(sources))
            column = pc.subtract(place, pc.multiply(row, len(sources)))
            yield Pairs(pc.add(row, first), sources.take(column))

    def _holds(self, predicate: Predicate, target: pa.RecordBatch, pairs: Pairs) -> Any:
        return self._true(predicate, joined_rows(target, self._source, pairs, (predicate,)))

    def _true(self, predicate: Predicate, rows: pa.RecordBatch) -> Any:
        values = Evaluation(self._schema, predicate).values(rows)
        return pc.fill_null(pc.cast(values, pa.bool_()), False)


def joined_rows(
    target: pa.RecordBatch,
    source: pa.RecordBatch,
    pairs: Pairs,
    expressions: tuple[Expression, ...],
) -> pa.RecordBatch:
    """Joined rows with the columns that expressions name, in the order of the pairs.

    Args:
        target, source: columns under their joined names.
    """
    columns: dict[str, Any] = {}
    for side, rows, indices in (
        (TARGET, target, pairs.targets),
        (SOURCE, source, pairs.sources),
    ):
        wanted = columns_of(expressions, side)
        names = [n for n in rows.schema.names if n.partition(".")[2] in wanted]
        for name in names:
            columns[name] = rows.column(name).take(indices)
    if not columns:  # a batch without columns has no rows
        columns["row"] = pa.nulls(len(pairs))
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def numbered(count: int) -> Any:
    """0, 1, 2, ...: int64."""
    return pc.subtract(pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), count)), 1)


class MatchedSourceRows:
    """A growing set of row numbers; not for several threads.

    Args:
        count: rows of the source.
    """

    __slots__ = ("_matched",)

    def __init__(self, count: int) -> None:
        self._matched: Any = pa.repeat(pa.scalar(False), count)

    def add(self, rows: pa.Int64Array) -> None:
        """Some rows, in any order, as often as they like."""
        if len(rows) == 0:
            return
        places = pc.inverse_permutation(rows.unique(), max_index=len(self._matched) - 1)
        self._matched = pc.or_(self._matched, pc.is_valid(places))

    def includes(self, rows: pa.BooleanArray) -> bool:
        """Whether all rows for which a mask is true have been added."""
        missing = pc.and_not(rows, self._matched)
        return bool(missing.true_count == 0)

    def others(self) -> pa.Int64Array:
        """The rows that were never added, ascending."""
        found: pa.Int64Array = pc.indices_nonzero(pc.invert(self._matched)).cast(pa.int64())
        return found

    def rows(self) -> pa.Int64Array:
        """The rows that were added, ascending."""
        found: pa.Int64Array = pc.indices_nonzero(self._matched).cast(pa.int64())
        return found
