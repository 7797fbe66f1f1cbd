"""What a transaction changes besides files, and the actions that say so in its commit.

Actions that take files out of a table.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from bayou.errors import ConcurrentTransactionError, CorruptTableError
from bayou.kernel.catalog import Catalog, CommittingCatalog, is_catalog_managed
from bayou.kernel.crc.commit_effect import CommitEffect
from bayou.kernel.log.replay import CommitActions
from bayou.kernel.log.table_state import TableState
from bayou.kernel.operation import Operation
from bayou.kernel.table_features.identity_columns import with_high_water_marks
from bayou.kernel.transaction import commit_rebase
from bayou.kernel.transaction.commit_contents import CommitContents
from bayou.kernel.transaction.committers import CatalogCommitter, Committer, LogCommitter
from bayou.kernel.transaction.conflict_checker import isolation_level
from bayou.protocol import features
from bayou.protocol.actions import (
    Action,
    AddFile,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    encode_action,
)
from bayou.protocol.actions import Transaction as TransactionIdentifier
from bayou.protocol.column_metadata import CLUSTERING_DOMAIN, physical_clustering_columns
from bayou.protocol.commit_info import commit_info
from bayou.protocol.properties import TableProperties
from bayou.protocol.schema import StructType

__all__ = ["CommitLines", "TableUpdate", "moved_marks", "now", "remove_of"]


_KEEPING_ROWS = frozenset({Operation.DELETE, Operation.UPDATE, Operation.MERGE, Operation.OPTIMIZE})


@dataclass(frozen=True, slots=True, kw_only=True)
class TableUpdate:
    """A transaction's table before and after.

    Attributes:
        table: its path.
        read_state: the version it is made from, None for a new table.
        catalog: the one that manages the table, None for none.
        protocol, metadata: where the commit changes them, else None.
        schema, partition_columns, configuration: once it is committed.
        transaction_ids: version by application id.
        copied_transaction_ids: another table's identifiers by application id, written as they are.
        domains: actions by domain.
        operation, operation_parameters, engine_info, user_metadata: for `commitInfo`.
        max_retries: how often a lost commit is tried again.
        generated_identity: identity columns that the rows don't bring.
        log_compaction_interval: commits that a log compaction file holds, None for no such files.
        row_conditions, data_change, max_records_per_file, compression: see `TransactionState`.
    """

    table: str
    read_state: TableState | None
    protocol: Protocol | None
    metadata: Metadata | None
    schema: StructType
    partition_columns: tuple[str, ...]
    configuration: Mapping[str, str]
    transaction_ids: Mapping[str, int]
    operation: Operation
    operation_parameters: Mapping[str, object]
    engine_info: str
    user_metadata: str | None
    max_retries: int
    copied_transaction_ids: Mapping[str, TransactionIdentifier] = field(default_factory=dict)
    domains: Mapping[str, DomainMetadata] = field(default_factory=dict)
    generated_identity: tuple[str, ...] = ()
    catalog: Catalog | None = None
    log_compaction_interval: int | None = None
    row_conditions: tuple[str, ...] = ()
    data_change: bool = True
    max_records_per_file: int | None = None
    compression: str | None = None

    @property
    def read_version(self) -> int:
        """The version it is made from, -1 for a new table."""
        return -1 if self.read_state is None else self.read_state.version

    @property
    def effective_protocol(self) -> Protocol:
        """The protocol once it is committed."""
        if self.protocol is not None:
            return self.protocol
        assert self.read_state is not None  # a new table has a protocol
        return self.read_state.protocol

    @property
    def is_catalog_managed(self) -> bool:
        """Whether a catalog decides which commits count."""
        return is_catalog_managed(self.effective_protocol.reader_features or ())

    @property
    def committer(self) -> Committer:
        """Where the commit goes."""
        if self.is_catalog_managed:
            assert isinstance(self.catalog, CommittingCatalog)  # `check_catalog` saw to it
            return CatalogCommitter(self.catalog)
        return LogCommitter()

    @property
    def tracks_rows(self) -> bool:
        """Whether files get row ids and commit versions."""
        supported = features.ROW_TRACKING in features.writer_features(self.effective_protocol)
        return supported and not self.table_properties.row_tracking_suspended

    @property
    def may_have_deletion_vectors(self) -> bool:
        """Whether the table's features allow for deletion vectors, wanted or not."""
        return features.DELETION_VECTORS in features.writer_features(self.effective_protocol)

    @property
    def materializes_partitions(self) -> bool:
        """Whether data files hold partition columns, too (Materialize Partition Columns)."""
        return features.MATERIALIZE_PARTITION_COLUMNS in features.writer_features(
            self.effective_protocol
        )

    @property
    def clustering_columns(self) -> tuple[str, ...]:
        """Dotted physical paths of the clustering columns once it is committed.

        Raises:
            CorruptTableError: the domain `delta.clustering` can't be read.
        """
        action = self.domains.get(CLUSTERING_DOMAIN)
        known = {} if self.read_state is None else self.read_state.domain_metadata
        text = known.get(CLUSTERING_DOMAIN) if action is None else action.configuration
        if not text:
            return ()
        try:
            return tuple(".".join(path) for path in physical_clustering_columns(text))
        except ValueError as error:
            raise CorruptTableError(
                f"The clustering of {self.table} can't be read: {error}.", table=self.table
            ) from error

    @property
    def table_properties(self) -> TableProperties:
        """`configuration`, read."""
        return TableProperties(self.configuration)

    @property
    def is_recorded(self) -> bool:
        """Whether the table has recorded all of the transaction's identifiers already.

        Raises:
            ConcurrentTransactionError: some of them.
        """
        if self.read_state is None or not self.transaction_ids:
            return False
        stored = self.read_state.transactions
        done = [a for a, v in self.transaction_ids.items() if stored.get(a, v - 1) >= v]
        if done and len(done) < len(self.transaction_ids):
            raise ConcurrentTransactionError(
                f"{self.table} has recorded {done[0]!r} up to version {stored[done[0]]} already, "
                "but not the other transaction identifiers of this commit. Nothing was changed; "
                "read the table's transactions again and leave out what it has.",
                table=self.table,
                winning_version=self.read_version,
            )
        return bool(done)

    def isolation_level(self, contents: CommitContents) -> str:
        """Under which a commit of these actions is judged."""
        only_files = not (self.protocol or self.metadata or self.transaction_ids or self.domains)
        return isolation_level(
            self.table_properties.isolation_level,
            self.operation,
            rearranges=only_files and not contents.changes_data,
        )

    @property
    def enables_timestamps(self) -> bool:
        """Whether in-commit timestamps begin with this commit, in a table that had none."""
        return (
            self.read_state is not None
            and not self.read_state.table_properties.in_commit_timestamps
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitLines:
    """The lines of a commit, made anew for each version that is tried.

    Attributes:
        metadata: see `moved_marks`.
        metrics: `operationMetrics`.
        tags: of delta-spark's, by which a commit says more of itself.
        effects: what the commit changes, by the versions that were tried.
    """

    update: TableUpdate
    contents: CommitContents
    metadata: Metadata | None
    txn_id: str
    is_blind_append: bool
    isolation_level: str
    metrics: Mapping[str, object]
    tags: Mapping[str, str] | None = None
    effects: dict[int, CommitEffect] = field(default_factory=dict, compare=False)

    def lines(self, version: int, winners: Sequence[CommitActions]) -> list[bytes]:
        """JSON lines for the version that the commit is to have, behind commits that won."""
        update = self.update
        moment = now()
        stamp = None
        before = commit_rebase.metadata_behind(update.read_state, winners)
        # A winner may have turned them on; one that did can't go with metadata of our own.
        after = self.metadata or before
        if after is not None and TableProperties(after.configuration).in_commit_timestamps:
            stamp = commit_rebase.in_commit_timestamp(moment, update.read_state, winners)
        info = commit_info(
            timestamp=moment if stamp is None else stamp,
            operation=update.operation,
            operation_parameters=update.operation_parameters,
            engine_info=update.engine_info,
            txn_id=self.txn_id,
            is_blind_append=self.is_blind_append,
            read_version=None if update.read_state is None else version - 1,
            isolation_level=self.isolation_level,
            operation_metrics=self.metrics,
            user_metadata=update.user_metadata,
            in_commit_timestamp=stamp,
            tags=self.tags,
        )
        head = _head(update, self.metadata, version, stamp)
        tracked = _tracked(update, self.contents, version, winners)
        rest = [a for a in tracked if not isinstance(a, AddFile)]
        self.effects[version] = CommitEffect.of(
            version,
            (info, *head, *rest),
            self.contents.tally,
            before,
            commit_rebase.commit_info_behind(update.read_state, winners),
        )
        return [encode_action(a) for a in (info, *head, *tracked)] + self.contents.lines


def moved_marks(
    update: TableUpdate, contents: CommitContents
) -> tuple[Metadata | None, Mapping[str, str] | None]:
    """The metadata with what identity columns have given out, and the tags of the commit."""
    tags = dict(_row_tracking_tags(update))
    schema = with_high_water_marks(update.schema, update.generated_identity, contents.adds)
    if schema == update.schema:
        return update.metadata, tags or None
    metadata = update.metadata
    if metadata is None:
        assert update.read_state is not None  # a new table has metadata
        metadata = update.read_state.metadata
    if update.metadata is None:
        tags["delta.identity.schemaUpdate"] = "true"
    return msgspec.structs.replace(metadata, schema_string=schema.to_json()), tags


def _row_tracking_tags(update: TableUpdate) -> Mapping[str, str]:
    """Operations that move rows keep their ids and commit versions, and say so."""
    if update.operation in _KEEPING_ROWS and update.table_properties.row_tracking:
        return {"delta.rowTracking.preserved": "true"}
    return {}


def now() -> int:
    """Ms since the epoch."""
    return time.time_ns() // 1_000_000


def _head(
    update: TableUpdate, metadata: Metadata | None, version: int, stamp: int | None
) -> list[Action]:
    """Actions between commitInfo and the files."""
    actions: list[Action] = []
    if update.protocol is not None:
        actions.append(update.protocol)
    if metadata is not None:
        if stamp is not None and update.enables_timestamps:
            metadata = commit_rebase.with_enablement(metadata, version, stamp)
        actions.append(metadata)
    actions += update.copied_transaction_ids.values()
    actions += [
        TransactionIdentifier(app_id=app_id, version=version, last_updated=now())
        for app_id, version in update.transaction_ids.items()
    ]
    return [*actions, *update.domains.values()]


def _tracked(
    update: TableUpdate, contents: CommitContents, version: int, winners: Sequence[CommitActions]
) -> list[Action]:
    """Files with their row ids, and the new high-water mark."""
    if not update.tracks_rows or not contents.adds:
        return list(contents.adds)
    mark = commit_rebase.high_water_mark(update.read_state, winners)
    adds, domain = commit_rebase.with_row_ids(update.table, contents.adds, mark, version)
    return [domain, *adds]


def remove_of(add: AddFile, now: int, *, data_change: bool = True) -> RemoveFile:
    """The action that removes a live file; it carries the add's very path and vector.

    Args:
        now: ms since the epoch.
    """
    return RemoveFile(
        path=add.path,
        deletion_timestamp=now,
        data_change=data_change,
        extended_file_metadata=True,
        partition_values=dict(add.partition_values),
        size=add.size,
        stats=add.stats,
        tags=add.tags,
        deletion_vector=add.deletion_vector,
        base_row_id=add.base_row_id,
        default_row_commit_version=add.default_row_commit_version,
    )
