"""Leases of vacuums: RESTORE uses them to distinguish a running vacuum from a killed vacuum.

A vacuum has two lease files in `_delta_log`: a *permit* and a *heartbeat*. The vacuum deletes data
files only while the permit exists, and replaces the heartbeat every few seconds. A RESTORE watches
the heartbeat of each vacuum that may delete files of the restored version. If the heartbeat
changes, the vacuum is running, and RESTORE raises an error. If the heartbeat doesn't change for a
minute, the vacuum's process was killed. RESTORE then deletes the permit, so that tasks of the
vacuum that still run on executors stop deleting files.

Leases don't depend on synchronized clocks, with one exception: a new vacuum deletes the leases of
vacuums that were killed more than a day ago. The modification times of the lease files show which
vacuums these are.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

import msgspec

from bayou.errors import BayouError, CommitConflictError, FileMissingError
from bayou.json_decoding import decode_json
from bayou.kernel.engine import ByteRange, Engine
from bayou.kernel.log.segment import log_path
from bayou.kernel.operation import Operation

_LOG = logging.getLogger(__name__)

LEASE_TAG = "bayou.vacuumLease"
"""Commit tag of VACUUM START and VACUUM END; its value is the id of the vacuum's lease."""

_PREFIX = "_vacuum."
_PERMIT = ".permit.json"
_HEARTBEAT = ".heartbeat"

_HEARTBEAT_SECONDS = 5.0
_MAX_HEARTBEAT_AGE = 30.0
"""Maximum age in seconds of the heartbeat when files are deleted.

If the heartbeat is older, for example after the machine was suspended, it is renewed first.
"""
_WATCH_SECONDS = 60.0
_GRACE_SECONDS = 10.0
"""Seconds to wait after a permit was deleted, until delete requests in progress have ended."""
_POLL_SECONDS = 0.5
_KEPT_MS = 86_400_000
_PART_SIZE = 20
"""Number of files that are deleted between two checks of the permit; see `VacuumLease.parts`."""


class _Permit(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    read_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumLease:
    """The lease of a vacuum; can be pickled for executors.

    Attributes:
        table: the table's path.
        lease_id: a random id.
        read_version: the table version that the vacuum has read; None if unknown.
    """

    table: str
    lease_id: str
    read_version: int | None

    @property
    def permit_path(self) -> str:
        return f"{log_path(self.table)}/{_PREFIX}{self.lease_id}{_PERMIT}"

    @property
    def heartbeat_path(self) -> str:
        return f"{log_path(self.table)}/{_PREFIX}{self.lease_id}{_HEARTBEAT}"

    def delete_files(self, engine: Engine, paths: Sequence[str]) -> None:
        """Delete files in batches; check before each batch that the vacuum may still delete files.

        The checks limit how many files a suspended process deletes when it resumes after a RESTORE.

        Raises:
            CommitConflictError: a RESTORE has ended the vacuum.
        """
        for part in self.parts(paths):
            self.check(engine)
            engine.files.delete_files(part)

    def parts(self, paths: Sequence[str]) -> Iterator[Sequence[str]]:
        """Yield batches of paths to delete at once; for an object store, one batch of all paths."""
        is_object_store = "://" in self.table and not self.table.startswith("hdfs://")
        size = max(1, len(paths)) if is_object_store else _PART_SIZE
        for start in range(0, len(paths), size):
            yield paths[start : start + size]

    def check(self, engine: Engine) -> None:
        """Check that the vacuum may delete files.

        Raises:
            CommitConflictError: a RESTORE has ended the vacuum.
        """
        if self.is_active(engine):
            return
        raise CommitConflictError(
            f"{self.table}: a RESTORE ended this vacuum, because the vacuum's process hadn't "
            "responded for a minute. The remaining files weren't deleted. Run VACUUM again.",
            table=self.table,
            winning_version=-1 if self.read_version is None else self.read_version,
            winning_operation=Operation.RESTORE,
        )

    def is_active(self, engine: Engine) -> bool:
        """Whether the permit file exists. If it doesn't, the vacuum must not delete more files."""
        try:
            engine.files.status(self.permit_path)
        except FileMissingError:
            return False
        return True

    def heartbeat(self, engine: Engine) -> bytes:
        """Return the content of the heartbeat file, or empty bytes if the file is missing."""
        try:
            return bytes(next(iter(engine.files.read_files([ByteRange(path=self.heartbeat_path)]))))
        except FileMissingError:
            return b""


class HeldLease:
    """Context manager for a lease that this process holds; a thread renews the heartbeat.

    Call `release` in the block when all files are deleted. If the block ends with an exception, the
    lease files remain, because tasks on executors may still be deleting files.
    """

    def __init__(self, engine: Engine, table: str, read_version: int) -> None:
        self.lease = VacuumLease(table=table, lease_id=uuid.uuid4().hex, read_version=read_version)
        self._engine = engine
        self._count = 0
        self._renewing = threading.Lock()
        self._ended = threading.Event()
        self._renew()
        engine.files.put(
            self.lease.permit_path, msgspec.json.encode(_Permit(read_version=read_version))
        )
        self._delete_old_leases()
        self._thread = threading.Thread(
            target=self._run, name="bayou-vacuum-heartbeat", daemon=True
        )
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def delete_files(self, paths: Sequence[str]) -> None:
        """Delete files in batches, as long as no RESTORE has ended the vacuum.

        Raises:
            CommitConflictError: a RESTORE has ended the vacuum.
        """
        for part in self.lease.parts(paths):
            if _clock() - self._renewed > _MAX_HEARTBEAT_AGE:
                self._renew()
            self.lease.check(self._engine)
            self._engine.files.delete_files(part)

    def release(self) -> None:
        """Delete the lease files. Call this after the last data file was deleted."""
        self._ended.set()
        self._thread.join()
        with suppress(BayouError):
            self._engine.files.delete_files([self.lease.permit_path, self.lease.heartbeat_path])

    def _run(self) -> None:
        while not self._ended.wait(_HEARTBEAT_SECONDS):
            try:
                self._renew()
            except BayouError as error:
                _LOG.warning(
                    "%s: can't renew the vacuum's heartbeat. The vacuum tries again. A RESTORE may "
                    "end the vacuum after a minute without heartbeat. Cause: %s",
                    self.lease.table,
                    error,
                )

    def _renew(self) -> None:
        with self._renewing:
            began = _clock()
            self._count += 1
            self._engine.files.put(self.lease.heartbeat_path, str(self._count).encode())
            self._renewed = began

    def _delete_old_leases(self) -> None:
        """Delete the leases of killed vacuums.

        A lease is deleted if all of its files are at least a day older than the heartbeat file of
        the new lease.
        """
        files = self._engine.files
        with suppress(BayouError):
            now = files.status(self.lease.heartbeat_path).modification_time
            with files.list_from(f"{log_path(self.lease.table)}/{_PREFIX}") as statuses:
                lease_files = [s for s in statuses if s.path.rpartition("/")[2].startswith(_PREFIX)]
            recent = {
                _lease_id(s.path) for s in lease_files if s.modification_time > now - _KEPT_MS
            }
            files.delete_files([s.path for s in lease_files if _lease_id(s.path) not in recent])


def end_killed_vacuums(engine: Engine, table: str, version: int, *, dry_run: bool) -> None:
    """Make sure that no vacuum of Bayou deletes files of the version that RESTORE restores.

    The heartbeat of each vacuum with a lease is watched for a minute. If the heartbeat doesn't
    change, the vacuum was killed. The lease files of a killed vacuum are then deleted, unless
    `dry_run` is True. Vacuums that have read a version before `version` are ignored, because they
    don't delete files of `version`.

    Args:
        version: the version to restore.

    Raises:
        CommitConflictError: a vacuum is running.
    """
    # A vacuum keeps the files that are live in the version that it has read. Files of `version`
    # that were added later are newer than the vacuum's cutoff.
    watched = {
        lease: lease.heartbeat(engine)
        for lease in _leases(engine, table)
        if lease.read_version is None or lease.read_version >= version
    }
    if watched:
        _LOG.warning(
            "%s: a vacuum is running or was killed. Waiting up to %d seconds for a heartbeat of "
            "the vacuum's process.",
            table,
            _WATCH_SECONDS,
        )
    deadline = time.monotonic() + _WATCH_SECONDS
    while watched and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
        for lease, first in list(watched.items()):
            current = lease.heartbeat(engine)
            if not lease.is_active(engine):
                del watched[lease]
            elif current != first:
                raise _vacuum_runs(lease, version)
    if not watched or dry_run:
        return
    _LOG.warning(
        "%s: the vacuum's process sends no heartbeat. The vacuum is recorded as ended.", table
    )
    engine.files.delete_files(lease.permit_path for lease in watched)
    time.sleep(_GRACE_SECONDS)
    engine.files.delete_files(lease.heartbeat_path for lease in watched)


def _vacuum_runs(lease: VacuumLease, version: int) -> CommitConflictError:
    return CommitConflictError(
        f"{lease.table}: version {version} can't be restored, because a vacuum is running and "
        "may delete the version's files. Nothing was changed. Repeat the restore when the "
        "vacuum has ended.",
        table=lease.table,
        winning_version=-1 if lease.read_version is None else lease.read_version,
        winning_operation=Operation.VACUUM_START,
    )


def _leases(engine: Engine, table: str) -> Iterator[VacuumLease]:
    with engine.files.list_from(f"{log_path(table)}/{_PREFIX}") as statuses:
        paths = [status.path for status in statuses]
    for path in paths:
        name = path.rpartition("/")[2]
        if name.startswith(_PREFIX) and name.endswith(_PERMIT):
            version = _read_version(engine, path)
            yield VacuumLease(table=table, lease_id=_lease_id(path), read_version=version)


def _read_version(engine: Engine, path: str) -> int | None:
    try:
        data = next(iter(engine.files.read_files([ByteRange(path=path)])))
        return decode_json(bytes(data), _Permit).read_version
    except (FileMissingError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def _lease_id(path: str) -> str:
    name = path.rpartition("/")[2]
    return name.removeprefix(_PREFIX).removesuffix(_PERMIT).removesuffix(_HEARTBEAT)


def _clock() -> float:
    """Return the seconds of a monotonic clock, including time in which the machine was suspended.

    On systems without `CLOCK_BOOTTIME`, the time may exclude periods of suspension.
    """
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)
