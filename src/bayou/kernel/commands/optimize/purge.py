"""REORG ... APPLY (PURGE): rewrite files to remove deleted rows and dropped columns."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from bayou.kernel.commands.optimize.optimize import (
    partition_filter,
    predicate_texts,
    rewrite_states,
    target_size,
)
from bayou.kernel.commands.optimize.rewrite import Rewrite
from bayou.kernel.commands.optimize.rewrite_plan import RewritePlan, by_partition, pack
from bayou.kernel.engine import Engine
from bayou.kernel.expressions.model import Predicate
from bayou.kernel.log.table_state import TableState
from bayou.kernel.operation import Operation
from bayou.kernel.scan.scan import ScanBuilder
from bayou.kernel.scan.scan_file import ScanFile
from bayou.kernel.scan.transform import data_file_errors
from bayou.kernel.table_features.column_mapping import to_physical_schema
from bayou.protocol.schema import ArrayType, DataType, MapType, StructType

_REQUESTS = 16
"""Number of footers that are read in parallel."""


def plan_purge(
    engine: Engine,
    state: TableState,
    engine_info: str,
    *,
    where: Predicate | str | None = None,
    target_bytes: int | None = None,
) -> RewritePlan:
    """Plan the rewrite of files with deletion vectors or dropped columns.

    Reads the footers of all files without deletion vectors.

    Args:
        where, target_bytes: see `plan_optimize`.
    """
    started = time.time_ns() // 1_000_000
    target = target_size(state, target_bytes)
    write_state, scan_state = rewrite_states(engine, state, engine_info)
    predicate = partition_filter(state, where)
    scan = ScanBuilder(state).with_filter(predicate).with_whole_adds().build()
    with scan.scan_files(engine).flat_map(lambda batch: batch.rows()) as scan_files:
        files = list(scan_files)
    chosen = list(_to_purge(engine, state, files, frozenset(scan_state.row_tracking or ())))
    groups = by_partition(write_state, chosen)
    items = [
        Rewrite(state=write_state, scan_state=scan_state, files=tuple(members))
        for group in groups
        for members in pack(sorted(group, key=lambda file: file.size), target)
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
    engine: Engine, state: TableState, files: list[ScanFile], row_tracking: frozenset[str]
) -> Iterator[ScanFile]:
    schema = to_physical_schema(state.schema, state.column_mapping)

    def is_to_purge(file: ScanFile) -> bool:
        if file.deletion_vector is not None:
            return True
        with data_file_errors(state.path, file.status.path):
            footer = engine.parquet.read_footer(file.status).schema
        return any(f.name not in row_tracking and _is_extra(f, schema) for f in footer)

    with ThreadPoolExecutor(_REQUESTS, thread_name_prefix="bayou-footers") as pool:
        for file, purge in zip(files, pool.map(is_to_purge, files), strict=True):
            if purge:
                yield file


def _is_extra(field: pa.Field[Any], schema: StructType) -> bool:
    """Whether a field of a file, or a field nested in it, isn't in the table's schema."""
    column = next((f for f in schema if f.name.lower() == field.name.lower()), None)
    return column is None or _has_extra(field.type, column.data_type)


def _has_extra(arrow_type: Any, data_type: DataType) -> bool:
    if isinstance(data_type, StructType) and pa.types.is_struct(arrow_type):
        return any(_is_extra(child, data_type) for child in arrow_type)
    if isinstance(data_type, ArrayType) and (
        pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type)
    ):
        return _has_extra(arrow_type.value_type, data_type.element_type)
    if isinstance(data_type, MapType) and pa.types.is_map(arrow_type):
        return _has_extra(arrow_type.key_type, data_type.key_type) or _has_extra(
            arrow_type.item_type, data_type.value_type
        )
    return False
