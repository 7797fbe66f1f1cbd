"""Which files of a log a filter keeps: by partition values first, then by statistics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.errors import CorruptTableError, SerializationError
from bayou.kernel.arrow_types import relabelled
from bayou.kernel.column_mapping import physical_name, physical_stats_schema
from bayou.kernel.engine import Engine
from bayou.kernel.predicates.skipping import SkippingPlan, typed_partition_array
from bayou.kernel.scan_metrics import ScanCounts
from bayou.protocol.schema import StructType

__all__ = ["Pruning"]

pc: Any = pyarrow.compute


class Pruning:
    """Judges the files of one table by a plan."""

    __slots__ = ("_plan", "_schema", "_table")

    def __init__(self, table: str, schema: StructType, plan: SkippingPlan) -> None:
        self._table = table
        self._schema = schema
        self._plan = plan

    @property
    def needs_statistics(self) -> bool:
        """Whether statistics can say more than partition values."""
        return self._plan.stats_schema is not None

    def keep(
        self,
        engine: Engine,
        adds: pa.StructArray,
        untouched: pa.BooleanArray | None,
        counts: ScanCounts | None = None,
    ) -> pa.BooleanArray:
        """Files of `ADD_TYPE` that may hold a matching row; never null.

        Args:
            untouched: the files to judge, None for all; the others aren't kept.
            counts: where what is left out is counted, None for nowhere.

        Raises:
            CorruptTableError: a partition value or a statistics text that can't be read.
        """
        plan = self._plan
        partitions = self._partition_arrays(adds)
        selection = plan.keep(partitions, None, num_rows=len(adds))
        if untouched is not None:
            selection = pc.and_(selection, untouched)
        if counts is not None:
            live = len(adds) if untouched is None else untouched.true_count
            counts.pruned_by_partition += live - selection.true_count
        if plan.stats_schema is None or selection.true_count == 0:
            return selection
        everything = selection.true_count == len(adds)
        candidates = adds if everything else adds.filter(selection)
        stats = self._parse_stats(engine, pc.struct_field(candidates, "stats"), plan.stats_schema)
        if not everything:
            partitions = {name: array.filter(selection) for name, array in partitions.items()}
        kept = plan.keep(partitions, stats, num_rows=len(candidates))
        if counts is not None:
            counts.skipped_by_statistics += len(candidates) - kept.true_count
        if everything:
            return kept
        mask: pa.BooleanArray = pc.replace_with_mask(selection, selection, kept)
        return mask

    def _partition_arrays(self, adds: pa.StructArray) -> Mapping[str, pa.Array[Any]]:
        values = pc.struct_field(adds, "partitionValues")
        arrays: dict[str, pa.Array[Any]] = {}
        for name in self._plan.partition_columns:
            field = self._schema.get(name)
            assert field is not None  # the plan was built from this schema
            texts = pc.map_lookup(values, physical_name(field), "first")
            try:
                arrays[name] = typed_partition_array(texts, field.data_type)
            except (ValueError, ArithmeticError) as error:
                raise CorruptTableError(
                    f"The log of {self._table} has a value of partition column {name!r} "
                    f"({field.data_type}) that isn't one: {error}.",
                    table=self._table,
                ) from error
        return arrays

    def _parse_stats(
        self, engine: Engine, texts: pa.Array[Any], schema: pa.Schema
    ) -> pa.RecordBatch:
        """Columns of `schema`, which has logical names, out of texts, which have physical ones."""
        try:
            parsed = engine.json.parse_json(texts, physical_stats_schema(schema, self._schema))
            return relabelled(parsed, schema, table=self._table)
        except SerializationError as error:
            raise CorruptTableError(
                f"The log of {self._table} holds statistics that aren't JSON: {error}",
                table=self._table,
            ) from error
