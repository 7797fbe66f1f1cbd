"""All settings of Bayou in Spark: names, precedence and meaning.

A setting can be set in the options of a read or write, in the session conf, or in an environment
variable. Options take precedence over the session conf, which takes precedence over the
environment. Each setting has a name `bayou.*`. Some settings also have aliases: names that
delta-spark or the Delta Kernel connector use for the same setting. The session conf also accepts
`spark.bayou.*`, because `spark-submit --conf` only passes names that start with `spark.`.
Environment variables are in upper case with underscores: `BAYOU_REPLAY_NUMPARTITIONS`.

Only the driver process has access to the session conf. Data sources plan in other processes.
Therefore the hooks that `enable` installs pass the session's settings to data sources as options
(`conf_as_options`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, overload

from bayou.errors import ArgumentError
from bayou.protocol.type_widening import AutomaticWidening


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The name, the aliases and the description of a setting.

    Attributes:
        aliases: other names of the setting.
        meaning: description of the setting.
        default: description of the default.
        minimum: minimum value of an integer setting; None for other settings.
    """

    name: str
    aliases: tuple[str, ...] = ()
    meaning: str
    default: str
    minimum: int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """All names of the setting. The name `bayou.*` is the first."""
        return (self.name, *self.aliases)

    @property
    def environment(self) -> str:
        return self.name.upper().replace(".", "_")

    def string(self, options: Mapping[str, str] | None = None, spark: Any = None) -> str | None:
        """Return the setting's value as a string; None if the setting isn't set.

        Names of options are case-insensitive. In the session conf, aliases take precedence over the
        name `bayou.*`. In options, the name `bayou.*` takes precedence over aliases.

        Args:
            options: the options of the read or write.
            spark: the session; None in a process without a session.
        """
        lower_case = {key.lower(): value for key, value in (options or {}).items()}
        for name in self.names:
            if name.lower() in lower_case:
                return lower_case[name.lower()]
        if spark is not None:
            for name in (*self.aliases, self.name, f"spark.{self.name}"):
                value = spark.conf.get(name, None)
                if value is not None:
                    return str(value)
        return os.environ.get(self.environment)

    @overload
    def integer(
        self, options: Mapping[str, str] | None = None, spark: Any = None, *, default: int
    ) -> int: ...

    @overload
    def integer(
        self, options: Mapping[str, str] | None = None, spark: Any = None, *, default: None = None
    ) -> int | None: ...

    def integer(
        self,
        options: Mapping[str, str] | None = None,
        spark: Any = None,
        *,
        default: int | None = None,
    ) -> int | None:
        """Return the setting's value as an integer; `default` if it isn't set. See `string`."""
        string = self.string(options, spark)
        if string is None:
            return default
        try:
            value = int(string.strip())
        except ValueError:
            value = None
        if value is None or (self.minimum is not None and value < self.minimum):
            raise self._invalid(string, f"an integer of at least {self.minimum or 0}")
        return value

    def boolean(self, spark: Any, default: bool) -> bool:
        """Return the setting's value in a session as a boolean; `default` if it isn't set."""
        string = self.string(spark=spark)
        if string is None:
            return default
        if string.strip().lower() not in ("true", "false"):
            raise self._invalid(string, "true or false")
        return string.strip().lower() == "true"

    def fraction(self, spark: Any, default: float) -> float:
        """Return the setting's value in a session as a number from 0 to 1; `default` if not set."""
        string = self.string(spark=spark)
        if string is None:
            return default
        try:
            value = float(string)
        except ValueError:
            value = -1.0
        if not 0 <= value <= 1:
            raise self._invalid(string, "a number from 0 to 1")
        return value

    def _invalid(self, string: str, expected: str) -> ArgumentError:
        return ArgumentError(
            f"{' or '.join(self.names)}: {string!r} isn't valid. Set {expected}.",
            argument=self.name,
        )


REPLAY_NUM_PARTITIONS = Setting(
    name="bayou.replay.numPartitions",
    aliases=("spark.databricks.delta.v2.distributedLogReplay.numPartitions",),
    meaning="Number of tasks of a log replay on executors. If it is set, executors replay the logs "
    "of tables of any size.",
    default="one task for about 4 MB of the log; in the data source 2 MB of the checkpoint",
    minimum=1,
)
REPLAY_LOCAL_BYTES = Setting(
    name="bayou.replay.localBytes",
    meaning="Logs (the checkpoint and later commits) of up to this size are replayed in the "
    "driver; larger logs are replayed on executors.",
    default="1 GB, about 10,000,000 files; in the data source a checkpoint of 16 MB",
    minimum=0,
)
REPLAY_WINDOW_BYTES = Setting(
    name="bayou.replay.windowBytes",
    meaning="If the commits after the checkpoint are larger than this, a shuffle and a window "
    "function reconcile their actions; otherwise the keys of their actions are broadcast to the "
    "tasks.",
    default="256 MB, about 500,000 files",
    minimum=0,
)
INITIAL_SNAPSHOT_NUM_PARTITIONS = Setting(
    name="bayou.streaming.initialSnapshot.numPartitions",
    aliases=("spark.databricks.delta.v2.streaming.initialSnapshot.numPartitions",),
    meaning="Number of tasks of the log replay for the initial snapshot of a stream.",
    default="by the size of the checkpoint",
    minimum=1,
)
MAX_INITIAL_SNAPSHOT_FILE_COUNT = Setting(
    name="bayou.streaming.maxInitialSnapshotFileCount",
    aliases=("spark.databricks.delta.streaming.maxFilesPerTrigger.maxInitialSnapshotFileCount",),
    meaning="Maximum number of files of a stream's initial snapshot. A stream over a larger table "
    "fails at its start.",
    default="no limit",
    minimum=0,
)
SNAPSHOT_CACHE_BYTES = Setting(
    name="bayou.snapshotCache.maxBytes",
    meaning="Memory of the driver for cached snapshots, up to half of it for parsed statistics. 0 "
    "disables the cache.",
    default="256 MB",
    minimum=0,
)
CHECKPOINT_LOCAL_BYTES = Setting(
    name="bayou.checkpoint.localBytes",
    meaning="If the previous checkpoint is no larger than this, the driver writes the checkpoint; "
    "otherwise executors write it in parts.",
    default="256 MB, about 2,500,000 files",
    minimum=0,
)
OPTIMIZE_MAX_FILE_SIZE = Setting(
    name="bayou.optimize.maxFileSize",
    aliases=("spark.databricks.delta.optimize.maxFileSize",),
    meaning="Maximum size of the files that OPTIMIZE writes.",
    default="the table's `delta.targetFileSize`, else 128 MB",
    minimum=1,
)
OPTIMIZE_MIN_FILE_SIZE = Setting(
    name="bayou.optimize.minFileSize",
    aliases=("spark.databricks.delta.optimize.minFileSize",),
    meaning="OPTIMIZE doesn't rewrite files of at least this size.",
    default="the value of `bayou.optimize.maxFileSize`",
    minimum=1,
)
OPTIMIZE_DELETED_ROWS_RATIO = Setting(
    name="bayou.optimize.maxDeletedRowsRatio",
    aliases=("spark.databricks.delta.optimize.maxDeletedRowsRatio",),
    meaning="OPTIMIZE rewrites files of any size if their deletion vectors mark more than this "
    "fraction of the rows.",
    default="0.05",
)
OPTIMIZE_BATCH_BYTES = Setting(
    name="bayou.optimize.batchSize",
    aliases=("spark.databricks.delta.optimize.batchSize",),
    meaning="OPTIMIZE commits each time it has rewritten files of about this size.",
    default="16 GB",
    minimum=1,
)
OPTIMIZE_LOCAL_BYTES = Setting(
    name="bayou.optimize.localBytes",
    meaning="If the total size of the files that OPTIMIZE or REORG rewrites is larger than this, "
    "executors rewrite them, otherwise the driver.",
    default="256 MB",
    minimum=0,
)
VACUUM_LOCAL_FILES = Setting(
    name="bayou.vacuum.localFiles",
    meaning="If VACUUM deletes more files than this, executors delete them, otherwise the driver. "
    "If a table on an object store has more files than this, executors list them.",
    default="10,000",
    minimum=0,
)
ROW_OPERATIONS_LOCAL_BYTES = Setting(
    name="bayou.rowOperations.localBytes",
    meaning="If the total size of the files that DELETE, UPDATE or MERGE reads is larger than "
    "this, the command runs on executors, otherwise in the driver.",
    default="256 MB",
    minimum=0,
)
ROW_OPERATIONS_SOURCE_BYTES = Setting(
    name="bayou.rowOperations.sourceBytes",
    meaning="If a MERGE source is larger than this, Spark joins it with the table; otherwise it is "
    "broadcast to the tasks that read the table's files. In a pipeline: the driver collects "
    "batches of an upsert up to this size.",
    default="256 MB; in a pipeline 64 MB",
    minimum=0,
)
CLONE_LOCAL_BYTES = Setting(
    name="bayou.clone.localBytes",
    meaning="If the total size of the files that a deep clone copies is larger than this, "
    "executors copy them, otherwise the driver.",
    default="256 MB",
    minimum=0,
)
CLONE_TRANSACTION_IDENTIFIERS = Setting(
    name="bayou.clone.transactionIdentifiers",
    meaning="Whether SQL clones, shallow or deep, copy the source's transaction identifiers, which "
    "record the progress of pipelines and streaming queries.",
    default="true",
)
TIME_ZONE = Setting(
    name="bayou.timeZone",
    aliases=("spark.sql.session.timeZone",),
    meaning="Time zone of timestamps without a time zone, in options such as timestampAsOf and in "
    "partition values.",
    default="UTC; after `enable` the session's",
)

SETTINGS = tuple(value for value in list(globals().values()) if isinstance(value, Setting))
"""All settings, in the order of their definitions."""


def conf_flag(spark: Any, name: str, *, default: bool = False) -> bool:
    """Return the value of a boolean setting of Spark or delta-spark.

    If the setting is unset or invalid, `default` is returned.
    """
    value = str(spark.conf.get(name, str(default))).strip().lower()
    return value == "true" if value in ("true", "false") else default


AUTOMATIC_WIDENING = "spark.databricks.delta.typeWidening.allowAutomaticWidening"
"""Name of delta-spark's setting that determines which type changes schema evolution makes."""


def parse_automatic_widening(value: str) -> AutomaticWidening:
    """Parse a value of the setting `AUTOMATIC_WIDENING`; case is ignored."""
    try:
        return AutomaticWidening(value.strip().lower())
    except ValueError:
        raise ArgumentError(
            f"Setting {AUTOMATIC_WIDENING}: {value!r} isn't valid. Use 'always', "
            "'same_family_type' or 'never'.",
            argument=AUTOMATIC_WIDENING,
        ) from None


def automatic_widening(spark: Any) -> AutomaticWidening:
    """Return the type changes that schema evolution makes in tables with type widening."""
    return parse_automatic_widening(str(spark.conf.get(AUTOMATIC_WIDENING, "always")))


def conf_as_options(spark: Any, options: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a session as options for a data source.

    Settings that `options` already contains are omitted.
    """
    missing = {}
    for setting in SETTINGS:
        if setting.string(options) is None:
            value = setting.string(options, spark)
            if value is not None:
                missing[setting.name] = value
    return missing
