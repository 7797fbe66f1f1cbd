"""VACUUM: delete files that no version within the retention period references.

Module `plan` selects the files. As in delta-spark, two commits record the vacuum in the history:
one before and one after the deletion. If a vacuum is killed in between, the next vacuum deletes the
remaining files. Module `lease` protects the files of a version that RESTORE restores.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeAlias, overload

import pyarrow as pa

from bayou.errors import ArgumentError, BayouError, CommitConflictError, TablePropertyError
from bayou.kernel.arrow.compute import pc
from bayou.kernel.catalog import Catalog
from bayou.kernel.commands.vacuum.lease import LEASE_TAG, HeldLease, VacuumLease
from bayou.kernel.commands.vacuum.plan import (
    ListRanges,
    VacuumPlan,
    plan_full,
    plan_lite,
    record_lite,
)
from bayou.kernel.engine import Engine
from bayou.kernel.iceberg.delta_to_iceberg import convert, is_enabled
from bayou.kernel.iceberg.expiration import delete_orphans, expire_snapshots
from bayou.kernel.log.commit_times import last_version_at_or_before
from bayou.kernel.log.incremental_replay import refresh_state
from bayou.kernel.log.table_state import TableState, load_table_state
from bayou.kernel.operation import Operation
from bayou.kernel.table_features.writer_support import check_writable
from bayou.kernel.transaction.builder import TransactionBuilder
from bayou.kernel.transaction.commit_table_actions import current_time_ms
from bayou.protocol.property_strings import PropertyValueError

_LOG = logging.getLogger(__name__)

_HOUR = 3_600_000
_MAX_RETENTION_HOURS = 24 * 366 * 10_000
_BATCH_SIZE = 1000
_NUM_THREADS = 8
_MAX_END_TRIES = 5

DeleteFiles: TypeAlias = Callable[[Sequence[Sequence[str]], VacuumLease], None]
"""Function that deletes files; its first argument is a list of batches of paths.

The function deletes each batch with `VacuumLease.delete_files`. Missing files aren't an error.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VacuumMetrics(Sequence[str]):
    """Metrics of a vacuum. The object is also a sequence of the unreferenced files' paths.

    Attributes:
        inventory: unreferenced files with the columns `path` (fully qualified, not URL-encoded),
            `size` (bytes) and `modification_time` (ms since the epoch).
        num_files_to_delete: number of unreferenced files and empty folders.
        size_of_data_to_delete: total size of the files in bytes.
        num_deleted_files: number of deleted files and folders; 0 for a dry run.
        num_vacuumed_directories: number of listed folders.
    """

    dry_run: bool
    inventory: pa.Table
    num_files_to_delete: int
    size_of_data_to_delete: int
    num_deleted_files: int = 0
    num_vacuumed_directories: int

    def __len__(self) -> int:
        return self.inventory.num_rows

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        paths: list[Any] = self.inventory.column("path").to_pylist()
        return paths[index]

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, list) and list(self) == other)

    __hash__ = object.__hash__


def vacuum(
    engine: Engine,
    table: str,
    retention_hours: float | None = None,
    *,
    dry_run: bool = False,
    lite: bool = False,
    enforce_retention_duration: bool = True,
    engine_info: str = "bayou",
    catalog: Catalog | None = None,
    delete_files: DeleteFiles | None = None,
    list_ranges: ListRanges | None = None,
    lists_logs: bool = True,
    records_history: bool = True,
) -> VacuumMetrics:
    """Delete files in the table's folder that no version within the retention period references.

    A vacuum can be repeated at any time. It is safe with concurrent readers of versions within the
    retention period, and with writers that finish within this period. Versions older than the
    retention period become unreadable.

    Args:
        retention_hours: retention period of unreferenced files. If None, the table property
            `delta.deletedFileRetentionDuration` is used (one week by default).
        lite: whether to take removed files from the log instead of listing the folder. This is
            faster, but doesn't find files that no commit references.
        enforce_retention_duration: whether to reject a retention period that is shorter than the
            table property.
        catalog: catalog of a catalog-managed table, which must permit VACUUM; None for any other
            table.
        delete_files: function that deletes the files in other processes. If None, threads of this
            process delete them.
        list_ranges: function that lists the folder in other processes. If None, this process lists
            it.
        lists_logs: whether the result of `list_ranges` includes the logs of other tables in the
            folder. If False, this process checks the folders of the unreferenced files for a log.
        records_history: whether to commit VACUUM START and VACUUM END.
    """
    # The time is taken before the latest version is read. Files that later commits add are
    # therefore newer than the cutoff and aren't deleted.
    now = current_time_ms()
    state = load_table_state(engine, table, catalog=catalog)
    check_writable(state.path, state.protocol, state.metadata, state.schema)
    default = _retention(state)
    requested = _requested_retention(
        state, retention_hours, default, enforce=enforce_retention_duration
    )
    before = now - (default if requested is None else requested)
    if lite:
        plan = plan_lite(engine, state, before)
    else:
        plan = plan_full(engine, state, before, list_ranges, lists_logs=lists_logs)
    planned = VacuumMetrics(
        dry_run=dry_run,
        inventory=plan.files,
        num_files_to_delete=plan.files.num_rows + len(plan.folders),
        size_of_data_to_delete=plan.size,
        num_vacuumed_directories=plan.num_folders,
    )
    if dry_run:
        return planned
    parameters: dict[str, object] = {
        "retentionCheckEnabled": enforce_retention_duration,
        "defaultRetentionMillis": default,
    }
    if requested is not None:
        parameters["specifiedRetentionMillis"] = requested
    metrics = {
        "numFilesToDelete": planned.num_files_to_delete,
        "sizeOfDataToDelete": planned.size_of_data_to_delete,
    }
    with HeldLease(engine, state.path, state.version) as held:
        history = _History(engine, state, engine_info, held.lease.lease_id, enabled=records_history)
        try:
            history.commit(Operation.VACUUM_START, parameters, metrics)
        except BayouError:
            held.release()
            raise
        try:
            _expire_iceberg_snapshots(engine, state, before)
            deleted = _delete(engine, state.path, plan, held, delete_files)
            if plan.last_version is not None:
                record_lite(engine, state.path, plan.last_version)
        except BayouError:
            if delete_files is None:  # with `delete_files`, tasks may still be deleting files
                held.release()
            try:
                history.commit_end("FAILED", {})
            except BayouError as error:
                _LOG.warning(
                    "%s: the vacuum failed, and VACUUM END can't be committed, so the table's "
                    "history may not show that the vacuum ended. Cause: %s",
                    state.path,
                    error,
                )
            raise
        held.release()
        metrics = {
            "numDeletedFiles": deleted,
            "numVacuumedDirectories": plan.num_folders,
        }
        history.commit_end("COMPLETED", metrics)
    return VacuumMetrics(
        dry_run=False,
        inventory=plan.files,
        num_files_to_delete=planned.num_files_to_delete,
        size_of_data_to_delete=planned.size_of_data_to_delete,
        num_deleted_files=deleted,
        num_vacuumed_directories=plan.num_folders,
    )


def _expire_iceberg_snapshots(engine: Engine, state: TableState, before: int) -> None:
    """Expire Iceberg snapshots whose files VACUUM deletes, and delete orphaned metadata files.

    Versions without Iceberg metadata are converted to Iceberg first. Otherwise, the newest Iceberg
    metadata could refer to files that VACUUM deletes.
    """
    if not is_enabled(state.properties):
        return
    try:
        convert(engine, state.path, catalog=state.catalog)
        version = last_version_at_or_before(engine, state, before)
        if version is not None:
            expire_snapshots(engine, state.path, version)
        delete_orphans(engine, state.path, before)
    except BayouError as error:
        _LOG.warning(
            "%s: can't update the Iceberg metadata. The vacuum continues, so the Iceberg metadata "
            "may refer to deleted files. Cause: %s",
            state.path,
            error,
        )


def _retention(state: TableState) -> int:
    try:
        return state.table_properties.deleted_file_retention_ms
    except PropertyValueError as error:
        raise TablePropertyError(
            f"{state.path}: {error}.", table=state.path, key=error.key
        ) from error


def _requested_retention(
    state: TableState, hours: float | None, default: int, *, enforce: bool
) -> int | None:
    """Return the requested retention period in milliseconds; None if the table's period applies."""
    if hours is None:
        return None
    if not 0 <= hours <= _MAX_RETENTION_HOURS:
        raise ArgumentError(
            f"{state.path}: the retention period of {hours} hours is invalid "
            "(DELTA_VACUUM_RETENTION_PERIOD_NEGATIVE). Use a value that is 0 or more, and at most "
            f"{_MAX_RETENTION_HOURS}.",
            argument="retention_hours",
        )
    requested = round(hours * _HOUR)
    if enforce and requested < default:
        raise ArgumentError(
            f"{state.path}: the retention period of {hours:g} hours is shorter than the table's "
            f"{default / _HOUR:g} hours (delta.deletedFileRetentionDuration), so readers of older "
            "versions and concurrent writers could lose files "
            "(DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT). Remove retention_hours, or pass "
            "enforce_retention_duration=False if nobody else uses the table.",
            argument="retention_hours",
        )
    return requested


class _History:
    """Commits VACUUM START and VACUUM END, which record a vacuum in the history.

    The commits have no file actions.

    VACUUM START is based on the version that the plan was computed from. It conflicts with
    concurrent changes of the metadata, and with a concurrent RESTORE, which may restore files of
    the plan. VACUUM END is based on the latest version, and doesn't conflict with RESTORE. If the
    metadata changes concurrently, VACUUM END is tried again.
    """

    def __init__(
        self, engine: Engine, state: TableState, engine_info: str, lease_id: str, *, enabled: bool
    ) -> None:
        self._enabled = enabled
        self._tags = {LEASE_TAG: lease_id}
        self._engine = engine
        self._state = state
        self._engine_info = engine_info

    def commit(
        self, operation: Operation, parameters: Mapping[str, object], metrics: Mapping[str, object]
    ) -> None:
        if not self._enabled:
            return
        builder = TransactionBuilder(
            table=self._state.path,
            read_state=self._state,
            engine_info=self._engine_info,
            operation=operation,
        )
        transaction = builder.with_operation_parameters(parameters).build(self._engine)
        result = transaction.commit(self._engine, (), operation_metrics=metrics, tags=self._tags)
        result.run_post_commit_hooks(self._engine)

    def commit_end(self, status: str, metrics: Mapping[str, object]) -> None:
        if not self._enabled:
            return
        for tried in range(1, _MAX_END_TRIES + 1):
            self._state = refresh_state(self._engine, self._state)
            try:
                self.commit(Operation.VACUUM_END, {"status": status}, metrics)
                return
            except CommitConflictError:  # the metadata changed between the read and the commit
                if tried == _MAX_END_TRIES:
                    raise


def _delete(
    engine: Engine,
    table: str,
    plan: VacuumPlan,
    held: HeldLease,
    delete_files: DeleteFiles | None,
) -> int:
    """Delete files and folders in parallel batches, and return their number."""
    files = plan.files.column("path")
    batches = [
        _strings(files.slice(start, _BATCH_SIZE)) for start in range(0, len(files), _BATCH_SIZE)
    ]
    folders = set(_strings(pc.unique(pc.replace_substring_regex(files, "/[^/]*$", ""))))

    with ThreadPoolExecutor(_NUM_THREADS, thread_name_prefix="bayou-vacuum") as pool:
        if delete_files is not None:
            delete_files(batches, held.lease)
        else:
            list(pool.map(held.delete_files, batches))
        # In parallel, because removing a folder that had many files is slow on a local disk.
        for _, level in groupby(_with_parents(table, {*folders, *plan.folders}), _depth):
            list(pool.map(lambda folder: engine.files.delete_empty_folders([folder]), level))
    return plan.files.num_rows + len(plan.folders)


def _strings(paths: Any) -> list[str]:
    strings: list[str] = paths.to_pylist()
    return strings


def _with_parents(table: str, folders: set[str]) -> Iterator[str]:
    """Yield folders and their parents below the table, deepest first."""
    all_folders: set[str] = set()
    for folder in folders:
        parent = folder
        while len(parent) > len(table) and parent not in all_folders:
            all_folders.add(parent)
            parent = parent.rpartition("/")[0]
    yield from sorted(all_folders, key=_depth, reverse=True)


def _depth(folder: str) -> int:
    return folder.count("/")
