"""Decides whether a commit may go behind one that won, as delta-spark does.

A transaction remembers what it read (`ReadSet`) and what it writes (`WriteSet`); each commit that
won since is checked against both, rule by rule.

Under which isolation level a commit is judged (`delta.isolationLevel`).
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
from bayou.kernel.table_features.writer_support import only_enables
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
from bayou.protocol.schema import StructType

__all__ = [
    "REBASED_DOMAINS",
    "ReadSet",
    "WriteSet",
    "check_winner",
    "isolation_level",
    "operation_of",
]


REBASED_DOMAINS = frozenset({"delta.rowTracking"})
"""Domains that a commit takes over from the winner instead of failing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSet:
    """What the transaction's outcome rests on.

    Attributes:
        whole_table: it has read every live file (an overwrite).
        predicates: filters of its scans, resolved; only what they say of partition columns counts.
        paths: files that it has read, as `canonical_path` gives them.
        schema, partition_columns: the table's, for the predicates.
        app_ids: application ids whose version it has read.
    """

    whole_table: bool = False
    predicates: tuple[Predicate, ...] = ()
    paths: frozenset[str] = frozenset()
    schema: StructType = field(default_factory=StructType)
    partition_columns: tuple[str, ...] = ()
    app_ids: frozenset[str] = frozenset()

    @property
    def is_empty(self) -> bool:
        """It has read no file and looked for none."""
        return not (self.whole_table or self.predicates or self.paths)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSet:
    """What the transaction changes besides adding files.

    Attributes:
        removed_paths: as `canonical_path` gives them.
        isolation_level: by which adds of the winner are judged.
        read_protocol, read_metadata: those of the version it was made from, None for a new table.
    """

    removed_paths: frozenset[str] = frozenset()
    protocol: bool = False
    metadata: bool = False
    domains: frozenset[str] = frozenset()
    isolation_level: str = "Serializable"
    read_protocol: Protocol | None = None
    read_metadata: Metadata | None = None


def check_winner(
    table: str, winner: CommitActions, reads: ReadSet, writes: WriteSet, attempts: int
) -> None:
    """Check one commit that won.

    Raises:
        CommitConflictError: of the type of the rule that failed; names the winner.
    """
    found = _conflict(table, _group(winner), reads, writes)
    if found is None:
        return
    kind, what = found
    operation = operation_of(winner)
    raise kind(
        f"The commit to {table} lost against version {winner.version}"
        + ("" if operation is None else f" ({operation})")
        + f", which {what}: {_RULES[kind]}, under {writes.isolation_level} "
        f"({_CONDITIONS[kind]}). Nothing was changed; "
        f"read the table again and repeat the operation. (Attempts: {attempts}.)",
        table=table,
        winning_version=winner.version,
        winning_operation=operation,
        attempts=attempts,
        rule=_RULES[kind],
    )


_RULES: dict[type[CommitConflictError], str] = {
    ProtocolChangedError: "protocol changed",
    MetadataChangedError: "metadata changed",
    ConcurrentTransactionError: "concurrent transaction",
    ConcurrentAppendError: "concurrent append",
    ConcurrentDeleteReadError: "concurrent delete of what was read",
    ConcurrentDeleteDeleteError: "concurrent delete of what is deleted",
}


_CONDITIONS: dict[type[CommitConflictError], str] = {
    ProtocolChangedError: "DELTA_PROTOCOL_CHANGED",
    MetadataChangedError: "DELTA_METADATA_CHANGED",
    ConcurrentTransactionError: "DELTA_CONCURRENT_TRANSACTION",
    ConcurrentAppendError: "DELTA_CONCURRENT_APPEND",
    ConcurrentDeleteReadError: "DELTA_CONCURRENT_DELETE_READ",
    ConcurrentDeleteDeleteError: "DELTA_CONCURRENT_DELETE_DELETE",
}
"""delta-spark's names."""


@dataclass(slots=True)
class _Grouped:
    adds: list[AddFile] = field(default_factory=list)
    removes: list[RemoveFile] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)
    domains: list[DomainMetadata] = field(default_factory=list)
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    identity_only: bool = False
    blind: bool = False


def _conflict(
    table: str, winner: _Grouped, reads: ReadSet, writes: WriteSet
) -> tuple[type[CommitConflictError], str] | None:
    """The first conflict rule that fails (docs/design/facts.md), and what the winner did."""
    return (
        _metadata_conflict(winner, writes)
        or _name_conflict(winner, reads, writes)
        or _read_conflict(table, winner, reads, writes)
        or _delete_conflict(winner, writes)
    )


def _metadata_conflict(
    winner: _Grouped, writes: WriteSet
) -> tuple[type[CommitConflictError], str] | None:
    if winner.protocol is not None:
        if writes.protocol:
            return ProtocolChangedError, "changed the protocol, as this commit does"
        strangers = _features_that_stop(winner.protocol, writes.read_protocol)
        if strangers:
            return ProtocolChangedError, f"changed the protocol ({', '.join(strangers)})"
    if winner.metadata is not None and not _passes(winner.metadata, winner, writes):
        return MetadataChangedError, "changed the table's metadata (schema or properties)"
    return None


def _passes(metadata: Metadata, winner: _Grouped, writes: WriteSet) -> bool:
    if writes.metadata:
        return False
    if winner.identity_only:
        return True
    return writes.read_metadata is not None and only_enables(writes.read_metadata, metadata)


def _features_that_stop(new: Protocol, old: Protocol | None) -> list[str]:
    """Features that came or went, and that what was written without knowing so can't go behind."""
    if old is None:
        return ["the table was made"]
    before, after = set(features.all_features(old)), set(features.all_features(new))
    came = after - before - features.PASSED_BY_WRITES
    return sorted([*(f"{name} added" for name in came), *(f"{n} dropped" for n in before - after)])


def _name_conflict(
    winner: _Grouped, reads: ReadSet, writes: WriteSet
) -> tuple[type[CommitConflictError], str] | None:
    domains = sorted({d.domain for d in winner.domains} & writes.domains - REBASED_DOMAINS)
    if domains:
        return ConcurrentTransactionError, f"changed the metadata domain {domains[0]!r} too"
    apps = sorted({t.app_id for t in winner.transactions} & reads.app_ids)
    if apps:
        return ConcurrentTransactionError, f"moved the transaction identifier {apps[0]!r} too"
    return None


def _read_conflict(
    table: str, winner: _Grouped, reads: ReadSet, writes: WriteSet
) -> tuple[type[CommitConflictError], str] | None:
    blind = reads.is_empty and not writes.removed_paths
    if not blind and not _passed_over(winner, writes):
        added = _first_match(table, winner.adds, reads)
        if added is not None:
            return ConcurrentAppendError, (
                f"added {added.path}{_partition(added)}, which this commit should have read"
            )
    for remove in winner.removes:
        if reads.whole_table or canonical_path(remove.path) in reads.paths:
            return ConcurrentDeleteReadError, f"removed {remove.path}, which this commit has read"
    return None


def _passed_over(winner: _Grouped, writes: WriteSet) -> bool:
    match writes.isolation_level:
        case "SnapshotIsolation":
            return True
        case "WriteSerializable":
            return winner.blind and not writes.metadata
        case _:
            return False


def _first_match(table: str, adds: list[AddFile], reads: ReadSet) -> AddFile | None:
    """As delta-spark: only partition columns tell files apart, not statistics."""
    if not adds:
        return None
    if reads.whole_table or not reads.partition_columns:
        return adds[0]
    rows = adds_to_array(adds)
    for predicate in reads.predicates:
        plan = SkippingPlan.build(predicate, reads.schema, reads.partition_columns)
        matches: Any = Pruning(table, reads.schema, plan).keep_by_partition(rows)
        index: int = matches.index(True).as_py()
        if index >= 0:
            return adds[index]
    return None


def _delete_conflict(
    winner: _Grouped, writes: WriteSet
) -> tuple[type[CommitConflictError], str] | None:
    for remove in winner.removes:
        if canonical_path(remove.path) in writes.removed_paths:
            return ConcurrentDeleteDeleteError, f"removed {remove.path} too"
    return None


def _partition(add: AddFile) -> str:
    values = ", ".join(f"{name}={value}" for name, value in add.partition_values.items())
    return f" (partition {values})" if values else ""


def _group(winner: CommitActions) -> _Grouped:
    grouped = _Grouped()
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
                grouped.blind = action.get("isBlindAppend") is True
                tags = action.get("tags")
                grouped.identity_only = (
                    isinstance(tags, dict)
                    and str(tags.get("delta.identity.schemaUpdate")).lower() == "true"
                )
            case _:
                pass
    return grouped


def operation_of(commit: CommitActions) -> str | None:
    """A commit's `commitInfo.operation`, None where it doesn't say."""
    infos: Sequence[CommitInfo] = [a for a in commit.actions if isinstance(a, CommitInfo)]
    operation = infos[0].get("operation") if infos else None
    return operation if isinstance(operation, str) else None


_REARRANGING = frozenset(
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
"""Operations that never change data."""


def isolation_level(wanted: str, operation: Operation, *, rearranges: bool) -> str:
    """The level that a commit takes, as delta-spark downgrades it.

    Args:
        wanted: the table's.
        rearranges: the commit has actions of files only, and none changes data.
    """
    if not rearranges or wanted == "SnapshotIsolation":
        return wanted
    if wanted == "WriteSerializable" and operation not in _REARRANGING:
        return wanted
    return "SnapshotIsolation"
