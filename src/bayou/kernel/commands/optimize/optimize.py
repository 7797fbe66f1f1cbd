"""OPTIMIZE: plans of compactions and Z-orders, with the rules of delta-spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from bayou.errors import ArgumentError, PredicateError, SchemaError
from bayou.kernel.arrow.compute import pc
from bayou.kernel.commands.optimize.bin_packing import by_partition, pack
from bayou.kernel.commands.optimize.rewrite import RewriteTask
from bayou.kernel.commands.optimize.rewrite_execution import RewritePlan
from bayou.kernel.commands.optimize.row_order import RowOrder
from bayou.kernel.commands.version_files import live_files
from bayou.kernel.engine import Engine
from bayou.kernel.expressions.model import Predicate, referenced_columns
from bayou.kernel.expressions.resolution import resolve
from bayou.kernel.expressions.sql.parser import parse_predicate
from bayou.kernel.log.table_state import TableState
from bayou.kernel.operation import Operation
from bayou.kernel.scan.scan import ScanBuilder
from bayou.kernel.scan.scan_file import ScanFile, ScanFileBatch
from bayou.kernel.scan.scan_state import ROW_COMMIT_VERSION, ROW_ID, ScanState
from bayou.kernel.table_features.column_mapping import physical_path
from bayou.kernel.transaction.builder import TransactionBuilder
from bayou.kernel.transaction.commit_file_actions import num_records
from bayou.kernel.transaction.commit_table_actions import current_time_ms
from bayou.kernel.transaction_state import TransactionState
from bayou.protocol.schema import StructType
from bayou.protocol.sql import unquoted_identifier

DEFAULT_TARGET_BYTES = 128 << 20
"""Target size of new files in bytes, if neither the caller nor `delta.targetFileSize` sets it."""


def plan_optimize(
    engine: Engine,
    state: TableState,
    engine_info: str,
    *,
    where: Predicate | str | None = None,
    target_bytes: int | None = None,
    min_bytes: int | None = None,
    max_deleted_rows_ratio: float = 0.05,
    time_zone: str = "UTC",
) -> RewritePlan:
    """Plan the compaction of small files and of files with many deleted rows.

    Args:
        where: condition on partition columns that selects partitions.
        target_bytes: maximum total size of files that are merged into one. If None, this is
            `delta.targetFileSize` or, if that isn't set, `DEFAULT_TARGET_BYTES`.
        min_bytes: size in bytes below which a file is compacted. If None, this is `target_bytes`.
        max_deleted_rows_ratio: maximum ratio of deleted rows to all rows of a file. Files with a
            higher ratio are rewritten.
        time_zone: time zone of timestamp partition values that are stored without a time zone.
    """
    started = current_time_ms()
    target = target_size(state, target_bytes)
    min_size = target if min_bytes is None else min_bytes
    write_state, scan_state = rewrite_states(engine, state, engine_info)
    predicate = partition_filter(state, where)
    candidates = _Candidates(min_size)
    files = [
        file
        for file in candidates.of(engine, state, predicate, time_zone)
        if file.size < min_size or _has_many_deleted(file, max_deleted_rows_ratio)
    ]
    items: list[RewriteTask] = []
    partitions = 0
    for group in by_partition(write_state, files):
        bins = [
            members
            for members in pack(sorted(group, key=lambda file: file.size), target)
            # A single file is rewritten only to remove deleted rows.
            if len(members) > 1 or _has_many_deleted(members[0], max_deleted_rows_ratio)
        ]
        partitions += bool(bins)
        items += [
            RewriteTask(state=write_state, scan_state=scan_state, files=tuple(m)) for m in bins
        ]
    return RewritePlan(
        state=state,
        operation=Operation.OPTIMIZE,
        parameters=optimize_parameters(where),
        where=predicate,
        time_zone=time_zone,
        items=tuple(items),
        considered=candidates.considered,
        partitions=partitions,
        started=started,
    )


def plan_zorder(
    engine: Engine,
    state: TableState,
    engine_info: str,
    columns: Sequence[str],
    *,
    where: Predicate | str | None = None,
    target_bytes: int | None = None,
    time_zone: str = "UTC",
) -> RewritePlan:
    """Plan the rewrite of whole partitions, with rows sorted in Z-order of some data columns.

    Args:
        columns: names of columns, or dotted paths of nested fields.
        where: condition on partition columns that selects partitions. If None, all are selected.
        target_bytes: target size of new files. If None, this is the table's target file size.
        time_zone: time zone of timestamp partition values that are stored without a time zone.
    """
    started = current_time_ms()
    if state.clustering_columns:
        raise ArgumentError(
            f"{state.path}: ZORDER BY isn't supported for clustered tables "
            "(DELTA_CLUSTERING_WITH_ZORDER_BY). Run optimize() without columns. It orders rows by "
            "the clustering columns.",
            argument="columns",
        )
    if not columns:
        raise ArgumentError(
            f"{state.path}: ZORDER BY has no columns. Name at least one column.",
            argument="columns",
        )
    target = target_size(state, target_bytes)
    write_state, scan_state = rewrite_states(engine, state, engine_info)
    paths = tuple(_column_path(state, name) for name in columns)
    _check_ordering_columns(state, write_state, paths)
    predicate = partition_filter(state, where)
    files = list(live_files(engine, state, predicate, time_zone=time_zone))
    groups = by_partition(write_state, files)
    items = [
        RewriteTask(
            state=write_state,
            scan_state=scan_state,
            files=tuple(group),
            order=RowOrder(curve="zorder", columns=paths),
            num_files=max(1, sum(file.size for file in group) // target),
        )
        for group in groups
    ]
    return RewritePlan(
        state=state,
        operation=Operation.OPTIMIZE,
        parameters=optimize_parameters(where, zorder_by=[".".join(path) for path in paths]),
        where=predicate,
        time_zone=time_zone,
        items=tuple(items),
        considered=len(files),
        partitions=len(groups),
        started=started,
        is_zorder=True,
    )


def target_size(state: TableState, requested: int | None) -> int:
    """Return the size of new files in bytes.

    If `requested` is None, this is `delta.targetFileSize` or, if that isn't set,
    `DEFAULT_TARGET_BYTES`.
    """
    if requested is not None and (type(requested) is not int or requested <= 0):
        raise ArgumentError(
            f"target_size: {requested!r} isn't a positive integer. Pass a number of bytes.",
            argument="target_size",
        )
    return requested or state.table_properties.target_file_size or DEFAULT_TARGET_BYTES


def rewrite_states(
    engine: Engine, state: TableState, engine_info: str
) -> tuple[TransactionState, ScanState]:
    """Return the `TransactionState` for writing new files and the `ScanState` for reading files."""
    builder = TransactionBuilder(
        table=state.path, read_state=state, engine_info=engine_info, operation=Operation.OPTIMIZE
    )
    scan = ScanBuilder(state)
    if state.table_properties.row_tracking:
        scan = scan.with_metadata_columns((ROW_ID, ROW_COMMIT_VERSION))
    write_state = builder.build(engine).transaction_state(engine)
    return write_state, scan.build().scan_state(engine)


def partition_filter(state: TableState, where: Predicate | str | None) -> Predicate | None:
    """Resolve a condition that selects partitions.

    Raises:
        PredicateError: the condition references a data column.
    """
    if where is None:
        return None
    predicate = parse_predicate(where) if isinstance(where, str) else where
    resolved = resolve(predicate, state.schema)
    data_columns = [p for p in referenced_columns(resolved) if p[0] not in state.partition_columns]
    if data_columns:
        name = ".".join(data_columns[0])
        partitions = ", ".join(state.partition_columns)
        advice = (
            f"Use only the partition columns ({partitions})."
            if partitions
            else "Remove the condition."
        )
        raise PredicateError(
            f"{state.path}: Predicate references non-partition column {name!r}. Only the partition "
            f"columns may be referenced: [{partitions}] (DELTA_NON_PARTITION_COLUMN_REFERENCE). "
            f"{advice}",
            expression=name,
        )
    return resolved


def predicate_parameter(where: Predicate | str | None) -> str:
    """Return the operation parameter `predicate` in delta-spark's form, a JSON list."""
    predicates = [] if where is None else [where if isinstance(where, str) else repr(where)]
    return msgspec.json.encode(predicates).decode()


def optimize_parameters(
    where: Predicate | str | None,
    *,
    zorder_by: Sequence[str] = (),
    cluster_by: Sequence[str] = (),
    full: bool = False,
) -> Mapping[str, object]:
    """Return the `operationParameters` of an OPTIMIZE, under delta-spark's names."""
    parameters: dict[str, object] = {
        "predicate": predicate_parameter(where),
        "zOrderBy": msgspec.json.encode(list(zorder_by)).decode(),
        "clusterBy": msgspec.json.encode(list(cluster_by)).decode(),
        "auto": False,
    }
    return {**parameters, "isFull": full} if cluster_by else parameters


class _Candidates:
    """Selects the files that OPTIMIZE may rewrite: small files, and files with a deletion vector.

    Attributes:
        considered: number of live files in the selected partitions.
    """

    def __init__(self, min_size: int) -> None:
        self._min_size = min_size
        self.considered = 0

    def of(
        self, engine: Engine, state: TableState, predicate: Predicate | None, time_zone: str
    ) -> Iterator[ScanFile]:
        builder = ScanBuilder(state).with_filter(predicate).with_time_zone(time_zone)
        scan = builder.with_whole_adds().build()
        with scan.scan_files(engine) as batches:
            for scan_batch in batches:
                batch = scan_batch.selected()
                self.considered += batch.num_rows
                adds: Any = batch.column("add")
                small = pc.less(pc.struct_field(adds, "size"), self._min_size)
                marked = pc.is_valid(pc.struct_field(adds, "deletionVector"))
                yield from ScanFileBatch(batch, pc.or_(small, marked)).rows()


def _has_many_deleted(file: ScanFile, ratio: float) -> bool:
    vector = file.deletion_vector
    if vector is None:
        return False
    rows = num_records(file.add.stats)
    return rows is None or vector.cardinality > ratio * rows


def _column_path(state: TableState, name: str) -> tuple[str, ...]:
    """Return the path of a column from its case-insensitive name or dotted path.

    A column whose name contains dots takes precedence over a nested field. The name may be in
    backticks.
    """
    level: Any = state.schema
    path: list[str] = []
    rest = unquoted_identifier(name) or name
    while rest:
        if not isinstance(level, StructType):
            break
        fields = {f.name.lower(): f for f in level}
        head = rest if rest.lower() in fields else rest.partition(".")[0]
        field = fields.get(head.lower())
        if field is None:
            break
        path.append(field.name)
        level = field.data_type
        rest = rest[len(head) + 1 :]
    if rest or not path:
        raise SchemaError(
            f"{state.path}: the table has no column {name!r} for ZORDER BY "
            "(DELTA_ZORDERING_COLUMN_DOES_NOT_EXIST). Its columns are "
            f"{', '.join(state.schema.names)}.",
            table=state.path,
            column=name,
        )
    return tuple(path)


def _check_ordering_columns(
    state: TableState, write_state: TransactionState, paths: Sequence[tuple[str, ...]]
) -> None:
    indexed = write_state.statistics_columns()
    for path in paths:
        name = ".".join(path)
        if path[0] in state.partition_columns:
            raise SchemaError(
                f"{state.path}: {name} is a partition column. Z-Ordering can only be performed "
                "on data columns, because all rows of a partition have the same value "
                "(DELTA_ZORDERING_ON_PARTITION_COLUMN). Leave the column out.",
                table=state.path,
                column=name,
            )
        physical = ".".join(physical_path(state.schema, path))
        if not any(physical == i or physical.startswith(f"{i}.") for i in indexed):
            raise SchemaError(
                f"{state.path}: column {name!r} has no statistics, so ordering by it can't skip "
                "files (DELTA_ZORDERING_ON_COLUMN_WITHOUT_STATS). Add it to "
                "delta.dataSkippingStatsColumns, or raise delta.dataSkippingNumIndexedCols. Then "
                "rewrite the files.",
                table=state.path,
                column=name,
            )
