"""Decides whether a commit may go behind one that won, as delta-spark does.

A transaction remembers what it read (`ReadSet`) and what it writes (`WriteSet`); each commit that
won since is checked against both, rule by rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from bayou.errors import (
    CommitConflictError,
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConcurrentDeleteReadError,
    ConcurrentTransactionError,
    MetadataChangedError,
    ProtocolChangedError,
)
from bayou.kernel.replay import CommitActions
from bayou.protocol.actions import (
    AddFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    Transaction,
)

__all__ = ["ReadSet", "WriteSet", "check_winner"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSet:
    """What the transaction's outcome rests on.

    Attributes:
        whole_table: it has read every live file (an overwrite).
        app_ids: application ids whose version it has read.
    """

    whole_table: bool = False
    app_ids: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSet:
    """What the transaction changes besides adding files."""

    removed_paths: frozenset[str] = frozenset()
    protocol: bool = False
    metadata: bool = False
    domains: frozenset[str] = frozenset()
    isolation_level: str = "WriteSerializable"


def check_winner(
    table: str, winner: CommitActions, reads: ReadSet, writes: WriteSet, attempts: int
) -> None:
    """Check one commit that won.

    Raises:
        CommitConflictError: of the type of the rule that failed; names the winner.
    """
    found = _conflict(winner, reads, writes)
    if found is None:
        return
    kind, what = found
    operation = _operation(winner.actions)
    raise kind(
        f"The commit to {table} lost against version {winner.version}"
        + ("" if operation is None else f" ({operation})")
        + f", which {what}. Nothing was changed; read the table again and repeat the operation. "
        f"(Attempts: {attempts}.)",
        table=table,
        winning_version=winner.version,
        winning_operation=operation,
        attempts=attempts,
    )


def _conflict(
    winner: CommitActions, reads: ReadSet, writes: WriteSet
) -> tuple[type[CommitConflictError], str] | None:
    by_type = _group(winner)
    if by_type.protocol and writes.protocol:
        return ProtocolChangedError, "changed the protocol, as this commit does"
    if by_type.metadata:
        return MetadataChangedError, "changed the table's metadata (schema or properties)"
    if by_type.protocol:
        return ProtocolChangedError, "changed the protocol"
    domains = sorted({d.domain for d in by_type.domains} & writes.domains)
    if domains:
        return ConcurrentTransactionError, f"changed the metadata domain {domains[0]!r} too"
    apps = sorted({t.app_id for t in by_type.transactions} & reads.app_ids)
    if apps:
        return ConcurrentTransactionError, f"moved the transaction identifier {apps[0]!r} too"
    if reads.whole_table:
        blind_counts = writes.isolation_level == "Serializable"
        added = [a for a in by_type.adds if a.data_change]
        if added and (blind_counts or not by_type.blind):
            return ConcurrentAppendError, f"added {added[0].path}, which this commit hasn't read"
        if by_type.removes:
            path = by_type.removes[0].path
            return ConcurrentDeleteReadError, f"removed {path}, which this commit has read"
    removed = sorted({r.path for r in by_type.removes} & writes.removed_paths)
    if removed:
        return ConcurrentDeleteDeleteError, f"removed {removed[0]} too"
    return None


@dataclass(slots=True)
class _Grouped:
    adds: list[AddFile] = field(default_factory=list)
    removes: list[RemoveFile] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)
    domains: list[DomainMetadata] = field(default_factory=list)
    protocol: bool = False
    metadata: bool = False
    blind: bool = False


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
                grouped.protocol = True
            case Metadata():
                grouped.metadata = True
            case CommitInfo():
                grouped.blind = action.get("isBlindAppend") is True
            case _:
                pass
    return grouped


def _operation(actions: Sequence[object]) -> str | None:
    for action in actions:
        if isinstance(action, CommitInfo):
            operation = action.get("operation")
            return operation if isinstance(operation, str) else None
    return None
