"""Writing of commits to the log (PROTOCOL.md, Creation of New Log Entries), and their results.

A commit is a put-if-absent of the next version. If another writer has committed this version, the
commit of this writer is checked for conflicts, and the following version is tried. If the result of
a put is unknown, the `txnId` in the commit file shows which writer created the file.

If a write fails, `discard_unless_committed` deletes its data files, unless the log may reference
them. Therefore, each commit is recorded as possible before it is sent to the storage. The record is
removed when it is known that another commit has the same version.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from bayou.kernel.engine import Engine, FileStatus
from bayou.kernel.log.replay import CommitActions
from bayou.kernel.log.segment import log_path
from bayou.kernel.metrics import TransactionMetrics
from bayou.kernel.transaction.commit_file_actions import PartitionKey
from bayou.kernel.transaction.committers import Committer, LogCommitter
from bayou.kernel.transaction.conflict_checker import ReadSet, WriteSet, check_winner, operation_of
from bayou.kernel.transaction.post_commit_hooks import PostCommitHook, run_hooks
from bayou.protocol.actions import CommitInfo
from bayou.protocol.file_names import CommitFile, commit_file_name, parse_log_file

_LOG = logging.getLogger(__name__)

_OPEN_BLOCKS: ContextVar[tuple[set[str], ...]] = ContextVar("open_blocks", default=())
"""For each open `discard_unless_committed` block, the set of the `txnId`s of possible commits.

A commit is possible from the time that it is sent to the storage, until it is known that another
commit has its version.
"""


@contextmanager
def discard_unless_committed(discard: Callable[[], None]) -> Iterator[None]:
    """Context manager that calls `discard` if its block fails and nothing can have been committed.

    `discard` isn't called if the log may contain a commit of the block. Commit in the thread of the
    block: commits in other threads aren't noticed.

    If `discard` fails too, its error is logged, and the error of the block is raised. VACUUM
    deletes the remaining files later.

    Args:
        discard: function that deletes the files that were written for the commit.

    Examples:
        >>> adds = write_data(engine, transaction.transaction_state(engine), rows)
        >>> with discard_unless_committed(lambda: delete_data_files(engine, path, adds)):
        ...     result = transaction.commit(engine, adds)
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
                    "The data files of a failed commit can't be deleted. They remain until VACUUM. "
                    "Cause: %s",
                    error,
                )
        raise
    finally:
        _OPEN_BLOCKS.reset(token)


def discard_unneeded(table: str, discard: Callable[[], None]) -> None:
    """Delete the files of a repeated write, because the table already contains its rows.

    If the files can't be deleted, the error is only logged: the table has the rows, and VACUUM
    deletes the files later.

    Args:
        discard: function that deletes the files.
    """
    try:
        discard()
    except BayouError as error:
        _LOG.warning(
            "%s: the table already contains this write. The files of the repeated write can't be "
            "deleted. They remain until VACUUM. Cause: %s",
            table,
            error,
        )


def report_possible_commit(txn_id: str) -> None:
    """Report to `discard_unless_committed` that a commit may exist from now on.

    Must be called before the commit is sent to the storage.
    """
    for possible in _OPEN_BLOCKS.get():
        possible.add(txn_id)


def report_lost_commit(txn_id: str) -> None:
    """Report to `discard_unless_committed` that a possible commit was certainly not written."""
    for possible in _OPEN_BLOCKS.get():
        possible.discard(txn_id)


_FIRST_PAUSE_SECONDS = 0.005
_MAX_PAUSE_SECONDS = 0.5
_STORAGE_RETRIES = 5

_GAP_CHECK_SECONDS = 5.0
"""Number of seconds that may pass between the read of the table and the commit without a check.

If more time has passed, `_check_gap` looks for changes of the log. Log cleanup may have deleted
commits, because the retention is short or a clock is ahead. The table may also have been recreated,
or its log replaced by an older copy.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitAttempt:
    """A commit to write.

    Attributes:
        read_version: the version that the transaction read, -1 for a new table.
        lines: function that returns the commit's JSON lines. Its arguments are the version to
            commit and the winning commits since `read_version`, oldest first.
        read_seconds_ago: seconds since the transaction read `read_version`; for a new table, since
            the transaction was built.
        read_commit: commit file of `read_version` as the transaction saw it; None if unknown.
    """

    table: str
    read_version: int
    txn_id: str
    lines: Callable[[int, Sequence[CommitActions]], list[bytes]]
    reads: ReadSet
    writes: WriteSet
    max_retries: int
    read_seconds_ago: float = 0.0
    read_commit: FileStatus | None = None
    committer: Committer = field(default_factory=LogCommitter)


def commit_with_retries(engine: Engine, attempt: CommitAttempt) -> tuple[int, list[CommitActions]]:
    """Write a commit with retries; return its version and the winning commits, oldest first."""
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
                f"{attempt.table}: commit {version} failed, because the storage gives "
                "contradictory answers: the commit file can't be created because it exists, but "
                "it can't be found. Check which processes write to the log directory.",
                table=attempt.table,
                version=version,
            )
        lost += 1
        if lost > attempt.max_retries:
            raise _out_of_retries(attempt, winners[-1], version, lost)
        _pause(lost)
    return version, winners


def _check_gap(engine: Engine, attempt: CommitAttempt) -> None:
    """Check that no commits after `read_version` were deleted, and that the log wasn't replaced.

    Without this check, the put-if-absent would succeed, but readers would ignore the new commit or
    report missing commits.
    """
    next_version = attempt.read_version + 1
    read = attempt.read_commit
    if read is not None and read.path != _path(attempt.table, attempt.read_version):
        read = None  # the commit isn't published yet
    commits: dict[int, FileStatus] = {}
    start = next_version if read is None else attempt.read_version
    try:
        with engine.files.list_from(_path(attempt.table, start)) as files:
            for file in files:
                name = parse_log_file(file.path.rpartition("/")[2])
                if isinstance(name, CommitFile):
                    commits[name.version] = file
                    if name.version >= next_version:
                        break
    except FileMissingError:
        if read is None:
            return
    if read is not None:
        listed = commits.pop(attempt.read_version, None)
        if listed != read and (listed is not None or not commits):
            raise _replaced(attempt)
    first = min(commits, default=next_version)
    if first > next_version:
        raise CommitConflictError(
            f"{attempt.table}: the commit can't be checked for conflicts. The transaction "
            f"started {_duration(attempt.read_seconds_ago)} ago at version {attempt.read_version}, "
            f"and log cleanup has since deleted the commits up to version {first - 1}. Nothing was "
            "committed to the table. Read the table again and repeat the operation. To prevent "
            "this error, set delta.logRetentionDuration to more than the duration of a "
            "transaction.",
            table=attempt.table,
            winning_version=first,
        )


def _replaced(attempt: CommitAttempt) -> CommitConflictError:
    return CommitConflictError(
        f"{attempt.table}: this transaction read version {attempt.read_version} "
        f"{_duration(attempt.read_seconds_ago)} ago, but the log no longer has this commit. The "
        "table was deleted or recreated, or its log was replaced by a copy. Nothing was "
        "committed to the table; read the table again and repeat the operation.",
        table=attempt.table,
        winning_version=attempt.read_version,
    )


def _duration(seconds: float) -> str:
    return f"{seconds / 3600:.0f} hours" if seconds >= 3600 else f"{seconds:.0f} seconds"


def _out_of_retries(
    attempt: CommitAttempt, winner: CommitActions, version: int, lost: int
) -> CommitFailedError:
    operation = operation_of(winner)
    return CommitFailedError(
        f"{attempt.table}: other writers committed first in all {lost} attempts, most recently "
        f"version {winner.version}"
        + ("" if operation is None else f" ({operation})")
        + f". The changes don't conflict, but the maximum of {attempt.max_retries} retries is "
        "reached. Nothing was committed to the table; try again, or allow more retries.",
        table=attempt.table,
        version=version,
        attempts=lost,
        winning_version=winner.version,
        winning_operation=operation,
    )


def _put(
    engine: Engine, attempt: CommitAttempt, version: int, winners: Sequence[CommitActions]
) -> bool:
    """Write a commit if its version is absent; return False if the version has another commit.

    After a storage error, the log is searched for the commit's `txnId`, because a failed write may
    have created the file. If the log doesn't have the commit, the same bytes are written again.
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
                        "The log can't be read either, so it is unknown whether the commit was "
                        "written; check the table's history before you repeat the operation."
                        if committed is None
                        else "The commit isn't in the log. Try again."
                    ),
                    table=attempt.table,
                    version=version,
                ) from error
            _pause(failures + 4)


def _is_committed(engine: Engine, attempt: CommitAttempt, version: int) -> bool | None:
    """Whether this attempt wrote the log's commit of `version`; None if the log can't be read."""
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
    max_seconds = min(_MAX_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2 ** min(attempts, 10))
    time.sleep(random.uniform(0, max_seconds))  # noqa: S311 - jitter isn't a secret


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionCommitResult:
    """Result of a commit.

    Attributes:
        version: the committed version; if `already_committed`, the version that was read.
        already_committed: whether the table already had the transaction's identifiers. If True,
            nothing was written.
        post_commit_hooks: hooks that are due, in the order in which to run them.
        small_files: number of added small files by partition. The mapping is empty if the commit
            isn't followed by auto compaction.
        metrics: metrics of the commit, None if nothing was measured.

    Examples:
        >>> adds = write_data(engine, transaction.transaction_state(engine), rows)
        >>> result = transaction.commit(engine, adds)
        >>> print(result.version, result.is_ready_for_checkpoint)
        >>> result.run_post_commit_hooks(engine)
    """

    version: int
    already_committed: bool = False
    post_commit_hooks: tuple[PostCommitHook, ...] = ()
    small_files: Mapping[PartitionKey, int] = field(default_factory=dict)
    metrics: TransactionMetrics | None = field(default=None, compare=False)

    @property
    def is_ready_for_checkpoint(self) -> bool:
        """Whether a checkpoint is due (`delta.checkpointInterval`)."""
        return any(hook.name == "checkpoint" for hook in self.post_commit_hooks)

    def run_post_commit_hooks(self, engine: Engine) -> None:
        """Run the hooks. If one fails, its error is only logged: the commit has succeeded."""
        run_hooks(engine, self.post_commit_hooks)
