"""REORG ... APPLY (PURGE): deleted rows and dropped columns leave the files."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from bayou.kernel.commands.optimize.optimize import (
    partition_filter,
    predicate_texts,
    reading_and_writing,
    target_size,
)
from bayou.kernel.commands.optimize.rewrite import Rewrite
from bayou.kernel.commands.optimize.rewrite_plan import RewritePlan, by_partition, packed
from bayou.kernel.engine import Engine
from bayou.kernel.expressions.model import Predicate
from bayou.kernel.log.table_state import TableState
from bayou.kernel.operation import Operation
from bayou.kernel.scan.scan import ScanBuilder
from bayou.kernel.scan.scan_file import ScanFile
from bayou.kernel.scan.transform import naming_data_file
from bayou.kernel.table_features.column_mapping import to_physical_schema
from bayou.protocol.schema import ArrayType, DataType, MapType, StructType

__all__ = ["plan_purge"]

_REQUESTS = 16
"""Footers that are read at the same time."""


def plan_purge(
    engine: Engine,
    state: TableState,
    engine_info: str,
    *,
    where: Predicate | str | None = None,
    target_bytes: int | None = None,
) -> RewritePlan:
    """Files with deletion vectors, and files that hold columns which the table has dropped.

    The footer of every file without a vector is read for its columns.

    Args:
        where: over partition columns; which partitions.
        target_bytes: most bytes of files that become one; None: the table's property.

    Raises:
        PredicateError: `where` can't be understood, or names a column that isn't a partition's.
        DataFileError: a file is missing or isn't Parquet.
        UnsupportedFeatureError: the table can't be written.
    """
    started = time.time_ns() // 1_000_000
    target = target_size(state, target_bytes)
    writing, reading = reading_and_writing(engine, state, engine_info)
    predicate = partition_filter(state, where)
    scan = ScanBuilder(state).with_filter(predicate).with_whole_adds().build()
    with scan.scan_files(engine).flat_map(lambda batch: batch.rows()) as found:
        files = list(found)
    chosen = list(_to_purge(engine, state, files, frozenset(reading.row_tracking or ())))
    groups = by_partition(writing, chosen)
    items = [
        Rewrite(state=writing, scan_state=reading, files=tuple(members))
        for group in groups
        for members in packed(sorted(group, key=lambda file: file.size), target)
    ]
    return RewritePlan(
        state=state,
        operation=Operation.REORG,
        parameters={"predicate": predicate_texts(where), "applyPurge": True},
        where=predicate,
        items=tuple(items),
        considered=len(files),
        partitions=len(groups),
        started=started,
    )


def _to_purge(
    engine: Engine, state: TableState, files: list[ScanFile], kept: frozenset[str]
) -> Iterator[ScanFile]:
    schema = to_physical_schema(state.schema, state.column_mapping)

    def is_to_purge(file: ScanFile) -> bool:
        if file.deletion_vector is not None:
            return True
        with naming_data_file(state.path, file.status.path):
            found = engine.parquet.read_footer(file.status).schema
        return any(f.name not in kept and _is_extra(f, schema) for f in found)

    with ThreadPoolExecutor(_REQUESTS, thread_name_prefix="bayou-footers") as pool:
        for file, wanted in zip(files, pool.map(is_to_purge, files), strict=True):
            if wanted:
                yield file


def _is_extra(field: pa.Field[Any], schema: StructType) -> bool:
    """Whether a file's field, or one nested in it, isn't the table's."""
    known = next((f for f in schema if f.name.lower() == field.name.lower()), None)
    return known is None or _has_extra(field.type, known.data_type)


def _has_extra(have: Any, data_type: DataType) -> bool:
    if isinstance(data_type, StructType) and pa.types.is_struct(have):
        return any(_is_extra(child, data_type) for child in have)
    if isinstance(data_type, ArrayType) and (
        pa.types.is_list(have) or pa.types.is_large_list(have)
    ):
        return _has_extra(have.value_type, data_type.element_type)
    if isinstance(data_type, MapType) and pa.types.is_map(have):
        return _has_extra(have.key_type, data_type.key_type) or _has_extra(
            have.item_type, data_type.value_type
        )
    return False
