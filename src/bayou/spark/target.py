"""A table as the API's methods see it: where it is, how it is reached, under which name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession

from bayou.api.table import TableHandle
from bayou.engines import for_path
from bayou.errors import ArgumentError
from bayou.kernel import Snapshot, Table
from bayou.spark.executors.engine import SessionEngine
from bayou.spark.log_replay.snapshot_cache import latest_snapshot
from bayou.spark.session.hadoop_storage import with_session_storage
from bayou.spark.session.storage_options import storage_options
from bayou.version import ENGINE_INFO

__all__ = ["SPARK_ENGINE_INFO", "TargetTable", "is_classic"]

SPARK_ENGINE_INFO = f"{ENGINE_INFO} (spark)"
_TRANSACTION_APP = "spark.databricks.delta.write.txnAppId"
_TRANSACTION_VERSION = "spark.databricks.delta.write.txnVersion"
_TRANSACTION_RESET = "spark.databricks.delta.write.txnVersion.autoReset.enabled"
_FILE_SYSTEM = ("fs.", "dfs.")
_STORAGE = ("aws_", "azure_", "google_", "allow_http", "allow_invalid_certificates", "timeout")


def is_classic(spark: Any) -> bool:
    """Whether a session has a JVM beside it; one of Spark Connect hasn't."""
    return isinstance(spark, SparkSession)


@dataclass(frozen=True, kw_only=True)
class TargetTable:
    """A table that may be there or not.

    Attributes:
        spark: a session, classic or Connect.
        location: as the user or the catalog gave it.
        name: in the session's catalog, None for a path.
        alias: by which conditions and values may name the table, None for none.
        options: about the store, in Hadoop's or deltalake's names.
    """

    spark: Any
    location: str
    name: str | None = None
    alias: str | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        given: object = self.location
        if not isinstance(given, str) or not given.strip():
            raise ArgumentError(
                f"{given!r} isn't a table's path; give one such as 's3a://lake/events'.",
                argument="path",
            )
        for key in self.options:
            if not key.lower().startswith((*_FILE_SYSTEM, *_STORAGE)):
                raise ArgumentError(
                    f"{key!r} isn't about a file system: options of a table's path begin with "
                    "fs. or dfs., or are storage options such as aws_endpoint_url "
                    "(DELTA_TABLE_FOR_PATH_UNSUPPORTED_HADOOP_CONF).",
                    argument="hadoopConf",
                )

    @cached_property
    def storage(self) -> Mapping[str, str]:
        """Storage options in deltalake's names; what the session says of S3 included."""
        return storage_options(with_session_storage(self.spark, self.location, self.options))

    @cached_property
    def engine(self) -> SessionEngine:
        """Reaches the store from this process; executors help it where there are some."""
        return SessionEngine(self.spark, for_path(self.location, self.storage))

    @cached_property
    def table(self) -> Table:
        """The kernel's."""
        return Table.for_path(self.engine, self.location)

    @property
    def path(self) -> str:
        """Fully qualified."""
        return self.table.path

    @property
    def handle(self) -> TableHandle:
        """The short API over it."""
        return TableHandle(self.engine, self.table)

    def exists(self) -> bool:
        """Whether there is a table."""
        return self.table.exists(self.engine)

    def snapshot(self) -> Snapshot:
        """The latest version, as the log has it now."""
        return latest_snapshot(self.engine, self.location, self.spark)

    def named(self, alias: str) -> TargetTable:
        """The same table under an alias."""
        return replace(self, alias=alias)

    @property
    def application(self) -> tuple[str, int] | None:
        """Whose progress commits of row operations record, and how far it is; None for nobody's.

        Raises:
            ArgumentError: one half of it is set, or its version isn't a whole number.
        """
        app_id = self.spark.conf.get(_TRANSACTION_APP, None)
        version = self.spark.conf.get(_TRANSACTION_VERSION, None)
        if app_id is None and version is None:
            return None
        if app_id is None or version is None:
            unset = _TRANSACTION_APP if app_id is None else _TRANSACTION_VERSION
            raise ArgumentError(
                f"{unset} isn't set, and the other one is: set {_TRANSACTION_APP} and "
                f"{_TRANSACTION_VERSION}, or neither (DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS).",
                argument=unset,
            )
        try:
            return str(app_id), int(str(version))
        except ValueError:
            raise ArgumentError(
                f"{_TRANSACTION_VERSION} is {version!r}; it must be a whole number.",
                argument=_TRANSACTION_VERSION,
            ) from None

    def has_recorded(self, snapshot: Snapshot, application: tuple[str, int] | None) -> bool:
        """Whether a version has what an application is about to do, done already."""
        if application is None:
            return False
        app_id, version = application
        recorded = snapshot.transaction_version(app_id)
        return recorded is not None and recorded >= version

    def forget_transaction_version(self) -> None:
        """Unset the session's version of an application where the session wants that."""
        reset = str(self.spark.conf.get(_TRANSACTION_RESET, "false")).strip().lower() == "true"
        if reset:
            self.spark.conf.unset(_TRANSACTION_VERSION)

    @property
    def user_metadata(self) -> str | None:
        """Free text for commits that the session's conf asks for."""
        return self.engine.user_metadata

    def frame(self) -> Any:
        """Its rows as a DataFrame, under its alias."""
        reader = self.spark.read.format("delta")
        if self.options:
            reader = reader.options(**dict(self.options))
        frame = reader.load(self.location)
        return frame if self.alias is None else frame.alias(self.alias)
