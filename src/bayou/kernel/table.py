"""A table at a path: the entry point of the kernel."""

from __future__ import annotations

from typing import Any

from bayou.errors import TableNotFoundError
from bayou.kernel.catalog import Catalog, CommittingCatalog
from bayou.kernel.checkpoint.parts import write_checkpoint_with_workers
from bayou.kernel.engine import Engine
from bayou.kernel.log.commit_times import read_history, version_at
from bayou.kernel.log.segment import load_log_segment
from bayou.kernel.maintenance.log_cleanup import LogCleanup, clean_up_log
from bayou.kernel.maintenance.log_compaction import compact_log
from bayou.kernel.operation import Operation
from bayou.kernel.snapshot import Snapshot
from bayou.kernel.table_changes.commit_range import CommitBoundary, CommitRangeBuilder
from bayou.kernel.table_changes.table_changes import TableChanges, load_table_changes
from bayou.kernel.transaction.builder import TransactionBuilder
from bayou.kernel.transaction.committers import publish_ratified

__all__ = ["Table"]


class Table:
    """A Delta table at a path. The table may not exist yet. Holds no engine and no state."""

    __slots__ = ("_catalog", "_path")

    def __init__(self, path: str, catalog: Catalog | None = None) -> None:
        self._path = path
        self._catalog = catalog

    def __repr__(self) -> str:
        return f"Table({self._path!r})"

    @classmethod
    def for_path(cls, engine: Engine, path: str, catalog: Catalog | None = None) -> Table:
        """The table at a path. Reads nothing.

        Args:
            catalog: the catalog that manages the table and decides which commits it has
                (PROTOCOL.md, Catalog-managed tables).
        """
        return cls(engine.files.resolve_path(path), catalog)

    @property
    def path(self) -> str:
        """Fully qualified, without a trailing slash."""
        return self._path

    @property
    def catalog(self) -> Catalog | None:
        """The catalog that manages the table, None for none."""
        return self._catalog

    def exists(self, engine: Engine) -> bool:
        """Whether the path has a log with at least one version."""
        try:
            load_log_segment(engine, self._path, catalog=self._catalog)
        except TableNotFoundError:
            return False
        return True

    def latest_snapshot(self, engine: Engine) -> Snapshot:
        """The latest version.

        Raises:
            TableNotFoundError: the path has no table.
            CorruptTableError: the log violates PROTOCOL.md.
            UnsupportedFeatureError: the table requires an unsupported reader feature.
        """
        return Snapshot.load(engine, self._path, catalog=self._catalog)

    def snapshot_as_of_version(self, engine: Engine, version: int) -> Snapshot:
        """A version by its number; raises `VersionNotFoundError` if it can't be rebuilt."""
        return Snapshot.load(engine, self._path, version, catalog=self._catalog)

    def snapshot_as_of_timestamp(self, engine: Engine, timestamp: int) -> Snapshot:
        """The last version committed at or before a time in ms since the epoch.

        Raises:
            VersionNotFoundError: the time is before the earliest version that can be rebuilt, or
                after the last commit.
        """
        latest = self.latest_snapshot(engine)
        version = version_at(engine, latest, timestamp)
        if version == latest.version:
            return latest
        return self.snapshot_as_of_version(engine, version)

    def history(self, engine: Engine, limit: int | None = None) -> list[dict[str, Any]]:
        """The `commitInfo` of the commits in the log, newest first; see `read_history`."""
        return read_history(engine, self._path, limit, catalog=self._catalog)

    def commit_range_builder(self, start: CommitBoundary) -> CommitRangeBuilder:
        """A builder of a commit range, whose actions incremental connectors read."""
        return CommitRangeBuilder(self._path, start, catalog=self._catalog)

    def changes(
        self, engine: Engine, start: CommitBoundary, end: CommitBoundary | None = None
    ) -> TableChanges:
        """The change data feed of a range of versions; see `load_table_changes`.

        Raises:
            VersionNotFoundError, ArgumentError: the log doesn't have the range.
            ChangeDataFeedError: the feed is disabled at a version of the range, or the range
                contains an incompatible schema change; names the version.
        """
        return load_table_changes(engine, self._path, start, end, self._catalog)

    def checkpoint(self, engine: Engine, version: int | None = None) -> int:
        """Write the checkpoint of a version, the latest if `version` is None; return the version.

        Ratified commits are published first, because only a published version may have one.
        """
        self.publish_commits(engine)
        return write_checkpoint_with_workers(engine, self._path, version, self._catalog)

    def publish_commits(self, engine: Engine) -> int | None:
        """Copy the commits that the catalog has ratified to the log.

        May be repeated, and may run concurrently in several processes.

        Returns:
            The last published version; None without a catalog, or if the catalog publishes its
            commits itself.
        """
        if not isinstance(self._catalog, CommittingCatalog):
            return None
        return publish_ratified(engine, self._path, self._catalog)

    def clean_up_log(self, engine: Engine) -> LogCleanup:
        """Delete commits and checkpoints older than `delta.logRetentionDuration`.

        See `clean_up_log` of `bayou.kernel.maintenance.log_cleanup`.
        """
        return clean_up_log(engine, self._path, catalog=self._catalog)

    def compact_log(self, engine: Engine, first: int, last: int) -> bool:
        """Write the commits of a range to one log compaction file; see `compact_log`."""
        self.publish_commits(engine)
        return compact_log(engine, self._path, first, last)

    def create_transaction_builder(
        self, engine: Engine, engine_info: str, operation: Operation
    ) -> TransactionBuilder:
        """Start a transaction on the latest version, or on a table to be created."""
        return TransactionBuilder(
            table=self._path,
            read_state=None,
            engine_info=engine_info,
            operation=operation,
            catalog=self._catalog,
        )
