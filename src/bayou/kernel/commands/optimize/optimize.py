"""OPTIMIZE: small files together, and Z-order, planned as delta-spark does."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow.compute

from bayou.errors import ArgumentError, PredicateError, SchemaError
from bayou.kernel.commands.optimize.rewrite import Rewrite
from bayou.kernel.commands.optimize.rewrite_plan import RewritePlan, by_partition, packed
from bayou.kernel.commands.optimize.row_order import RowOrder
from bayou.kernel.engine import Engine
from bayou.kernel.expressions.evaluation import resolve
from bayou.kernel.expressions.model import Predicate, referenced_columns
from bayou.kernel.expressions.sql.parser import parse_predicate
from bayou.kernel.log.table_state import TableState
from bayou.kernel.operation import Operation
from bayou.kernel.scan.scan import ScanBuilder
from bayou.kernel.scan.scan_file import ScanFile, ScanFileBatch
from bayou.kernel.scan.scan_state import ROW_COMMIT_VERSION, ROW_ID, ScanState
from bayou.kernel.table_features.column_mapping import physical_path
from bayou.kernel.transaction.builder import TransactionBuilder
from bayou.kernel.transaction.commit_contents import num_records
from bayou.kernel.transaction_state import TransactionState
from bayou.protocol.schema import StructType

__all__ = [
    "DEFAULT_TARGET_BYTES",
    "optimize_parameters",
    "partition_filter",
    "plan_optimize",
    "plan_zorder",
    "predicate_texts",
    "reading_and_writing",
    "target_size",
]

pc: Any = pyarrow.compute

DEFAULT_TARGET_BYTES = 128 << 20
"""Size of new files where neither the caller nor `delta.targetFileSize` says."""


def plan_optimize(
    engine: Engine,
    state: TableState,
    engine_info: str,
    *,
    where: Predicate | str | None = None,
    target_bytes: int | None = None,
    min_bytes: int | None = None,
    max_deleted_rows_ratio: float = 0.05,
) -> RewritePlan:
    """Small files, and those with many deleted rows, packed into files of about one size.

    Args:
        where: over partition columns; which partitions.
        target_bytes: most bytes of files that become one; None: the table's property.
        min_bytes: files from this size on stay; None: `target_bytes`.
        max_deleted_rows_ratio: a file of which more than this share is deleted doesn't stay.

    Raises:
        PredicateError: `where` can't be understood, or names a column that isn't a partition's.
        UnsupportedFeatureError: the table can't be written.
    """
    started = _now()
    target = target_size(state, target_bytes)
    least = target if min_bytes is None else min_bytes
    writing, reading = reading_and_writing(engine, state, engine_info)
    predicate = partition_filter(state, where)
    candidates = _Candidates(least)
    files = [
        file
        for file in candidates.of(engine, state, predicate)
        if file.size < least or _has_many_deleted(file, max_deleted_rows_ratio)
    ]
    items: list[Rewrite] = []
    partitions = 0
    for group in by_partition(writing, files):
        bins = [
            members
            for members in packed(sorted(group, key=lambda file: file.size), target)
            # A lone file is rewritten only for the rows it loses.
            if len(members) > 1 or _has_many_deleted(members[0], max_deleted_rows_ratio)
        ]
        partitions += bool(bins)
        items += [Rewrite(state=writing, scan_state=reading, files=tuple(m)) for m in bins]
    return RewritePlan(
        state=state,
        operation=Operation.OPTIMIZE,
        parameters=optimize_parameters(where),
        where=predicate,
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
) -> RewritePlan:
    """All rows of a partition along the Z-order of some columns.

    Args:
        columns: names, dotted for nested ones; not of partition columns.

    Raises:
        SchemaError: a column that isn't there, has no statistics, or partitions the table.
        ArgumentError: no column; or the table is clustered, which takes its place.
        PredicateError, UnsupportedFeatureError: as `plan_optimize`.
    """
    started = _now()
    if state.clustering_columns:
        raise ArgumentError(
            f"{state.path} is a clustered table: optimize() keeps its rows in order of its "
            "clustering columns, and ZORDER BY isn't for it (DELTA_CLUSTERING_WITH_ZORDER_BY).",
            argument="columns",
        )
    if not columns:
        raise ArgumentError("Name at least one column to order by.", argument="columns")
    target = target_size(state, target_bytes)
    writing, reading = reading_and_writing(engine, state, engine_info)
    paths = tuple(_column_path(state, name) for name in columns)
    _check_ordering_columns(state, writing, paths)
    predicate = partition_filter(state, where)
    files = list(_all_files(engine, state, predicate))
    groups = by_partition(writing, files)
    items = [
        Rewrite(
            state=writing,
            scan_state=reading,
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
        items=tuple(items),
        considered=len(files),
        partitions=len(groups),
        started=started,
        is_zorder=True,
    )


def target_size(state: TableState, asked: int | None) -> int:
    """Size of new files in bytes: as asked, or as `delta.targetFileSize` says.

    Raises:
        ArgumentError: not a size.
    """
    if asked is not None and (type(asked) is not int or asked <= 0):
        raise ArgumentError(
            f"target_size is {asked!r}; it is a number of bytes.", argument="target_size"
        )
    return asked or state.table_properties.target_file_size or DEFAULT_TARGET_BYTES


def reading_and_writing(
    engine: Engine, state: TableState, engine_info: str
) -> tuple[TransactionState, ScanState]:
    """How a version's files are read and written so that rows stay what they are.

    Raises:
        UnsupportedFeatureError: the table can't be written.
    """
    builder = TransactionBuilder(
        table=state.path, read_state=state, engine_info=engine_info, operation=Operation.OPTIMIZE
    )
    scan = ScanBuilder(state)
    if state.table_properties.row_tracking:
        scan = scan.with_metadata_columns((ROW_ID, ROW_COMMIT_VERSION))
    writing = builder.build(engine).transaction_state(engine)
    return writing, scan.build().scan_state(engine)


def partition_filter(state: TableState, where: Predicate | str | None) -> Predicate | None:
    """A filter over partition columns, resolved.

    Raises:
        PredicateError: it can't be understood, or names another column.
    """
    if where is None:
        return None
    predicate = parse_predicate(where) if isinstance(where, str) else where
    resolved = resolve(predicate, state.schema)
    others = [p for p in referenced_columns(resolved) if p[0] not in state.partition_columns]
    if others:
        name = ".".join(others[0])
        raise PredicateError(
            f"{state.path} can be rearranged by whole partitions only, and {name!r} isn't a "
            f"partition column; those are ({', '.join(state.partition_columns)}) "
            "(DELTA_NON_PARTITION_COLUMN_REFERENCE).",
            expression=name,
        )
    return resolved


def predicate_texts(where: Predicate | str | None) -> str:
    """The parameter `predicate` in delta-spark's form, a JSON list in a string."""
    texts = [] if where is None else [where if isinstance(where, str) else repr(where)]
    return msgspec.json.encode(texts).decode()


def optimize_parameters(
    where: Predicate | str | None,
    *,
    zorder_by: Sequence[str] = (),
    cluster_by: Sequence[str] = (),
    full: bool = False,
) -> Mapping[str, object]:
    """`operationParameters` of an OPTIMIZE, as delta-spark names them."""
    parameters: dict[str, object] = {
        "predicate": predicate_texts(where),
        "zOrderBy": msgspec.json.encode(list(zorder_by)).decode(),
        "clusterBy": msgspec.json.encode(list(cluster_by)).decode(),
        "auto": False,
    }
    return {**parameters, "isFull": full} if cluster_by else parameters


class _Candidates:
    """Files that may be rewritten, picked in columns before any is looked at by itself.

    Attributes:
        considered: how many files there were.
    """

    def __init__(self, least: int) -> None:
        self._least = least
        self.considered = 0

    def of(
        self, engine: Engine, state: TableState, predicate: Predicate | None
    ) -> Iterator[ScanFile]:
        scan = ScanBuilder(state).with_filter(predicate).with_whole_adds().build()
        with scan.scan_files(engine) as batches:
            for found in batches:
                batch = found.selected()
                self.considered += batch.num_rows
                adds: Any = batch.column("add")
                small = pc.less(pc.struct_field(adds, "size"), self._least)
                marked = pc.is_valid(pc.struct_field(adds, "deletionVector"))
                yield from ScanFileBatch(batch, pc.or_(small, marked)).rows()


def _all_files(
    engine: Engine, state: TableState, predicate: Predicate | None
) -> Iterator[ScanFile]:
    scan = ScanBuilder(state).with_filter(predicate).with_whole_adds().build()
    with scan.scan_files(engine).flat_map(lambda batch: batch.rows()) as files:
        yield from files


def _has_many_deleted(file: ScanFile, ratio: float) -> bool:
    vector = file.deletion_vector
    if vector is None:
        return False
    rows = num_records(file.add.stats)  # deleted ones included or not: it is about the size
    return rows is None or vector.cardinality > ratio * rows


def _column_path(state: TableState, name: str) -> tuple[str, ...]:
    """The path of a column by its name, without regard to case; a name with dots counts first."""
    level: Any = state.schema
    path: list[str] = []
    rest = name
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
            f"{state.path} has no column {name!r} to order by; it has "
            f"{', '.join(state.schema.names)} (DELTA_ZORDERING_COLUMN_DOES_NOT_EXIST).",
            table=state.path,
            column=name,
        )
    return tuple(path)


def _check_ordering_columns(
    state: TableState, writing: TransactionState, paths: Sequence[tuple[str, ...]]
) -> None:
    indexed = writing.statistics_columns()
    for path in paths:
        name = ".".join(path)
        if path[0] in state.partition_columns:
            raise SchemaError(
                f"{name!r} is a partition column of {state.path}: within a partition all rows have "
                "one value of it, so there is nothing to order "
                "(DELTA_ZORDERING_ON_PARTITION_COLUMN).",
                table=state.path,
                column=name,
            )
        physical = ".".join(physical_path(state.schema, path))
        if not any(physical == i or physical.startswith(f"{i}.") for i in indexed):
            raise SchemaError(
                f"{state.path} keeps no statistics of column {name!r}, so ordering by it would "
                "skip no file (DELTA_ZORDERING_ON_COLUMN_WITHOUT_STATS). Name it in "
                "delta.dataSkippingStatsColumns, or raise delta.dataSkippingNumIndexedCols, and "
                "rewrite the files.",
                table=state.path,
                column=name,
            )


def _now() -> int:
    return time.time_ns() // 1_000_000
