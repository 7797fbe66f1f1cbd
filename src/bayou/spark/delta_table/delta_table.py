"""`DeltaTable`: a drop-in for `delta.tables.DeltaTable`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from bayou.api.table import TableHandle
from bayou.engines import for_path
from bayou.errors import ArgumentError, TableNotFoundError
from bayou.kernel import Table
from bayou.kernel.arrow.types import to_arrow_schema
from bayou.kernel.commands.clone import clone
from bayou.kernel.commands.create_table import CreationMode
from bayou.kernel.commands.restore import restore
from bayou.kernel.maintenance.symlink_manifest import write_symlink_manifests
from bayou.spark.catalog_tables import named_table
from bayou.spark.commands.delete_update import run_delete, run_update
from bayou.spark.commands.merge import source_alias
from bayou.spark.commands.merge_request import MergeRequest
from bayou.spark.commands.vacuum import vacuum_table
from bayou.spark.delta_table.describe import detail_frame, history_frame
from bayou.spark.delta_table.merge_builder import DeltaMergeBuilder
from bayou.spark.delta_table.optimize_builder import DeltaOptimizeBuilder, DeltaReorgBuilder
from bayou.spark.delta_table.result_dataframes import (
    empty_frame,
    flag,
    number,
    restore_frame,
    text,
    texts,
)
from bayou.spark.delta_table.table_builder import DeltaTableBuilder
from bayou.spark.executors.engine import SessionEngine
from bayou.spark.expressions.expressions import condition_of, values_of
from bayou.spark.read.time_travel import parse_timestamp
from bayou.spark.target import SPARK_ENGINE_INFO, TargetTable, is_classic
from bayou.spark.types import from_spark

__all__ = ["DeltaTable"]

_MANIFEST = "symlink_format_manifest"


class DeltaTable:
    """A Delta table that a program works on. Made by `forPath`, `forName` and the builders.

    Methods, arguments, DataFrames and history are those of `delta.tables.DeltaTable`. Conditions
    and values are SQL texts or Columns of Spark.
    """

    def __init__(self, target: TargetTable) -> None:
        self._target = target

    def __repr__(self) -> str:
        return f"DeltaTable({(self._target.name or self._target.location)!r})"

    @classmethod
    def forPath(  # noqa: N802  # delta-spark's names, here and below
        cls,
        sparkSession: Any,  # noqa: N803
        path: str,
        hadoopConf: Mapping[str, str] | None = None,  # noqa: N803
    ) -> DeltaTable:
        """The table at a path.

        Args:
            sparkSession: a session, classic or Connect.
            path: as of `spark.read.load`.
            hadoopConf: options about the file system (`fs.s3a.access.key`, ...).

        Raises:
            TableNotFoundError: there is none.
            ArgumentError: an option that isn't about the file system.
        """
        target = TargetTable(
            spark=sparkSession, location=path, options=texts(hadoopConf, "hadoopConf")
        )
        if not target.exists():
            raise _missing(f"`{path}`", target.path)
        return cls(target)

    @classmethod
    def forName(cls, sparkSession: Any, tableOrViewName: str) -> DeltaTable:  # noqa: N802, N803
        """The table of a name: of the session's catalog, or ``delta.`/path` ``.

        Raises:
            TableNotFoundError: it stands for no Delta table.
            ArgumentError: under Spark Connect, where names can't be resolved.
        """
        name = text(tableOrViewName, "tableOrViewName")
        path = _path_name(name)
        if path is not None:
            return cls.forPath(sparkSession, path)
        if not is_classic(sparkSession):
            raise ArgumentError(
                f"Under Spark Connect the place of {name} can't be seen: use forPath.",
                argument="tableOrViewName",
            )
        found = named_table(sparkSession, name)
        if found is None or not found.exists:
            raise _missing(f"`{name}`", name)
        target = TargetTable(spark=sparkSession, location=found.path, name=name)
        if not target.exists():
            raise _missing(f"`{name}`", target.path)
        return cls(target)

    @classmethod
    def isDeltaTable(cls, sparkSession: Any, identifier: str) -> bool:  # noqa: N802, N803
        """Whether a path is that of a Delta table, or of a folder in one."""
        location = _path_name(text(identifier, "identifier")) or identifier
        target = TargetTable(spark=sparkSession, location=location)
        return any(
            Table.for_path(target.engine, folder).exists(target.engine)
            for folder in _folders(target.path)
        )

    @classmethod
    def convertToDelta(  # noqa: N802
        cls,
        sparkSession: Any,  # noqa: N803
        identifier: str,
        partitionSchema: str | StructType | None = None,  # noqa: N803
    ) -> DeltaTable:
        """Make a table of the Parquet files in a folder; none of them is touched.

        Args:
            sparkSession: a session, classic or Connect.
            identifier: ``parquet.`/path` ``.
            partitionSchema: the partition columns and their types, as the folders are nested; SQL
                text such as `"day date, hour int"` or a schema.

        Raises:
            ArgumentError: no Parquet file there, or something else than a path.
            SchemaError: files that don't go together, or folders of other columns.
        """
        path = _path_name(text(identifier, "identifier"), "parquet", "delta")
        if path is None:
            raise ArgumentError(
                f"{identifier} isn't a folder of Parquet files: write it parquet.`/path`.",
                argument="identifier",
            )
        target = TargetTable(spark=sparkSession, location=path)
        partitions = None
        if partitionSchema is not None:
            given = partitionSchema
            schema = StructType.fromDDL(given) if isinstance(given, str) else given
            assert isinstance(schema, StructType)  # a list of columns is no other type
            partitions = to_arrow_schema(from_spark(schema, table=path))
        target.handle.convert(partitions)
        return cls(target)

    @classmethod
    def create(cls, sparkSession: Any = None) -> DeltaTableBuilder[DeltaTable]:  # noqa: N803
        """Define a table that isn't there yet."""
        return cls._builder(sparkSession, CreationMode.CREATE)

    @classmethod
    def createIfNotExists(cls, sparkSession: Any = None) -> DeltaTableBuilder[DeltaTable]:  # noqa: N802, N803
        """Define a table, unless it is there."""
        return cls._builder(sparkSession, CreationMode.CREATE_IF_NOT_EXISTS)

    @classmethod
    def replace(cls, sparkSession: Any = None) -> DeltaTableBuilder[DeltaTable]:  # noqa: N803
        """Define a table anew that is there; its rows go."""
        return cls._builder(sparkSession, CreationMode.REPLACE)

    @classmethod
    def createOrReplace(cls, sparkSession: Any = None) -> DeltaTableBuilder[DeltaTable]:  # noqa: N802, N803
        """Define a table, whether or not it is there."""
        return cls._builder(sparkSession, CreationMode.CREATE_OR_REPLACE)

    def toDF(self) -> DataFrame:  # noqa: N802
        """The rows of the latest version, under the table's alias."""
        frame: DataFrame = self._target.frame()
        return frame

    def alias(self, aliasName: str) -> DeltaTable:  # noqa: N803
        """The same table, by a name for conditions and values."""
        return DeltaTable(self._target.named(text(aliasName, "aliasName")))

    def delete(self, condition: Any = None) -> None:
        """Delete the rows for which a condition is true; all without one.

        Raises:
            PredicateError: the condition can't be understood, or fails for a row.
            ConstraintViolationError: the table is append-only.
            CommitConflictError: another writer's commit won and doesn't go with this one.
        """
        run_delete(self._target, condition_of(self._target.spark, condition))

    def update(self, condition: Any = None, set: Any = None) -> None:
        """Give the rows for which a condition is true new values.

        Args:
            condition: which rows; None: all.
            set: values by column; `"a.b"` is a field of a struct.

        Raises:
            SchemaError: an unknown column, or one that can't be set.
            PredicateError: an expression can't be understood, or fails for a row.
            ConstraintViolationError: a new version breaks a rule, or the table is append-only.
            CommitConflictError: another writer's commit won and doesn't go with this one.
        """
        spark = self._target.spark
        values = values_of(spark, set, "set")
        run_update(self._target, condition_of(spark, condition), values)

    def merge(self, source: Any, condition: Any) -> DeltaMergeBuilder:
        """Begin a merge: rows of a source update, delete and insert rows of the table.

        Args:
            source: a DataFrame.
            condition: when a source row and a target row belong together.
        """
        if source is None:
            raise ArgumentError("'source' in merge cannot be None.", argument="source")
        if not isinstance(source, DataFrame):
            raise ArgumentError("Type of 'source' in merge must be DataFrame.", argument="source")
        on = condition_of(self._target.spark, condition)
        if on is None:
            raise ArgumentError("'condition' in merge cannot be None.", argument="condition")
        request = MergeRequest(
            on=on, target_alias=self._target.alias, source_alias=source_alias(source)
        )
        return DeltaMergeBuilder(self._target, source, request)

    def vacuum(self, retentionHours: float | None = None) -> DataFrame:  # noqa: N803
        """Delete files that no version within the retention needs.

        Args:
            retentionHours: None: as the table says, a week unless set.

        Returns:
            A DataFrame without rows.

        Raises:
            ArgumentError: a retention shorter than the table's, unless
                `spark.databricks.delta.retentionDurationCheck.enabled` is false.
        """
        spark = self._target.spark
        vacuum_table(spark, self._target.engine, self._target.table, retentionHours)
        frame: DataFrame = empty_frame(spark)
        return frame

    def checkpoint(self, version: int | None = None) -> int:
        """Write the checkpoint of a version, the latest where it is None; gives the version.

        Delta-spark has no such method. Executors write a large one (`bayou.checkpoint.localBytes`).

        Raises:
            VersionNotFoundError: there is no such version.
        """
        return self._handle.checkpoint(version)

    def history(self, limit: int | None = None) -> DataFrame:
        """The commits that are still in the log, newest first, at most `limit` of them."""
        target = self._target
        limit = None if limit is None else number(limit, "limit")
        frame: DataFrame = history_frame(target.spark, target.engine, target.table, limit)
        return frame

    def detail(self) -> DataFrame:
        """What the table is, in one row: format, id, location, size, properties, protocol, ..."""
        target = self._target
        snapshot = target.table.latest_snapshot(target.engine)
        frame: DataFrame = detail_frame(target.spark, target.engine, snapshot, target.name)
        return frame

    def generate(self, mode: str) -> None:
        """Write files for other systems: `symlink_format_manifest`, for Presto and Athena.

        Raises:
            ArgumentError: another mode.
            UnsupportedFeatureError: the table has deletion vectors or mapped columns.
        """
        if text(mode, "mode").lower() != _MANIFEST:
            raise ArgumentError(
                f"Only {_MANIFEST!r} can be generated, not {mode!r} "
                "(DELTA_UNSUPPORTED_GENERATE_MODE).",
                argument="mode",
            )
        target = self._target
        write_symlink_manifests(target.engine, target.table.latest_snapshot(target.engine))

    def optimize(self) -> DeltaOptimizeBuilder:
        """Lay the table's files out anew: choose partitions, then how."""
        return DeltaOptimizeBuilder(self._target)

    def reorg(self) -> DeltaReorgBuilder:
        """Rid the table's files of what is deleted: choose partitions, then `executePurge`."""
        return DeltaReorgBuilder(self._target)

    def restoreToVersion(self, version: int) -> DataFrame:  # noqa: N802
        """Make the next version what an earlier one was.

        Returns:
            A DataFrame of one row, the metrics.

        Raises:
            VersionNotFoundError: the log can't rebuild it.
            DataFileError: files of it are gone; names them.
        """
        return self._restored(number(version, "version"), None)

    def restoreToTimestamp(self, timestamp: str) -> DataFrame:  # noqa: N802
        """Make the next version what the last one at or before a time was.

        Args:
            timestamp: `2024-01-05` or `2024-01-05 10:00:00`, in the session's time zone.

        Raises:
            VersionNotFoundError, DataFileError: see `restoreToVersion`.
        """
        return self._restored(None, text(timestamp, "timestamp"))

    def clone(
        self,
        target: str,
        isShallow: bool = False,  # noqa: N803
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
        *,
        transaction_identifiers: bool = True,
    ) -> DeltaTable:
        """Make a table of its own out of the latest version, without copying a file.

        Args:
            target: its path, or the name of a table of the catalog.
            isShallow: must be true: deep clones aren't supported, as in delta-spark.
            replace: there may be a table without files at `target` already.
            properties: table properties on top of this table's.
            transaction_identifiers: copy the version's transaction identifiers, by which pipelines
                and streaming queries know what the rows cover; False omits them.

        Raises:
            ArgumentError: a deep clone.
            TableAlreadyExistsError: there is a table, and it may not be replaced.
        """
        return self._cloned(
            target,
            isShallow,
            replace,
            properties,
            transaction_identifiers=transaction_identifiers,
        )

    def cloneAtVersion(  # noqa: N802
        self,
        version: int,
        target: str,
        isShallow: bool = False,  # noqa: N803
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
        *,
        transaction_identifiers: bool = True,
    ) -> DeltaTable:
        """`clone` of an earlier version."""
        number(version, "version")
        return self._cloned(
            target,
            isShallow,
            replace,
            properties,
            transaction_identifiers=transaction_identifiers,
            version=version,
        )

    def cloneAtTimestamp(  # noqa: N802
        self,
        timestamp: str,
        target: str,
        isShallow: bool = False,  # noqa: N803
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
        *,
        transaction_identifiers: bool = True,
    ) -> DeltaTable:
        """`clone` of the last version at or before a time, in the session's time zone."""
        at = self._milliseconds(text(timestamp, "timestamp"))
        return self._cloned(
            target,
            isShallow,
            replace,
            properties,
            transaction_identifiers=transaction_identifiers,
            timestamp=at,
        )

    def upgradeTableProtocol(self, readerVersion: int, writerVersion: int) -> None:  # noqa: N802, N803
        """Raise the protocol's versions.

        Raises:
            ArgumentError: versions that don't exist, or below those of the table.
        """
        reader = number(readerVersion, "readerVersion")
        self._handle.alter.upgrade_protocol(reader, number(writerVersion, "writerVersion"))

    def addFeatureSupport(self, featureName: str) -> None:  # noqa: N802, N803
        """Let the protocol name a table feature.

        Raises:
            UnsupportedFeatureError: it isn't one, or can't be written.
        """
        self._handle.alter.add_feature(text(featureName, "featureName"))

    def dropFeatureSupport(  # noqa: N802
        self,
        featureName: str,  # noqa: N803
        truncateHistory: bool | None = None,  # noqa: N803
    ) -> None:
        """Take a feature and its traces out of the table.

        Args:
            featureName: the feature.
            truncateHistory: delete older versions that use it, those of more than 24 hours ago.

        Raises:
            UnsupportedFeatureError: the table doesn't have it, or it can't be dropped.
            FeatureInUseError: something needs it, or older versions aren't old enough.
        """
        truncate = truncateHistory is not None and flag(truncateHistory, "truncateHistory")
        self._handle.alter.drop_feature(text(featureName, "featureName"), truncate_history=truncate)

    @property
    def _handle(self) -> TableHandle:
        return self._target.handle

    @classmethod
    def _builder(cls, spark: Any, mode: CreationMode) -> DeltaTableBuilder[DeltaTable]:
        session = SparkSession.getActiveSession() if spark is None else spark
        if session is None:
            raise ArgumentError(
                "There is no active Spark session; give one as the first argument.",
                argument="sparkSession",
            )
        return DeltaTableBuilder(session, mode, cls)

    def _milliseconds(self, timestamp: str) -> int:
        zone = str(self._target.spark.conf.get("spark.sql.session.timeZone"))
        return parse_timestamp("timestamp", timestamp, zone)

    def _restored(self, version: int | None, timestamp: str | None) -> DataFrame:
        target = self._target
        latest = target.table.latest_snapshot(target.engine)
        if version is not None:
            wanted = target.table.snapshot_as_of_version(target.engine, version)
        else:
            assert timestamp is not None  # the callers give one of them
            at = self._milliseconds(timestamp)
            wanted = target.table.snapshot_as_of_timestamp(target.engine, at)
        metrics = restore(target.engine, latest, wanted, SPARK_ENGINE_INFO, timestamp=timestamp)
        frame: DataFrame = restore_frame(target.spark, metrics)
        return frame

    def _cloned(
        self,
        place: str,
        shallow: bool,
        replaces: bool,
        properties: Mapping[str, str] | None,
        *,
        transaction_identifiers: bool,
        version: int | None = None,
        timestamp: int | None = None,
    ) -> DeltaTable:
        name = text(place, "target")
        if not flag(shallow, "isShallow"):
            raise ArgumentError(
                "Deep clones aren't supported: give isShallow=True "
                "(DELTA_UNSUPPORTED_DEEP_CLONE), or read the table and write it to another place.",
                argument="isShallow",
            )
        flag(replaces, "replace")
        source = self._target
        path = _path_name(name) or (name if "/" in name else None)
        found = None if path is not None else self._name_to_make(name)
        location = path if found is None else found.path
        assert location is not None  # one of them tells it
        engine, table = source.engine, source.table
        if version is not None:
            snapshot = table.snapshot_as_of_version(engine, version)
        elif timestamp is not None:
            snapshot = table.snapshot_as_of_timestamp(engine, timestamp)
        else:
            snapshot = table.latest_snapshot(engine)
        clone(
            SessionEngine(source.spark, for_path(location, source.storage)),
            snapshot,
            location,
            SPARK_ENGINE_INFO,
            properties=texts(properties, "properties"),
            replace=replaces,
            transaction_identifiers=flag(transaction_identifiers, "transaction_identifiers"),
        )
        target = TargetTable(
            spark=source.spark,
            location=location,
            name=None if found is None else name,
            options=source.options,
        )
        if found is not None and not found.exists:
            found.register(source.spark, target.path)
        return DeltaTable(target)

    def _name_to_make(self, name: str) -> Any:
        spark = self._target.spark
        found = named_table(spark, name) if is_classic(spark) else None
        if found is None:
            raise ArgumentError(
                f"{name} can't be the target: give an absolute path, or, in a classic session, a "
                "name of the catalog that is free or a Delta table's.",
                argument="target",
            )
        return found


def _path_name(name: str, *formats: str) -> str | None:
    """The path in a name such as ``delta.`/path` ``; None for another name."""
    kind, dot, quoted = name.strip().partition(".")
    if not dot or kind.strip().lower() not in (formats or ("delta",)):
        return None
    quoted = quoted.strip()
    if len(quoted) > 2 and quoted[0] == quoted[-1] == "`":
        return quoted[1:-1].replace("``", "`")
    return None


def _folders(path: str) -> list[str]:
    """A folder and those above it, up to the root of the store."""
    scheme = urlsplit(path).scheme if "://" in path else ""
    root = f"{scheme}://{urlsplit(path).netloc}" if scheme else ""
    below = PurePosixPath("/" + path.removeprefix(root).strip("/"))
    found = [str(below), *(str(parent) for parent in below.parents)]
    return [f"{root}{folder}" for folder in found if folder != "/"]


def _missing(shown: str, table: str) -> TableNotFoundError:
    return TableNotFoundError(
        f"{shown} is not a Delta table (DELTA_MISSING_DELTA_TABLE). Write one there first, or "
        "check the path.",
        table=table,
    )
