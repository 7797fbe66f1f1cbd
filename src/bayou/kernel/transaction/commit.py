"""Writing a commit to the log (PROTOCOL.md, Creation of New Log Entries), and its result.

A commit is a put-if-absent of the next version. If another writer has committed this version, its
commit is checked for conflicts and the following version is tried. If the storage fails with an
unknown result, the log is searched for the commit's `txnId`.

`discard_unless_committed` deletes the data files of a failed commit, but only if the commit
certainly did not happen. `commit_with_retries` reports each commit before it sends it to the
storage, and withdraws the report when it finds another commit with the same version. All open
`discard_unless_committed` blocks of the thread see these reports. An interrupt, a storage error or
an error after the commit can therefore never delete a file that the log may reference.
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
    "report_lost_commit",
    "report_possible_commit",
]


_LOG = logging.getLogger(__name__)

_OPEN_BLOCKS: ContextVar[tuple[set[str], ...]] = ContextVar("open_blocks", default=())
"""For each open block, the `txnId`s of commits that may have happened."""


@contextmanager
def discard_unless_committed(discard: Callable[[], None]) -> Iterator[None]:
    """Call `discard` if the block fails and no commit can have happened in it.

    The block must run in the thread that commits. An error of `discard` is logged, so that the
    error of the block is raised; VACUUM deletes the remaining files.

    Args:
        discard: deletes the files that were written for the commit.
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
                _LOG.warning(
                    "Data files of a failed commit can't be deleted and remain until VACUUM: %s",
                    error,
                )
        raise
    finally:
        _OPEN_BLOCKS.reset(token)


def report_possible_commit(txn_id: str) -> None:
    """Report that a commit is about to be sent, so that it may happen from now on."""
    for possible in _OPEN_BLOCKS.get():
        possible.add(txn_id)


def report_lost_commit(txn_id: str) -> None:
    """Report that a commit did not happen, because its version has another commit."""
    for possible in _OPEN_BLOCKS.get():
        possible.discard(txn_id)


_FIRST_PAUSE_SECONDS = 0.005
_MAX_PAUSE_SECONDS = 0.5
_STORAGE_RETRIES = 5

_GAP_CHECK_SECONDS = 5.0
"""If the version was read longer ago, the commit lists the log first, because the following commits
may have been cleaned up already: retention may be short, or a clock may be ahead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitAttempt:
    """A commit to write.

    Attributes:
        table: path of the table.
        read_version: the version that the transaction read, -1 for a new table.
        txn_id: `commitInfo.txnId` of the commit.
        lines: returns the JSON lines for a version and the winning commits since `read_version`,
            oldest first.
        reads, writes: read set and write set for the conflict check.
        max_retries: maximum number of retries after other commits won.
        read_seconds_ago: seconds since the version was read or, for a new table, since the
            transaction was built.
        committer: writes the commit to the log or the catalog.
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
    """Write a commit, and retry with the next version if another commit wins.

    Returns:
        The committed version, and the winning commits before it.

    Raises:
        CommitConflictError: the commit can't be rebased onto a winning commit.
        CommitFailedError: the retries are exhausted, or the storage failed.
    """
    if attempt.read_version < 0:
        engine.files.mkdirs(log_path(attempt.table))
    version = attempt.read_version + 1
    if attempt.read_seconds_ago > _GAP_CHECK_SECONDS:
        _check_gap(engine, attempt)
    winners: list[CommitActions] = []
    lost = 0
    while not _put(engine, attempt, version, winners):
        # Check all commits that have won by now before the next attempt.
        tried = version
        while (winner := attempt.committer.find(engine, attempt.table, version)) is not None:
            if _txn_id(winner) == attempt.txn_id:
                return version, winners
            report_lost_commit(attempt.txn_id)
            check_winner(attempt.table, winner, attempt.reads, attempt.writes, lost + 1)
            winners.append(winner)
            version += 1
        if version == tried:
            raise CommitFailedError(
                f"{attempt.table}: commit {version} failed, because the storage reports both that "
                "the commit exists and that it doesn't. Check which processes write to the log "
                "directory.",
                table=attempt.table,
                version=version,
            )
        lost += 1
        if lost > attempt.max_retries:
            raise _out_of_retries(attempt, winners[-1], version, lost)
        _pause(lost)
    return version, winners


def _check_gap(engine: Engine, attempt: CommitAttempt) -> None:
    """Reject a commit if log cleanup has deleted an existing commit of its version.

    Put-if-absent would succeed, but no reader would ever read the commit.
    """
    next_version = attempt.read_version + 1
    first = next_version
    try:
        with engine.files.list_from(_path(attempt.table, next_version)) as files:
            names = (parse_log_file(file.path.rpartition("/")[2]) for file in files)
            first = next((name.version for name in names if isinstance(name, CommitFile)), first)
    except FileMissingError:
        return
    if first > next_version:
        raise CommitConflictError(
            f"{attempt.table}: conflicts can't be checked, because the commits after version "
            f"{attempt.read_version}, which this transaction read "
            f"{_duration(attempt.read_seconds_ago)} ago, were cleaned up to version {first - 1}. "
            "Nothing was changed; read the table again and repeat the operation, or set "
            "delta.logRetentionDuration to more than the duration of a transaction.",
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
        f"{attempt.table}: the commit lost {lost} times in a row to other writers, last to version "
        f"{winner.version}"
        + ("" if operation is None else f" ({operation})")
        + f"; there is no conflict, but the limit of {attempt.max_retries} retries is reached. "
        "Nothing was changed; try again, or allow more retries.",
        table=attempt.table,
        version=version,
        attempts=lost,
        winning_version=winner.version,
        winning_operation=operation,
    )


def _put(
    engine: Engine, attempt: CommitAttempt, version: int, winners: Sequence[CommitActions]
) -> bool:
    """Put a commit if its version is absent, and retry with the same bytes on storage errors.

    A failed put may still take effect. The next attempt then finds the file with this `txnId`.
    """
    lines = attempt.lines(version, winners)
    failures = 0
    report_possible_commit(attempt.txn_id)
    while True:
        try:
            return attempt.committer.put(engine, attempt.table, version, lines)
        except PrerequisiteError:
            report_lost_commit(attempt.txn_id)  # the storage doesn't support conditional puts
            raise
        except StorageError as error:
            failures += 1
            committed = _is_committed(engine, attempt, version)
            if committed:
                return True
            if failures > _STORAGE_RETRIES or committed is None:
                raise CommitFailedError(
                    f"{attempt.table}: commit {version} failed: {error} "
                    + (
                        "The log can't be read either, so the commit may or may not be there; "
                        "check the table's history before you repeat the operation."
                        if committed is None
                        else "The commit isn't in the log; nothing was changed. Try again."
                    ),
                    table=attempt.table,
                    version=version,
                ) from error
            _pause(failures + 4)


def _is_committed(engine: Engine, attempt: CommitAttempt, version: int) -> bool | None:
    """Whether the log has this commit with this version; None if the log can't be read."""
    try:
        commit = attempt.committer.find(engine, attempt.table, version)
    except StorageError:
        return None
    return commit is not None and _txn_id(commit) == attempt.txn_id


def _txn_id(commit: CommitActions) -> object:
    return next((a.get("txnId") for a in commit.actions if isinstance(a, CommitInfo)), None)


def _path(table: str, version: int) -> str:
    return f"{log_path(table)}/{commit_file_name(version)}"


def _pause(attempts: int) -> None:
    """Exponential backoff with full jitter, so that concurrent writers don't collide again."""
    max_seconds = min(_MAX_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2 ** min(attempts, 10))
    time.sleep(random.uniform(0, max_seconds))  # noqa: S311 - jitter isn't a secret


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionCommitResult:
    """Result of a commit.

    Attributes:
        version: the committed version; if `already_committed`, the version that was read.
        already_committed: whether the table already had the transaction's identifiers, so that
            nothing was written.
        post_commit_hooks: hooks that are due, in the order in which to run them.
        metrics: metrics of the commit, None if nothing was measured.
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
        """Run the hooks. An error of a hook is logged, because the commit has succeeded."""
        run_hooks(engine, self.post_commit_hooks)
