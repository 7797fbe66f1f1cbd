"""Putting a commit into the log (PROTOCOL.md, Creation of New Log Entries).

Put-if-absent of the next version. Where another writer was there first, its commit is checked for
conflicts and the next version is tried. Where the store fails with the outcome unknown, the log is
read back for the commit's own `txnId` before anything is said.

How a commit went, and what it makes due.

Files that were written for a commit, and whether they may be deleted.

A file may be deleted only if its commit certainly did not happen. `commit_with_retries` reports
each commit here before it is sent to the store, and withdraws the report when another commit is
known to hold the version. Every block of `discard_unless_committed` that is open in the thread sees
the reports, however deep in the calls the commit is made. An interrupt, an error of the store or an
error after the commit therefore never deletes a file that the log may name.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from bayou.errors import (
    BayouError,
    CommitConflictError,
    CommitFailedError,
    FileMissingError,
    PrerequisiteError,
    StorageError,
)
from bayou.kernel.engine import Engine
from bayou.kernel.log.replay import CommitActions
from bayou.kernel.log.segment import log_path
from bayou.kernel.metrics import TransactionMetrics
from bayou.kernel.transaction.committers import Committer, LogCommitter
from bayou.kernel.transaction.conflict_checker import ReadSet, WriteSet, check_winner, operation_of
from bayou.kernel.transaction.post_commit_hooks import PostCommitHook, run_hooks
from bayou.protocol.actions import CommitInfo
from bayou.protocol.file_names import CommitFile, commit_file_name, parse_log_file

__all__ = [
    "CommitAttempt",
    "TransactionCommitResult",
    "commit_with_retries",
    "discard_unless_committed",
    "report_possible_commit",
    "report_refused_commit",
]


_LOG = logging.getLogger(__name__)

_OPEN_BLOCKS: ContextVar[tuple[set[str], ...]] = ContextVar("open_blocks", default=())
"""The `txnId`s of commits that may have happened, for each open block."""


@contextmanager
def discard_unless_committed(discard: Callable[[], None]) -> Iterator[None]:
    """A block that commits files; if it fails before any commit can have happened, delete them.

    The block must run in the thread that commits. A failure to delete is logged, because the error
    of the block matters more; VACUUM deletes what stays.

    Args:
        discard: deletes the files.
    """
    possible: set[str] = set()
    token = _OPEN_BLOCKS.set((*_OPEN_BLOCKS.get(), possible))
    try:
        yield
    except BaseException:
        if not possible:
            try:
                discard()
            except BayouError as error:
                _LOG.warning("Files of a commit that failed stay until VACUUM: %s", error)
        raise
    finally:
        _OPEN_BLOCKS.reset(token)


def report_possible_commit(txn_id: str) -> None:
    """Report that a commit is about to be sent: from now on it may have happened."""
    for possible in _OPEN_BLOCKS.get():
        possible.add(txn_id)


def report_refused_commit(txn_id: str) -> None:
    """Report that a commit did not happen, because another one holds its version."""
    for possible in _OPEN_BLOCKS.get():
        possible.discard(txn_id)


_FIRST_PAUSE_SECONDS = 0.005
_LONGEST_PAUSE_SECONDS = 0.5
_STORE_RETRIES = 5

_LONG_AGO_SECONDS = 5.0
"""A commit from an older version lists the log first: the place behind that version may be free
again. Commits can be cleaned up early, by a short retention or a machine whose clock is ahead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitAttempt:
    """A commit to be put into the log.

    Attributes:
        table: path of the table.
        read_version: the version it was made from, -1 for a new table.
        txn_id: its `commitInfo.txnId`.
        lines: gives its JSON lines for the version it is to have, behind the commits that won
            since `read_version`, oldest first.
        reads, writes: for the conflict check.
        max_retries: how often a lost commit is tried again.
        read_seconds_ago: when the version was read that it was made from, or, for a new table,
            when the transaction was built.
        committer: where the commit goes.
    """

    table: str
    read_version: int
    txn_id: str
    lines: Callable[[int, Sequence[CommitActions]], list[bytes]]
    reads: ReadSet
    writes: WriteSet
    max_retries: int
    read_seconds_ago: float = 0.0
    committer: Committer = field(default_factory=LogCommitter)


def commit_with_retries(engine: Engine, attempt: CommitAttempt) -> tuple[int, list[CommitActions]]:
    """Commit.

    Returns:
        The version it has become, and the commits that won before it.

    Raises:
        CommitConflictError: a commit that won isn't compatible.
        CommitFailedError: retries used up, or the store failed and doesn't say how.
    """
    if attempt.read_version < 0:
        engine.files.mkdirs(log_path(attempt.table))
    version = attempt.read_version + 1
    if attempt.read_seconds_ago > _LONG_AGO_SECONDS:
        _refuse_gap(engine, attempt)
    winners: list[CommitActions] = []
    lost = 0
    while not _put(engine, attempt, version, winners):
        # Every commit that has won by now is checked before the next try.
        before = version
        while (winner := attempt.committer.find(engine, attempt.table, version)) is not None:
            if _txn_id(winner) == attempt.txn_id:
                return version, winners
            report_refused_commit(attempt.txn_id)
            check_winner(attempt.table, winner, attempt.reads, attempt.writes, lost + 1)
            winners.append(winner)
            version += 1
        if version == before:
            raise CommitFailedError(
                f"Commit {version} of {attempt.table} can't be written: the store says that it "
                "exists, and that it doesn't. Check what else writes to the log folder.",
                table=attempt.table,
                version=version,
            )
        lost += 1
        if lost > attempt.max_retries:
            raise _out_of_retries(attempt, winners[-1], version, lost)
        _pause(lost)
    return version, winners


def _refuse_gap(engine: Engine, attempt: CommitAttempt) -> None:
    """Refuse a commit whose place in the log was taken and has been cleaned up since.

    Put-if-absent would succeed there, and nobody would ever read the commit.
    """
    wanted = attempt.read_version + 1
    try:
        with engine.files.list_from(_path(attempt.table, wanted)) as files:
            names = (parse_log_file(file.path.rpartition("/")[2]) for file in files)
            first = next((name.version for name in names if isinstance(name, CommitFile)), wanted)
    except FileMissingError:
        return
    if first > wanted:
        raise CommitConflictError(
            f"The commit to {attempt.table} was made from version {attempt.read_version}, "
            f"{_duration(attempt.read_seconds_ago)} ago. The commits behind it have been cleaned "
            f"up since, up to version {first - 1}, so that nobody can say whether they go with it. "
            "Nothing was changed; read the table again and repeat the operation, or set "
            "delta.logRetentionDuration to more than a writer takes.",
            table=attempt.table,
            winning_version=first,
        )


def _duration(seconds: float) -> str:
    return f"{seconds / 3600:.0f} hours" if seconds >= 3600 else f"{seconds:.0f} seconds"


def _out_of_retries(
    attempt: CommitAttempt, winner: CommitActions, version: int, lost: int
) -> CommitFailedError:
    operation = operation_of(winner)
    return CommitFailedError(
        f"The commit to {attempt.table} lost {lost} times in a row to other writers, the last time "
        f"against version {winner.version}"
        + ("" if operation is None else f" ({operation})")
        + f": no rule of conflicts failed, but the limit of {attempt.max_retries} retries is used "
        "up. Nothing was changed; try again, or allow more retries.",
        table=attempt.table,
        version=version,
        attempts=lost,
        winning_version=winner.version,
        winning_operation=operation,
    )


def _put(
    engine: Engine, attempt: CommitAttempt, version: int, winners: Sequence[CommitActions]
) -> bool:
    """Put-if-absent; a store that fails is asked again, with the very same bytes.

    A put that failed may still arrive. The next try then finds the file, and its `txnId` is ours.
    """
    lines = attempt.lines(version, winners)
    failures = 0
    report_possible_commit(attempt.txn_id)
    while True:
        try:
            return attempt.committer.put(engine, attempt.table, version, lines)
        except PrerequisiteError:
            report_refused_commit(attempt.txn_id)  # a store without conditional puts
            raise
        except StorageError as error:
            failures += 1
            committed = _own_commit_is_there(engine, attempt, version)
            if committed:
                return True
            if failures > _STORE_RETRIES or committed is None:
                raise CommitFailedError(
                    f"Commit {version} of {attempt.table} failed: {error} "
                    + (
                        "The log couldn't be read back either, so the commit may or may not be "
                        "there; look at the table's history before you repeat the operation."
                        if committed is None
                        else "It isn't in the log; nothing was changed."
                    ),
                    table=attempt.table,
                    version=version,
                ) from error
            _pause(failures + 4)


def _own_commit_is_there(engine: Engine, attempt: CommitAttempt, version: int) -> bool | None:
    """Whether the log has our commit under this version; None where it can't be read."""
    try:
        winner = attempt.committer.find(engine, attempt.table, version)
    except StorageError:
        return None
    return winner is not None and _txn_id(winner) == attempt.txn_id


def _txn_id(commit: CommitActions) -> object:
    return next((a.get("txnId") for a in commit.actions if isinstance(a, CommitInfo)), None)


def _path(table: str, version: int) -> str:
    return f"{log_path(table)}/{commit_file_name(version)}"


def _pause(tries: int) -> None:
    """Exponential with full jitter: writers that collided don't collide again together."""
    longest = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2 ** min(tries, 10))
    time.sleep(random.uniform(0, longest))  # noqa: S311 - jitter isn't a secret


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionCommitResult:
    """How a commit went.

    Attributes:
        version: the version it has become; where `already_committed`, the version that was read.
        already_committed: the table had recorded the transaction's identifiers before, so
            nothing was written.
        post_commit_hooks: what is due now, in the order in which to do it.
        metrics: what it took, None where nothing was measured.
    """

    version: int
    already_committed: bool = False
    post_commit_hooks: tuple[PostCommitHook, ...] = ()
    metrics: TransactionMetrics | None = field(default=None, compare=False)

    @property
    def is_ready_for_checkpoint(self) -> bool:
        """Whether a checkpoint is due (`delta.checkpointInterval`)."""
        return any(hook.name == "checkpoint" for hook in self.post_commit_hooks)

    def run_post_commit_hooks(self, engine: Engine) -> None:
        """Run what is due. A hook that fails is logged: the commit stands all the same."""
        run_hooks(engine, self.post_commit_hooks)
