"""A snapshot: the schema, properties and files of one version of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from bayou.kernel.catalog import Catalog
from bayou.kernel.checkpoint.stats import CheckpointStatisticsCache
from bayou.kernel.crc.file_totals import checksum_file_totals
from bayou.kernel.crc.read import FileTotals
from bayou.kernel.engine import Engine
from bayou.kernel.log.commit_times import commit_timestamp
from bayou.kernel.log.incremental_replay import refresh_state
from bayou.kernel.log.table_state import TableState, load_table_state
from bayou.kernel.metrics import SnapshotReport, measured
from bayou.kernel.operation import Operation
from bayou.kernel.scan.scan import ScanBuilder
from bayou.protocol.column_metadata import (
    IdentityColumn,
    check_constraints,
    column_defaults,
    column_invariants,
    generation_expressions,
    identity_columns,
)

if TYPE_CHECKING:
    from bayou.kernel.transaction.builder import TransactionBuilder


class Snapshot(TableState):
    """One version of a table. Immutable and thread-safe; holds no engine.

    Loading a snapshot replays the commits after the checkpoint. The checkpoint's list of files is
    read later, when a scan needs the list.

    Examples:
        >>> snapshot = Table.for_path(engine, path).latest_snapshot(engine)
        >>> print(snapshot.version, snapshot.schema.names, snapshot.partition_columns)
    """

    @classmethod
    def load(
        cls,
        engine: Engine,
        table: str,
        version: int | None = None,
        *,
        catalog: Catalog | None = None,
    ) -> Snapshot:
        """Load a version, or the latest version if `version` is None; see `load_table_state`."""
        if engine.metrics_reporter is None:
            return cls._of(load_table_state(engine, table, version, catalog=catalog))
        state: TableState | None = None

        def report(duration_ms: float, error: str | None) -> SnapshotReport:
            commits = () if state is None else state.log_segment.commits
            return SnapshotReport(
                table=table,
                requested_version=version,
                version=None if state is None else state.version,
                duration_ms=duration_ms,
                commits=len(commits),
                commit_bytes=sum(file.size for file in commits),
                checkpoint_bytes=0 if state is None else state.checkpoint_bytes,
                error=error,
            )

        with measured(engine.metrics_reporter, report):
            state = load_table_state(engine, table, version, catalog=catalog)
        return cls._of(state)

    @classmethod
    def _of(
        cls, state: TableState, statistics_cache: CheckpointStatisticsCache | None = None
    ) -> Snapshot:
        return cls(
            segment=state.log_segment,
            replay=state.replay_state,
            contents=state.checkpoint_contents,
            checksum_totals=state.checksum_totals,
            catalog=state.catalog,
            in_commit_timestamp=state.in_commit_timestamp,
            protocol=state.protocol,
            metadata=state.metadata,
            schema=state.schema,
            transactions=state.transaction_actions,
            domains=state.domain_actions,
            statistics_cache=statistics_cache,
        )

    def with_statistics_cache(self, cache: CheckpointStatisticsCache) -> Snapshot:
        """Return a copy of this snapshot that caches the checkpoint's parsed statistics in `cache`.

        The snapshot that `refreshed` returns uses the same cache if it has the same checkpoint.
        """
        return self._of(self, cache)

    def refreshed(self, engine: Engine) -> Snapshot:
        """Return a snapshot of the latest version, or this object if it is the latest version.

        Usually, this method reads only the newer commits; see `refresh_state`.

        Raises:
            TableNotFoundError, CorruptTableError, UnsupportedFeatureError: see
                `Table.latest_snapshot`.
        """
        state = refresh_state(engine, self)
        if state is self:
            return self
        same = state.log_segment.checkpoint == self.log_segment.checkpoint
        return self._of(state, self.statistics_cache if same else None)

    def file_totals(self, engine: Engine) -> FileTotals | None:
        """Read the number and total size of the live files from the version checksum.

        The result is None if there is no version checksum. At most one small file is read.
        """
        return checksum_file_totals(engine, self)

    @property
    def timestamp(self) -> int:
        """Time of the commit in milliseconds since the epoch.

        If the table has in-commit timestamps, this is the in-commit timestamp (PROTOCOL.md,
        In-Commit Timestamps). Otherwise, this is the modification time of the commit file. A
        modification time that isn't later than the previous commit's timestamp is replaced by the
        previous timestamp plus 1 ms. `Table.snapshot_as_of_timestamp` uses the same timestamps.
        """
        return commit_timestamp(self)

    @property
    def check_constraints(self) -> Mapping[str, str]:
        """SQL expression of each CHECK constraint, by name."""
        return check_constraints(self.metadata.configuration)

    @property
    def column_invariants(self) -> Mapping[str, str]:
        """SQL expression of each column invariant, by column name."""
        return column_invariants(self.schema)

    @property
    def generation_expressions(self) -> Mapping[str, str]:
        """SQL expression of each generated column, by name."""
        return generation_expressions(self.schema)

    @property
    def column_defaults(self) -> Mapping[str, str]:
        """SQL expression of each column default, by column name."""
        return column_defaults(self.schema)

    @property
    def identity_columns(self) -> Mapping[str, IdentityColumn]:
        """Identity columns by name."""
        return identity_columns(self.schema)

    def scan_builder(self) -> ScanBuilder:
        """Return a builder of a scan of this version."""
        return ScanBuilder(self)

    def build_update_table_transaction(
        self, engine_info: str, operation: Operation
    ) -> TransactionBuilder:
        """Return a builder of a transaction that reads this version."""
        from bayou.kernel.transaction.builder import TransactionBuilder

        return TransactionBuilder(
            table=self.path, read_state=self, engine_info=engine_info, operation=operation
        )
