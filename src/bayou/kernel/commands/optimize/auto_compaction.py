"""Auto compaction (`delta.autoOptimize.autoCompact`): compacts small files after a commit.

As in delta-spark, a partition is compacted after a commit if the commit has added files to it, and
if the partition has at least 50 small files. The process counts the small files in each partition,
so that it doesn't have to read the log after every commit.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from bayou.errors import BayouError
from bayou.kernel.arrow.compute import pc
from bayou.kernel.commands.optimize.bin_packing import by_partition, pack
from bayou.kernel.commands.optimize.metrics import OptimizeMetrics
from bayou.kernel.commands.optimize.optimize import optimize_parameters, rewrite_states
from bayou.kernel.commands.optimize.rewrite import RewriteTask, typed_partition_values
from bayou.kernel.commands.optimize.rewrite_execution import RewritePlan, run_plan
from bayou.kernel.engine import Engine
from bayou.kernel.expressions.model import (
    Comparison,
    IsNull,
    Or,
    Predicate,
    col,
    conjunction,
    lit,
)
from bayou.kernel.log.table_state import TableState, load_table_state
from bayou.kernel.operation import Operation
from bayou.kernel.scan.scan import ScanBuilder
from bayou.kernel.scan.scan_file import ScanFile, ScanFileBatch
from bayou.kernel.transaction.commit import TransactionCommitResult
from bayou.kernel.transaction.commit_file_actions import (
    SMALL_FILE_BYTES,
    PartitionKey,
    partition_key,
)
from bayou.kernel.transaction.commit_table_actions import current_time_ms
from bayou.kernel.transaction.transaction import Transaction
from bayou.kernel.transaction_state import TransactionState

_LOG = logging.getLogger(__name__)

_MIN_FILES = 50
_TARGET_BYTES = 2 * SMALL_FILE_BYTES
_MAX_PARTITIONS = 128
_MAX_COUNTS = 1 << 16


def compact_after(
    engine: Engine, transaction: Transaction, result: TransactionCommitResult
) -> OptimizeMetrics | None:
    """Compact the partitions that got files from a commit and have many small files.

    An error is logged and not raised, because the commit has succeeded.

    Returns:
        Metrics; None if nothing was compacted.
    """
    if not result.small_files:
        return None
    table = transaction.table
    with _COUNTS.reserved(table, result.small_files) as partitions:
        if not partitions:
            return None
        try:
            state = load_table_state(engine, table, catalog=transaction.catalog)
            return _compact(engine, state, partitions, transaction.engine_info)
        except Exception as error:  # noqa: BLE001 - the commit is valid
            _LOG.warning(
                "%s: auto compaction after version %d failed. The commit is valid. Auto "
                "compaction runs again after a later commit. Cause: %s",
                table,
                result.version,
                error if isinstance(error, BayouError) else f"{type(error).__name__}: {error}",
                exc_info=None if isinstance(error, BayouError) else error,
            )
            return None


class _SmallFileCounts:
    """Number of small files in each recently written partition, for all tables of this process.

    At most `_MAX_COUNTS` partitions are stored. The small files of other partitions are counted
    from the log.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: OrderedDict[tuple[str, PartitionKey], int] = OrderedDict()
        self._reserved: set[tuple[str, PartitionKey]] = set()

    @contextmanager
    def reserved(
        self, table: str, added: Mapping[PartitionKey, int]
    ) -> Iterator[set[PartitionKey]]:
        """Context manager that counts added files, and yields the partitions to check.

        These partitions may have enough small files for a compaction. They are reserved for this
        thread until the `with` block ends; other threads don't get them.

        Args:
            added: number of small files that a commit added to each partition.
        """
        with self._lock:
            due = {key for key, files in added.items() if self._is_due((table, key), files)}
            self._reserved |= {(table, key) for key in due}
        try:
            yield due
        finally:
            with self._lock:
                self._reserved -= {(table, key) for key in due}

    def set(self, table: str, counts: Mapping[PartitionKey, int]) -> None:
        with self._lock:
            for key, files in counts.items():
                self._counts[table, key] = files
            while len(self._counts) > _MAX_COUNTS:
                self._counts.popitem(last=False)

    def _is_due(self, partition: tuple[str, PartitionKey], files: int) -> bool:
        if partition in self._counts:
            self._counts[partition] += files
            self._counts.move_to_end(partition)
            if self._counts[partition] < _MIN_FILES:
                return False
        return partition not in self._reserved


_COUNTS = _SmallFileCounts()


def _compact(
    engine: Engine, state: TableState, partitions: Collection[PartitionKey], engine_info: str
) -> OptimizeMetrics | None:
    started = current_time_ms()
    table = state.path
    if not state.table_properties.auto_compact:
        return None
    write_state, scan_state = rewrite_states(engine, state, engine_info)
    groups = by_partition(write_state, _small_files(engine, state, write_state, partitions))
    _COUNTS.set(table, dict.fromkeys(partitions, 0))
    _COUNTS.set(table, {partition_key(g[0].partition_values): len(g) for g in groups})
    chosen = sorted((g for g in groups if len(g) >= _MIN_FILES), key=len, reverse=True)
    chosen = chosen[:_MAX_PARTITIONS]
    target = state.table_properties.target_file_size or _TARGET_BYTES
    items = tuple(
        RewriteTask(state=write_state, scan_state=scan_state, files=tuple(members))
        for group in chosen
        for members in pack(sorted(group, key=lambda file: file.size), target)
        if len(members) > 1
    )
    if not items:
        return None
    where = _any_of([_partition(write_state, group[0]) for group in chosen])
    plan = RewritePlan(
        state=state,
        operation=Operation.OPTIMIZE,
        parameters={**optimize_parameters(where), "auto": True},
        where=where,
        items=items,
        considered=sum(map(len, groups)),
        partitions=len(chosen),
        started=started,
    )
    metrics = run_plan(engine, plan, engine_info)
    _COUNTS.set(table, {partition_key(g[0].partition_values): 0 for g in chosen})
    return metrics


def _small_files(
    engine: Engine,
    state: TableState,
    write_state: TransactionState,
    partitions: Collection[PartitionKey],
) -> Iterator[ScanFile]:
    """Yield the small files of some partitions, without files that OPTIMIZE has clustered."""
    where = None
    if state.partition_columns and len(partitions) <= _MAX_PARTITIONS:
        where = _any_of(
            [_partition_values(write_state, dict(key), "a new file") for key in partitions]
        )
    with ScanBuilder(state).with_filter(where).with_whole_adds().build().scan_files(engine) as scan:
        for scan_batch in scan:
            batch = scan_batch.selected()
            small = pc.less(pc.struct_field(batch.column("add"), "size"), SMALL_FILE_BYTES)
            for file in ScanFileBatch(batch, small).rows():
                if partition_key(file.partition_values) in partitions and not (
                    file.add.clustering_provider
                ):
                    yield file


def _partition(write_state: TransactionState, file: ScanFile) -> Predicate | None:
    return _partition_values(write_state, file.partition_values, file.path)


def _partition_values(
    write_state: TransactionState, values: Mapping[str, str | None], file: str
) -> Predicate | None:
    typed = typed_partition_values(write_state, values, file)
    return conjunction(
        IsNull(col(name)) if value is None else Comparison("=", col(name), lit(value))
        for name, value in typed.items()
    )


def _any_of(partitions: Collection[Predicate | None]) -> Predicate | None:
    """Combine predicates with OR; None is a predicate that is true for all rows."""
    predicates = [predicate for predicate in partitions if predicate is not None]
    if len(predicates) < len(partitions) or not predicates:
        return None
    return predicates[0] if len(predicates) == 1 else Or(tuple(predicates))
