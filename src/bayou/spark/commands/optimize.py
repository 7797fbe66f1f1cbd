"""OPTIMIZE, Z-order, clustering and purge, in the driver or on executors.

The kernel plans a list of rewrites; each rewrite replaces some files by new files. If the total
size of the files is small, the rewrites run in threads of the driver. Otherwise they run on
executors, with one task for each rewrite. Rewrites are committed in batches. If the command fails,
the batches that are already committed remain.

Z-order and clustering on executors have three steps:

1. Tasks read samples of the clustering columns. The driver uses the samples to divide the Z-order
   or Hilbert curve into ranges.
2. Tasks assign each row to one of the ranges, and shuffle the rows as Arrow batches.
3. One task for each new file sorts the rows of the file's ranges, and writes the file.
"""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from bayou.api.rows.parallel_iteration import available_cores
from bayou.engines import from_description
from bayou.errors import ArgumentError, BayouError, PredicateError
from bayou.kernel import Engine, EngineDescription, Snapshot, Table
from bayou.kernel.commands.optimize.clustering import plan_clustering
from bayou.kernel.commands.optimize.metrics import OptimizeMetrics
from bayou.kernel.commands.optimize.optimize import (
    plan_optimize,
    plan_zorder,
)
from bayou.kernel.commands.optimize.purge import plan_purge
from bayou.kernel.commands.optimize.rewrite import RewriteTask, rewrite
from bayou.kernel.commands.optimize.rewrite_execution import (
    RewriteLimits,
    RewritePlan,
    RunItems,
    run_plan,
)
from bayou.kernel.commands.optimize.sorted_rewrite import (
    OrderedParts,
    sample_item,
    split_item,
    with_files,
    write_ordered,
)
from bayou.kernel.commands.optimize.upgrade_uniform import upgrade_uniform
from bayou.kernel.expressions.model import Predicate, referenced_columns
from bayou.kernel.expressions.sql.parser import parse_predicate
from bayou.protocol.actions import AddFile, decode_actions, encode_actions
from bayou.protocol.schema import TIMESTAMP
from bayou.protocol.sql import tokenize
from bayou.spark.executors.executor_tasks import (
    decode_batch,
    encode_batch,
    run_shuffled_tasks,
    run_tasks,
    split_by_size,
)
from bayou.spark.expressions.session_grammar import with_current_time
from bayou.spark.expressions.session_semantics import with_zone
from bayou.spark.session.connection import is_classic
from bayou.spark.session.settings import (
    OPTIMIZE_BATCH_BYTES,
    OPTIMIZE_DELETED_ROWS_RATIO,
    OPTIMIZE_LOCAL_BYTES,
    OPTIMIZE_MAX_FILE_SIZE,
    OPTIMIZE_MIN_FILE_SIZE,
    ROW_OPERATIONS_LOCAL_BYTES,
)
from bayou.spark.target_table import SPARK_ENGINE_INFO, TargetTable
from bayou.spark.write.tasks import delete_task_files


def rewrite_on_executors(spark: Any, engine: Engine, table: str, description: str) -> RunItems:
    """Return a function that runs rewrites as tasks of a Spark job, the largest rewrite first.

    Args:
        table: the table's path.
        description: description of the job in Spark's UI.
    """
    engine_description = engine.description()

    def task(_: int, item: bytes) -> bytes:
        return _rewrite_item(engine_description, item)

    def run(items: Sequence[RewriteTask]) -> list[list[AddFile]]:
        order = sorted(range(len(items)), key=lambda number: -items[number].size)
        results = run_tasks(
            spark,
            [items[number].to_bytes() for number in order],
            task,
            table=table,
            description=description,
            discard=DeleteTaskFiles(engine_description, table),
        )
        by_number = dict(zip(order, results, strict=True))
        return [decode_adds(by_number[number]) for number in range(len(items))]

    return run


def decode_adds(result: bytes) -> list[AddFile]:
    """Decode the `add` actions in the result of a task."""
    return [action for action in decode_actions(result) if isinstance(action, AddFile)]


class DeleteTaskFiles:
    """Argument `discard` of `run_tasks`: deletes the files that a failed job has written."""

    def __init__(self, engine: EngineDescription, table: str) -> None:
        self._engine = engine
        self._table = table

    def __call__(self, results: list[bytes]) -> None:
        with contextlib.suppress(BayouError):
            delete_task_files(self._engine, self._table, results)


def _rewrite_item(engine: EngineDescription, item: bytes) -> bytes:
    return encode_actions(rewrite(from_description(engine), RewriteTask.from_bytes(item)))


_CHUNK_BYTES = 64 << 20


def sort_on_executors(spark: Any, engine: Engine, table: str, description: str) -> RunItems:
    """Return a function that runs the rewrites of Z-order or clustering on executors."""
    engine_description = engine.description()
    discard = DeleteTaskFiles(engine_description, table)

    def run(items: Sequence[RewriteTask]) -> list[list[AddFile]]:
        chunks = [
            _FileChunk(item=number, rewrite=with_files(item, files).to_bytes())
            for number, item in enumerate(items)
            for files in _file_chunks(item)
        ]
        samples: list[list[Any]] = [[] for _ in items]
        sampled = run_tasks(
            spark,
            chunks,
            _SampleTask(engine_description),
            table=table,
            description=f"{description}: sample",
            discard=lambda _: None,
        )
        for chunk, sample in zip(chunks, sampled, strict=True):
            samples[chunk.item].append(pickle.loads(sample))  # noqa: S301  # from our own tasks
        parts = [OrderedParts.of(i, sample) for i, sample in zip(items, samples, strict=True)]
        numbers = [number for number, item in enumerate(items) for _ in range(item.num_files)]
        shuffle = _Shuffle(
            engine=engine_description,
            parts=parts,
            first_files=[numbers.index(number) for number in range(len(items))],
            rewrite_numbers=numbers,
            rewrites=[with_files(item, [0]).to_bytes() for item in items],
        )
        results = run_shuffled_tasks(
            spark,
            chunks,
            shuffle.split,
            shuffle.merge,
            len(numbers),
            table=table,
            description=description,
            discard=discard,
        )
        adds: list[list[AddFile]] = [[] for _ in items]
        for group in sorted(results):
            adds[numbers[group]] += decode_adds(results[group])
        return adds

    return run


@dataclass(frozen=True, slots=True, kw_only=True)
class _FileChunk:
    item: int
    rewrite: bytes


class _SampleTask:
    def __init__(self, engine: EngineDescription) -> None:
        self._engine = engine

    def __call__(self, _: int, chunk: _FileChunk) -> bytes:
        engine = from_description(self._engine)
        return pickle.dumps(sample_item(engine, RewriteTask.from_bytes(chunk.rewrite)))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class _Shuffle:
    """The map function `split` and the reduce function `merge`, for `run_shuffled_tasks`.

    The new files of all rewrites form one list, in the order of the rewrites. All rows of a new
    file are one group of the shuffle. The group's number is the index of the file in this list.

    Attributes:
        parts: for each rewrite, the ranges of the space-filling curve.
        first_files: for each rewrite, the index of its first new file.
        rewrite_numbers: for each new file, the index of its rewrite.
        rewrites: for each rewrite, its serialized `RewriteTask` with only the first input file.
            Reduce tasks take the partition values from this file, and read no input files.
    """

    engine: EngineDescription
    parts: Sequence[OrderedParts]
    first_files: Sequence[int]
    rewrite_numbers: Sequence[int]
    rewrites: Sequence[bytes]

    def split(self, chunk: _FileChunk) -> Iterator[tuple[int, int, bytes]]:
        parts, first_file = self.parts[chunk.item], self.first_files[chunk.item]
        engine = from_description(self.engine)
        for bucket, rows in split_item(engine, RewriteTask.from_bytes(chunk.rewrite), parts):
            yield first_file + parts.file_of(bucket), bucket, encode_batch(rows)

    def merge(self, group: int, buckets: Iterator[list[bytes]]) -> bytes:
        item = RewriteTask.from_bytes(self.rewrites[self.rewrite_numbers[group]])
        rows = ([decode_batch(data) for data in bucket] for bucket in buckets)
        return encode_actions(write_ordered(from_description(self.engine), item, rows))


def _file_chunks(item: RewriteTask) -> list[list[int]]:
    count = max(1, -(-item.size // _CHUNK_BYTES))
    return split_by_size(range(len(item.files)), lambda number: item.files[number].size, count)


_LOCAL_BYTES = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeCommands:
    """OPTIMIZE, Z-order and purge of a table, in a classic or Connect session.

    Attributes:
        time_zone: the time zone of timestamp strings that don't contain a time zone, in partition
            values and in `where`.
    """

    spark: Any
    engine: Engine
    table: Table
    time_zone: str = "UTC"

    def optimize(
        self,
        where: Predicate | str | None = None,
        *,
        full: bool = False,
        min_bytes: int | None = None,
    ) -> OptimizeMetrics:
        """Compact small files. For a table with clustering columns, cluster the rows instead.

        Args:
            where: condition over partition columns; only matching partitions are compacted.
            min_bytes: files smaller than this are compacted. If None, the session's setting
                applies.
            full: whether to also rewrite files that are already clustered; only for clustered
                tables.

        Raises:
            ArgumentError: `where` or `full` isn't supported for the table, or `where` depends on
                the time zone in a way that the kernel doesn't support.
        """
        state = self._latest()
        target = OPTIMIZE_MAX_FILE_SIZE.integer(spark=self.spark)
        if state.clustering_columns:
            if where is not None:
                raise ArgumentError(
                    f"{state.path}: WHERE selects partitions, but a clustered table has none. "
                    "Remove WHERE (DELTA_CLUSTERING_WITH_PARTITION_PREDICATE).",
                    argument="where",
                )
            return self._run(
                plan_clustering(
                    self.engine, state, SPARK_ENGINE_INFO, full=full, target_bytes=target
                )
            )
        if full:
            raise ArgumentError(
                f"{state.path}: the table isn't clustered, so FULL isn't supported. Remove FULL "
                "(DELTA_OPTIMIZE_FULL_NOT_SUPPORTED).",
                argument="full",
            )
        if min_bytes is None:
            min_bytes = OPTIMIZE_MIN_FILE_SIZE.integer(spark=self.spark)
        return self._run(
            plan_optimize(
                self.engine,
                state,
                SPARK_ENGINE_INFO,
                where=self._condition(state, where),
                time_zone=self.time_zone,
                target_bytes=target,
                min_bytes=min_bytes,
                max_deleted_rows_ratio=OPTIMIZE_DELETED_ROWS_RATIO.fraction(self.spark, 0.05),
            )
        )

    def zorder(
        self, columns: Sequence[str], where: Predicate | str | None = None
    ) -> OptimizeMetrics:
        """Rewrite the files of each partition in Z-order of `columns`.

        Args:
            where: condition over partition columns; only matching partitions are rewritten.
        """
        target = OPTIMIZE_MAX_FILE_SIZE.integer(spark=self.spark)
        state = self._latest()
        return self._run(
            plan_zorder(
                self.engine,
                state,
                SPARK_ENGINE_INFO,
                list(columns),
                where=self._condition(state, where),
                time_zone=self.time_zone,
                target_bytes=target,
            )
        )

    def purge(self, where: str | None = None) -> OptimizeMetrics:
        """Rewrite files that contain deleted rows or dropped columns."""
        target = OPTIMIZE_MAX_FILE_SIZE.integer(spark=self.spark)
        state = self._latest()
        return self._run(
            plan_purge(
                self.engine,
                state,
                SPARK_ENGINE_INFO,
                where=self._condition(state, where),
                time_zone=self.time_zone,
                target_bytes=target,
            )
        )

    def upgrade_uniform(self, version: int) -> OptimizeMetrics:
        """Enable UniForm: the table gets Iceberg metadata for readers of Iceberg.

        Args:
            version: version of IcebergCompat (PROTOCOL.md) that the table gets, such as 2.
        """
        return upgrade_uniform(
            self.engine,
            self._latest(),
            version,
            self._run,
            engine_info=SPARK_ENGINE_INFO,
            target_bytes=OPTIMIZE_MAX_FILE_SIZE.integer(spark=self.spark),
        )

    def _latest(self) -> Snapshot:
        return self.table.latest_snapshot(self.engine)

    def _condition(self, state: Snapshot, where: Predicate | str | None) -> Predicate | str | None:
        """Replace functions such as `current_date` in a condition by literals.

        `time_zone` is added to timestamp strings that don't contain a time zone.
        """
        if not isinstance(where, str):
            return where
        where = with_current_time(self.spark, where, state.partition_columns)
        try:
            paths = referenced_columns(parse_predicate(where))
        except PredicateError:
            return where  # the kernel reports the error with the table
        partitions = state.schema.select(state.partition_columns)
        columns = [partitions.get(path[0]) for path in paths]
        types = [None if column is None else column.data_type for column in columns]
        has_timestamps = TIMESTAMP in types or any(
            token.is_keyword("TIMESTAMP") for token in tokenize(where)
        )
        if None in types or not has_timestamps:  # the kernel reports other columns as errors
            return where
        return with_zone(where, state.schema, self.time_zone, name="WHERE")

    def _run(self, plan: RewritePlan) -> OptimizeMetrics:
        limits = RewriteLimits(
            parallelism=available_cores(),
            batch_bytes=OPTIMIZE_BATCH_BYTES.integer(spark=self.spark)
            or RewriteLimits().batch_bytes,
        )
        local_bytes = OPTIMIZE_LOCAL_BYTES.integer(spark=self.spark, default=_LOCAL_BYTES)
        size = sum(item.size for item in plan.items)
        if not isinstance(self.spark, SparkSession) or size <= local_bytes:
            return run_plan(self.engine, plan, SPARK_ENGINE_INFO, limits)
        description = f"{plan.operation} {plan.state.path}@{plan.state.version}"
        if any(item.order is not None for item in plan.items):
            run_items = sort_on_executors(self.spark, self.engine, plan.state.path, description)
        else:
            run_items = rewrite_on_executors(self.spark, self.engine, plan.state.path, description)
        return run_plan(self.engine, plan, SPARK_ENGINE_INFO, limits, run_items=run_items)


def runs_in_driver(target: TargetTable, sizes: Iterable[int]) -> bool:
    """Whether a row operation (DELETE, UPDATE or MERGE) runs in the driver instead of on executors.

    True if the total size of the files to read is small. Always true under Spark Connect, where
    Bayou can't start tasks on executors.

    Args:
        sizes: sizes of the files to read, in bytes.
    """
    if not is_classic(target.spark):
        return True
    return sum(sizes) <= ROW_OPERATIONS_LOCAL_BYTES.integer(
        spark=target.spark, default=_LOCAL_BYTES
    )
