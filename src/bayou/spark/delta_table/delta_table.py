"""`DeltaTable`: a drop-in for `delta.tables.DeltaTable`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from bayou.api.table import TableHandle
from bayou.engines import for_path
from bayou.errors import (
    ArgumentError,
    ArgumentTypeError,
    TableNotFoundError,
    VersionNotFoundError,
)
from bayou.kernel.arrow.types import to_arrow_schema
from bayou.kernel.commands.clone import clone
from bayou.kernel.commands.create_table import CreationMode
from bayou.kernel.commands.restore import restore
from bayou.kernel.maintenance.symlink_manifest import write_symlink_manifests
from bayou.protocol.sql import Token, tokenize
from bayou.spark.catalog_tables import named_table
from bayou.spark.commands.deep_clone import copy_function
from bayou.spark.commands.delete_update import run_delete, run_update
from bayou.spark.commands.merge import source_alias
from bayou.spark.commands.merge_request import MergeRequest
from bayou.spark.commands.vacuum import vacuum_table
from bayou.spark.delta_table.arguments import (
    check_boolean,
    check_integer,
    check_number,
    check_string,
    check_strings,
    check_version,
)
from bayou.spark.delta_table.describe import detail_frame, history_frame
from bayou.spark.delta_table.merge_builder import DeltaMergeBuilder
from bayou.spark.delta_table.optimize_builder import DeltaOptimizeBuilder, DeltaReorgBuilder
from bayou.spark.delta_table.result_dataframes import empty_frame, restore_frame
from bayou.spark.delta_table.table_builder import DeltaTableBuilder
from bayou.spark.exceptions import methods_raise_spark_exceptions
from bayou.spark.executors.engine import SessionEngine
from bayou.spark.expressions.expressions import parse_condition, parse_values
from bayou.spark.hooks.hooks import subquery_resolver
from bayou.spark.read.time_travel import parse_timestamp
from bayou.spark.target_table import SPARK_ENGINE_INFO, TargetTable
from bayou.spark.types import from_spark

_MANIFEST = "symlink_format_manifest"


@methods_raise_spark_exceptions
class DeltaTable:
    """A Delta table; created by `forPath`, `forName` and the table builders.

    The class has all methods of `delta.tables.DeltaTable`. Their arguments, returned DataFrames and
    entries in the table's history are the same as in delta-spark. Conditions and values are SQL
    strings or Columns.

    Examples:
        >>> orders = DeltaTable.forPath(spark, "lake/orders")
        >>> orders.update("country = 'NZ'", {"price": "price * 2"})
        >>> orders.history(1).select("operation").show()
    """

    def __init__(self, target: TargetTable) -> None:
        self._target = target

    def __repr__(self) -> str:
        return f"DeltaTable({(self._target.name or self._target.location)!r})"

    def _repr_html_(self) -> str:
        return self._handle._repr_html_()  # for notebooks

    @classmethod
    def forPath(  # noqa: N802  # delta-spark's names, here and below
        cls,
        sparkSession: Any,  # noqa: N803
        path: str,
        hadoopConf: Mapping[str, str] | None = None,  # noqa: N803
    ) -> DeltaTable:
        """Return the table at a path.

        Args:
            sparkSession: a session, classic or Connect.
            path: the path, as for `spark.read.load`.
            hadoopConf: file system options (`fs.s3a.access.key`, ...).

        Raises:
            TableNotFoundError: there is no Delta table at the path.
            ArgumentError: an option isn't a file system option.
        """
        target = TargetTable(
            spark=sparkSession, location=path, options=check_strings(hadoopConf, "hadoopConf")
        )
        if not target.exists():
            raise _not_a_table_error(f"`{path}`", target.path)
        return cls(target)

    @classmethod
    def forName(cls, sparkSession: Any, tableOrViewName: str) -> DeltaTable:  # noqa: N802, N803
        """Return a table by its catalog name, or by a path name such as ``delta.`/path` ``.

        Raises:
            TableNotFoundError: the name isn't the name of a Delta table.
        """
        name = check_string(tableOrViewName, "tableOrViewName")
        path = _path_name(name)
        if path is not None:
            return cls.forPath(sparkSession, path)
        named = named_table(sparkSession, name)
        if named is None or not named.exists:
            raise _not_a_table_error(f"`{name}`", name)
        target = TargetTable(spark=sparkSession, location=named.path, name=name)
        if not target.exists():
            raise _not_a_table_error(f"`{name}`", target.path)
        return cls(target)

    @classmethod
    def isDeltaTable(cls, sparkSession: Any, identifier: str) -> bool:  # noqa: N802, N803
        """Whether a path is a Delta table or a folder inside one."""
        location = _path_name(check_string(identifier, "identifier")) or identifier
        target = TargetTable(spark=sparkSession, location=location)
        return target.enclosing_table() is not None

    @classmethod
    def convertToDelta(  # noqa: N802
        cls,
        sparkSession: Any,  # noqa: N803
        identifier: str,
        partitionSchema: str | StructType | None = None,  # noqa: N803
    ) -> DeltaTable:
        """Convert a folder of Parquet files to a Delta table, without rewriting the files.

        Args:
            sparkSession: a session, classic or Connect.
            identifier: ``parquet.`/path` ``.
            partitionSchema: the partition columns and their types, from the outermost folder to the
                innermost. A DDL string such as `"day date, hour int"`, or a schema.

        Raises:
            ArgumentError: the folder has no Parquet file, or the identifier isn't a path.
            SchemaError: the files' schemas differ, or the partition columns in the folder names
                differ from `partitionSchema`.
        """
        path = _path_name(check_string(identifier, "identifier"), "parquet", "delta")
        if path is None:
            raise ArgumentError(
                f"{identifier}: the identifier isn't a folder of Parquet files. Use "
                "parquet.`/path`.",
                argument="identifier",
            )
        target = TargetTable(spark=sparkSession, location=path)
        partitions = None
        if partitionSchema is not None:
            columns = partitionSchema
            schema = StructType.fromDDL(columns) if isinstance(columns, str) else columns
            assert isinstance(schema, StructType)  # the type of every DDL column list
            partitions = to_arrow_schema(from_spark(schema, table=path))
        target.handle.convert(partitions)
        return cls(target)

    @classmethod
    def create(cls, sparkSession: Any = None) -> DeltaTableBuilder[DeltaTable]:  # noqa: N803
        """Start the definition of a new table."""
        return cls._builder(sparkSession, CreationMode.CREATE)

    @classmethod
    def createIfNotExists(cls, sparkSession: Any = None) -> DeltaTableBuilder[DeltaTable]:  # noqa: N802, N803
        """Start the definition of a table; an existing table stays unchanged."""
        return cls._builder(sparkSession, CreationMode.CREATE_IF_NOT_EXISTS)

    @classmethod
    def replace(cls, sparkSession: Any = None) -> DeltaTableBuilder[DeltaTable]:  # noqa: N803
        """Start the definition of a table that replaces an existing table and all of its rows."""
        return cls._builder(sparkSession, CreationMode.REPLACE)

    @classmethod
    def createOrReplace(cls, sparkSession: Any = None) -> DeltaTableBuilder[DeltaTable]:  # noqa: N802, N803
        """Start the definition of a table that is created, or that replaces an existing table."""
        return cls._builder(sparkSession, CreationMode.CREATE_OR_REPLACE)

    def toDF(self) -> DataFrame:  # noqa: N802
        """The rows of the latest version as a DataFrame, with the alias of this `DeltaTable`."""
        frame: DataFrame = self._target.frame()
        return frame

    def alias(self, aliasName: str) -> DeltaTable:  # noqa: N803
        """Return the table with an alias, for column names in conditions and values."""
        return DeltaTable(self._target.with_alias(check_string(aliasName, "aliasName")))

    def delete(self, condition: Any = None) -> None:
        """Delete the rows that match a condition; if `condition` is None, delete all rows.

        Raises:
            PredicateError: the condition isn't valid, or fails for a row.
            ConstraintViolationError: the table is append-only.
            CommitConflictError: a concurrent commit conflicts with this one.
        """
        spark = self._target.spark
        rows = parse_condition(spark, condition)
        with subquery_resolver(spark) as resolve:
            run_delete(self._target, None if rows is None else resolve(rows))

    def update(self, condition: Any = None, set: Any = None) -> None:
        """Update the rows that match a condition.

        Args:
            condition: selects the rows to update. If None, all rows are updated.
            set: maps column names to the new values. The name of a struct field has the form
                `"a.b"`.

        Raises:
            SchemaError: a column doesn't exist, or can't be assigned.
            PredicateError: an expression isn't valid, or fails for a row.
            ConstraintViolationError: a new row violates a constraint, or the table is append-only.
            CommitConflictError: a concurrent commit conflicts with this one.
        """
        spark = self._target.spark
        values, rows = parse_values(spark, set, "set"), parse_condition(spark, condition)
        with subquery_resolver(spark) as resolve:
            values = {name: resolve(value) for name, value in values.items()}
            run_update(self._target, None if rows is None else resolve(rows), values)

    def merge(self, source: Any, condition: Any) -> DeltaMergeBuilder:
        """Start a MERGE of source rows into the table.

        Args:
            source: a DataFrame.
            condition: the join condition.
        """
        if source is None:
            raise ArgumentError("'source' in merge cannot be None.", argument="source")
        if not isinstance(source, DataFrame):
            raise ArgumentTypeError(
                f"Type of 'source' in merge must be DataFrame, found to be {type(source)}.",
                argument="source",
            )
        on = parse_condition(self._target.spark, condition)
        if on is None:
            raise ArgumentError("'condition' in merge cannot be None.", argument="condition")
        request = MergeRequest(
            on=on, target_alias=self._target.alias, source_alias=source_alias(source)
        )
        return DeltaMergeBuilder(self._target, source, request)

    def vacuum(self, retentionHours: float | None = None) -> DataFrame:  # noqa: N803
        """Delete files that no version within the retention period uses.

        Args:
            retentionHours: retention period in hours. If None, the retention in the table's
                properties applies (a week by default).

        Returns:
            A DataFrame without rows.

        Raises:
            ArgumentError: `retentionHours` is shorter than the retention in the table's properties.
                To permit this, set `spark.databricks.delta.retentionDurationCheck.enabled` to
                `false`.
        """
        spark = self._target.spark
        hours = None if retentionHours is None else check_number(retentionHours, "retentionHours")
        vacuum_table(spark, self._target.engine, self._target.table, hours)
        frame: DataFrame = empty_frame(spark)
        return frame

    def checkpoint(self, version: int | None = None) -> int:
        """Write the checkpoint of a version (the latest by default), and return the version.

        This method is an addition to delta-spark's methods. If the log is larger than the setting
        `bayou.checkpoint.localBytes`, executors write the checkpoint.

        Raises:
            VersionNotFoundError: the version doesn't exist.
        """
        return self._handle.create_checkpoint(version)

    def history(self, limit: int | None = None) -> DataFrame:
        """The last `limit` commits as a DataFrame, newest first; all commits if `limit` is None."""
        target = self._target
        limit = None if limit is None else check_integer(limit, "limit")
        frame: DataFrame = history_frame(target.spark, target.engine, target.table, limit)
        return frame

    def detail(self) -> DataFrame:
        """A DataFrame of one row with the table's format, id, location, size, properties, ..."""
        target = self._target
        snapshot = target.table.latest_snapshot(target.engine)
        frame: DataFrame = detail_frame(target.spark, target.engine, snapshot, target.name)
        return frame

    def generate(self, mode: str) -> None:
        """Write manifests for Presto and Athena; the only mode is `symlink_format_manifest`.

        Raises:
            ArgumentError: the mode isn't supported.
            UnsupportedFeatureError: the table has deletion vectors or column mapping.
        """
        if check_string(mode, "mode").lower() != _MANIFEST:
            raise ArgumentError(
                f"mode: {mode!r} can't be generated. Use {_MANIFEST!r} (DELTA_MODE_NOT_SUPPORTED).",
                argument="mode",
            )
        target = self._target
        write_symlink_manifests(target.engine, target.table.latest_snapshot(target.engine))

    def optimize(self) -> DeltaOptimizeBuilder:
        """Start OPTIMIZE: select partitions with `where`, then call an `execute...` method."""
        return DeltaOptimizeBuilder(self._target)

    def reorg(self) -> DeltaReorgBuilder:
        """Start REORG TABLE: select partitions with `where`, then call `executePurge`.

        To enable Iceberg metadata (UniForm), call `executeUpgradeUniform` without `where`.
        """
        return DeltaReorgBuilder(self._target)

    def restoreToVersion(self, version: int) -> DataFrame:  # noqa: N802
        """Restore the table to an earlier version.

        Returns:
            A DataFrame of one row with the metrics.

        Raises:
            VersionNotFoundError: the version doesn't exist, or log cleanup has removed it.
            DataFileError: data files of the version are missing; the message names them.
        """
        return self._restore(check_integer(version, "version"), None)

    def restoreToTimestamp(self, timestamp: str) -> DataFrame:  # noqa: N802
        """Restore the table to the last version at or before a timestamp.

        Args:
            timestamp: `2024-01-05` or `2024-01-05 10:00:00`, in the session's time zone.

        Raises:
            VersionNotFoundError, DataFileError: see `restoreToVersion`.
        """
        return self._restore(None, check_string(timestamp, "timestamp"))

    def clone(
        self,
        target: str,
        isShallow: bool = False,  # noqa: N803
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
        *,
        transaction_identifiers: bool = True,
    ) -> DeltaTable:
        """Create a clone of the latest version: a new table with the same rows.

        A deep clone copies the data files. A deep clone that replaces an earlier deep clone of this
        table copies only the files that were added to this table after the earlier clone.

        Args:
            target: path of the clone, or its name in the catalog.
            isShallow: whether to create a shallow clone, which refers to this table's data files.
            replace: whether to replace an existing table at `target`. A shallow clone can't replace
                a table that has data files.
            properties: table properties that override the properties of this table.
            transaction_identifiers: whether to copy the transaction identifiers, which record the
                progress of pipelines and streaming queries.

        Raises:
            TableAlreadyExistsError: a table exists at `target` and can't be replaced.
        """
        return self._clone(
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
        """Create a clone of a version; see `clone`."""
        check_integer(version, "version")
        return self._clone(
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
        """Create a clone of the last version at or before a timestamp; see `clone`.

        The timestamp is in the session's time zone.
        """
        at = self._milliseconds(check_string(timestamp, "timestamp"))
        return self._clone(
            target,
            isShallow,
            replace,
            properties,
            transaction_identifiers=transaction_identifiers,
            timestamp=at,
        )

    def upgradeTableProtocol(self, readerVersion: int, writerVersion: int) -> None:  # noqa: N802, N803
        """Upgrade the protocol to at least these reader and writer versions.

        A reader or writer version that is lower than the table's has no effect.

        Raises:
            ArgumentError: `readerVersion` is higher than 3, or `writerVersion` is higher than 7.
        """
        reader = check_version(readerVersion, "readerVersion")
        writer = check_version(writerVersion, "writerVersion")
        current = self._target.table.latest_snapshot(self._target.engine).protocol
        self._handle.alter.upgrade_protocol(
            max(reader, current.min_reader_version), max(writer, current.min_writer_version)
        )

    def addFeatureSupport(self, featureName: str) -> None:  # noqa: N802, N803
        """Add a table feature to the protocol.

        Raises:
            UnsupportedFeatureError: the feature is unknown, or Bayou can't write it.
        """
        self._handle.alter.add_feature(check_string(featureName, "featureName"))

    def dropFeatureSupport(  # noqa: N802
        self,
        featureName: str,  # noqa: N803
        truncateHistory: bool | None = None,  # noqa: N803
    ) -> None:
        """Remove a table feature from the protocol, and delete the feature's data and metadata.

        Args:
            truncateHistory: whether to delete versions that use the feature and are older than 24
                hours.

        Raises:
            UnsupportedFeatureError: the table lacks the feature, or the feature can't be dropped.
            FeatureInUseError: the table needs the feature, or versions that use the feature are too
                new to be deleted.
        """
        truncate = truncateHistory is not None and check_boolean(truncateHistory, "truncateHistory")
        self._handle.alter.drop_feature(
            check_string(featureName, "featureName"), truncate_history=truncate
        )

    @property
    def _handle(self) -> TableHandle:
        return self._target.handle

    @classmethod
    def _builder(cls, spark: Any, mode: CreationMode) -> DeltaTableBuilder[DeltaTable]:
        session = SparkSession.getActiveSession() if spark is None else spark
        if session is None:
            raise ArgumentError(
                "sparkSession: there is no active Spark session. Give one as the first argument.",
                argument="sparkSession",
            )
        return DeltaTableBuilder(session, mode, cls)

    def _milliseconds(self, timestamp: str) -> int:
        zone = str(self._target.spark.conf.get("spark.sql.session.timeZone"))
        return parse_timestamp("timestamp", timestamp, zone)

    def _restore(self, version: int | None, timestamp: str | None) -> DataFrame:
        target = self._target
        latest = target.table.latest_snapshot(target.engine)
        if version is not None:
            try:
                restored = target.table.snapshot_as_of_version(target.engine, version)
            except VersionNotFoundError as error:
                raise VersionNotFoundError(
                    f"{error.message} (DELTA_CANNOT_RESTORE_TABLE_VERSION)",
                    table=error.table,
                    earliest=error.earliest,
                    latest=error.latest,
                ) from error
        else:
            assert timestamp is not None  # the callers pass a version or a timestamp
            at = self._milliseconds(timestamp)
            restored = target.table.snapshot_as_of_timestamp(target.engine, at)
        metrics = restore(target.engine, latest, restored, SPARK_ENGINE_INFO, timestamp=timestamp)
        frame: DataFrame = restore_frame(target.spark, metrics)
        return frame

    def _clone(
        self,
        destination: str,
        shallow: bool,
        replaces: bool,
        properties: Mapping[str, str] | None,
        *,
        transaction_identifiers: bool,
        version: int | None = None,
        timestamp: int | None = None,
    ) -> DeltaTable:
        name = check_string(destination, "target")
        check_boolean(shallow, "isShallow")
        check_boolean(replaces, "replace")
        source = self._target
        path = _path_name(name) or (name if "/" in name else None)
        named = None if path is not None else self._clone_name(name)
        location = path if named is None else named.path
        assert location is not None  # a path or a resolved name
        clone_engine = SessionEngine(source.spark, for_path(location, source.storage))
        clone(
            clone_engine,
            source.snapshot_at(version, timestamp),
            location,
            SPARK_ENGINE_INFO,
            shallow=shallow,
            properties=check_strings(properties, "properties"),
            replace=replaces,
            transaction_identifiers=check_boolean(
                transaction_identifiers, "transaction_identifiers"
            ),
            run_copies=copy_function(source.spark, clone_engine, location),
        )
        target = TargetTable(
            spark=source.spark,
            location=location,
            name=None if named is None else name,
            options=source.options,
        )
        if named is not None and not named.exists:
            named.register(source.spark, target.path)
        return DeltaTable(target)

    def _clone_name(self, name: str) -> Any:
        spark = self._target.spark
        named = named_table(spark, name)
        if named is None:
            raise ArgumentError(
                f"target: {name} can't be the target of a clone. Give an absolute path, or a "
                "catalog name that is unused or names a Delta table.",
                argument="target",
            )
        return named


def _path_name(name: str, *formats: str) -> str | None:
    """The path in a path name such as ``delta.`/path` ``; None for other names."""
    match list(tokenize(name)):
        case [Token(text=prefix), Token(text="."), Token(kind="quoted", text=path)]:
            return path if path and prefix.lower() in (formats or ("delta",)) else None
        case _:
            return None


def _not_a_table_error(display_name: str, table: str) -> TableNotFoundError:
    return TableNotFoundError(
        f"{display_name} is not a Delta table (DELTA_MISSING_DELTA_TABLE). Write a Delta table "
        "there, or check the path.",
        table=table,
    )
