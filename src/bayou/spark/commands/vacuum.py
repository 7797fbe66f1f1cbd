"""VACUUM: executors list and delete the files of large tables.

In an object store, it is slow to list the folder of a table with very many files. To avoid the
listing, the user can provide an inventory: a DataFrame of the folder's files, with the columns that
delta-spark requires (`path`, `length`, `isDir`, `modificationTime`).
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession, functions

from bayou.engines import from_description
from bayou.errors import ArgumentError
from bayou.kernel import Engine, Table
from bayou.kernel.commands.vacuum.lease import VacuumLease
from bayou.kernel.commands.vacuum.orphan_files import (
    LISTING_SCHEMA,
    ListingRange,
    ListingResult,
    filter_inventory,
    list_range,
)
from bayou.kernel.commands.vacuum.plan import ListRanges
from bayou.kernel.commands.vacuum.referenced_files import ReferencedFiles
from bayou.kernel.commands.vacuum.vacuum import DeleteFiles, VacuumMetrics, vacuum
from bayou.spark.executors.executor_tasks import number_of_tasks, run_tasks
from bayou.spark.session.settings import VACUUM_LOCAL_FILES, conf_flag
from bayou.spark.target_table import SPARK_ENGINE_INFO

_COLUMNS = {
    "path": "string",
    "length": "bigint",
    "isDir": "boolean",
    "modificationTime": "bigint",
}
_S3 = ("s3://", "s3a://", "s3n://")


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """A DataFrame that lists the files and folders in a table's folder; other paths are ignored.

    Attributes:
        frame: a DataFrame with the columns `path` (fully qualified Hadoop path, not encoded),
            `length` (bytes), `isDir` and `modificationTime` (ms since the epoch).
        location: the table's path as the user wrote it.

    Raises:
        ArgumentError: a column is missing or has the wrong type.
    """

    frame: Any = field(repr=False)
    location: str

    def __post_init__(self) -> None:
        types = dict(self.frame.dtypes)
        if any(types.get(name) != kind for name, kind in _COLUMNS.items()):
            expected = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
            actual = ", ".join(f"{name} {kind}" for name, kind in types.items())
            raise ArgumentError(
                f"{self.location}: the inventory has the columns {actual}. Provide the columns "
                f"{expected} (DELTA_INVALID_INVENTORY_SCHEMA).",
                argument="inventory",
            )

    def unreferenced_files(
        self, all_paths: ListingRange, referenced: ReferencedFiles
    ) -> Iterable[ListingResult]:
        """Find the inventory's files that aren't in `referenced`, on executors.

        If a path occurs more than once, the row with the latest `modificationTime` is used.

        Args:
            all_paths: the range of all paths in the table's folder.
            referenced: the files that vacuum must not delete.
        """
        task = _InventoryTask(
            paths=all_paths,
            referenced=referenced,
            other_uris=_other_uris(all_paths.root, self.location),
        )
        newest = (
            self.frame.select(*_COLUMNS)
            .groupBy("path")
            .agg(
                functions.max_by("length", "modificationTime").alias("size"),
                functions.max("modificationTime").alias("modification_time"),
                functions.max("isDir").alias("is_folder"),
            )
        )
        results = newest.mapInArrow(task, "result binary").toArrow().column("result")
        return [pickle.loads(result.as_py()) for result in results]  # noqa: S301  # from our tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class _InventoryTask:
    """Function for `mapInArrow` that finds the unreferenced files among rows of the inventory."""

    paths: ListingRange
    referenced: ReferencedFiles
    other_uris: Sequence[str]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        result = filter_inventory(
            self.paths,
            self.referenced,
            (batch.cast(LISTING_SCHEMA) for batch in batches),
            self.other_uris,
        )
        yield pa.RecordBatch.from_pydict({"result": pa.array([pickle.dumps(result)], pa.binary())})


def _other_uris(root: str, location: str) -> list[str]:
    """Return other URIs that inventories use for a table's folder, such as `s3a:` for `s3:`."""
    if root.startswith("/"):
        return [f"file:{root}", f"file://{root}"]
    uris = [location]
    if root.startswith(_S3):
        uris += [scheme + root.partition("://")[2] for scheme in _S3]
    return uris


_RETENTION_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"
_LITE = "spark.databricks.delta.vacuum.lite.enabled"
_LOGGING = "spark.databricks.delta.vacuum.logging.enabled"
_LOCAL_FILES = 10_000
_DELETE_THREADS = 8


def vacuum_table(
    spark: Any,
    engine: Engine,
    table: Table,
    retention_hours: float | None = None,
    *,
    dry_run: bool = False,
    lite: bool | None = None,
    inventory: Inventory | None = None,
) -> VacuumMetrics:
    """Delete files that no version within the retention period uses.

    Args:
        spark: a classic or Connect session. With Connect, the client deletes the files.
        retention_hours: retention period of unused files in hours. If None, the retention in the
            table's properties applies (a week by default).
        lite: whether to find unused files in the log instead of listing the folder. If None, the
            session's conf decides (default: false). With an inventory, None means False.
        inventory: listing of the table's folder. If None, vacuum lists the folder.
    """
    if lite is None:
        lite = inventory is None and conf_flag(spark, _LITE, default=False)
    return vacuum(
        engine,
        table.path,
        retention_hours,
        dry_run=dry_run,
        lite=lite,
        enforce_retention_duration=conf_flag(spark, _RETENTION_CHECK, default=True),
        engine_info=SPARK_ENGINE_INFO,
        catalog=table.catalog,
        delete_files=_delete_function(spark, engine, table.path),
        list_ranges=_list_function(spark, engine, table.path)
        if inventory is None
        else inventory.unreferenced_files,
        lists_logs=inventory is None,  # an inventory may omit files that aren't data files
        records_history=conf_flag(spark, _LOGGING, default=True),
    )


def _list_function(spark: Any, engine: Engine, table: str) -> ListRanges | None:
    """Return a function that lists a table's folder for vacuum.

    The function lists large folders on executors, because an object store returns only a thousand
    files for each request. For a local path and under Spark Connect, None is returned, and the
    kernel lists the folder.
    """
    if not isinstance(spark, SparkSession) or "://" not in table:
        return None
    max_local = VACUUM_LOCAL_FILES.integer(spark=spark, default=_LOCAL_FILES)
    engine_description = engine.description()

    def list_folder(
        all_paths: ListingRange, referenced: ReferencedFiles
    ) -> Iterable[ListingResult]:
        if len(referenced) <= max_local:
            return [list_range(engine, all_paths, referenced)]
        broadcast = spark.sparkContext.broadcast(referenced)

        def list_task(_: int, paths: ListingRange) -> bytes:
            return pickle.dumps(
                list_range(from_description(engine_description), paths, broadcast.value)
            )

        try:
            results = run_tasks(
                spark,
                all_paths.split(referenced, number_of_tasks(spark)),
                list_task,
                table=table,
                description=f"VACUUM {table}: list",
                discard=lambda _: None,
            )
        finally:
            broadcast.destroy()
        return [pickle.loads(result) for result in results]  # noqa: S301  # from our own tasks

    return list_folder


def _delete_function(spark: Any, engine: Engine, table: str) -> DeleteFiles | None:
    if not isinstance(spark, SparkSession):
        return None
    max_local = VACUUM_LOCAL_FILES.integer(spark=spark, default=_LOCAL_FILES)
    engine_description = engine.description()

    def delete(batches: Sequence[Sequence[str]], lease: VacuumLease) -> None:
        def delete_task(_: int, batches: Sequence[Sequence[str]]) -> bytes:
            engine = from_description(engine_description)
            for batch in batches:
                lease.delete_files(engine, batch)
            return b""

        if sum(map(len, batches)) <= max_local:
            with ThreadPoolExecutor(_DELETE_THREADS, thread_name_prefix="bayou-vacuum") as pool:
                list(pool.map(partial(lease.delete_files, engine), batches))
            return
        tasks = min(len(batches), number_of_tasks(spark))
        run_tasks(
            spark,
            [batches[task::tasks] for task in range(tasks)],
            delete_task,
            table=table,
            description=f"VACUUM {table}",
            discard=lambda _: None,
        )

    return delete
