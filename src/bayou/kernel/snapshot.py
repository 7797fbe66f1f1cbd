"""A version of a table: its schema, properties, files; the kernel's façade."""

from __future__ import annotations

from collections.abc import Mapping

from bayou.kernel.catalog import Catalog
from bayou.kernel.checkpoint.stats import KnownStatistics
from bayou.kernel.crc.file_totals import stated_file_totals
from bayou.kernel.crc.read import FileTotals
from bayou.kernel.engine import Engine
from bayou.kernel.log.commit_times import commit_timestamp
from bayou.kernel.log.incremental_replay import refreshed_state
from bayou.kernel.log.snapshot_metrics import measured
from bayou.kernel.log.table_state import TableState, load_table_state
from bayou.kernel.operation import Operation
from bayou.kernel.scan.scan import ScanBuilder
from bayou.kernel.transaction.builder import TransactionBuilder
from bayou.protocol.column_metadata import (
    IdentityColumn,
    check_constraints,
    column_defaults,
    column_invariants,
    generation_expressions,
    identity_columns,
)

__all__ = ["Snapshot"]


class Snapshot(TableState):
    """One version of a table, immutable, safe in threads; holds no engine.

    The commits behind the checkpoint are replayed on opening, the checkpoint's files are not read
    before a scan asks for them.
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
        """Open a version, the latest where it is None; raises as `load_table_state` does."""

        def load() -> TableState:
            return load_table_state(engine, table, version, catalog=catalog)

        reporter = engine.metrics_reporter
        return cls._of(load() if reporter is None else measured(reporter, table, version, load))

    @classmethod
    def _of(cls, state: TableState, known_statistics: KnownStatistics | None = None) -> Snapshot:
        return cls(
            segment=state.log_segment,
            replay=state.replay_state,
            contents=state.checkpoint_contents,
            stated_totals=state.stated_totals,
            catalog=state.catalog,
            in_commit_timestamp=state.in_commit_timestamp,
            protocol=state.protocol,
            metadata=state.metadata,
            schema=state.schema,
            transactions=state.transaction_actions,
            domains=state.domain_actions,
            known_statistics=known_statistics,
        )

    def keeping_statistics(self, known: KnownStatistics) -> Snapshot:
        """The same version, whose scans keep a checkpoint's statistics for later ones.

        `refreshed` versions with the same checkpoint keep them in the same place.
        """
        return self._of(self, known)

    def refreshed(self, engine: Engine) -> Snapshot:
        """The latest version; this very object where there is none behind it.

        Costs one listing of the log, from this version on, and reading the commits that are new;
        see `refreshed_state`.

        Raises:
            TableNotFoundError, CorruptTableError, UnsupportedFeatureError: see
                `Table.latest_snapshot`.
        """
        state = refreshed_state(engine, self)
        if state is self:
            return self
        same = state.log_segment.checkpoint == self.log_segment.checkpoint
        return self._of(state, self.known_statistics if same else None)

    def file_totals(self, engine: Engine) -> FileTotals | None:
        """Number of live files and their bytes, as the version's checksum says; None without one.

        Reads one small file at most.
        """
        return stated_file_totals(engine, self)

    @property
    def timestamp(self) -> int:
        """When the version was committed, milliseconds since the epoch.

        The in-commit timestamp where the table has those, else the commit file's modification
        time, raised above those of the commits before it (PROTOCOL.md, In-Commit Timestamps).
        `Table.snapshot_as_of_timestamp` goes by the same.
        """
        return commit_timestamp(self)

    @property
    def check_constraints(self) -> Mapping[str, str]:
        """SQL of each CHECK constraint by its name."""
        return check_constraints(self.metadata.configuration)

    @property
    def column_invariants(self) -> Mapping[str, str]:
        """SQL of each column's invariant by the column's name."""
        return column_invariants(self.schema)

    @property
    def generation_expressions(self) -> Mapping[str, str]:
        """SQL of each generated column by its name."""
        return generation_expressions(self.schema)

    @property
    def column_defaults(self) -> Mapping[str, str]:
        """SQL of each column's current default by the column's name."""
        return column_defaults(self.schema)

    @property
    def identity_columns(self) -> Mapping[str, IdentityColumn]:
        """Identity columns by their name."""
        return identity_columns(self.schema)

    def scan_builder(self) -> ScanBuilder:
        """Plan a read of this version."""
        return ScanBuilder(self)

    def build_update_table_transaction(
        self, engine_info: str, operation: Operation
    ) -> TransactionBuilder:
        """Begin a transaction that has read this version."""
        return TransactionBuilder(
            table=self.path, read_state=self, engine_info=engine_info, operation=operation
        )
