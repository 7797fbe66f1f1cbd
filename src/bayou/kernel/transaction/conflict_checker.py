"""Conflict checker: decides whether a commit can be rebased onto a winning commit.

A transaction records what it read (`ReadSet`) and what it writes (`WriteSet`). Each winning commit
is checked against both sets by delta-spark's rules for the table's isolation level
(`delta.isolationLevel`). Bayou has two more rules: a commit with transaction identifiers conflicts
with a winning RESTORE, and a RESTORE and a VACUUM conflict with each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bayou.errors import (
    CommitConflictError,
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConcurrentDeleteReadError,
    ConcurrentTransactionError,
    MetadataChangedError,
    ProtocolChangedError,
)
from bayou.kernel.expressions.model import Predicate
from bayou.kernel.log.replay import CommitActions
from bayou.kernel.operation import Operation
from bayou.kernel.scan.data_skipping.pruning import Pruning
from bayou.kernel.scan.data_skipping.skipping import SkippingPlan
from bayou.kernel.scan.scan_file import adds_to_array
from bayou.kernel.table_features.column_mapping import physical_name
from bayou.kernel.table_features.writer_support import only_enables_features
from bayou.protocol import features
from bayou.protocol.actions import (
    AddFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    Transaction,
)
from bayou.protocol.file_names import canonical_path
from bayou.protocol.partition_values import lacks_time_zone
from bayou.protocol.schema import StructType

REBASED_DOMAINS = frozenset({"delta.rowTracking"})
"""Domains that don't cause a conflict, because each attempt computes their configuration again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSet:
    """What a transaction has read.

    Attributes:
        whole_table: whether the transaction depends on all live files, as an overwrite does.
        paths: canonical paths of the files that the transaction read.
        predicates: filters of the transaction's scans, with resolved columns. Only their conditions
            on partition columns are used.
        schema, partition_columns: schema and partition columns of the table.
        app_ids: application ids of the transaction identifiers that the commit writes.
    """

    whole_table: bool = False
    predicates: tuple[Predicate, ...] = ()
    paths: frozenset[str] = frozenset()
    schema: StructType = field(default_factory=StructType)
    partition_columns: tuple[str, ...] = ()
    app_ids: frozenset[str] = frozenset()

    @property
    def is_empty(self) -> bool:
        """Whether the transaction read no file and has no filter."""
        return not (self.whole_table or self.predicates or self.paths)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSet:
    """What a transaction changes besides adding files.

    Attributes:
        protocol, metadata: whether the transaction changes the protocol or the metadata.
        isolation_level: isolation level of the commit. It determines whether a winning commit that
            adds files causes a conflict.
        read_protocol, read_metadata: protocol and metadata of the version that the transaction
            read; None for a new table.
        operation: operation of the transaction; None if unknown.
    """

    removed_paths: frozenset[str] = frozenset()
    protocol: bool = False
    metadata: bool = False
    domains: frozenset[str] = frozenset()
    isolation_level: str = "Serializable"
    read_protocol: Protocol | None = None
    read_metadata: Metadata | None = None
    operation: Operation | None = None


def check_winner(
    table: str, winner: CommitActions, reads: ReadSet, writes: WriteSet, attempts: int
) -> None:
    """Raise a `CommitConflictError` if a commit can't be rebased onto a winning commit.

    Args:
        attempts: number of attempts so far, for the error message.
    """
    conflict = _find_conflict(table, _group(winner), reads, writes)
    if conflict is None:
        return
    error_type, cause = conflict
    operation = operation_of(winner)
    raise error_type(
        f"{table}: the commit conflicts with version {winner.version}"
        + ("" if operation is None else f" ({operation})")
        + (
            f", which {cause}. The kind of conflict is '{_RULES[error_type]}', and the isolation "
            f"level is {writes.isolation_level} ({_CONDITIONS[error_type]}). Nothing was "
            "committed to the table; read the table again and repeat the operation. (Attempts: "
            f"{attempts}.)"
        ),
        table=table,
        winning_version=winner.version,
        winning_operation=operation,
        attempts=attempts,
        rule=_RULES[error_type],
    )


_RULES: dict[type[CommitConflictError], str] = {
    ProtocolChangedError: "protocol changed",
    MetadataChangedError: "metadata changed",
    ConcurrentTransactionError: "concurrent transaction",
    CommitConflictError: "concurrent restore",
    ConcurrentAppendError: "concurrent append",
    ConcurrentDeleteReadError: "concurrent delete of a file that was read",
    ConcurrentDeleteDeleteError: "concurrent delete of a file that is also deleted",
}


_CONDITIONS: dict[type[CommitConflictError], str] = {
    ProtocolChangedError: "DELTA_PROTOCOL_CHANGED",
    MetadataChangedError: "DELTA_METADATA_CHANGED",
    ConcurrentTransactionError: "DELTA_CONCURRENT_TRANSACTION",
    CommitConflictError: "DELTA_CONCURRENT_WRITE",
    ConcurrentAppendError: "DELTA_CONCURRENT_APPEND",
    ConcurrentDeleteReadError: "DELTA_CONCURRENT_DELETE_READ",
    ConcurrentDeleteDeleteError: "DELTA_CONCURRENT_DELETE_DELETE",
}
"""delta-spark's error condition for each class of errors."""


@dataclass(slots=True)
class _WinnerActions:
    adds: list[AddFile] = field(default_factory=list)
    removes: list[RemoveFile] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)
    domains: list[DomainMetadata] = field(default_factory=list)
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    identity_only: bool = False
    is_blind_append: bool = False
    operation: object = None


def _find_conflict(
    table: str, winner: _WinnerActions, reads: ReadSet, writes: WriteSet
) -> tuple[type[CommitConflictError], str] | None:
    """Return the error type and the cause of a conflict; None if there is no conflict.

    The rules are listed in docs/design/facts.md.
    """
    return (
        _metadata_conflict(winner, writes)
        or _vacuum_conflict(winner, writes)
        or _identifier_conflict(winner, reads, writes)
        or _read_conflict(table, winner, reads, writes)
        or _delete_conflict(winner, writes)
    )


def _metadata_conflict(
    winner: _WinnerActions, writes: WriteSet
) -> tuple[type[CommitConflictError], str] | None:
    if winner.protocol is not None:
        if writes.protocol:
            return ProtocolChangedError, "changed the protocol, as this commit does"
        changes = _feature_changes(winner.protocol, writes.read_protocol)
        if changes:
            return ProtocolChangedError, f"changed the protocol ({', '.join(changes)})"
    if winner.metadata is not None and not _permits(winner.metadata, winner, writes):
        return MetadataChangedError, "changed the table's metadata (schema or properties)"
    return None


def _permits(metadata: Metadata, winner: _WinnerActions, writes: WriteSet) -> bool:
    if writes.metadata:
        return False
    if winner.identity_only:
        return True
    return writes.read_metadata is not None and only_enables_features(
        writes.read_metadata, metadata
    )


def _feature_changes(new: Protocol, old: Protocol | None) -> list[str]:
    if old is None:
        return ["the table was created"]
    before, after = set(features.all_features(old)), set(features.all_features(new))
    added = after - before - features.REBASE_COMPATIBLE_FEATURES
    return sorted([*(f"{name} added" for name in added), *(f"{n} dropped" for n in before - after)])


def _identifier_conflict(
    winner: _WinnerActions, reads: ReadSet, writes: WriteSet
) -> tuple[type[CommitConflictError], str] | None:
    domains = sorted({d.domain for d in winner.domains} & writes.domains - REBASED_DOMAINS)
    if domains:
        return ConcurrentTransactionError, f"also changed the metadata domain {domains[0]!r}"
    apps = sorted({t.app_id for t in winner.transactions} & reads.app_ids)
    if apps:
        return ConcurrentTransactionError, f"also changed the transaction identifier {apps[0]!r}"
    if winner.operation == Operation.RESTORE and reads.app_ids:
        # This isn't a rule of delta-spark. RESTORE keeps transaction identifiers although it may
        # remove the rows of their batches.
        return CommitConflictError, (
            "restored the table, and may have removed rows that earlier commits with this "
            "commit's application ids added"
        )
    return None


def _vacuum_conflict(
    winner: _WinnerActions, writes: WriteSet
) -> tuple[type[CommitConflictError], str] | None:
    """Return the conflict between a VACUUM and a concurrent RESTORE; None if there is none.

    A RESTORE adds files again that the VACUUM may delete.
    """
    if writes.operation == Operation.RESTORE and winner.operation == Operation.VACUUM_START:
        return CommitConflictError, "started a vacuum, which may delete files of the older version"
    if writes.operation == Operation.VACUUM_START and winner.operation == Operation.RESTORE:
        return CommitConflictError, "restored files that this vacuum would delete"
    return None


def _read_conflict(
    table: str, winner: _WinnerActions, reads: ReadSet, writes: WriteSet
) -> tuple[type[CommitConflictError], str] | None:
    is_blind_append = reads.is_empty and not writes.removed_paths
    if not is_blind_append and not _ignores_adds(winner, writes):
        added = _first_match(table, winner.adds, reads)
        if added is not None:
            return ConcurrentAppendError, (
                f"added {added.path}{_partition(added)}, which this commit should have read"
            )
    for remove in winner.removes:
        if reads.whole_table or canonical_path(remove.path) in reads.paths:
            return ConcurrentDeleteReadError, f"removed {remove.path}, which this commit read"
    return None


def _ignores_adds(winner: _WinnerActions, writes: WriteSet) -> bool:
    if writes.metadata:
        return False  # a new constraint, for example, must hold for all rows
    match writes.isolation_level:
        case "SnapshotIsolation":
            return True
        case "WriteSerializable":
            return winner.is_blind_append
        case _:
            return False


def _first_match(table: str, adds: list[AddFile], reads: ReadSet) -> AddFile | None:
    """Return the first added file that may match the read set, or None.

    As in delta-spark, only partition values are compared. Every file matches if the transaction
    read the whole table, or if the table isn't partitioned.
    """
    if not adds:
        return None
    if reads.whole_table or not reads.partition_columns:
        return adds[0]
    rows = adds_to_array(adds)
    for predicate in reads.predicates:
        plan = SkippingPlan.build(predicate, reads.schema, reads.partition_columns)
        for add in adds:
            if _any_time(add, reads.schema, plan.partition_columns):
                return add
        matches: Any = Pruning(table, reads.schema, plan).select_by_partition(rows)
        index: int = matches.index(True).as_py()
        if index >= 0:
            return adds[index]
    return None


def _any_time(add: AddFile, schema: StructType, columns: Sequence[str]) -> bool:
    """Whether a `timestamp` partition value of a file is stored without a time zone.

    Each reader interprets the timestamp in its own time zone, so the file can match any filter.

    Args:
        columns: names of the partition columns to check.
    """
    return any(
        lacks_time_zone(add.partition_values.get(physical_name(field)), field.data_type)
        for field in schema
        if field.name in columns
    )


def _delete_conflict(
    winner: _WinnerActions, writes: WriteSet
) -> tuple[type[CommitConflictError], str] | None:
    for remove in winner.removes:
        if canonical_path(remove.path) in writes.removed_paths:
            return ConcurrentDeleteDeleteError, f"also removed {remove.path}"
    return None


def _partition(add: AddFile) -> str:
    values = ", ".join(f"{name}={value}" for name, value in add.partition_values.items())
    return f" (partition {values})" if values else ""


def _group(winner: CommitActions) -> _WinnerActions:
    grouped = _WinnerActions()
    for action in winner.actions:
        match action:
            case AddFile():
                grouped.adds.append(action)
            case RemoveFile():
                grouped.removes.append(action)
            case Transaction():
                grouped.transactions.append(action)
            case DomainMetadata():
                grouped.domains.append(action)
            case Protocol():
                grouped.protocol = action
            case Metadata():
                grouped.metadata = action
            case CommitInfo():
                grouped.is_blind_append = action.get("isBlindAppend") is True
                grouped.operation = action.get("operation")
                tags = action.get("tags")
                grouped.identity_only = (
                    isinstance(tags, dict)
                    and str(tags.get("delta.identity.schemaUpdate")).lower() == "true"
                )
            case _:
                pass
    return grouped


def operation_of(commit: CommitActions) -> str | None:
    """Return `commitInfo.operation` of a commit; None if the commit has none."""
    infos: Sequence[CommitInfo] = [a for a in commit.actions if isinstance(a, CommitInfo)]
    operation = infos[0].get("operation") if infos else None
    return operation if isinstance(operation, str) else None


_NO_DATA_CHANGED = frozenset(
    {
        Operation.OPTIMIZE,
        Operation.REORG,
        Operation.VACUUM_START,
        Operation.VACUUM_END,
        Operation.ROW_TRACKING_BACKFILL,
        Operation.ROW_TRACKING_UNBACKFILL,
        Operation.DELETION_VECTOR_TOMBSTONES,
        Operation.EMPTY_COMMIT,
    }
)
"""Operations that never change rows."""


def isolation_level(table_level: str, operation: Operation, *, no_data_changed: bool) -> str:
    """Return the isolation level of a commit, which may differ from the table's level.

    As in delta-spark, most commits that change no rows have the level SnapshotIsolation. A RESTORE
    always has the level Serializable. With a weaker level, the restored table could contain files
    that another writer added during the RESTORE.

    Args:
        no_data_changed: whether the commit has only file actions, all with `dataChange` false.
    """
    if operation == Operation.RESTORE:
        return "Serializable"
    if not no_data_changed or table_level == "SnapshotIsolation":
        return table_level
    if table_level == "WriteSerializable" and operation not in _NO_DATA_CHANGED:
        return table_level
    return "SnapshotIsolation"
