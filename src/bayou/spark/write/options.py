"""Options of writes of the `delta` format: what users set with `.option(...)`.

Spark hands them to a data source in lower case; the hooks see them as they were written.

What a session's conf says of writes, where the write's own options don't.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from bayou.errors import ArgumentError
from bayou.kernel import Operation
from bayou.kernel.commands.write import TableWrite, WriteMode
from bayou.kernel.expressions.literals import checked_time_zone
from bayou.protocol.schema import StructType
from bayou.spark.expressions.session_semantics import with_zone
from bayou.spark.session.hadoop_storage import with_session_storage
from bayou.spark.session.settings import TIME_ZONE
from bayou.spark.session.storage_options import (
    boolean_option,
    integer_option,
    path_option,
    storage_options,
    whole_number,
)
from bayou.version import ENGINE_INFO

__all__ = ["WriteOptions", "with_session_defaults"]


_PROPERTY_PREFIX = "delta."
_NOT_SUPPORTED = {
    "replaceon": "replaceOn",
    "replaceusing": "replaceUsing",
    "targetalias": "targetAlias",
}
"""Options of delta-spark by which a write replaces other rows; to pass over one of them would
overwrite rows that the user means to keep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Options of one write, parsed and checked.

    Attributes:
        path: the table's path as the user gave it.
        merge_schema: `mergeSchema`, whether new columns are added to the table.
        overwrite_schema: `overwriteSchema`, whether an overwrite gives the table another schema.
        replace_where: `replaceWhere`, SQL text; which rows an overwrite replaces.
        dynamic_partitions: `partitionOverwriteMode`, None where it isn't set.
        data_change: `dataChange`, false where rows are only laid out anew.
        max_records_per_file: `maxRecordsPerFile`.
        compression: `compression`, a Parquet codec.
        optimize_write: `optimizeWrite`, whether rows are brought together by partition before they
            are written; None where it isn't set.
        application: `txnAppId` and `txnVersion` of an idempotent write.
        user_metadata: `userMetadata`, free text of the commit.
        checkpoint_location: `checkpointLocation` of a streaming query.
        partition_by: `bayou.partitionBy`, partition columns of a streaming query, one a line; the
            hooks set it from `partitionBy`, which Spark doesn't pass on.
        properties: table properties for a table that the write creates; of options those that begin
            with `delta.`.
        defines: whether the write is a `CREATE` or `REPLACE TABLE ... AS`.
        description: of the table that it defines.
        storage: storage options in deltalake's names.
        time_zone: `bayou.timeZone`, of times in `replaceWhere` and in partition values that say
            none.
    """

    path: str
    merge_schema: bool = False
    overwrite_schema: bool = False
    replace_where: str | None = None
    dynamic_partitions: bool = False
    data_change: bool = True
    max_records_per_file: int | None = None
    compression: str | None = None
    optimize_write: bool | None = None
    application: tuple[str, int] | None = None
    user_metadata: str | None = None
    checkpoint_location: str | None = None
    partition_by: tuple[str, ...] | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    defines: bool = False
    description: str | None = None
    time_zone: str = "UTC"

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> WriteOptions:
        """The options of a writer; those that aren't ours are passed over, as Spark does.

        Raises:
            ArgumentError: no path, or an option whose value makes no sense.
        """
        given = {key.lower(): value for key, value in options.items()}
        path = path_option(given)
        for name in given.keys() & _NOT_SUPPORTED.keys():
            raise ArgumentError(
                f"The option {_NOT_SUPPORTED[name]} isn't supported by this version of Bayou. Use "
                "replaceWhere, or bayou's merge.",
                argument=_NOT_SUPPORTED[name],
            )
        return cls(
            path=path,
            merge_schema=boolean_option(given, "mergeSchema"),
            overwrite_schema=boolean_option(given, "overwriteSchema"),
            replace_where=given.get("replacewhere"),
            dynamic_partitions=_overwrite_mode(given) == "dynamic",
            data_change=boolean_option({"datachange": "true", **given}, "dataChange"),
            max_records_per_file=_records_per_file(given),
            compression=given.get("compression"),
            optimize_write=boolean_option(given, "optimizeWrite")
            if "optimizewrite" in given
            else None,
            application=_application(given),
            user_metadata=given.get("usermetadata"),
            checkpoint_location=given.get("checkpointlocation"),
            partition_by=tuple(given.get("bayou.partitionby", "").splitlines()) or None,
            properties={k: v for k, v in options.items() if k.lower().startswith(_PROPERTY_PREFIX)},
            storage=storage_options(given),
            time_zone=TIME_ZONE.text(given) or "UTC",
        )

    def defining(self, properties: Mapping[str, str], description: str | None) -> WriteOptions:
        """The same for `CREATE` or `REPLACE TABLE ... AS`.

        Args:
            properties: of the table, on top of the session's defaults.
        """
        return replace(
            self,
            properties={**self.properties, **properties},
            defines=True,
            description=description,
        )

    def table_write(
        self,
        schema: StructType,
        mode: WriteMode,
        *,
        operation: Operation = Operation.WRITE,
        is_managed: bool = False,
        partition_by: tuple[str, ...] | None = None,
        cluster_by: tuple[str, ...] | None = None,
    ) -> TableWrite:
        """What the kernel is asked for.

        Args:
            schema: of the rows.

        Raises:
            ArgumentError: options that exclude each other, or a `replaceWhere` that can't be said
                in UTC.
        """
        where = self.replace_where if mode is WriteMode.OVERWRITE else None
        if where is not None:
            where = with_zone(where, schema, self.time_zone, name="replaceWhere")
        return TableWrite(
            table=self.path,
            schema=schema,
            mode=mode,
            partition_by=partition_by,
            cluster_by=cluster_by,
            replace_where=where,
            dynamic_partitions=self.dynamic_partitions and mode is WriteMode.OVERWRITE,
            merge_schema=self.merge_schema,
            overwrite_schema=self.overwrite_schema,
            data_change=self.data_change,
            max_records_per_file=self.max_records_per_file,
            compression=self.compression,
            properties=self.properties,
            application=self.application,
            operation=operation,
            is_managed=is_managed,
            engine_info=f"{ENGINE_INFO} (spark)",
            user_metadata=self.user_metadata,
            description=self.description,
            defines=self.defines,
            time_zone=checked_time_zone(self.time_zone) if mode is WriteMode.OVERWRITE else "UTC",
        )


def _overwrite_mode(given: Mapping[str, str]) -> str:
    mode = given.get("partitionoverwritemode", "static").strip().lower()
    if mode not in ("static", "dynamic"):
        raise ArgumentError(
            f"partitionOverwriteMode is {mode!r}; it must be static or dynamic.",
            argument="partitionOverwriteMode",
        )
    return mode


def _records_per_file(given: Mapping[str, str]) -> int | None:
    """As Spark has it, 0 and less mean any number."""
    text = given.get("maxrecordsperfile", "").strip()
    if not text or text == "0" or text.startswith("-"):
        return None
    return integer_option(given, "maxRecordsPerFile")


def _application(given: Mapping[str, str]) -> tuple[str, int] | None:
    app_id, version = given.get("txnappid"), given.get("txnversion")
    if app_id is None and version is None:
        return None
    if app_id is None or version is None:
        raise ArgumentError(
            "txnAppId and txnVersion belong together: set both to make a write idempotent.",
            argument="txnAppId",
        )
    return app_id, whole_number("txnVersion", version, 0)


_OPTIONS = {
    "mergeSchema": "spark.databricks.delta.schema.autoMerge.enabled",
    "optimizeWrite": "spark.databricks.delta.optimizeWrite.enabled",
    "partitionOverwriteMode": "spark.sql.sources.partitionOverwriteMode",
    "maxRecordsPerFile": "spark.sql.files.maxRecordsPerFile",
    "userMetadata": "spark.databricks.delta.commitInfo.userMetadata",
    "bayou.timeZone": "spark.sql.session.timeZone",
}
"""Options by their names, with delta-spark's settings for the same."""

_TRANSACTION = {
    "txnAppId": "spark.databricks.delta.write.txnAppId",
    "txnVersion": "spark.databricks.delta.write.txnVersion",
}
_PROPERTY_DEFAULTS = "spark.databricks.delta.properties.defaults."


def with_session_defaults(
    spark: Any, path: str | None, options: Mapping[str, str]
) -> dict[str, str]:
    """A write's options, completed by the session's conf; options win.

    What the session says of S3 (`fs.s3a.*`), credentials included, comes as options, too.

    Args:
        spark: a session, classic or Connect.
        path: where the table is.
    """
    result = dict(options)
    given = {key.lower() for key in options}
    conf: Mapping[str, str] = spark.conf.getAll
    for name, setting in _OPTIONS.items():
        if setting in conf and name.lower() not in given:
            result[name] = conf[setting]
    if "replacewhere" in given and "partitionoverwritemode" not in given:
        # An option says what is replaced, which goes over a setting of the session.
        result["partitionOverwriteMode"] = "static"
    if not given & {name.lower() for name in _TRANSACTION}:
        result |= {n: conf[setting] for n, setting in _TRANSACTION.items() if setting in conf}
    for key, value in conf.items():
        if key.startswith(_PROPERTY_DEFAULTS):
            name = f"delta.{key.removeprefix(_PROPERTY_DEFAULTS)}"
            if name.lower() not in given:
                result[name] = value
    return with_session_storage(spark, path, result)
