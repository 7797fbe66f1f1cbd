"""OPTIMIZE, Z-order, clustering and purge: planned and committed here, run where they are large.

What a table needs is planned by the kernel, as items that rewrite some files each. A few bytes, or
one item, are rewritten by threads of this process: that takes no job and no workers. More goes to
executors, an item a task. Either way batches of items are committed one by one, so that what fails
late loses little.

Z-order and clustering on executors: rows go through a shuffle, as Arrow batches.

Three steps: tasks sample the ordering columns of some files each; tasks put their files' rows into
buckets of the curve; a task for each new file sorts the buckets that it is made of.

Where a row operation's work is done: in the driver's process, or on executors.

Rewrites of files on executors: an item a task.
"""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from bayou.api.parallel_iteration import available_cores
from bayou.engines import from_description
from bayou.errors import ArgumentError, BayouError
from bayou.kernel import Engine, EngineDescription, Snapshot, Table
from bayou.kernel.commands.optimize.clustering import plan_clustering
from bayou.kernel.commands.optimize.metrics import OptimizeMetrics
from bayou.kernel.commands.optimize.optimize import (
    plan_optimize,
    plan_zorder,
)
from bayou.kernel.commands.optimize.purge import plan_purge
from bayou.kernel.commands.optimize.rewrite import Rewrite, rewrite
from bayou.kernel.commands.optimize.rewrite_plan import (
    RewriteLimits,
    RewritePlan,
    RunItems,
    run_plan,
)
from bayou.kernel.commands.optimize.sorted_rewrite import (
    OrderedParts,
    for_files,
    sample_item,
    split_item,
    write_ordered,
)
from bayou.protocol.actions import AddFile, decode_actions, encode_actions
from bayou.spark.executors.executor_tasks import (
    from_cell,
    run_shares,
    run_shuffled,
    shares_by_size,
    to_cell,
)
from bayou.spark.session.settings import (
    OPTIMIZE_BATCH_BYTES,
    OPTIMIZE_DELETED_ROWS_RATIO,
    OPTIMIZE_LOCAL_BYTES,
    OPTIMIZE_MAX_FILE_SIZE,
    OPTIMIZE_MIN_FILE_SIZE,
    ROW_OPERATIONS_LOCAL_BYTES,
)
from bayou.spark.target import TargetTable, is_classic
from bayou.spark.write.tasks import delete_task_files
from bayou.version import ENGINE_INFO

__all__ = [
    "DEFAULT_LOCAL_BYTES",
    "Rearranging",
    "adds_in",
    "discarding",
    "order_on_executors",
    "rewrite_on_executors",
    "stays_local",
]


def rewrite_on_executors(spark: Any, engine: Engine, table: str, description: str) -> RunItems:
    """What runs the items of a rewrite as tasks of a Spark job, the large ones first.

    Args:
        spark: a classic session.
        engine: reaches the table's store; its description travels.
        table: the table's path.
        description: what Spark's UI shows.
    """
    reach = engine.description()

    def task(_: int, item: bytes) -> bytes:
        return _rewritten(reach, item)

    def run(items: Sequence[Rewrite]) -> list[list[AddFile]]:
        order = sorted(range(len(items)), key=lambda number: -items[number].size)
        outcomes = run_shares(
            spark,
            [items[number].to_bytes() for number in order],
            task,
            table=table,
            description=description,
            discard=discarding(reach, table),
        )
        found = dict(zip(order, outcomes, strict=True))
        return [adds_in(found[number]) for number in range(len(items))]

    return run


def adds_in(outcome: bytes) -> list[AddFile]:
    """The actions that a task sent back."""
    return [action for action in decode_actions(outcome) if isinstance(action, AddFile)]


class discarding:  # noqa: N801  # reads as what it does
    """Deletes what tasks wrote, for a commit that won't come."""

    def __init__(self, engine: EngineDescription, table: str) -> None:
        self._engine = engine
        self._table = table

    def __call__(self, outcomes: list[bytes]) -> None:
        with contextlib.suppress(BayouError):
            delete_task_files(self._engine, self._table, outcomes)


def _rewritten(engine: EngineDescription, item: bytes) -> bytes:
    return encode_actions(rewrite(from_description(engine), Rewrite.from_bytes(item)))


_SHARE_BYTES = 64 << 20


def order_on_executors(spark: Any, engine: Engine, table: str, description: str) -> RunItems:
    """What runs items that have an order; arguments as of `rewrite_on_executors`."""
    reach = engine.description()
    discard = discarding(reach, table)

    def run(items: Sequence[Rewrite]) -> list[list[AddFile]]:
        shares = [
            _Share(item=number, work=for_files(item, files).to_bytes())
            for number, item in enumerate(items)
            for files in _file_shares(item)
        ]
        samples: list[list[Any]] = [[] for _ in items]
        sampled = run_shares(
            spark,
            shares,
            _Sampling(reach),
            table=table,
            description=f"{description}: sample",
            discard=lambda _: None,
        )
        for share, sample in zip(shares, sampled, strict=True):
            samples[share.item].append(pickle.loads(sample))  # noqa: S301  # our own tasks' bytes
        parts = [OrderedParts.of(item, found) for item, found in zip(items, samples, strict=True)]
        groups = [number for number, item in enumerate(items) for _ in range(item.num_files)]
        shuffle = _Shuffle(
            engine=reach,
            parts=parts,
            first=[groups.index(number) for number in range(len(items))],
            groups=groups,
            works=[for_files(item, [0]).to_bytes() for item in items],
        )
        outcomes = run_shuffled(
            spark,
            shares,
            shuffle.split,
            shuffle.merge,
            len(groups),
            table=table,
            description=description,
            discard=discard,
        )
        adds: list[list[AddFile]] = [[] for _ in items]
        for group in sorted(outcomes):
            adds[groups[group]] += adds_in(outcomes[group])
        return adds

    return run


@dataclass(frozen=True, slots=True, kw_only=True)
class _Share:
    item: int
    work: bytes


class _Sampling:
    def __init__(self, engine: EngineDescription) -> None:
        self._engine = engine

    def __call__(self, _: int, share: _Share) -> bytes:
        engine = from_description(self._engine)
        return pickle.dumps(sample_item(engine, Rewrite.from_bytes(share.work)))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class _Shuffle:
    """Attributes:
    parts: of each item.
    first: of each item, the group of its first file.
    groups: of each new file, its item.
    works: of each item, with one of its files.
    """

    engine: EngineDescription
    parts: Sequence[OrderedParts]
    first: Sequence[int]
    groups: Sequence[int]
    works: Sequence[bytes]

    def split(self, share: _Share) -> Iterator[tuple[int, int, bytes]]:
        parts, first = self.parts[share.item], self.first[share.item]
        engine = from_description(self.engine)
        for bucket, rows in split_item(engine, Rewrite.from_bytes(share.work), parts):
            yield first + parts.file_of(bucket), bucket, to_cell(rows)

    def merge(self, group: int, buckets: Iterator[list[bytes]]) -> bytes:
        work = Rewrite.from_bytes(self.works[self.groups[group]])
        rows = ([from_cell(cell) for cell in bucket] for bucket in buckets)
        return encode_actions(write_ordered(from_description(self.engine), work, rows))


def _file_shares(item: Rewrite) -> list[list[int]]:
    count = max(1, -(-item.size // _SHARE_BYTES))
    return shares_by_size(range(len(item.files)), lambda number: item.files[number].size, count)


_INFO = f"{ENGINE_INFO} (spark)"
_LOCAL_BYTES = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Rearranging:
    """A table whose files are to be rearranged.

    Attributes:
        spark: a session, classic or Connect.
    """

    spark: Any
    engine: Engine
    table: Table

    def optimize(self, where: str | None = None, *, full: bool = False) -> OptimizeMetrics:
        """Pack small files into larger ones; a clustered table is clustered instead.

        Args:
            where: over partition columns; only these partitions.
            full: of a clustered table also what was clustered before.

        Raises:
            ArgumentError: `where` on a clustered table, `full` on another one, or a setting that
                isn't usable.
            PredicateError: `where` can't be understood, or isn't over partition columns only.
            CommitConflictError: another writer changed a file that was rewritten.
            DataFileError: a file is missing or damaged.
        """
        state = self._latest()
        target = OPTIMIZE_MAX_FILE_SIZE.integer(spark=self.spark)
        if state.clustering_columns:
            if where is not None:
                raise ArgumentError(
                    f"{state.path} is a clustered table, which has no partitions to choose by "
                    "WHERE (DELTA_CLUSTERING_WITH_PARTITION_PREDICATE).",
                    argument="where",
                )
            return self._run(
                plan_clustering(self.engine, state, _INFO, full=full, target_bytes=target)
            )
        if full:
            raise ArgumentError(
                f"FULL is for clustered tables, and {state.path} isn't one "
                "(DELTA_OPTIMIZE_FULL_NOT_SUPPORTED).",
                argument="full",
            )
        least = OPTIMIZE_MIN_FILE_SIZE.integer(spark=self.spark)
        return self._run(
            plan_optimize(
                self.engine,
                state,
                _INFO,
                where=where,
                target_bytes=target,
                min_bytes=least,
                max_deleted_rows_ratio=OPTIMIZE_DELETED_ROWS_RATIO.share(self.spark, 0.05),
            )
        )

    def zorder(self, columns: Sequence[str], where: str | None = None) -> OptimizeMetrics:
        """Lay each partition's rows out along the Z-order of some columns.

        Raises:
            SchemaError: a column that isn't there, has no statistics, or partitions the table.
            PredicateError, CommitConflictError, DataFileError: see `optimize`.
        """
        target = OPTIMIZE_MAX_FILE_SIZE.integer(spark=self.spark)
        state = self._latest()
        return self._run(
            plan_zorder(self.engine, state, _INFO, list(columns), where=where, target_bytes=target)
        )

    def purge(self, where: str | None = None) -> OptimizeMetrics:
        """Rewrite files that hold deleted rows, or columns that the table has dropped.

        Raises:
            PredicateError, CommitConflictError, DataFileError: see `optimize`.
        """
        target = OPTIMIZE_MAX_FILE_SIZE.integer(spark=self.spark)
        state = self._latest()
        return self._run(plan_purge(self.engine, state, _INFO, where=where, target_bytes=target))

    def _latest(self) -> Snapshot:
        return self.table.latest_snapshot(self.engine)

    def _run(self, plan: RewritePlan) -> OptimizeMetrics:
        limits = RewriteLimits(
            parallelism=available_cores(),
            batch_bytes=OPTIMIZE_BATCH_BYTES.integer(spark=self.spark)
            or RewriteLimits().batch_bytes,
        )
        local = OPTIMIZE_LOCAL_BYTES.integer(spark=self.spark)
        size = sum(item.size for item in plan.items)
        if not isinstance(self.spark, SparkSession) or size <= (
            _LOCAL_BYTES if local is None else local
        ):
            return run_plan(self.engine, plan, _INFO, limits)
        what = f"{plan.operation} {plan.state.path}@{plan.state.version}"
        if any(item.order is not None for item in plan.items):
            run_items = order_on_executors(self.spark, self.engine, plan.state.path, what)
        else:
            run_items = rewrite_on_executors(self.spark, self.engine, plan.state.path, what)
        return run_plan(self.engine, plan, _INFO, limits, run_items=run_items)


DEFAULT_LOCAL_BYTES = 256 << 20


def stays_local(target: TargetTable, sizes: Iterable[int]) -> bool:
    """Whether the driver's process does the work.

    Spark Connect's client always does: it commits, so it reaches the store, and has no executors.

    Args:
        sizes: bytes of the files that are looked into.
    """
    if not is_classic(target.spark):
        return True
    limit = ROW_OPERATIONS_LOCAL_BYTES.integer(spark=target.spark)
    return sum(sizes) <= (DEFAULT_LOCAL_BYTES if limit is None else limit)
