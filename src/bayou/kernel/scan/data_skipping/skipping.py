"""Data skipping: which files may hold a matching row, told from partition values and statistics.

Every part of a predicate is asked what it may be for *some* row of a file: true, false or null. A
file is dropped where the whole can't be true. What isn't known counts as possible, so a missing,
unusable or misleading statistic keeps the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute

from bayou.kernel.arrow.types import to_arrow_type
from bayou.kernel.expressions.evaluation import Evaluation
from bayou.kernel.expressions.model import And, Predicate, referenced_columns
from bayou.kernel.scan.data_skipping.column_ranges import FileRanges, StatisticsRecorder
from bayou.kernel.scan.data_skipping.generated_partitions import GeneratedPartitions
from bayou.kernel.scan.data_skipping.tri_state import Possibilities
from bayou.protocol import partition_values as partition_text
from bayou.protocol.schema import DataType, StructType

__all__ = ["SkippingPlan", "typed_partition_array"]

# A pyarrow array of one value a file, or a scalar for all. pyarrow's own types don't take both
# where its functions do.
Datum: TypeAlias = Any
pc: Any = pyarrow.compute


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippingPlan:
    """What to look at in each file, and how to judge it.

    Attributes:
        partition_columns: those that the predicate names, or that are computed from a column that
            it names, by logical name, in the table's order.
        stats_schema: what must be parsed out of `add.stats`: any of `numRecords`, `nullCount`,
            `minValues`, `maxValues`, columns by logical names; None where statistics can't help.
            Dates and timestamps are strings there, as they are in the JSON text.
        residual: the conjuncts that partition values alone don't decide, None where there are
            none: what the rows of the kept files must still be tested for.
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
        """Plan for a predicate that `resolve` returned for this schema."""
        generated = GeneratedPartitions(schema, partition_columns)
        paths = list(referenced_columns(predicate))
        named = {path[0] for path in paths}
        named.update(name for path in paths for name in generated.columns_for(path))
        partitions = tuple(name for name in partition_columns if name in named)
        decided: list[Predicate] = []
        remaining: list[Predicate] = []
        for part in _conjuncts(predicate):
            by_partitions = all(path[0] in partitions for path in referenced_columns(part))
            (decided if by_partitions else remaining).append(part)
        residual = _conjunction(remaining)
        stats_schema = None
        if residual is not None:
            recorder = StatisticsRecorder(schema, frozenset(partitions))
            Possibilities(recorder, partitions, generated).may_be_true(residual)
            stats_schema = recorder.stats_schema()
        return cls(
            partition_columns=partitions,
            stats_schema=stats_schema,
            residual=residual,
            _decided=_conjunction(decided),
            _schema=schema,
            _generated=generated,
        )

    @property
    def fully_covered_by_partitions(self) -> bool:
        """Every row of a kept file matches."""
        return self.residual is None

    def keep(
        self,
        partition_values: Mapping[str, pa.Array[Any]],
        stats: pa.RecordBatch | None = None,
        *,
        num_rows: int | None = None,
        selection: pa.BooleanArray | None = None,
        exact_doubles: pa.BooleanArray | None = None,
    ) -> pa.BooleanArray:
        """Files that may hold a matching row: true, or false. Never null.

        Args:
            partition_values: one array for each of `partition_columns`, see
                `typed_partition_array`.
            stats: `stats_schema`'s columns; None to judge by partition values alone.
            num_rows: number of files; needed only where there is neither.
            selection: files that count, None for all. The others give false, and don't fail.
            exact_doubles: files that were written after columns became double that were float
                before; None where no file is known to be one.

        Raises:
            EvaluationError: what the predicate says of partition columns alone can't be computed
                for a file's values, as for its rows: an overflow, a text that isn't a number.
        """
        if num_rows is None:
            num_rows = (
                stats.num_rows
                if stats is not None
                else len(next(iter(partition_values.values())))
                if partition_values
                else 0
            )
        result: Datum = pa.repeat(True, num_rows) if selection is None else selection
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
            judged = Possibilities(files, self.partition_columns, self._generated)
            result = pc.and_(result, judged.may_be_true(self.residual))
        assert isinstance(result, pa.BooleanArray)
        return result

    def _decide(
        self,
        predicate: Predicate,
        partition_values: Mapping[str, pa.Array[Any]],
        selection: pa.BooleanArray,
    ) -> pa.BooleanArray:
        """The files for whose partition values a predicate over these is true."""
        arrays: dict[str, Any] = dict(partition_values)
        if not arrays:  # of constants alone
            arrays = {"row": pa.nulls(len(selection))}
        batch = pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))
        values = Evaluation(self._schema, predicate).values(batch, selection)
        matches: pa.BooleanArray = pc.fill_null(pc.cast(values, pa.bool_()), False)
        return matches


def typed_partition_array(
    texts: pa.Array[Any], data_type: DataType, time_zone: str = "UTC"
) -> pa.Array[Any]:
    """Partition values as they stand in the log, in their column's Arrow type.

    Each distinct text is parsed once.

    Raises:
        ValueError: a text isn't a value of the type.
    """
    encoded: Datum = texts.dictionary_encode()
    arrow_type = to_arrow_type(data_type)
    values = [
        partition_text.parse(text, data_type, time_zone) for text in encoded.dictionary.to_pylist()
    ]
    typed: Datum = pa.array(values, arrow_type)
    result: pa.Array[Any] = typed.take(encoded.indices)
    return result


def _conjunction(parts: Sequence[Predicate]) -> Predicate | None:
    if len(parts) < 2:
        return parts[0] if parts else None
    return And(tuple(parts))


def _conjuncts(predicate: Predicate) -> Iterator[Predicate]:
    if isinstance(predicate, And):
        for operand in predicate.operands:
            yield from _conjuncts(operand)
    else:
        yield predicate
