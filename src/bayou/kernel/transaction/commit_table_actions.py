"""The non-file actions of a transaction, and the JSON lines of its commit."""

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
from bayou.kernel.table_features.iceberg_compat import iceberg_compat_version
from bayou.kernel.table_features.identity_columns import with_high_water_marks
from bayou.kernel.transaction import in_commit_timestamps, row_ids
from bayou.kernel.transaction.commit_file_actions import CommitContents
from bayou.kernel.transaction.committers import CatalogCommitter, Committer, LogCommitter
from bayou.kernel.transaction.conflict_checker import isolation_level
from bayou.protocol import features
from bayou.protocol.actions import (
    Action,
    AddFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    UserMetadata,
    commit_info,
    encode_action,
)
from bayou.protocol.actions import Transaction as TransactionIdentifier
from bayou.protocol.column_metadata import CLUSTERING_DOMAIN, physical_clustering_columns
from bayou.protocol.properties import TableProperties
from bayou.protocol.schema import StructType

_PRESERVING_ROW_IDS = frozenset(
    {Operation.DELETE, Operation.UPDATE, Operation.MERGE, Operation.OPTIMIZE}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableUpdate:
    """The changes of a transaction except file actions, and the version that it read.

    Attributes:
        protocol, metadata: new protocol and metadata; None if the transaction doesn't change them.
        schema, partition_columns, configuration: as they are after the commit.
        transaction_ids: `txn.version` by application id.
        copied_transaction_ids: transaction identifiers of another table by application id, written
            unchanged.
        operation, operation_parameters, engine_info, user_metadata: fields of `commitInfo`.
        row_conditions: SQL conditions that every written row must satisfy.
        data_change: `dataChange` of the written files.
        max_records_per_file: maximum number of rows of a written file. If None, the number of rows
            isn't limited.
        compression, target_file_size: codec and size of the written files. If None, the value of
            the table property is used.
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
    user_metadata: UserMetadata | None
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
    target_file_size: int | None = None

    @property
    def read_version(self) -> int:
        """The version that the transaction read, -1 for a new table."""
        return -1 if self.read_state is None else self.read_state.version

    @property
    def effective_protocol(self) -> Protocol:
        """The protocol after the commit."""
        if self.protocol is not None:
            return self.protocol
        assert self.read_state is not None  # new tables have `self.protocol`
        return self.read_state.protocol

    @property
    def is_catalog_managed(self) -> bool:
        """Whether a catalog manages the table."""
        return is_catalog_managed(self.effective_protocol.reader_features or ())

    @property
    def committer(self) -> Committer:
        """A `CatalogCommitter` if a catalog manages the table, otherwise a `LogCommitter`."""
        if self.is_catalog_managed:
            assert isinstance(self.catalog, CommittingCatalog)  # checked by `check_catalog`
            return CatalogCommitter(self.catalog)
        return LogCommitter()

    @property
    def tracks_rows(self) -> bool:
        """Whether the commit assigns row ids and row commit versions."""
        supported = features.ROW_TRACKING in features.writer_features(self.effective_protocol)
        return supported and not self.table_properties.row_tracking_suspended

    @property
    def may_have_deletion_vectors(self) -> bool:
        """Whether the protocol has the deletion vector feature; table properties don't matter."""
        return features.DELETION_VECTORS in features.writer_features(self.effective_protocol)

    @property
    def materializes_partitions(self) -> bool:
        """Whether data files also contain partition columns."""
        listed = features.writer_features(self.effective_protocol)
        return (
            features.MATERIALIZE_PARTITION_COLUMNS in listed
            or iceberg_compat_version(self.configuration) is not None
        )

    @property
    def clustering_columns(self) -> tuple[str, ...]:
        """Dotted physical paths of the clustering columns after the commit."""
        action = self.domains.get(CLUSTERING_DOMAIN)
        domains = {} if self.read_state is None else self.read_state.domain_metadata
        configuration = domains.get(CLUSTERING_DOMAIN) if action is None else action.configuration
        if not configuration:
            return ()
        try:
            return tuple(".".join(path) for path in physical_clustering_columns(configuration))
        except ValueError as error:
            raise CorruptTableError(
                f"{self.table}: the domain {CLUSTERING_DOMAIN!r} is invalid: {error}. Set the "
                "clustering columns again with ALTER TABLE ... CLUSTER BY.",
                table=self.table,
            ) from error

    @property
    def table_properties(self) -> TableProperties:
        """`configuration`, parsed."""
        return TableProperties(self.configuration)

    @property
    def is_recorded(self) -> bool:
        """Whether the table has recorded all transaction identifiers of this transaction.

        Raises:
            ConcurrentTransactionError: the table has some of the identifiers, but not all.
        """
        if self.read_state is None or not self.transaction_ids:
            return False
        stored = self.read_state.transactions
        recorded = [a for a, v in self.transaction_ids.items() if stored.get(a, v - 1) >= v]
        if recorded and len(recorded) < len(self.transaction_ids):
            raise ConcurrentTransactionError(
                f"{self.table}: the table has already recorded application id {recorded[0]!r} with "
                f"version {stored[recorded[0]]}, but not all transaction identifiers of this "
                "commit. Nothing was committed to the table. Read the table's transaction "
                "identifiers again, and omit the recorded identifiers from the commit.",
                table=self.table,
                winning_version=self.read_version,
            )
        return bool(recorded)

    def isolation_level(self, contents: CommitContents) -> str:
        only_files = not (self.protocol or self.metadata or self.transaction_ids or self.domains)
        return isolation_level(
            self.table_properties.isolation_level,
            self.operation,
            no_data_changed=only_files and not contents.changes_data,
        )

    @property
    def enables_timestamps(self) -> bool:
        """Whether the table exists and had in-commit timestamps disabled before this commit.

        If this is True and the commit has an in-commit timestamp, the commit enables in-commit
        timestamps. In this case, the metadata must contain the commit's version and timestamp.
        """
        return (
            self.read_state is not None
            and not self.read_state.table_properties.in_commit_timestamps
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitLines:
    """Generates the lines of a commit for each version that is tried.

    Attributes:
        metadata: metadata that the commit writes, including new high water marks of identity
            columns; None if the commit doesn't change the metadata.
        txn_id, is_blind_append, isolation_level: fields of `commitInfo`.
        effects: effects of the commit on the version checksum, by attempted version.
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
        """Return the commit's JSON lines for `version`, the version after the winning commits."""
        update = self.update
        time = current_time_ms()
        in_commit_timestamp = None
        before = _metadata_after(update.read_state, winners)
        # A winning commit may have enabled in-commit timestamps. In this case `self.metadata` is
        # None, because two commits that change metadata conflict.
        after = self.metadata or before
        if after is not None and TableProperties(after.configuration).in_commit_timestamps:
            in_commit_timestamp = in_commit_timestamps.in_commit_timestamp(
                time, update.read_state, winners
            )
        info = commit_info(
            timestamp=time if in_commit_timestamp is None else in_commit_timestamp,
            operation=update.operation,
            operation_parameters=update.operation_parameters,
            engine_info=update.engine_info,
            txn_id=self.txn_id,
            is_blind_append=self.is_blind_append,
            read_version=None if update.read_state is None else version - 1,
            isolation_level=self.isolation_level,
            operation_metrics=self.metrics,
            user_metadata=update.user_metadata,
            in_commit_timestamp=in_commit_timestamp,
            tags=self.tags,
        )
        head = _table_actions(update, self.metadata, version, in_commit_timestamp)
        tracked = _with_row_ids(update, self.contents, version, winners)
        rest = [a for a in tracked if not isinstance(a, AddFile)]
        self.effects[version] = CommitEffect.of(
            version,
            (info, *head, *rest),
            self.contents.tally,
            before,
            _commit_info_after(update.read_state, winners),
        )
        return [encode_action(a) for a in (info, *head, *tracked)] + self.contents.lines


def update_high_water_marks(
    update: TableUpdate, contents: CommitContents
) -> tuple[Metadata | None, Mapping[str, str] | None]:
    """Return the metadata that the commit writes, and the tags of the commit.

    The metadata has the new high water marks of identity columns; None if the commit doesn't change
    the metadata. The tags are `commitInfo.tags`; None if there are none.
    """
    tags = dict(_row_tracking_tags(update))
    schema = with_high_water_marks(update.schema, update.generated_identity, contents.adds)
    if schema == update.schema:
        return update.metadata, tags or None
    metadata = update.metadata
    if metadata is None:
        assert update.read_state is not None  # new tables have `update.metadata`
        metadata = update.read_state.metadata
    if update.metadata is None:
        tags["delta.identity.schemaUpdate"] = "true"
    return msgspec.structs.replace(metadata, schema_string=schema.to_json()), tags


def _row_tracking_tags(update: TableUpdate) -> Mapping[str, str]:
    """Return the tag `delta.rowTracking.preserved` if the commit preserves row ids, else no tag."""
    if update.operation in _PRESERVING_ROW_IDS and update.table_properties.row_tracking:
        return {"delta.rowTracking.preserved": "true"}
    return {}


def current_time_ms() -> int:
    """Return the current time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def _metadata_after(state: TableState | None, winners: Sequence[CommitActions]) -> Metadata | None:
    """Return the table's metadata after the winning commits; None if the table is new."""
    metadata = None if state is None else state.metadata
    for winner in winners:
        metadata = next((a for a in winner.actions if isinstance(a, Metadata)), metadata)
    return metadata


def _commit_info_after(
    state: TableState | None, winners: Sequence[CommitActions]
) -> CommitInfo | None:
    """Return `commitInfo` of the last winning commit, or of the read version if no commit won."""
    if winners:
        return next((a for a in winners[-1].actions if isinstance(a, CommitInfo)), None)
    return None if state is None else state.replay_state.commit_info


def _table_actions(
    update: TableUpdate, metadata: Metadata | None, version: int, in_commit_timestamp: int | None
) -> list[Action]:
    actions: list[Action] = []
    if update.protocol is not None:
        actions.append(update.protocol)
    if metadata is not None:
        if in_commit_timestamp is not None and update.enables_timestamps:
            metadata = in_commit_timestamps.with_enablement(metadata, version, in_commit_timestamp)
        actions.append(metadata)
    actions += update.copied_transaction_ids.values()
    actions += [
        TransactionIdentifier(app_id=app_id, version=version, last_updated=current_time_ms())
        for app_id, version in update.transaction_ids.items()
    ]
    return [*actions, *update.domains.values()]


def _with_row_ids(
    update: TableUpdate, contents: CommitContents, version: int, winners: Sequence[CommitActions]
) -> list[Action]:
    if not update.tracks_rows or not contents.adds:
        return list(contents.adds)
    mark = row_ids.high_water_mark(update.read_state, winners)
    adds, domain = row_ids.with_row_ids(update.table, contents.adds, mark, version)
    return [domain, *adds]


def to_remove(add: AddFile, now: int, *, data_change: bool = True) -> RemoveFile:
    """Create the action that removes the file of `add`."""
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
