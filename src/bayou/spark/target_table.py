"""`TargetTable`: the table that a `DeltaTable` method or an SQL statement reads or changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any, TypeVar
from urllib.parse import urlsplit

from bayou.api.table import TableHandle
from bayou.engines import for_path
from bayou.errors import ArgumentError
from bayou.kernel import Snapshot, Table
from bayou.spark.executors.engine import SessionEngine
from bayou.spark.hooks.hooks import is_enabled
from bayou.spark.log_replay.snapshot_cache import latest_snapshot
from bayou.spark.session.connection import is_classic
from bayou.spark.session.hadoop_storage import with_session_storage
from bayou.spark.session.read_version_options import LOADED_VERSION, loaded_version
from bayou.spark.session.settings import TIME_ZONE
from bayou.spark.session.storage_options import storage_options
from bayou.spark.session.transaction_identifier import (
    TRANSACTION_APP,
    TRANSACTION_VERSION,
    reset_transaction_version,
)
from bayou.spark.target_view import TargetView
from bayou.version import ENGINE_INFO

ResultT = TypeVar("ResultT")

SPARK_ENGINE_INFO = f"{ENGINE_INFO} (spark)"
_FILE_SYSTEM = ("fs.", "dfs.")
_STORAGE = ("aws_", "azure_", "google_", "allow_http", "allow_invalid_certificates", "timeout")


@dataclass(frozen=True, kw_only=True)
class TargetTable:
    """The path of a table, a Spark session and storage options. The table need not exist.

    Attributes:
        location: the table's path as the user or the catalog wrote it.
        name: the table's name in the session's catalog; None if the user specified a path.
        alias: alias of the table in SQL conditions and values; None without an alias.
        view: the temporary view through which a statement changes the table. None if the statement
            doesn't use a view, or if the view has exactly the table's columns.
        options: Hadoop's file system options (`fs.`, `dfs.`) or deltalake's storage options.
    """

    spark: Any
    location: str
    name: str | None = None
    alias: str | None = None
    view: TargetView | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        location: object = self.location
        if not isinstance(location, str) or not location.strip():
            raise ArgumentError(
                f"path: {location!r} isn't a table path. Give a path such as 's3a://lake/events'.",
                argument="path",
            )
        for key in self.options:
            if not key.lower().startswith((*_FILE_SYSTEM, *_STORAGE)):
                raise ArgumentError(
                    f"hadoopConf: {key!r} isn't a file system option. Use options that start with "
                    "fs. or dfs., or storage options such as aws_endpoint_url "
                    "(DELTA_TABLE_FOR_PATH_UNSUPPORTED_HADOOP_CONF).",
                    argument="hadoopConf",
                )

    @cached_property
    def storage(self) -> Mapping[str, str]:
        """Storage options under deltalake's names, including options from the session's conf."""
        return storage_options(with_session_storage(self.spark, self.location, self.options))

    @cached_property
    def engine(self) -> SessionEngine:
        """The engine for operations in the driver. It writes large checkpoints on executors."""
        return SessionEngine(self.spark, for_path(self.location, self.storage))

    @cached_property
    def table(self) -> Table:
        return Table.for_path(self.engine, self.location)

    @property
    def path(self) -> str:
        """The table's fully qualified path."""
        return self.table.path

    @property
    def handle(self) -> TableHandle:
        """The table as a `TableHandle`, the type that `bayou.table` returns."""
        return TableHandle(self.engine, self.table)

    def exists(self) -> bool:
        return self.table.exists(self.engine)

    def enclosing_table(self) -> str | None:
        """The path of the innermost Delta table at `path` or above it; None if there is none."""
        for folder in _folder_and_parents(self.path):
            if Table.for_path(self.engine, folder).exists(self.engine):
                return folder
        return None

    def snapshot(self) -> Snapshot:
        """The latest snapshot."""
        return latest_snapshot(self.engine, self.location, self.spark)

    def snapshot_at(self, version: int | None, timestamp: int | None) -> Snapshot:
        """The snapshot of a version, or of a timestamp in ms since the epoch.

        If both arguments are None, the latest snapshot is returned.
        """
        if version is not None:
            return self.table.snapshot_as_of_version(self.engine, version)
        if timestamp is not None:
            return self.table.snapshot_as_of_timestamp(self.engine, timestamp)
        return self.table.latest_snapshot(self.engine)

    def with_alias(self, alias: str) -> TargetTable:
        return replace(self, alias=alias)

    @property
    def transaction_identifier(self) -> tuple[str, int] | None:
        """The pair (`txnAppId`, `txnVersion`) in the session's conf; None if neither is set."""
        app_id = self.spark.conf.get(TRANSACTION_APP, None)
        version = self.spark.conf.get(TRANSACTION_VERSION, None)
        if app_id is None and version is None:
            return None
        if app_id is None or version is None:
            unset = TRANSACTION_APP if app_id is None else TRANSACTION_VERSION
            raise ArgumentError(
                f"{unset}: the setting is missing. Set both {TRANSACTION_APP} and "
                f"{TRANSACTION_VERSION}, or neither (DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS).",
                argument=unset,
            )
        try:
            return str(app_id), int(str(version))
        except ValueError:
            raise ArgumentError(
                f"{TRANSACTION_VERSION}: {version!r} isn't an integer. Set an integer.",
                argument=TRANSACTION_VERSION,
            ) from None

    @property
    def transaction_ids(self) -> Mapping[str, int]:
        """`transaction_identifier` as a mapping from `txnAppId` to `txnVersion`; can be empty."""
        identifier = self.transaction_identifier
        return {} if identifier is None else dict([identifier])

    def commit_once(self, run: Callable[[Snapshot], ResultT]) -> ResultT | None:
        """Run an operation if the table doesn't already contain it; return the result of `run`.

        The table contains the operation if its log has the session's `txnAppId` with the same or a
        higher `txnVersion`. In this case `run` isn't called, and the result is None.

        `reset_transaction_version` is called at the end in both cases.

        Args:
            run: function that runs and commits the operation. The argument is the latest snapshot.
        """
        snapshot, result = self.snapshot(), None
        name, version = self.transaction_identifier or ("", 0)
        recorded = snapshot.transaction_version(name) if name else None
        if recorded is None or recorded < version:
            result = run(snapshot)
        reset_transaction_version(self.spark, self.location)
        return result

    @property
    def time_zone(self) -> str:
        """Time zone of timestamp partition values that have no time zone.

        This is the session's time zone if `bayou.spark.enable` was called, otherwise UTC. An
        environment variable can set another time zone; see `TIME_ZONE`.
        """
        session = self.spark if is_enabled(self.spark) else None
        return TIME_ZONE.string() or TIME_ZONE.string(spark=session) or "UTC"

    @property
    def user_metadata(self) -> str | None:
        """The user metadata for commits, from the session's conf."""
        return self.engine.user_metadata

    def frame(self) -> Any:
        """Return the rows of the latest version as a DataFrame with the alias `alias`."""
        reader = self.spark.read.format("delta")
        if self.options:
            reader = reader.options(**dict(self.options))
        if is_classic(self.spark):  # the hooks of `enable` do the same for reads of the user
            snapshot = self.snapshot()
            reader = reader.option(LOADED_VERSION, loaded_version(snapshot.path, snapshot.version))
        frame = reader.load(self.location)
        return frame if self.alias is None else frame.alias(self.alias)


def _folder_and_parents(path: str) -> list[str]:
    scheme = urlsplit(path).scheme if "://" in path else ""
    root = f"{scheme}://{urlsplit(path).netloc}" if scheme else ""
    below = PurePosixPath("/" + path.removeprefix(root).strip("/"))
    folders = [str(below), *(str(parent) for parent in below.parents)]
    return [f"{root}{folder}" for folder in folders if folder != "/"]
