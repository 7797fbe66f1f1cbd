"""Pruning of files by partition values and statistics, and parsing of partition values."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from bayou.errors import CorruptTableError, EvaluationError, SerializationError
from bayou.kernel.arrow.arrays import to_array, to_scalar
from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.types import to_arrow_type, with_schema
from bayou.kernel.checkpoint.add_files import CheckpointAdds
from bayou.kernel.checkpoint.parsed_stats import parsed_stats_schema
from bayou.kernel.engine import Engine
from bayou.kernel.expressions.model import (
    And,
    Column,
    Expression,
    In,
    IsNull,
    Literal,
    Or,
    Predicate,
    call,
)
from bayou.kernel.log.file_action_keys import FileActionKeys
from bayou.kernel.metrics import ScanCounts
from bayou.kernel.scan.data_skipping.skipping import SkippingPlan
from bayou.kernel.table_features.column_mapping import physical_name, physical_stats_schema
from bayou.protocol import partition_values
from bayou.protocol.partition_values import PartitionValue
from bayou.protocol.schema import DataType, StructField, StructType
from bayou.protocol.sql import has_char

_MAX_CACHED_VALUES = 100_000
"""Maximum number of parsed partition values that are cached per column."""


class Pruning:
    """Prunes the files of one table with a `SkippingPlan`."""

    __slots__ = (
        "_exact_double_files",
        "_parsed_values",
        "_plan",
        "_schema",
        "_table",
        "_time_zone",
    )

    def __init__(
        self,
        table: str,
        schema: StructType,
        plan: SkippingPlan,
        *,
        exact_double_files: pa.Array[Any] | None = None,
        time_zone: str = "UTC",
    ) -> None:
        self._table = table
        self._schema = schema
        self._plan = plan
        self._exact_double_files = exact_double_files
        self._time_zone = time_zone
        self._parsed_values: dict[str, dict[str | None, Any]] = {}

    @property
    def needs_statistics(self) -> bool:
        """Whether the plan uses statistics, and not only partition values."""
        return self._plan.stats_schema is not None

    @property
    def stats_schema(self) -> pa.Schema | None:
        """Schema of the plan's statistics, by logical names; None if the plan uses none."""
        return self._plan.stats_schema

    @property
    def prunes_partitions(self) -> bool:
        """Whether partition values can prune files before statistics are read."""
        return bool(self._plan.partition_columns)

    @property
    def parsed_type(self) -> pa.DataType | None:
        """Arrow type of the fields of `stats_parsed` that the plan uses, with physical names.

        None if the plan uses no statistics.
        """
        if self._plan.stats_schema is None:
            return None
        logical = parsed_stats_schema(self._plan.stats_schema, self._schema)
        return pa.struct(list(physical_stats_schema(logical, self._schema)))

    def select(
        self,
        engine: Engine,
        files: CheckpointAdds,
        seen_keys: FileActionKeys | None,
        counts: ScanCounts | None = None,
    ) -> tuple[pa.StructArray, pa.BooleanArray | None]:
        """Select the live files that may contain a matching row.

        Args:
            seen_keys: log-replay keys (path and deletion vector id) of the files that later commits
                added or removed. These files aren't live. If `seen_keys` is None, all files are
                live.

        Returns:
            Files as `ADD_TYPE`, and a mask of the selected files. If all files are selected, the
            mask is None.
        """
        plan, adds = self._plan, files.adds
        partitions = self._partition_arrays(adds, seen_keys)
        selection: Any = self._keep(partitions, None, adds, seen_keys)
        selected = selection.true_count
        if counts is not None:
            counts.pruned_by_partition += len(adds) - selected
        if selected < len(adds) and (self.needs_statistics or selected < len(adds) // 2):
            files = files.filter(selection)
            adds = files.adds
            partitions = {name: array.filter(selection) for name, array in partitions.items()}
            selection = None
        elif selected == len(adds):
            selection = None
        if len(adds) == 0:
            return adds, None
        unseen = None if seen_keys is None else seen_keys.unseen_mask(adds)
        if unseen is not None:
            selection = unseen if selection is None else pc.and_(selection, unseen)
        if plan.stats_schema is not None:
            stats = files.statistics
            if stats is None:
                stats = self.statistics(engine, files)
            matching = self._keep(partitions, stats, adds, seen_keys)
            if counts is not None:
                counts.skipped_by_statistics += len(adds) - matching.true_count
            selection = matching if selection is None else pc.and_(selection, matching)
        return adds, selection

    def _keep(
        self,
        partitions: Mapping[str, pa.Array[Any]],
        stats: pa.RecordBatch | None,
        adds: pa.StructArray,
        seen_keys: FileActionKeys | None,
    ) -> pa.BooleanArray:
        exact = self._exact_doubles(adds) if stats is not None else None
        try:
            return self._plan.select(partitions, stats, num_rows=len(adds), exact_doubles=exact)
        except EvaluationError:
            if seen_keys is None:
                raise
        # If the evaluation fails for a file that is no longer live, the error doesn't matter. It is
        # repeated for the live files only.
        live = seen_keys.unseen_mask(adds)
        return self._plan.select(
            partitions, stats, num_rows=len(adds), selection=live, exact_doubles=exact
        )

    def _exact_doubles(self, adds: pa.StructArray) -> pa.BooleanArray | None:
        if self._exact_double_files is None or len(self._exact_double_files) == 0:
            return None
        exact: pa.BooleanArray = pc.is_in(
            pc.struct_field(adds, "path"), value_set=self._exact_double_files
        )
        return exact

    def select_by_partition(self, adds: pa.StructArray) -> pa.BooleanArray:
        """Return a mask of the files whose partition values permit matching rows."""
        return self._plan.select(self._partition_arrays(adds), None, num_rows=len(adds))

    def _partition_arrays(
        self, adds: pa.StructArray, seen_keys: FileActionKeys | None = None
    ) -> Mapping[str, pa.Array[Any]]:
        values = pc.struct_field(adds, "partitionValues")
        arrays: dict[str, pa.Array[Any]] = {}
        for name in self._plan.partition_columns:
            field = self._schema.get(name)
            assert field is not None  # the plan was built from this schema
            serialized = partition_strings(values, physical_name(field))
            try:
                arrays[name] = self._parse(name, serialized, field.data_type)
            except (ValueError, ArithmeticError):
                # A file that is no longer live may be older than a change of the column's type, so
                # that its value can't be parsed. Only the values of live files are parsed.
                live = None if seen_keys is None else seen_keys.unseen_mask(adds)
                if live is not None:
                    serialized = pc.if_else(live, serialized, to_scalar(None, serialized.type))
                arrays[name] = self._parse_live(name, serialized, field.data_type)
        return arrays

    def _parse_live(self, name: str, serialized: Any, data_type: DataType) -> pa.Array[Any]:
        try:
            return self._parse(name, serialized, data_type)
        except (ValueError, ArithmeticError) as error:
            raise CorruptTableError(
                f"{self._table}: a value of partition column {name!r} ({data_type}) in the log is "
                f"invalid: {error}. Restore an earlier version of the table.",
                table=self._table,
            ) from error

    def _parse(self, name: str, serialized: Any, data_type: DataType) -> pa.Array[Any]:
        parsed = self._parsed_values.get(name, {})
        if len(parsed) > _MAX_CACHED_VALUES:
            parsed = {}
        encoded = serialized.dictionary_encode()
        distinct = encoded.dictionary.to_pylist()
        new = {
            value: partition_values.parse(value, data_type, self._time_zone)
            for value in distinct
            if value not in parsed
        }
        if new:
            parsed = {**parsed, **new}
            self._parsed_values[name] = parsed  # a new dict, because threads may share the scan
        values: Any = to_array([parsed[value] for value in distinct], to_arrow_type(data_type))
        result: pa.Array[Any] = values.take(encoded.indices)
        return result

    def statistics(self, engine: Engine, files: CheckpointAdds) -> pa.RecordBatch:
        """Return the statistics that the plan uses: one row per file, with logical column names.

        If `files.parsed` isn't None, the statistics are taken from this column. Otherwise, they are
        parsed from the JSON in `stats`.
        """
        schema = self._plan.stats_schema
        assert schema is not None  # callers check `needs_statistics`
        if files.parsed is not None:
            logical = parsed_stats_schema(schema, self._schema)
            columns = pa.RecordBatch.from_arrays(
                files.parsed.flatten(), schema=physical_stats_schema(logical, self._schema)
            )
            return with_schema(columns, logical, table=self._table)
        try:
            statistics = engine.json.parse_json(
                pc.struct_field(files.adds, "stats"), physical_stats_schema(schema, self._schema)
            )
        except SerializationError as error:
            raise CorruptTableError(
                f"{self._table}: statistics in the log aren't JSON: {error}. Restore an "
                "earlier version of the table.",
                table=self._table,
            ) from error
        return with_schema(statistics, schema, table=self._table)


def partition_strings(values: Any, name: str) -> pa.Array[Any]:
    """Return the serialized values of a partition column; null for a file without a value.

    Args:
        values: the maps `partitionValues` of the files.
        name: physical name of the column.
    """
    if len(values) and values.null_count == 0:
        offsets = values.offsets
        first, end = offsets[0].as_py(), offsets[-1].as_py()
        positions = pc.indices_nonzero(pc.equal(values.keys.slice(first, end - first), name))
        if len(positions) == len(values):
            positions = pc.add(pc.cast(positions, pa.int32()), first)
            inside = pc.and_(
                pc.less_equal(offsets.slice(0, len(values)), positions),
                pc.less(positions, offsets.slice(1)),
            )
            if pc.all(inside).as_py():
                items: pa.Array[Any] = values.items
                if end - first == len(values):
                    return items.slice(first, len(values))
                return items.take(positions)
    result: pa.Array[Any] = pc.map_lookup(values, name, "first")
    return result


PartitionKey: TypeAlias = tuple[PartitionValue, ...]


def partition_key(
    values: Mapping[str, str | None], columns: Sequence[StructField], time_zone: str = "UTC"
) -> PartitionKey:
    """Parse a file's partition values.

    Different serializations of the same value are parsed to equal results.

    Raises:
        ValueError: a serialized value is invalid for its column's type.
    """
    return tuple(
        _normalize(
            partition_values.parse(values.get(physical_name(field)), field.data_type, time_zone),
            field,
        )
        for field in columns
    )


def _normalize(value: PartitionValue, field: StructField) -> PartitionValue:
    """Return the same result for all representations of a value.

    NaN becomes the object `math.nan`, because tuples with different NaN objects aren't equal.
    Trailing spaces of a CHAR value are removed, because some writers store them.
    """
    if isinstance(value, float) and math.isnan(value):
        return math.nan
    if isinstance(value, str) and has_char(field):
        return value.rstrip(" ")
    return value


def partition_predicate(
    columns: Sequence[StructField], keys: Collection[PartitionKey]
) -> Predicate:
    """Return a predicate that matches all rows of the partitions `keys`.

    With several partition columns, the predicate may also match rows of other partitions.
    """
    conditions: list[Predicate] = []
    for index, field in enumerate(columns):
        column = Column((field.name,))
        compared: Expression = call("rtrim", column) if has_char(field) else column
        values = {key[index] for key in keys}
        literals = tuple(Literal(v, field.data_type) for v in values if v is not None)
        options: list[Predicate] = [In(compared, literals)] if literals else []
        if None in values:
            options.append(IsNull(column))
        conditions.append(options[0] if len(options) == 1 else Or(tuple(options)))
    return conditions[0] if len(conditions) == 1 else And(tuple(conditions))
