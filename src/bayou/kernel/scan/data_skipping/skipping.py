"""Data skipping plans, which select files by partition values and statistics.

For each file, a plan determines whether a predicate may be true for some row. It computes this from
the possible results of the predicate's operands (`tri_state`). Files in which the predicate can't
be true are skipped. If a statistic is missing or unusable, every value is possible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bayou.kernel.arrow.arrays import to_array, to_scalar
from bayou.kernel.arrow.compute import Datum, pc
from bayou.kernel.arrow.types import to_arrow_type
from bayou.kernel.expressions.evaluation import Evaluator
from bayou.kernel.expressions.model import (
    Predicate,
    conjunction,
    conjuncts,
    referenced_columns,
)
from bayou.kernel.scan.data_skipping.column_ranges import FileRanges, StatisticsRecorder
from bayou.kernel.scan.data_skipping.generated_partitions import GeneratedPartitions
from bayou.kernel.scan.data_skipping.tri_state import TriState
from bayou.protocol.partition_values import parse as parse_partition_value
from bayou.protocol.schema import DataType, StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippingPlan:
    """A plan for selecting the files that may contain a matching row.

    Attributes:
        partition_columns: the partition columns that the predicate references, and the partition
            columns that are generated from a referenced column; logical names in the table's order.
        stats_schema: schema of the fields of `add.stats` that the plan uses, with logical names.
            Dates and timestamps are strings, as in JSON. None if the plan uses no statistics.
        residual: the conjuncts that reference columns other than partition columns; the reader must
            apply them to the rows. None if there are no such conjuncts.
    """

    partition_columns: tuple[str, ...]
    stats_schema: pa.Schema | None
    residual: Predicate | None
    _decided: Predicate | None
    _schema: StructType
    _generated: GeneratedPartitions

    @classmethod
    def build(
        cls, predicate: Predicate, schema: StructType, partition_columns: Sequence[str]
    ) -> SkippingPlan:
        """Create a plan for a predicate that `resolve` has resolved for `schema`."""
        generated = GeneratedPartitions(schema, partition_columns)
        paths = list(referenced_columns(predicate))
        relevant = {path[0] for path in paths}
        relevant.update(name for path in paths for name in generated.columns_for(path))
        partitions = tuple(name for name in partition_columns if name in relevant)
        decided: list[Predicate] = []
        remaining: list[Predicate] = []
        for part in conjuncts(predicate):
            by_partitions = all(path[0] in partitions for path in referenced_columns(part))
            (decided if by_partitions else remaining).append(part)
        residual = conjunction(remaining)
        stats_schema = None
        if residual is not None:
            recorder = StatisticsRecorder(schema, frozenset(partitions))
            TriState(recorder, partitions, generated).may_be_true(residual)
            stats_schema = recorder.stats_schema()
        return cls(
            partition_columns=partitions,
            stats_schema=stats_schema,
            residual=residual,
            _decided=conjunction(decided),
            _schema=schema,
            _generated=generated,
        )

    def select(
        self,
        partition_values: Mapping[str, pa.Array[Any]],
        stats: pa.RecordBatch | None = None,
        *,
        num_rows: int | None = None,
        selection: pa.BooleanArray | None = None,
        exact_doubles: pa.BooleanArray | None = None,
    ) -> pa.BooleanArray:
        """Return a mask, without nulls, of the files that may contain a matching row.

        Args:
            partition_values: an array for each name in `partition_columns`, with one value per
                file.
            stats: statistics with `stats_schema`, one row per file; None if they aren't read.
            num_rows: number of files; required if there are neither partition values nor
                statistics.
            selection: mask of the files for which the predicate is evaluated; None for all files.
                For the other files, the result is false, and errors in their values aren't raised.
            exact_doubles: mask of the files that were written after the last change of a column
                from float to double; None if unknown.
        """
        if num_rows is None:
            num_rows = (
                stats.num_rows
                if stats is not None
                else len(next(iter(partition_values.values())))
                if partition_values
                else 0
            )
        result: Datum = (
            pa.repeat(to_scalar(True, pa.bool_()), num_rows) if selection is None else selection
        )
        if self._decided is not None:
            result = pc.and_(result, self._decide(self._decided, partition_values, result))
        if self.residual is not None:
            files = FileRanges(
                self._schema,
                frozenset(self.partition_columns),
                partition_values,
                stats,
                exact_doubles=exact_doubles,
            )
            possibilities = TriState(files, self.partition_columns, self._generated)
            result = pc.and_(result, possibilities.may_be_true(self.residual))
        assert isinstance(result, pa.BooleanArray)
        return result

    def _decide(
        self,
        predicate: Predicate,
        partition_values: Mapping[str, pa.Array[Any]],
        selection: pa.BooleanArray,
    ) -> pa.BooleanArray:
        arrays: dict[str, Any] = dict(partition_values)
        if not arrays:  # the predicate has only constants
            arrays = {"row": pa.nulls(len(selection))}
        batch = pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))
        values = Evaluator(self._schema, predicate).values(batch, selection)
        matches: pa.BooleanArray = pc.fill_null(pc.cast(values, pa.bool_()), False)
        return matches


def parse_partition_values(
    serialized: pa.Array[Any], data_type: DataType, time_zone: str = "UTC"
) -> pa.Array[Any]:
    """Parse serialized partition values; each distinct value is parsed once.

    Raises:
        ValueError: a serialized value is invalid for the type.
    """
    encoded: Datum = serialized.dictionary_encode()
    arrow_type = to_arrow_type(data_type)
    distinct = [
        parse_partition_value(value, data_type, time_zone)
        for value in encoded.dictionary.to_pylist()
    ]
    values: Datum = to_array(distinct, arrow_type)
    result: pa.Array[Any] = values.take(encoded.indices)
    return result
