"""VACUUM: deleting files that no version within the retention needs.

Planning is apart (`bayou.kernel.commands.vacuum.plan`). Two commits, before and after, say what is
about to be done and how it went, as delta-spark's do; a vacuum that dies between them has deleted
files that nothing needs, and the next one deletes the rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute

from bayou.errors import ArgumentError, BayouError, TablePropertyError
from bayou.kernel.catalog import Catalog
from bayou.kernel.commands.vacuum.plan import (
    ListShares,
    VacuumPlan,
    plan_full,
    plan_lite,
    record_lite,
)
from bayou.kernel.engine import Engine
from bayou.kernel.log.table_state import TableState, load_table_state
from bayou.kernel.operation import Operation
from bayou.kernel.table_features.writer_support import check_writable
from bayou.kernel.transaction.builder import TransactionBuilder
from bayou.protocol.property_strings import PropertyValueError

__all__ = ["DeleteFiles", "VacuumMetrics", "vacuum"]

pc: Any = pyarrow.compute

_HOUR = 3_600_000
_LONGEST = 24 * 366 * 10_000
"""Hours; what is longer has no moment that it goes back to."""
_BATCH = 1000
_SIDE_BY_SIDE = 8

DeleteFiles: TypeAlias = Callable[[Sequence[Sequence[str]]], None]
"""Deletes batches of files by their paths, anywhere; files that are gone already don't matter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumMetrics:
    """What a vacuum did, or would do.

    Attributes:
        dry_run: nothing was deleted.
        inventory: the files: `path` (decoded, fully qualified), `size` (bytes),
            `modification_time` (ms since the epoch).
        num_files_to_delete: files and empty folders that were found.
        size_of_data_to_delete: bytes of the files.
        num_deleted_files: files and folders that are gone; 0 for a dry run.
        num_vacuumed_directories: folders that were looked at.
    """

    dry_run: bool
    inventory: pa.Table
    num_files_to_delete: int
    size_of_data_to_delete: int
    num_deleted_files: int = 0
    num_vacuumed_directories: int


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
    list_shares: ListShares | None = None,
    lists_everything: bool = True,
    tells_history: bool = True,
) -> VacuumMetrics:
    """Delete files below the table's folder that no version within the retention needs.

    Repeatable, safe beside readers of versions within the retention, and beside writers as long as
    none of them takes longer than that. Time travel to older versions ends.

    Args:
        table: its path.
        retention_hours: how long files stay once nothing needs them; None: as the table says
            (`delta.deletedFileRetentionDuration`, a week unless set).
        dry_run: only tell.
        lite: take from the log what was removed, instead of listing the folder: quicker, and
            leaves what no commit ever named.
        enforce_retention_duration: refuse a retention shorter than the table's.
        engine_info: who does it, for the table's history.
        catalog: the one that manages the table, if any; it must permit this.
        delete_files: deletes the files in other processes; None: threads of this one do.
        list_shares: lists the folder in other processes; None: this one does.
        lists_everything: see `plan_full`.
        tells_history: commit VACUUM START and VACUUM END.

    Raises:
        ArgumentError: a retention that is negative, or shorter than the table's.
        UnsupportedFeatureError: the table needs of a writer what isn't supported, which may keep
            files that aren't known here; or its catalog keeps this to itself.
        VersionNotFoundError: lite, where the log is gone that it needs.
        StorageError: the store failed; what was deleted by then is gone, and the history says
            FAILED.
    """
    state = load_table_state(engine, table, catalog=catalog)
    check_writable(state.path, state.protocol, state.metadata, state.schema)
    default = _retention(state)
    asked = _asked(state, retention_hours, default, enforce=enforce_retention_duration)
    before = time.time_ns() // 1_000_000 - (default if asked is None else asked)
    if lite:
        plan = plan_lite(engine, state, before)
    else:
        plan = plan_full(engine, state, before, list_shares, lists_everything=lists_everything)
    found = VacuumMetrics(
        dry_run=dry_run,
        inventory=plan.files,
        num_files_to_delete=plan.files.num_rows + len(plan.folders),
        size_of_data_to_delete=plan.size,
        num_vacuumed_directories=plan.folders_seen,
    )
    if dry_run:
        return found
    history = _History(engine, state, engine_info, tells=tells_history)
    parameters: dict[str, object] = {
        "retentionCheckEnabled": enforce_retention_duration,
        "defaultRetentionMillis": default,
    }
    if asked is not None:
        parameters["specifiedRetentionMillis"] = asked
    metrics = {
        "numFilesToDelete": found.num_files_to_delete,
        "sizeOfDataToDelete": found.size_of_data_to_delete,
    }
    history.commit(Operation.VACUUM_START, parameters, metrics)
    try:
        deleted = _delete(engine, state.path, plan, delete_files)
        if plan.last_version is not None:
            record_lite(engine, state.path, plan.last_version)
    except BayouError:
        history.commit(Operation.VACUUM_END, {"status": "FAILED"}, {})
        raise
    metrics = {
        "numDeletedFiles": deleted,
        "numVacuumedDirectories": plan.folders_seen,
    }
    history.commit(Operation.VACUUM_END, {"status": "COMPLETED"}, metrics)
    return VacuumMetrics(
        dry_run=False,
        inventory=plan.files,
        num_files_to_delete=found.num_files_to_delete,
        size_of_data_to_delete=found.size_of_data_to_delete,
        num_deleted_files=deleted,
        num_vacuumed_directories=plan.folders_seen,
    )


def _retention(state: TableState) -> int:
    try:
        return state.table_properties.deleted_file_retention_ms
    except PropertyValueError as error:
        raise TablePropertyError(
            f"{state.path}: {error}.", table=state.path, key=error.key
        ) from error


def _asked(state: TableState, hours: float | None, default: int, *, enforce: bool) -> int | None:
    """The retention asked for in ms, None for the table's."""
    if hours is None:
        return None
    if not 0 <= hours <= _LONGEST:
        raise ArgumentError(
            f"A retention of {hours} hours isn't one; it is 0 or more "
            f"(DELTA_VACUUM_RETENTION_PERIOD_NEGATIVE), {_LONGEST} at most.",
            argument="retention_hours",
        )
    asked = round(hours * _HOUR)
    if enforce and asked < default:
        raise ArgumentError(
            f"A retention of {hours:g} hours is shorter than that of {state.path} "
            f"({default / _HOUR:g} hours, delta.deletedFileRetentionDuration): readers of older "
            "versions, and writers that are still at work, would lose files "
            "(DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT). Leave retention_hours "
            "out, or pass enforce_retention_duration=False if nobody else uses the table.",
            argument="retention_hours",
        )
    return asked


class _History:
    """Commits without files, that say what is done to the table's folder.

    Both are made from the version that was read, for they go with whatever was committed since.
    """

    def __init__(self, engine: Engine, state: TableState, engine_info: str, *, tells: bool) -> None:
        self._tells = tells
        self._engine = engine
        self._state = state
        self._engine_info = engine_info

    def commit(
        self, operation: Operation, parameters: Mapping[str, object], metrics: Mapping[str, object]
    ) -> None:
        if not self._tells:
            return
        builder = TransactionBuilder(
            table=self._state.path,
            read_state=self._state,
            engine_info=self._engine_info,
            operation=operation,
        )
        transaction = builder.with_operation_parameters(parameters).build(self._engine)
        result = transaction.commit(self._engine, (), operation_metrics=metrics)
        result.run_post_commit_hooks(self._engine)


def _delete(engine: Engine, table: str, plan: VacuumPlan, delete_files: DeleteFiles | None) -> int:
    """Delete in batches, several at a time; gives how many files and folders."""
    files = plan.files.column("path")
    batches = [_texts(files.slice(at, _BATCH)) for at in range(0, len(files), _BATCH)]
    folders = set(_texts(pc.unique(pc.replace_substring_regex(files, "/[^/]*$", ""))))
    with ThreadPoolExecutor(_SIDE_BY_SIDE, thread_name_prefix="bayou-vacuum") as pool:
        if delete_files is not None:
            delete_files(batches)
        else:
            list(pool.map(engine.files.delete_files, batches))
        # Removing a folder takes a disk long where there were many files in it.
        for _, level in groupby(_with_those_above(table, {*folders, *plan.folders}), _depth):
            list(pool.map(lambda folder: engine.files.delete_empty_folders([folder]), level))
    return plan.files.num_rows + len(plan.folders)


def _texts(paths: Any) -> list[str]:
    found: list[str] = paths.to_pylist()
    return found


def _with_those_above(table: str, folders: set[str]) -> Iterator[str]:
    """Folders, and those between them and the table, deepest first."""
    found: set[str] = set()
    for folder in folders:
        above = folder
        while len(above) > len(table) and above not in found:
            found.add(above)
            above = above.rpartition("/")[0]
    yield from sorted(found, key=_depth, reverse=True)


def _depth(folder: str) -> int:
    return folder.count("/")
