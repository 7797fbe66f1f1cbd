"""Every setting by which Spark users tune Bayou: its names, where it may stand, what it does.

A setting is looked for in this order: option of the read or write, session conf, environment,
default. Its names are `bayou.*`, and for those that delta-spark or the Delta Kernel connector have
the name that they have there; `spark.bayou.*` means the same in the session conf, where
`spark-submit --conf` passes on names that begin with `spark.` only. In the environment dots are
underscores and small letters capital ones: `BAYOU_REPLAY_NUMPARTITIONS`.

Only the driver's own process sees the session conf. A data source plans in processes beside it, so
`enable` hands them the settings that are set as options (`conf_as_options`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bayou.errors import ArgumentError

__all__ = [
    "CHECKPOINT_LOCAL_BYTES",
    "CLONE_TRANSACTION_IDENTIFIERS",
    "INITIAL_SNAPSHOT_NUM_PARTITIONS",
    "MAX_INITIAL_SNAPSHOT_FILE_COUNT",
    "OPTIMIZE_BATCH_BYTES",
    "OPTIMIZE_DELETED_ROWS_RATIO",
    "OPTIMIZE_LOCAL_BYTES",
    "OPTIMIZE_MAX_FILE_SIZE",
    "OPTIMIZE_MIN_FILE_SIZE",
    "REPLAY_LOCAL_BYTES",
    "REPLAY_NUM_PARTITIONS",
    "REPLAY_WINDOW_BYTES",
    "ROW_OPERATIONS_LOCAL_BYTES",
    "ROW_OPERATIONS_SOURCE_BYTES",
    "SETTINGS",
    "SNAPSHOT_CACHE_BYTES",
    "TIME_ZONE",
    "VACUUM_LOCAL_FILES",
    "Setting",
    "conf_as_options",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting.

    Attributes:
        name: of ours, `bayou.*`.
        aliases: further names.
        meaning: one sentence.
        default: what holds where it isn't set, in words.
        minimum: of a whole number; None for a text.
    """

    name: str
    aliases: tuple[str, ...] = ()
    meaning: str
    default: str
    minimum: int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """All names, ours first."""
        return (self.name, *self.aliases)

    @property
    def environment(self) -> str:
        """The name of the environment variable."""
        return self.name.upper().replace(".", "_")

    def text(self, options: Mapping[str, str] | None = None, spark: Any = None) -> str | None:
        """What it is set to, None where it isn't; in the conf the names of others come first.

        Args:
            options: of a read or write, in any case; None for none.
            spark: the session whose conf counts; None where there is none in this process.
        """
        given = {key.lower(): value for key, value in (options or {}).items()}
        for name in self.names:
            if name.lower() in given:
                return given[name.lower()]
        if spark is not None:
            for name in (*self.aliases, self.name, f"spark.{self.name}"):
                value = spark.conf.get(name, None)
                if value is not None:
                    return str(value)
        return os.environ.get(self.environment)

    def integer(self, options: Mapping[str, str] | None = None, spark: Any = None) -> int | None:
        """The whole number it is set to, None where it isn't; see `text`.

        Raises:
            ArgumentError: it isn't a whole number, or too small; names the setting.
        """
        text = self.text(options, spark)
        if text is None:
            return None
        try:
            value = int(text.strip())
        except ValueError:
            value = None
        if value is None or (self.minimum is not None and value < self.minimum):
            raise ArgumentError(
                f"The setting {' or '.join(self.names)} is {text!r}; it must be a whole number, at "
                f"least {self.minimum or 0}.",
                argument=self.name,
            )
        return value

    def boolean(self, spark: Any, default: bool) -> bool:
        """Whether it is set to true or false in a session; see `text`.

        Raises:
            ArgumentError: it is neither; names the setting.
        """
        text = self.text(spark=spark)
        if text is None:
            return default
        if text.strip().lower() not in ("true", "false"):
            raise ArgumentError(
                f"The setting {' or '.join(self.names)} is {text!r}; it must be true or false.",
                argument=self.name,
            )
        return text.strip().lower() == "true"

    def share(self, spark: Any, default: float) -> float:
        """The number from 0 to 1 it is set to in a session; see `text`.

        Raises:
            ArgumentError: it isn't such a number; names the setting.
        """
        text = self.text(spark=spark)
        if text is None:
            return default
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value <= 1:
            raise ArgumentError(
                f"The setting {' or '.join(self.names)} is {text!r}; it must be a number from 0 to "
                "1.",
                argument=self.name,
            )
        return value


REPLAY_NUM_PARTITIONS = Setting(
    name="bayou.replay.numPartitions",
    aliases=("spark.databricks.delta.v2.distributedLogReplay.numPartitions",),
    meaning="Number of tasks of a log replay on executors; where it is set, executors replay "
    "tables of any size.",
    default="by the size of the checkpoint, a task for about 4 MB",
    minimum=1,
)
INITIAL_SNAPSHOT_NUM_PARTITIONS = Setting(
    name="bayou.streaming.initialSnapshot.numPartitions",
    aliases=("spark.databricks.delta.v2.streaming.initialSnapshot.numPartitions",),
    meaning="The same for the initial snapshot of a stream.",
    default="by the size of the checkpoint",
    minimum=1,
)
MAX_INITIAL_SNAPSHOT_FILE_COUNT = Setting(
    name="bayou.streaming.maxInitialSnapshotFileCount",
    aliases=("spark.databricks.delta.streaming.maxFilesPerTrigger.maxInitialSnapshotFileCount",),
    meaning="A stream over a table of more files than this is refused when it begins.",
    default="no limit",
    minimum=0,
)
REPLAY_LOCAL_BYTES = Setting(
    name="bayou.replay.localBytes",
    meaning="Logs (checkpoint and commits behind it) of up to so many bytes are replayed in the "
    "driver's process, larger ones on executors.",
    default="1 GB, about 10,000,000 files",
    minimum=0,
)
REPLAY_WINDOW_BYTES = Setting(
    name="bayou.replay.windowBytes",
    meaning="Commits behind the checkpoint of more bytes than this are reconciled by a shuffle "
    "and a window, fewer by keys that each task gets.",
    default="256 MB, about 500,000 files",
    minimum=0,
)
SNAPSHOT_CACHE_BYTES = Setting(
    name="bayou.snapshotCache.maxBytes",
    meaning="Memory for snapshots that the driver's process keeps, up to half of it for statistics "
    "that filters parsed; 0 for none.",
    default="256 MB",
    minimum=0,
)
CHECKPOINT_LOCAL_BYTES = Setting(
    name="bayou.checkpoint.localBytes",
    meaning="A checkpoint that builds on one of up to so many bytes is written by the driver's "
    "process, a larger one by executors, in parts.",
    default="256 MB, about 2,500,000 files",
    minimum=0,
)
OPTIMIZE_MAX_FILE_SIZE = Setting(
    name="bayou.optimize.maxFileSize",
    aliases=("spark.databricks.delta.optimize.maxFileSize",),
    meaning="OPTIMIZE packs files until they would be larger than so many bytes.",
    default="the table's `delta.targetFileSize`, else 128 MB",
    minimum=1,
)
OPTIMIZE_MIN_FILE_SIZE = Setting(
    name="bayou.optimize.minFileSize",
    aliases=("spark.databricks.delta.optimize.minFileSize",),
    meaning="OPTIMIZE leaves files of at least so many bytes as they are.",
    default="as `bayou.optimize.maxFileSize`",
    minimum=1,
)
OPTIMIZE_DELETED_ROWS_RATIO = Setting(
    name="bayou.optimize.maxDeletedRowsRatio",
    aliases=("spark.databricks.delta.optimize.maxDeletedRowsRatio",),
    meaning="OPTIMIZE rewrites files of any size of whose rows more than this share is deleted by "
    "vectors.",
    default="0.05",
)
OPTIMIZE_BATCH_BYTES = Setting(
    name="bayou.optimize.batchSize",
    aliases=("spark.databricks.delta.optimize.batchSize",),
    meaning="OPTIMIZE commits whenever it has rewritten files of about so many bytes.",
    default="16 GB",
    minimum=1,
)
OPTIMIZE_LOCAL_BYTES = Setting(
    name="bayou.optimize.localBytes",
    meaning="OPTIMIZE and REORG that rewrite files of up to so many bytes are done in the driver's "
    "process, larger ones on executors.",
    default="256 MB",
    minimum=0,
)
VACUUM_LOCAL_FILES = Setting(
    name="bayou.vacuum.localFiles",
    meaning="VACUUM deletes up to so many files from the driver's process, more on executors; "
    "tables of more files on object stores are listed by executors, too.",
    default="10,000",
    minimum=0,
)
ROW_OPERATIONS_LOCAL_BYTES = Setting(
    name="bayou.rowOperations.localBytes",
    meaning="DELETE, UPDATE and MERGE that look into files of up to so many bytes are done in the "
    "driver's process, larger ones on executors.",
    default="256 MB",
    minimum=0,
)
ROW_OPERATIONS_SOURCE_BYTES = Setting(
    name="bayou.rowOperations.sourceBytes",
    meaning="A MERGE whose source takes no more than this sends the source to whoever looks into "
    "the table's files; a larger one is joined by Spark.",
    default="256 MB",
    minimum=0,
)
CLONE_TRANSACTION_IDENTIFIERS = Setting(
    name="bayou.clone.transactionIdentifiers",
    meaning="CREATE TABLE ... SHALLOW CLONE copies the source's transaction identifiers, by which "
    "pipelines and streaming queries know what the rows cover; false omits them.",
    default="true",
)
TIME_ZONE = Setting(
    name="bayou.timeZone",
    aliases=("spark.sql.session.timeZone",),
    meaning="Time zone of timestamps that say none: in options such as timestampAsOf, and in "
    "partition values.",
    default="UTC; after `enable` the session's",
)

SETTINGS: tuple[Setting, ...] = (
    REPLAY_NUM_PARTITIONS,
    REPLAY_LOCAL_BYTES,
    REPLAY_WINDOW_BYTES,
    INITIAL_SNAPSHOT_NUM_PARTITIONS,
    MAX_INITIAL_SNAPSHOT_FILE_COUNT,
    SNAPSHOT_CACHE_BYTES,
    CHECKPOINT_LOCAL_BYTES,
    OPTIMIZE_MAX_FILE_SIZE,
    OPTIMIZE_MIN_FILE_SIZE,
    OPTIMIZE_DELETED_ROWS_RATIO,
    OPTIMIZE_BATCH_BYTES,
    OPTIMIZE_LOCAL_BYTES,
    VACUUM_LOCAL_FILES,
    ROW_OPERATIONS_LOCAL_BYTES,
    ROW_OPERATIONS_SOURCE_BYTES,
    CLONE_TRANSACTION_IDENTIFIERS,
    TIME_ZONE,
)


def conf_as_options(spark: Any, options: Mapping[str, str]) -> dict[str, str]:
    """The settings that a session's conf has and the options don't, for a source's processes."""
    found = {}
    for setting in SETTINGS:
        if setting.text(options) is None:
            value = setting.text(options, spark)
            if value is not None:
                found[setting.name] = value
    return found
