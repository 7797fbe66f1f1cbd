"""Computation of a version checksum from the previous checksum and the contents of a commit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from bayou.protocol import features, properties
from bayou.protocol.actions import (
    Action,
    AddFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    Transaction,
)
from bayou.protocol.version_checksum import (
    DeletedRecordCountsHistogram,
    FileSizeHistogram,
    VersionChecksum,
)


@dataclass(slots=True, kw_only=True)
class FileChanges:
    """Sizes and deleted rows of the files that a commit adds and removes.

    Attributes:
        added: sizes in bytes of the files of `add` actions with `dataChange` true.
        removed: sizes in bytes of the removed files.
        added_deleted: number of deleted rows of each file in `added` that has a deletion vector.
        removed_deleted: number of deleted rows of each file in `removed` that has a deletion
            vector.
        rearranged: sizes in bytes of the files of `add` actions with `dataChange` false. These
            files are already live, or contain rows of files that the commit removes.
        rearranged_deleted: number of deleted rows of each file in `rearranged` that has a deletion
            vector.
        is_complete: whether every `remove` action has a size.
    """

    added: list[int] = field(default_factory=list)
    removed: list[int] = field(default_factory=list)
    added_deleted: list[int] = field(default_factory=list)
    removed_deleted: list[int] = field(default_factory=list)
    rearranged: list[int] = field(default_factory=list)
    rearranged_deleted: list[int] = field(default_factory=list)
    is_complete: bool = True

    def add(self, action: AddFile) -> None:
        (self.added if action.data_change else self.rearranged).append(action.size)
        if action.deletion_vector is not None:
            deleted = self.added_deleted if action.data_change else self.rearranged_deleted
            deleted.append(action.deletion_vector.cardinality)

    def remove(self, action: RemoveFile) -> None:
        if action.size is None:
            self.is_complete = False
            return
        self.removed.append(action.size)
        if action.deletion_vector is not None:
            self.removed_deleted.append(action.deletion_vector.cardinality)


_READDS_FILES = frozenset(
    {"COMPUTE STATS", "ROW TRACKING BACKFILL", "ROW TRACKING UNBACKFILL", "DROP FEATURE"}
)
"""Operations that add live files again, for example with row ids, and add no new files."""

_READDS_UNCHANGED_FILES = frozenset({"RESTORE", "CLONE"})
"""Operations that add live files again with `dataChange` false, and new files with true."""

_REMOVES_NOTHING = frozenset({"Deletion Vector Tombstones"})
"""Operations that write `remove` actions of files that aren't live."""

_UNRELIABLE = frozenset({"Manual Update"})
"""Operations with actions that may violate the protocol. No checksum is derived from them."""

_MAX_TRANSACTIONS = 100
"""Maximum number of transaction identifiers in a checksum; a longer list is omitted."""

_MAX_DOMAINS = 10
"""Maximum number of domains in a checksum; a longer list is omitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitEffect:
    """The contents of a commit that a version checksum depends on.

    Attributes:
        protocol, metadata: the new protocol and metadata; None if the commit doesn't change them.
        metadata_before: metadata of the previous version; None if unknown. A checksum of the
            previous version isn't used if it has different metadata.
        info_before: `commitInfo` of the previous version; None if unknown.
        domains: domain metadata that the commit sets, including removed domains.
    """

    version: int
    operation: str | None
    txn_id: str | None
    engine_info: str | None = None
    in_commit_timestamp: int | None
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    metadata_before: Metadata | None = None
    info_before: CommitInfo | None = None
    transactions: tuple[Transaction, ...] = ()
    domains: tuple[DomainMetadata, ...] = ()
    files: FileChanges

    @classmethod
    def of(
        cls,
        version: int,
        actions: Iterable[Action],
        files: FileChanges | None = None,
        metadata_before: Metadata | None = None,
        info_before: CommitInfo | None = None,
    ) -> CommitEffect:
        """Create the effect of a commit from its actions.

        Args:
            actions: actions of the commit, without the file actions that are counted in `files`.
            files: counts of file actions of the commit. The file actions in `actions` are added to
                this object. If None, `actions` contains all file actions.
        """
        info = CommitInfo({})
        protocol: Protocol | None = None
        metadata: Metadata | None = None
        transactions: list[Transaction] = []
        domains: list[DomainMetadata] = []
        changes = FileChanges() if files is None else files
        for action in actions:
            match action:
                case AddFile():
                    changes.add(action)
                case RemoveFile():
                    changes.remove(action)
                case CommitInfo():
                    info = action
                case Protocol():
                    protocol = action
                case Metadata():
                    metadata = action
                case Transaction():
                    transactions.append(action)
                case DomainMetadata():
                    domains.append(action)
                case _:
                    pass
        return cls(
            version=version,
            operation=info.string("operation"),
            txn_id=info.string("txnId"),
            engine_info=info.string("engineInfo"),
            in_commit_timestamp=info.integer("inCommitTimestamp"),
            protocol=protocol,
            metadata=metadata,
            metadata_before=metadata_before,
            info_before=info_before,
            transactions=tuple(transactions),
            domains=tuple(domains),
            files=changes,
        )


def first_checksum(effect: CommitEffect) -> VersionChecksum | None:
    """Return the checksum of version 0; None if its commit has no protocol or no metadata."""
    if effect.protocol is None or effect.metadata is None:
        return None
    vectors = _writes_vectors(effect.protocol, effect.metadata)
    empty = VersionChecksum(
        table_size_bytes=0,
        num_files=0,
        num_metadata=1,
        num_protocol=1,
        num_deleted_records_opt=0 if vectors else None,
        num_deletion_vectors_opt=0 if vectors else None,
        set_transactions=[],
        domain_metadata=[],
        metadata=effect.metadata,
        protocol=effect.protocol,
        file_size_histogram=FileSizeHistogram.empty(),
        deleted_record_counts_histogram_opt=DeletedRecordCountsHistogram() if vectors else None,
    )
    return apply_effect(empty, effect)


def apply_effect(base: VersionChecksum, effect: CommitEffect) -> VersionChecksum | None:
    """Return the checksum after a commit; None if it can't be derived from `base`.

    Args:
        base: checksum of the version before the commit.
    """
    metadata = effect.metadata or base.metadata
    protocol = effect.protocol or base.protocol
    files = _changed_files(effect)
    if metadata is None or protocol is None or files is None:
        return None
    if effect.metadata_before is not None and base.metadata != effect.metadata_before:
        return None  # a tool changed the log without updating the checksum
    num_files = base.num_files + len(files.added) - len(files.removed)
    size = base.table_size_bytes + sum(files.added) - sum(files.removed)
    if num_files < 0 or size < 0:
        return None
    before = base.file_size_histogram
    return msgspec.structs.replace(
        _with_vectors(base, files),
        txn_id=effect.txn_id,
        table_size_bytes=size,
        num_files=num_files,
        in_commit_timestamp_opt=effect.in_commit_timestamp,
        set_transactions=_transactions(base, effect, metadata),
        domain_metadata=_domains(base, effect),
        metadata=metadata,
        protocol=protocol,
        file_size_histogram=before and before.updated(files.added, files.removed),
    )


def _changed_files(effect: CommitEffect) -> FileChanges | None:
    """Return how a commit changes the set of live files; None if this can't be determined.

    An `add` action of a file that is already live doesn't change the set. A `remove` action of a
    file that isn't live doesn't change the set, either.
    """
    if effect.operation in _UNRELIABLE or effect.operation is None:
        return None
    files = effect.files
    added, added_deleted = files.added, files.added_deleted
    if effect.operation in _READDS_FILES:
        added, added_deleted = [], []
    elif effect.operation not in _READDS_UNCHANGED_FILES:
        added, added_deleted = added + files.rearranged, added_deleted + files.rearranged_deleted
    if effect.operation in _REMOVES_NOTHING:
        return FileChanges(added=added, added_deleted=added_deleted)
    if not files.is_complete:
        return None
    return FileChanges(
        added=added,
        removed=files.removed,
        added_deleted=added_deleted,
        removed_deleted=files.removed_deleted,
    )


def _with_vectors(base: VersionChecksum, files: FileChanges) -> VersionChecksum:
    records, vectors = base.num_deleted_records_opt, base.num_deletion_vectors_opt
    histogram = base.deleted_record_counts_histogram_opt
    if histogram is not None:
        histogram = histogram.updated(
            _deleted_rows(files.added, files.added_deleted),
            _deleted_rows(files.removed, files.removed_deleted),
        )
    rows = sum(files.added_deleted) - sum(files.removed_deleted)
    files_with = len(files.added_deleted) - len(files.removed_deleted)
    return msgspec.structs.replace(
        base,
        num_deleted_records_opt=None if records is None else records + rows,
        num_deletion_vectors_opt=None if vectors is None else vectors + files_with,
        deleted_record_counts_histogram_opt=histogram,
    )


def _deleted_rows(files: list[int], deleted: list[int]) -> list[int]:
    """Pad `deleted` with zeros to the length of `files`.

    Args:
        files: one item for each file; only the length is used.
        deleted: number of deleted rows of each file that has a deletion vector.
    """
    return [*deleted, *([0] * (len(files) - len(deleted)))]


def _transactions(
    base: VersionChecksum, effect: CommitEffect, metadata: Metadata
) -> list[Transaction] | None:
    transactions = base.set_transactions
    key = properties.TRANSACTION_RETENTION.key
    before = {} if base.metadata is None else base.metadata.configuration
    if transactions is None or key in metadata.configuration or key in before:
        return None  # with a retention, the live identifiers depend on the time of reading
    merged = {t.app_id: t for t in (*transactions, *effect.transactions)}
    return list(merged.values()) if len(merged) <= _MAX_TRANSACTIONS else None


def _domains(base: VersionChecksum, effect: CommitEffect) -> list[DomainMetadata] | None:
    if base.domain_metadata is None:
        return None
    merged = {d.domain: d for d in (*base.domain_metadata, *effect.domains)}
    live = [d for d in merged.values() if not d.removed]
    return live if len(live) <= _MAX_DOMAINS else None


def _writes_vectors(protocol: Protocol, metadata: Metadata) -> bool:
    return (
        features.DELETION_VECTORS in features.writer_features(protocol)
        and metadata.configuration.get(properties.DELETION_VECTORS.key, "").lower() == "true"
    )
