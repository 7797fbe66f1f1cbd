"""Which files of a log a filter keeps: by partition values first, then by statistics.

Partitions by their values, and the filter that finds the files of some of them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute

from bayou.errors import CorruptTableError, EvaluationError, SerializationError
from bayou.kernel.arrow.types import relabelled, to_arrow_type
from bayou.kernel.checkpoint.add_files import CheckpointAdds
from bayou.kernel.checkpoint.parsed_stats import parsed_stats_schema
from bayou.kernel.engine import Engine
from bayou.kernel.expressions.model import And, Column, In, IsNull, Literal, Or, Predicate
from bayou.kernel.log.file_action_keys import TouchedKeys
from bayou.kernel.scan.data_skipping.skipping import SkippingPlan
from bayou.kernel.scan.metrics import ScanCounts
from bayou.kernel.table_features.column_mapping import physical_name, physical_stats_schema
from bayou.protocol import partition_values
from bayou.protocol import partition_values as partition_text
from bayou.protocol.partition_values import PartitionValue
from bayou.protocol.schema import DataType, StructField, StructType

__all__ = ["PartitionKey", "Pruning", "of_partitions", "partition_key", "partition_texts"]


pc: Any = pyarrow.compute

_MOST_VALUES = 100_000
"""Partition values that are remembered a column."""


class Pruning:
    """Judges the files of one table by a plan.

    Args:
        double_files: see `ReplayState`; None where none is known.
        time_zone: in which partition values are read that are timestamps without a zone.
    """

    __slots__ = ("_double_files", "_known", "_plan", "_schema", "_table", "_time_zone")

    def __init__(
        self,
        table: str,
        schema: StructType,
        plan: SkippingPlan,
        *,
        double_files: pa.Array[Any] | None = None,
        time_zone: str = "UTC",
    ) -> None:
        self._table = table
        self._schema = schema
        self._plan = plan
        self._double_files = double_files
        self._time_zone = time_zone
        self._known: dict[str, dict[str | None, Any]] = {}

    @property
    def needs_statistics(self) -> bool:
        """Whether statistics can say more than partition values."""
        return self._plan.stats_schema is not None

    @property
    def stats_schema(self) -> pa.Schema | None:
        """See `SkippingPlan`."""
        return self._plan.stats_schema

    @property
    def looks_at_partitions(self) -> bool:
        """Whether partition values leave out files before statistics are looked at."""
        return bool(self._plan.partition_columns)

    @property
    def parsed_type(self) -> pa.DataType | None:
        """The statistics wanted of `stats_parsed`, by physical names; None where none are."""
        if self._plan.stats_schema is None:
            return None
        logical = parsed_stats_schema(self._plan.stats_schema, self._schema)
        return pa.struct(list(physical_stats_schema(logical, self._schema)))

    def keep(
        self,
        engine: Engine,
        files: CheckpointAdds,
        touched: TouchedKeys | None,
        counts: ScanCounts | None = None,
    ) -> tuple[pa.StructArray, pa.BooleanArray | None]:
        """Files that may hold a matching row.

        Args:
            touched: keys of files that aren't live any more; None where all are.
            counts: where what is left out of live files is counted, None for nowhere.

        Returns:
            The files or some of them, `ADD_TYPE`, and which of those to keep, None for all.

        Raises:
            CorruptTableError: a partition value or a statistics text that can't be read.
            EvaluationError: what the filter says of partition columns alone can't be computed for
                a live file.
        """
        plan, adds = self._plan, files.adds
        partitions = self._partition_arrays(adds, touched)
        selection: Any = self._keep(partitions, None, adds, touched)
        kept = selection.true_count
        if counts is not None:
            counts.pruned_by_partition += len(adds) - kept
        if kept < len(adds) and (self.needs_statistics or kept < len(adds) // 2):
            files = files.filter(selection)
            adds = files.adds
            partitions = {name: array.filter(selection) for name, array in partitions.items()}
            selection = None
        elif kept == len(adds):
            selection = None
        if len(adds) == 0:
            return adds, None
        untouched = None if touched is None else touched.untouched(adds)
        if untouched is not None:
            selection = untouched if selection is None else pc.and_(selection, untouched)
        if plan.stats_schema is not None:
            stats = files.statistics
            if stats is None:
                stats = self.statistics(engine, files)
            matching = self._keep(partitions, stats, adds, touched)
            if counts is not None:
                counts.skipped_by_statistics += len(adds) - matching.true_count
            selection = matching if selection is None else pc.and_(selection, matching)
        return adds, selection

    def _keep(
        self,
        partitions: Mapping[str, pa.Array[Any]],
        stats: pa.RecordBatch | None,
        adds: pa.StructArray,
        touched: TouchedKeys | None,
    ) -> pa.BooleanArray:
        exact = self._exact_doubles(adds) if stats is not None else None
        try:
            return self._plan.keep(partitions, stats, num_rows=len(adds), exact_doubles=exact)
        except EvaluationError:
            if touched is None:
                raise
        # Perhaps it failed for a file that isn't live any more.
        live = touched.untouched(adds)
        return self._plan.keep(
            partitions, stats, num_rows=len(adds), selection=live, exact_doubles=exact
        )

    def _exact_doubles(self, adds: pa.StructArray) -> pa.BooleanArray | None:
        if self._double_files is None or len(self._double_files) == 0:
            return None
        exact: pa.BooleanArray = pc.is_in(
            pc.struct_field(adds, "path"), value_set=self._double_files
        )
        return exact

    def keep_by_partition(self, adds: pa.StructArray) -> pa.BooleanArray:
        """Rows of `add` structs that may match by their partition values alone."""
        return self._plan.keep(self._partition_arrays(adds), None, num_rows=len(adds))

    def _partition_arrays(
        self, adds: pa.StructArray, touched: TouchedKeys | None = None
    ) -> Mapping[str, pa.Array[Any]]:
        values = pc.struct_field(adds, "partitionValues")
        arrays: dict[str, pa.Array[Any]] = {}
        for name in self._plan.partition_columns:
            field = self._schema.get(name)
            assert field is not None  # the plan was built from this schema
            texts = partition_texts(values, physical_name(field))
            try:
                arrays[name] = self._typed(name, texts, field.data_type)
            except (ValueError, ArithmeticError):
                # Perhaps of a file that isn't live any more, from when the column had another type.
                live = None if touched is None else touched.untouched(adds)
                if live is not None:
                    texts = pc.if_else(live, texts, pa.scalar(None, texts.type))
                arrays[name] = self._live(name, texts, field.data_type)
        return arrays

    def _live(self, name: str, texts: Any, data_type: DataType) -> pa.Array[Any]:
        try:
            return self._typed(name, texts, data_type)
        except (ValueError, ArithmeticError) as error:
            raise CorruptTableError(
                f"The log of {self._table} has a value of partition column {name!r} "
                f"({data_type}) that isn't one: {error}.",
                table=self._table,
            ) from error

    def _typed(self, name: str, texts: Any, data_type: DataType) -> pa.Array[Any]:
        """Partition values in their column's type; each distinct text is parsed once a scan."""
        known = self._known.get(name, {})
        if len(known) > _MOST_VALUES:
            known = {}
        encoded = texts.dictionary_encode()
        distinct = encoded.dictionary.to_pylist()
        fresh = {
            text: partition_text.parse(text, data_type, self._time_zone)
            for text in distinct
            if text not in known
        }
        if fresh:
            known = {**known, **fresh}
            self._known[name] = known  # replaced, not changed: threads may share the scan
        typed: Any = pa.array([known[text] for text in distinct], to_arrow_type(data_type))
        result: pa.Array[Any] = typed.take(encoded.indices)
        return result

    def statistics(self, engine: Engine, files: CheckpointAdds) -> pa.RecordBatch:
        """Statistics by logical names, out of columns or texts, which have physical ones.

        Raises:
            CorruptTableError: a text that isn't JSON.
        """
        wanted = self._plan.stats_schema
        assert wanted is not None  # needs_statistics
        if files.parsed is not None:
            logical = parsed_stats_schema(wanted, self._schema)
            columns = pa.RecordBatch.from_arrays(
                files.parsed.flatten(), schema=physical_stats_schema(logical, self._schema)
            )
            return relabelled(columns, logical, table=self._table)
        try:
            texts = engine.json.parse_json(
                pc.struct_field(files.adds, "stats"), physical_stats_schema(wanted, self._schema)
            )
        except SerializationError as error:
            raise CorruptTableError(
                f"The log of {self._table} holds statistics that aren't JSON: {error}",
                table=self._table,
            ) from error
        return relabelled(texts, wanted, table=self._table)


def partition_texts(values: Any, name: str) -> pa.Array[Any]:
    """The values under one key, null where a map doesn't have it.

    Where every map has the key once, which is how the log is written, its places among all keys
    are the values' places.
    """
    if len(values) and values.null_count == 0:
        offsets = values.offsets
        first, end = offsets[0].as_py(), offsets[-1].as_py()
        places = pc.indices_nonzero(pc.equal(values.keys.slice(first, end - first), name))
        if len(places) == len(values):
            places = pc.add(pc.cast(places, pa.int32()), first)
            inside = pc.and_(
                pc.less_equal(offsets.slice(0, len(values)), places),
                pc.less(places, offsets.slice(1)),
            )
            if pc.all(inside).as_py():
                items: pa.Array[Any] = values.items
                if end - first == len(values):
                    return items.slice(first, len(values))
                return items.take(places)
    texts: pa.Array[Any] = pc.map_lookup(values, name, "first")
    return texts


PartitionKey: TypeAlias = tuple[PartitionValue, ...]


def partition_key(
    values: Mapping[str, str | None], columns: Sequence[StructField], time_zone: str = "UTC"
) -> PartitionKey:
    """A file's partition, the same for values that are written differently.

    Args:
        values: `partitionValues` of the file's action.
        columns: the table's partition columns.
        time_zone: of timestamps that are written without one.

    Raises:
        ValueError: a text that isn't a value of its column's type.
    """
    return tuple(
        _equal_to_itself(
            partition_values.parse(values.get(physical_name(field)), field.data_type, time_zone)
        )
        for field in columns
    )


def _equal_to_itself(value: PartitionValue) -> PartitionValue:
    """Python's NaN equals itself only where it is the same object."""
    return math.nan if isinstance(value, float) and math.isnan(value) else value


def of_partitions(columns: Sequence[StructField], keys: Collection[PartitionKey]) -> Predicate:
    """True of rows of the partitions; with several columns, of some others, too.

    Args:
        columns: the table's partition columns, at least one.
        keys: at least one.
    """
    each: list[Predicate] = []
    for index, field in enumerate(columns):
        column = Column((field.name,))
        values = {key[index] for key in keys}
        known = tuple(Literal(v, field.data_type) for v in values if v is not None)
        options: list[Predicate] = [In(column, known)] if known else []
        if None in values:
            options.append(IsNull(column))
        each.append(options[0] if len(options) == 1 else Or(tuple(options)))
    return each[0] if len(each) == 1 else And(tuple(each))
