"""Plans of REORG ... APPLY (PURGE), which removes deleted rows and dropped columns from files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from bayou.kernel.commands.optimize.bin_packing import by_partition, pack
from bayou.kernel.commands.optimize.optimize import (
    partition_filter,
    predicate_parameter,
    rewrite_states,
    target_size,
)
from bayou.kernel.commands.optimize.rewrite import RewriteTask
from bayou.kernel.commands.optimize.rewrite_execution import RewritePlan
from bayou.kernel.commands.version_files import live_files
from bayou.kernel.engine import Engine
from bayou.kernel.expressions.model import Predicate
from bayou.kernel.log.table_state import TableState
from bayou.kernel.operation import Operation
from bayou.kernel.scan.scan_file import ScanFile
from bayou.kernel.scan.transform import data_file_errors
from bayou.kernel.table_features.column_mapping import to_physical_schema
from bayou.kernel.transaction.commit_table_actions import current_time_ms
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
    time_zone: str = "UTC",
) -> RewritePlan:
    """Plan the rewrite of files with deletion vectors or dropped columns.

    Reads the footer of each file that has no deletion vector, to find dropped columns.

    Args:
        where: condition on partition columns that selects partitions. If None, all are selected.
        target_bytes: maximum size of a new file. If None, this is the table's target file size.
        time_zone: time zone of timestamp partition values that are stored without a time zone.
    """

    def select(files: Sequence[ScanFile], row_tracking: frozenset[str]) -> Iterator[ScanFile]:
        return _to_purge(engine, state, files, row_tracking)

    return plan_reorg(
        engine,
        state,
        engine_info,
        where=where,
        purges=True,
        target_bytes=target_bytes,
        time_zone=time_zone,
        select=select,
    )


def plan_reorg(
    engine: Engine,
    state: TableState,
    engine_info: str,
    *,
    where: Predicate | str | None = None,
    purges: bool,
    target_bytes: int | None,
    time_zone: str = "UTC",
    select: Callable[[Sequence[ScanFile], frozenset[str]], Iterable[ScanFile]],
) -> RewritePlan:
    """Plan the rewrite of some files of a table, for any form of REORG.

    Args:
        where: condition on partition columns that selects partitions. If None, all are selected.
        purges: value of the operation parameter `applyPurge` in the history.
        target_bytes: maximum size of a new file. If None, this is the table's target file size.
        time_zone: time zone of timestamp partition values that are stored without a time zone.
        select: function that returns the files to rewrite. Its arguments are the live files of the
            partitions that `where` selects, and the names of the materialized row tracking columns.
    """
    started = current_time_ms()
    target = target_size(state, target_bytes)
    write_state, scan_state = rewrite_states(engine, state, engine_info)
    predicate = partition_filter(state, where)
    files = list(live_files(engine, state, predicate, time_zone=time_zone))
    selected = select(files, frozenset(scan_state.row_tracking or ()))
    groups = by_partition(write_state, selected)
    items = [
        RewriteTask(state=write_state, scan_state=scan_state, files=tuple(members))
        for group in groups
        for members in pack(sorted(group, key=lambda file: file.size), target)
    ]
    return RewritePlan(
        state=state,
        operation=Operation.REORG,
        parameters={"predicate": predicate_parameter(where), "applyPurge": purges},
        where=predicate,
        time_zone=time_zone,
        items=tuple(items),
        considered=len(files),
        partitions=len(groups),
        started=started,
    )


def _to_purge(
    engine: Engine, state: TableState, files: Sequence[ScanFile], row_tracking: frozenset[str]
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
    """Whether a file's column, or a field inside it, isn't in the table's schema."""
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
