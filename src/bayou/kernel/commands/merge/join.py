"""Pairs of rows for which the ON condition is true, chunk after chunk of the target."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.kernel.commands.merge.condition import MergeCondition
from bayou.kernel.commands.merge.hash_join import Pairs, SourceKeys
from bayou.kernel.commands.merge.name_resolution import SOURCE, TARGET, columns_of
from bayou.kernel.expressions.evaluation import Evaluation, widened
from bayou.kernel.expressions.model import Expression, Predicate
from bayou.protocol.schema import StructType

__all__ = ["Matcher", "joined_rows", "numbered"]

pc: Any = pyarrow.compute

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
