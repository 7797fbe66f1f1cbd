"""A table at a path: the entry point of the kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bayou.errors import TableNotFoundError
from bayou.kernel.catalog import Catalog, CommittingCatalog
from bayou.kernel.engine import Engine
from bayou.kernel.log.commit_times import read_history, version_at
from bayou.kernel.log.segment import load_log_segment
from bayou.kernel.operation import Operation
from bayou.kernel.snapshot import Snapshot

if TYPE_CHECKING:
    from bayou.kernel.maintenance.log_cleanup import LogCleanup
    from bayou.kernel.table_changes.commit_range import CommitBoundary, CommitRangeBuilder
    from bayou.kernel.table_changes.table_changes import TableChanges
    from bayou.kernel.transaction.builder import TransactionBuilder


class Table:
    """A Delta table at a path. The table may not exist yet. Holds no engine and no state.

    Examples:
        >>> table = Table.for_path(engine, path)
        >>> print(table.exists(engine), table.latest_snapshot(engine).version)
        >>> print(table.history(engine, 1)[0]["operation"])
    """

    __slots__ = ("_catalog", "_path")

    def __init__(self, path: str, catalog: Catalog | None = None) -> None:
        self._path = path
        self._catalog = catalog

    def __repr__(self) -> str:
        return f"Table({self._path!r})"

    @classmethod
    def for_path(cls, engine: Engine, path: str, catalog: Catalog | None = None) -> Table:
        """Create the object for the table at a path. No files are read.

        Args:
            catalog: the catalog that manages the table. The catalog decides which commits belong to
                the table (PROTOCOL.md, Catalog-managed tables).
        """
        return cls(engine.files.resolve_path(path), catalog)

    @property
    def path(self) -> str:
        """The fully qualified path, without a trailing slash."""
        return self._path

    @property
    def catalog(self) -> Catalog | None:
        """The catalog that manages the table; None if no catalog manages the table."""
        return self._catalog

    def exists(self, engine: Engine) -> bool:
        """Whether the path has a log with at least one version."""
        try:
            load_log_segment(engine, self._path, catalog=self._catalog)
        except TableNotFoundError:
            return False
        return True

    def latest_snapshot(self, engine: Engine) -> Snapshot:
        """Load the latest version.

        Raises:
            TableNotFoundError: the path has no table.
            CorruptTableError: the log violates PROTOCOL.md.
            UnsupportedFeatureError: the table requires an unsupported reader feature.
        """
        return Snapshot.load(engine, self._path, catalog=self._catalog)

    def snapshot_as_of_version(self, engine: Engine, version: int) -> Snapshot:
        """Load a version. Raises `VersionNotFoundError` if the version can't be rebuilt."""
        return Snapshot.load(engine, self._path, version, catalog=self._catalog)

    def snapshot_as_of_timestamp(self, engine: Engine, timestamp: int) -> Snapshot:
        """Load the last version committed at or before `timestamp`, which is in ms since the epoch.

        Raises:
            VersionNotFoundError: the timestamp is before the earliest version that can be rebuilt,
                or after the last commit.
        """
        latest = self.latest_snapshot(engine)
        version = version_at(engine, latest, timestamp)
        if version == latest.version:
            return latest
        return self.snapshot_as_of_version(engine, version)

    def history(self, engine: Engine, limit: int | None = None) -> list[dict[str, Any]]:
        """Read the `commitInfo` of the commits in the log, newest first; see `read_history`."""
        return read_history(engine, self._path, limit, catalog=self._catalog)

    def commit_range_builder(self, start: CommitBoundary) -> CommitRangeBuilder:
        """Return a builder of a commit range, for connectors that read the actions of commits."""
        from bayou.kernel.table_changes.commit_range import CommitRangeBuilder

        return CommitRangeBuilder(self._path, start, catalog=self._catalog)

    def changes(
        self, engine: Engine, start: CommitBoundary, end: CommitBoundary | None = None
    ) -> TableChanges:
        """Return the change data feed of a range of versions; see `load_table_changes`.

        Raises:
            VersionNotFoundError: the log doesn't have all versions of the range.
            ArgumentError: the range ends before it starts.
            ChangeDataFeedError: the feed is disabled at a version of the range, or the range
                contains an incompatible schema change; the message names the version.
        """
        from bayou.kernel.table_changes.table_changes import load_table_changes

        return load_table_changes(engine, self._path, start, end, self._catalog)

    def checkpoint(self, engine: Engine, version: int | None = None) -> int:
        """Write the checkpoint of a version, and return the version.

        Commits that the catalog has ratified are published first, because only published versions
        can have checkpoints.

        Args:
            version: the version; None for the latest.
        """
        from bayou.kernel.checkpoint.parts import write_checkpoint_with_workers

        self.publish_commits(engine)
        return write_checkpoint_with_workers(engine, self._path, version, self._catalog)

    def publish_commits(self, engine: Engine) -> int | None:
        """Publish the commits that the catalog has ratified: copy them to the log.

        The call can be repeated, and can run concurrently in several processes.

        Returns:
            The last published version; None if the table has no catalog, or if the catalog itself
            publishes commits.
        """
        from bayou.kernel.transaction.committers import publish_ratified

        if not isinstance(self._catalog, CommittingCatalog):
            return None
        return publish_ratified(engine, self._path, self._catalog)

    def clean_up_log(self, engine: Engine) -> LogCleanup:
        """Delete commits, checkpoints and other log files that are older than the log retention.

        See `clean_up_log` of `bayou.kernel.maintenance.log_cleanup`.
        """
        from bayou.kernel.maintenance.log_cleanup import clean_up_log

        return clean_up_log(engine, self._path, catalog=self._catalog)

    def compact_log(self, engine: Engine, first: int, last: int) -> bool:
        """Write a log compaction file for versions `first` to `last`; return False if it exists.

        See `compact_log` of `bayou.kernel.maintenance.log_compaction`.
        """
        from bayou.kernel.maintenance.log_compaction import compact_log

        self.publish_commits(engine)
        return compact_log(engine, self._path, first, last)

    def create_transaction_builder(
        self, engine: Engine, engine_info: str, operation: Operation
    ) -> TransactionBuilder:
        """Return a builder of a transaction that reads the latest version or creates the table."""
        from bayou.kernel.transaction.builder import TransactionBuilder

        return TransactionBuilder(
            table=self._path,
            read_state=None,
            engine_info=engine_info,
            operation=operation,
            catalog=self._catalog,
        )
