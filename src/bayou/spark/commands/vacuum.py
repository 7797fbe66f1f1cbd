"""VACUUM of a table from a session: many files are listed and deleted by executors.

Somebody else's listing of a table's folder, for VACUUM: a DataFrame.

Object stores write such inventories by themselves, and listing a hundred million files again takes
hours. The columns are delta-spark's: `path`, `length`, `isDir`, `modificationTime`.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession, functions

from bayou.engines import from_description
from bayou.errors import ArgumentError
from bayou.kernel import Engine, Table
from bayou.kernel.commands.vacuum.orphan_files import (
    LISTING_SCHEMA,
    FoundFiles,
    ListingShare,
    list_share,
    look_through,
)
from bayou.kernel.commands.vacuum.plan import ListShares
from bayou.kernel.commands.vacuum.referenced_files import KeptFiles
from bayou.kernel.commands.vacuum.vacuum import DeleteFiles, VacuumMetrics, vacuum
from bayou.spark.executors.executor_tasks import number_of_tasks, run_shares
from bayou.spark.session.settings import VACUUM_LOCAL_FILES
from bayou.version import ENGINE_INFO

__all__ = ["Inventory", "vacuum_table"]


_COLUMNS = {
    "path": "string",
    "length": "bigint",
    "isDir": "boolean",
    "modificationTime": "bigint",
}
_S3 = ("s3://", "s3a://", "s3n://")


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """Files and folders that lie in a table's folder, and perhaps in others.

    Attributes:
        frame: with the columns `path` (fully qualified, as Hadoop spells it, not encoded),
            `length` (bytes), `isDir` and `modificationTime` (ms since the epoch).
        location: the table's path as its user spelled it.

    Raises:
        ArgumentError: a column is missing, or of another type.
    """

    frame: Any = field(repr=False)
    location: str

    def __post_init__(self) -> None:
        types = dict(self.frame.dtypes)
        if any(types.get(name) != kind for name, kind in _COLUMNS.items()):
            wanted = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
            given = ", ".join(f"{name} {kind}" for name, kind in types.items())
            raise ArgumentError(
                f"The inventory of {self.location} has the columns {given}; it must have {wanted} "
                "(DELTA_INVALID_INVENTORY_SCHEMA).",
                argument="inventory",
            )

    def look_through(self, whole: ListingShare, kept: KeptFiles) -> Iterable[FoundFiles]:
        """What nothing needs of it, found by executors; see `bayou.kernel`'s `ListShares`.

        Where a path stands twice, its newest row counts.
        """
        task = _LookThrough(share=whole, kept=kept, spellings=_spellings(whole.root, self.location))
        newest = (
            self.frame.select(*_COLUMNS)
            .groupBy("path")
            .agg(
                functions.max_by("length", "modificationTime").alias("size"),
                functions.max("modificationTime").alias("modification_time"),
                functions.max("isDir").alias("is_folder"),
            )
        )
        cells = newest.mapInArrow(task, "found binary").toArrow().column("found")
        return [pickle.loads(cell.as_py()) for cell in cells]  # noqa: S301  # our own tasks' bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _LookThrough:
    """A task: some of the inventory's rows."""

    share: ListingShare
    kept: KeptFiles
    spellings: Sequence[str]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = look_through(
            self.share,
            self.kept,
            (batch.cast(LISTING_SCHEMA) for batch in batches),
            self.spellings,
        )
        yield pa.RecordBatch.from_pydict({"found": pa.array([pickle.dumps(found)], pa.binary())})


def _spellings(root: str, location: str) -> list[str]:
    """How else Hadoop and its users name a table's path."""
    if root.startswith("/"):
        return [f"file:{root}", f"file://{root}"]
    found = [location]
    if root.startswith(_S3):
        found += [scheme + root.partition("://")[2] for scheme in _S3]
    return found


_RETENTION_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"
_LITE = "spark.databricks.delta.vacuum.lite.enabled"
_LOGGING = "spark.databricks.delta.vacuum.logging.enabled"
_LOCAL_FILES = 10_000
_SIDE_BY_SIDE = 8


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
    """Delete files that no version within the retention needs.

    Args:
        spark: a session, classic or Connect; under Connect this process deletes.
        retention_hours: None: as the table says, a week unless set.
        dry_run: only tell.
        lite: look at the log only; None: as the session's conf says, else no.
        inventory: what lies in the table's folder, by somebody else's listing; None: it is listed.

    Raises:
        ArgumentError: a retention shorter than the table's, unless
            `spark.databricks.delta.retentionDurationCheck.enabled` is false; or an inventory
            without the columns of one.
        StorageError: the store failed; the history says FAILED, and it can be repeated.
    """
    if lite is None:
        lite = inventory is None and _flag(spark, _LITE, default=False)
    return vacuum(
        engine,
        table.path,
        retention_hours,
        dry_run=dry_run,
        lite=lite,
        enforce_retention_duration=_flag(spark, _RETENTION_CHECK, default=True),
        engine_info=f"{ENGINE_INFO} (spark)",
        catalog=table.catalog,
        delete_files=_deleting(spark, engine, table.path),
        list_shares=_listing(spark, engine, table.path)
        if inventory is None
        else inventory.look_through,
        lists_everything=inventory is None,  # a query over one may leave out what isn't data
        tells_history=_flag(spark, _LOGGING, default=True),
    )


def _flag(spark: Any, name: str, *, default: bool) -> bool:
    text = str(spark.conf.get(name, str(default))).strip().lower()
    return default if text not in ("true", "false") else text == "true"


def _most_local(spark: Any) -> int:
    local = VACUUM_LOCAL_FILES.integer(spark=spark)
    return _LOCAL_FILES if local is None else local


def _listing(spark: Any, engine: Engine, table: str) -> ListShares | None:
    """By executors on object stores, which list a thousand files a request; a disk is quick."""
    if not isinstance(spark, SparkSession) or "://" not in table:
        return None
    most = _most_local(spark)
    reach = engine.description()

    def list_shares(whole: ListingShare, kept: KeptFiles) -> Iterable[FoundFiles]:
        if len(kept) <= most:
            return [list_share(engine, whole, kept)]
        sent = spark.sparkContext.broadcast(kept)

        def listed(_: int, share: ListingShare) -> bytes:
            return pickle.dumps(list_share(from_description(reach), share, sent.value))

        try:
            found = run_shares(
                spark,
                whole.split(kept, number_of_tasks(spark)),
                listed,
                table=table,
                description=f"VACUUM {table}: list",
                discard=lambda _: None,
            )
        finally:
            sent.destroy()
        return [pickle.loads(outcome) for outcome in found]  # noqa: S301  # our own tasks' bytes

    return list_shares


def _deleting(spark: Any, engine: Engine, table: str) -> DeleteFiles | None:
    if not isinstance(spark, SparkSession):
        return None
    most = _most_local(spark)
    reach = engine.description()

    def remove(_: int, batches: Sequence[Sequence[str]]) -> bytes:
        files = from_description(reach).files
        for batch in batches:
            files.delete_files(batch)
        return b""

    def delete(batches: Sequence[Sequence[str]]) -> None:
        if sum(map(len, batches)) <= most:
            with ThreadPoolExecutor(_SIDE_BY_SIDE, thread_name_prefix="bayou-vacuum") as pool:
                list(pool.map(engine.files.delete_files, batches))
            return
        tasks = min(len(batches), number_of_tasks(spark))
        run_shares(
            spark,
            [batches[task::tasks] for task in range(tasks)],
            remove,
            table=table,
            description=f"VACUUM {table}",
            discard=lambda _: None,
        )

    return delete
