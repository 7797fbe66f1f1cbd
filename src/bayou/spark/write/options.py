"""Write options of the format `delta`, and their defaults in the session's conf.

Option names are case-insensitive. Spark passes them to data sources in lower case, but hooks get
them as the user wrote them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bayou.errors import ArgumentError
from bayou.kernel import Operation
from bayou.kernel.commands.write import TableWrite, WriteMode
from bayou.kernel.expressions.literals import normalize_time_zone
from bayou.protocol.schema import StructType
from bayou.protocol.type_widening import AutomaticWidening
from bayou.redaction import is_secret_name
from bayou.spark.expressions.session_grammar import has_raw_strings, session_sql
from bayou.spark.expressions.session_semantics import with_zone
from bayou.spark.expressions.session_settings import changed_rule
from bayou.spark.session.hadoop_storage import with_session_storage
from bayou.spark.session.settings import (
    AUTOMATIC_WIDENING,
    TIME_ZONE,
    parse_automatic_widening,
)
from bayou.spark.session.storage_options import (
    boolean_option,
    integer_option,
    parse_integer,
    path_option,
    storage_options,
)
from bayou.spark.session.transaction_identifier import TRANSACTION_APP, TRANSACTION_VERSION
from bayou.spark.target_table import SPARK_ENGINE_INFO

_PROPERTY_PREFIX = "delta."
_REPLACING = {
    "replaceon": "replaceOn",
    "replaceusing": "replaceUsing",
    "targetalias": "targetAlias",
}
"""Options of a write with `replaceOn` or `replaceUsing`, by their names in lower case.

After `bayou.spark.enable`, hooks handle these options (`commands.replace_matching`). Without
`enable`, the options raise an error.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Parsed options of a write.

    Options that start with `bayou.` are internal: Bayou's hooks or SQL statements set them.

    Attributes:
        path: the table's path as the user wrote it.
        merge_schema: `mergeSchema`: whether new columns are added to the table.
        store_assignment_policy: `bayou.storeAssignmentPolicy`: Spark's policy for casts of the
            values of a stream, from `spark.sql.storeAssignmentPolicy`.
        automatic_widening: `bayou.automaticWidening`: the type changes that schema evolution makes,
            from the session's conf.
        overwrite_schema: `overwriteSchema`: whether an overwrite replaces the table's schema.
        replace_where: `replaceWhere`: SQL condition for the rows that an overwrite replaces.
        checks_new_rows: `bayou.checksNewRows`: whether new rows must satisfy `replaceWhere`, from
            the session's conf.
        dynamic_partitions: whether `partitionOverwriteMode` is `dynamic`.
        dynamic_partitions_enabled: `bayou.dynamicPartitionOverwrite`: false if the session's conf
            disables the dynamic partition overwrite mode.
        data_change: `dataChange`: false for a write that only rearranges the table's rows.
        optimize_write: `optimizeWrite`: whether rows are repartitioned by the partition columns
            before the write; None if not set.
        application: `txnAppId` and `txnVersion` of an idempotent write; None if not set.
        session_application: `bayou.sessionTransaction`: whether the session's conf has set
            `application`.
        partition_by, cluster_by: `bayou.partitionBy` and `bayou.clusterBy`: columns, separated by
            line breaks in the option. Spark doesn't pass these arguments to Python data sources.
        mode: `bayou.mode`: a `WriteMode`; None if Spark passes the mode to the data source.
        operation: `bayou.operation`: the name of the operation in the table's history.
        is_managed: `bayou.isManaged`: whether the catalog has chosen the table's location.
        properties: properties of a new table, from the options that start with `delta.` and from
            the JSON object in `bayou.properties`.
        defines: `bayou.defines`: whether the write is a `CREATE TABLE ... AS` or `REPLACE TABLE
            ... AS`.
        storage: storage options with deltalake's names.
        time_zone: `bayou.timeZone`: time zone of timestamps without a time zone in `replaceWhere`
            and in partition values.
        compares_bytes: `bayou.comparesBytes`: whether `replaceWhere` can use CHAR columns, whose
            values the kernel compares by bytes. If False, a CHAR column in `replaceWhere` is an
            error.
        session_rule: `bayou.sessionRule`: name of a setting in the session's conf that can change
            the meaning of `replaceWhere`; None if there is none.
    """

    path: str
    merge_schema: bool = False
    store_assignment_policy: str = "ANSI"
    automatic_widening: AutomaticWidening = AutomaticWidening.ALWAYS
    overwrite_schema: bool = False
    replace_where: str | None = None
    checks_new_rows: bool = True
    dynamic_partitions: bool = False
    dynamic_partitions_enabled: bool = True
    data_change: bool = True
    max_records_per_file: int | None = None
    compression: str | None = None
    optimize_write: bool | None = None
    application: tuple[str, int] | None = None
    user_metadata: str | None = None
    checkpoint_location: str | None = None
    partition_by: tuple[str, ...] | None = None
    cluster_by: tuple[str, ...] | None = None
    mode: WriteMode | None = None
    operation: Operation = Operation.WRITE
    is_managed: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    defines: bool = False
    description: str | None = None
    time_zone: str = "UTC"
    compares_bytes: bool = False
    session_rule: str | None = None
    session_application: bool = False

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> WriteOptions:
        """Parse the options of a writer. Unknown options are ignored, as in Spark."""
        lower_case = {key.lower(): value for key, value in options.items()}
        path = path_option(lower_case)
        for name in lower_case.keys() & _REPLACING.keys():
            raise ArgumentError(
                f"{_REPLACING[name]}: this option requires bayou.spark.enable(spark) and mode "
                "'overwrite'. Call bayou.spark.enable(spark) and set the mode, or use replaceWhere "
                "or MERGE.",
                argument=_REPLACING[name],
            )
        if boolean_option(lower_case, _NULL_INTOLERANT):
            raise ArgumentError(
                f"{_NULL_INTOLERANT}: the option isn't supported. The write would also replace the "
                "partition of NULL. Remove the option, or use replaceUsing with the partition "
                "columns.",
                argument=_NULL_INTOLERANT,
            )
        return cls(
            path=path,
            merge_schema=boolean_option(lower_case, "mergeSchema"),
            store_assignment_policy=lower_case.get("bayou.storeassignmentpolicy", "ANSI").upper(),
            automatic_widening=parse_automatic_widening(
                lower_case.get("bayou.automaticwidening", AutomaticWidening.ALWAYS)
            ),
            overwrite_schema=boolean_option(lower_case, "overwriteSchema"),
            replace_where=lower_case.get("replacewhere"),
            checks_new_rows=boolean_option(
                {_CHECKS_NEW_ROWS.lower(): "true", **lower_case}, _CHECKS_NEW_ROWS
            ),
            dynamic_partitions=_overwrite_mode(lower_case) == "dynamic",
            dynamic_partitions_enabled=boolean_option(
                {_DYNAMIC_PARTITIONS.lower(): "true", **lower_case}, _DYNAMIC_PARTITIONS
            ),
            data_change=boolean_option({"datachange": "true", **lower_case}, "dataChange"),
            max_records_per_file=_records_per_file(lower_case),
            compression=lower_case.get("compression"),
            optimize_write=boolean_option(lower_case, "optimizeWrite")
            if "optimizewrite" in lower_case
            else None,
            application=_application(lower_case),
            user_metadata=lower_case.get("usermetadata"),
            checkpoint_location=lower_case.get("checkpointlocation"),
            partition_by=tuple(lower_case.get("bayou.partitionby", "").splitlines()) or None,
            cluster_by=tuple(lower_case.get("bayou.clusterby", "").splitlines()) or None,
            mode=WriteMode(lower_case["bayou.mode"]) if "bayou.mode" in lower_case else None,
            operation=Operation(lower_case.get("bayou.operation", Operation.WRITE)),
            is_managed=boolean_option(lower_case, "bayou.isManaged"),
            defines=boolean_option(lower_case, "bayou.defines"),
            description=lower_case.get("bayou.description"),
            properties={
                **{k: v for k, v in options.items() if k.lower().startswith(_PROPERTY_PREFIX)},
                **json.loads(lower_case.get("bayou.properties", "{}")),
            },
            storage=storage_options(lower_case),
            time_zone=TIME_ZONE.string(lower_case) or "UTC",
            compares_bytes=boolean_option(lower_case, _COMPARES_BYTES),
            session_rule=lower_case.get("bayou.sessionrule"),
            session_application=boolean_option(lower_case, _SESSION_TRANSACTION),
        )

    def to_options(self) -> dict[str, str]:
        """Return these options as a mapping, the inverse of `parse`."""
        application = self.application or (None, None)
        strings = {
            "path": self.path,
            "replaceWhere": self.replace_where,
            "maxRecordsPerFile": self.max_records_per_file,
            "compression": self.compression,
            "txnAppId": application[0],
            "txnVersion": application[1],
            "userMetadata": self.user_metadata,
            "checkpointLocation": self.checkpoint_location,
            "bayou.partitionBy": "\n".join(self.partition_by or ()) or None,
            "bayou.clusterBy": "\n".join(self.cluster_by or ()) or None,
            "bayou.automaticWidening": self.automatic_widening,
            "bayou.storeAssignmentPolicy": self.store_assignment_policy,
            "bayou.mode": self.mode,
            "bayou.operation": self.operation,
            "bayou.description": self.description,
            "bayou.timeZone": self.time_zone,
            "bayou.sessionRule": self.session_rule,
        }
        flags = {
            "mergeSchema": self.merge_schema,
            "overwriteSchema": self.overwrite_schema,
            "dataChange": self.data_change,
            _DYNAMIC_PARTITIONS: self.dynamic_partitions_enabled,
            "optimizeWrite": self.optimize_write,
            "bayou.isManaged": self.is_managed,
            "bayou.defines": self.defines,
            _CHECKS_NEW_ROWS: self.checks_new_rows,
            _COMPARES_BYTES: self.compares_bytes,
            _SESSION_TRANSACTION: self.session_application,
        }
        return {
            **self.storage,
            "bayou.properties": json.dumps(dict(self.properties)),
            "partitionOverwriteMode": "dynamic" if self.dynamic_partitions else "static",
            **{name: str(value) for name, value in strings.items() if value is not None},
            **{name: str(value).lower() for name, value in flags.items() if value is not None},
        }

    def defining(self, properties: Mapping[str, str], description: str | None) -> WriteOptions:
        """Return a copy for a `CREATE TABLE ... AS` or `REPLACE TABLE ... AS`.

        The statement replaces all partitions, even if the partition overwrite mode is dynamic.

        Args:
            properties: the table properties in the statement. They override the defaults in the
                session's conf.
            description: the comment in the statement.
        """
        return replace(
            self,
            properties={**self.properties, **properties},
            defines=True,
            dynamic_partitions=False,
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
        """Convert these options to a `TableWrite`, the kernel's description of a write.

        Args:
            schema: the schema of the rows to write.
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
            checks_new_rows=self.checks_new_rows,
            dynamic_partitions=self.dynamic_partitions and mode is WriteMode.OVERWRITE,
            merge_schema=self.merge_schema,
            automatic_widening=self.automatic_widening,
            overwrite_schema=self.overwrite_schema,
            data_change=self.data_change,
            max_records_per_file=self.max_records_per_file,
            compression=self.compression,
            properties=self.properties,
            application=self.application,
            operation=operation,
            is_managed=is_managed,
            engine_info=SPARK_ENGINE_INFO,
            user_metadata=self.user_metadata,
            description=self.description,
            replaces_definition=self.defines,
            time_zone=normalize_time_zone(self.time_zone) if mode is WriteMode.OVERWRITE else "UTC",
        )

    def check_dynamic_partitions(self, partition_columns: Sequence[str]) -> None:
        """Raise `ArgumentError` if the options select a disabled partition overwrite mode.

        The setting `DYNAMIC_PARTITIONS_ENABLED` can disable the mode `dynamic`. Nothing is checked
        if the table has no partition columns.
        """
        if partition_columns and self.dynamic_partitions and not self.dynamic_partitions_enabled:
            raise ArgumentError(
                f"{self.path}: partitionOverwriteMode is dynamic, but the setting "
                f"{DYNAMIC_PARTITIONS_ENABLED} is false "
                "(DELTA_DYNAMIC_PARTITION_OVERWRITE_DISABLED). Set the mode to static, or unset "
                "the setting.",
                argument="partitionOverwriteMode",
            )


_NULL_INTOLERANT = "useNullIntolerantEqualityWithDPO"
"""Option of delta-spark that Bayou rejects.

With the option, a dynamic partition overwrite doesn't replace partitions whose value is NULL.
"""

_CHECKS_NEW_ROWS = "bayou.checksNewRows"
_COMPARES_BYTES = "bayou.comparesBytes"
_SESSION_TRANSACTION = "bayou.sessionTransaction"
_DYNAMIC_PARTITIONS = "bayou.dynamicPartitionOverwrite"
DYNAMIC_PARTITIONS_ENABLED = "spark.databricks.delta.dynamicPartitionOverwrite.enabled"
"""Name of delta-spark's setting. Its value `false` disables dynamic partition overwrites."""

_EQUIVALENT_PROPERTIES = {
    "compression": "delta.parquet.compression.codec",
    "optimizewrite": "delta.autooptimize.optimizewrite",
}
"""Maps write options to table properties with the same meaning. All names are in lower case."""


def _check_contradictions(options: Mapping[str, str]) -> None:
    """Raise `ArgumentError` if two options of a write contradict each other.

    Options with different values contradict each other in two cases: their names differ only in
    case, or one is a table property with the same meaning as the other.
    """
    values: dict[str, tuple[str, str]] = {}
    for name, value in options.items():
        key = _EQUIVALENT_PROPERTIES.get(name.lower(), name.lower())
        other, before = values.setdefault(key, (name, value))
        if before.lower() != value.lower():
            pair = f"its value {value!r} contradicts {other} = {before!r}"
            if is_secret_name(key):
                pair = f"its value contradicts the value of {other}"
            raise ArgumentError(
                f"{name}: {pair} in the same write "
                "(DELTA_INCOMPATIBLE_DATAFRAME_OPTIONS). Set one of them.",
                argument=name,
            )


def _overwrite_mode(lower_case: Mapping[str, str]) -> str:
    mode = lower_case.get("partitionoverwritemode", "static").strip().lower()
    if mode not in ("static", "dynamic"):
        raise ArgumentError(
            f"partitionOverwriteMode: {mode!r} isn't valid (DELTA_ILLEGAL_OPTION). Set static or "
            "dynamic.",
            argument="partitionOverwriteMode",
        )
    return mode


def _records_per_file(lower_case: Mapping[str, str]) -> int | None:
    """Parse `maxRecordsPerFile`; None if there is no limit.

    As in Spark, there is no limit if the option isn't set, or if its value is 0 or negative.
    """
    value = lower_case.get("maxrecordsperfile", "").strip()
    if not value or value == "0" or value.startswith("-"):
        return None
    return integer_option(lower_case, "maxRecordsPerFile")


def _application(lower_case: Mapping[str, str]) -> tuple[str, int] | None:
    app_id, version = lower_case.get("txnappid"), lower_case.get("txnversion")
    if app_id is None and version is None:
        return None
    if app_id is None or version is None:
        raise ArgumentError(
            "txnAppId: only one of txnAppId and txnVersion is set "
            "(DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS). Set both to make a write idempotent.",
            argument="txnAppId",
        )
    return app_id, parse_integer("txnVersion", version, 0)


_DEFAULT_SETTINGS = {
    "mergeSchema": "spark.databricks.delta.schema.autoMerge.enabled",
    "optimizeWrite": "spark.databricks.delta.optimizeWrite.enabled",
    "partitionOverwriteMode": "spark.sql.sources.partitionOverwriteMode",
    "maxRecordsPerFile": "spark.sql.files.maxRecordsPerFile",
    "userMetadata": "spark.databricks.delta.commitInfo.userMetadata",
    _CHECKS_NEW_ROWS: "spark.databricks.delta.replaceWhere.constraintCheck.enabled",
    "bayou.automaticWidening": AUTOMATIC_WIDENING,
    "bayou.storeAssignmentPolicy": "spark.sql.storeAssignmentPolicy",
    "bayou.timeZone": "spark.sql.session.timeZone",
}
"""Maps write options to the settings of Spark, delta-spark or Bayou that are their defaults."""

_TRANSACTION = {"txnAppId": TRANSACTION_APP, "txnVersion": TRANSACTION_VERSION}
_PROPERTY_DEFAULTS = "spark.databricks.delta.properties.defaults."


def overwrites_dynamically(spark: Any, options: Mapping[str, str]) -> bool:
    """Whether an overwrite with these options uses the dynamic partition overwrite mode.

    If the options don't set the mode, the session's conf determines it.
    """
    lower_case = {key.lower(): value for key, value in options.items()}
    if "partitionoverwritemode" in lower_case:
        return _overwrite_mode(lower_case) == "dynamic"
    mode = str(spark.conf.get(_DEFAULT_SETTINGS["partitionOverwriteMode"], "static"))
    return mode.strip().lower() == "dynamic"


def merges_schema(spark: Any) -> bool:
    """Whether writes add new columns to the table by default, according to the session's conf."""
    return str(spark.conf.get(_DEFAULT_SETTINGS["mergeSchema"], "false")).strip().lower() == "true"


def with_session_defaults(
    spark: Any, path: str | None, options: Mapping[str, str], *, transaction: bool = True
) -> dict[str, str]:
    """Return the options of a write, with defaults from the session's conf.

    The result also has the session's storage settings such as `fs.s3a.*`, including credentials.

    Args:
        transaction: whether the session's `txnAppId` and `txnVersion` are added. Only batch writes
            that write rows use them.
    """
    _check_contradictions(options)
    result = dict(options)
    lower_case = {key.lower() for key in options}
    conf: Mapping[str, str] = spark.conf.getAll
    for name, setting in _DEFAULT_SETTINGS.items():
        if setting in conf and name.lower() not in lower_case:
            result[name] = conf[setting]
    for name in options:
        if name.lower() == "replacewhere":
            result[name] = _session_condition(spark, options[name])
            if (rule := changed_rule(spark)) is not None:
                result["bayou.sessionRule"] = rule
    if "replacewhere" in lower_case and "partitionoverwritemode" not in lower_case:
        # The option replaceWhere takes precedence over the session's overwrite mode.
        result["partitionOverwriteMode"] = "static"
    if conf.get(DYNAMIC_PARTITIONS_ENABLED, "true").strip().lower() == "false":
        result[_DYNAMIC_PARTITIONS] = "false"
    if transaction and not lower_case & {name.lower() for name in _TRANSACTION}:
        from_conf = {n: conf[setting] for n, setting in _TRANSACTION.items() if setting in conf}
        if from_conf:
            result |= {**from_conf, _SESSION_TRANSACTION: "true"}
    for key, value in conf.items():
        if key.startswith(_PROPERTY_DEFAULTS):
            name = f"delta.{key.removeprefix(_PROPERTY_DEFAULTS)}"
            if name.lower() not in lower_case:
                result[name] = value
    return with_session_storage(spark, path, result)


def _session_condition(spark: Any, condition: str) -> str:
    if has_raw_strings(spark, condition):
        raise ArgumentError(
            f"replaceWhere: {condition!r} has a backslash or a doubled quote. Bayou doesn't "
            "support this with the settings spark.sql.parser.escapedStringLiterals and "
            "spark.sql.legacy.consecutiveStringLiterals.enabled. Unset these settings, or use "
            "DELETE and an append.",
            argument="replaceWhere",
        )
    return session_sql(spark, condition)
