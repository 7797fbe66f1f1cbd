"""RESTORE: restore a table's files, schema and properties to an earlier version."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pyarrow as pa

from bayou.errors import (
    ArgumentError,
    CommitConflictError,
)
from bayou.kernel.arrow.compute import pc
from bayou.kernel.commands.clone import (
    clustering_domain,
    with_enablement_of,
    with_high_water_marks,
)
from bayou.kernel.commands.metrics_by_name import MetricsByName
from bayou.kernel.commands.vacuum.lease import LEASE_TAG, end_killed_vacuums
from bayou.kernel.commands.version_files import (
    FileCounts,
    add_structs,
    check_files_exist,
    file_keys,
    files_without_keys,
)
from bayou.kernel.engine import Engine
from bayou.kernel.log.file_action_keys import KEY_SEPARATOR, key_strings
from bayou.kernel.log.replay import CommitActions, read_commits
from bayou.kernel.log.segment import commit_files
from bayou.kernel.log.table_state import TableState
from bayou.kernel.operation import Operation
from bayou.kernel.scan.scan import ScanBuilder
from bayou.kernel.scan.scan_file import ScanFile, ScanFileBatch
from bayou.kernel.transaction.builder import TransactionBuilder
from bayou.kernel.transaction.commit_table_actions import current_time_ms, to_remove
from bayou.kernel.transaction.conflict_checker import operation_of
from bayou.protocol import features, properties
from bayou.protocol.actions import Action, AddFile, CommitInfo
from bayou.protocol.column_metadata import CLUSTERING_DOMAIN
from bayou.protocol.file_names import canonical_path

_MAX_VACUUM_MS = 86_400_000
_MATERIALIZED_COLUMNS = (properties.ROW_ID_COLUMN.key, properties.ROW_COMMIT_VERSION_COLUMN.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreMetrics(MetricsByName):
    """Metrics of a restore, with the names of delta-spark's metrics. Sizes are in bytes."""

    version: int
    table_size_after_restore: int
    num_of_files_after_restore: int
    num_removed_files: int
    num_restored_files: int
    removed_files_size: int
    restored_files_size: int


def restore(
    engine: Engine,
    latest: TableState,
    target: TableState,
    engine_info: str,
    *,
    timestamp: str | None = None,
    ignore_missing_files: bool = False,
    dry_run: bool = False,
) -> RestoreMetrics:
    """Restore a table to an earlier version.

    The versions after `target` stay readable. A restore never downgrades the protocol, and never
    reuses row ids or identity values.

    Args:
        latest: the table's current version, on which the commit is based.
        target: the version to restore.
        timestamp: the timestamp that the user requested; the history records it. If the user
            requested a version, this is None.
        ignore_missing_files: whether to skip the checks that the version's files still exist, and
            that no running VACUUM may be deleting them.
        dry_run: whether to compute the metrics without a commit. The `version` of these metrics is
            the table's current version.
    """
    if target.version >= latest.version:
        raise ArgumentError(
            f"{latest.path}: version {target.version} isn't earlier than the current version "
            f"{latest.version} (DELTA_CANNOT_RESTORE_TABLE_VERSION). Choose an earlier version.",
            argument="version",
        )
    restored, removed, counts = _difference(engine, target, latest)
    renumbered = _renumbered(engine, target, latest)
    if not ignore_missing_files and restored:
        _check_vacuums(engine, target, latest)
        end_killed_vacuums(engine, target.path, target.version, dry_run=dry_run)
        check_files_exist(engine, target, restored, "restored")
    metrics = RestoreMetrics(
        version=latest.version,
        table_size_after_restore=counts.size,
        num_of_files_after_restore=counts.files,
        num_removed_files=len(removed),
        num_restored_files=len(restored),
        removed_files_size=sum(file.size for file in removed),
        restored_files_size=sum(file.size for file in restored),
    )
    if dry_run:
        return metrics
    transaction = _builder(latest, target, engine_info, timestamp).build(engine)
    transaction.record_read()
    now = current_time_ms()
    actions: list[Action] = [
        *(_restored_add(file, target) for file in restored),
        *(to_remove(file.add, now) for file in removed),
        *(msgspec.structs.replace(file.add, data_change=False) for file in renumbered),
    ]
    recorded = {
        "numRestoredFiles": metrics.num_restored_files,
        "restoredFilesSize": metrics.restored_files_size,
        "numRemovedFiles": metrics.num_removed_files,
        "removedFilesSize": metrics.removed_files_size,
        "numOfFilesAfterRestore": metrics.num_of_files_after_restore,
        "tableSizeAfterRestore": metrics.table_size_after_restore,
    }
    result = transaction.commit(engine, actions, operation_metrics=recorded)
    result.run_post_commit_hooks(engine)
    return replace(metrics, version=result.version)


def _builder(
    latest: TableState, target: TableState, engine_info: str, timestamp: str | None
) -> TransactionBuilder:
    schema = with_high_water_marks(target.schema, latest.schema)
    metadata = msgspec.structs.replace(
        target.metadata, configuration=_configuration(target, latest)
    )
    if schema != target.schema:
        metadata = msgspec.structs.replace(metadata, schema_string=schema.to_json())
    builder = (
        TransactionBuilder(
            table=latest.path,
            read_state=latest,
            engine_info=engine_info,
            operation=Operation.RESTORE,
        )
        .with_metadata(metadata)
        .with_features(features.all_features(target.protocol))
        .with_operation_parameters(
            {"version": target.version if timestamp is None else None, "timestamp": timestamp}
        )
    )
    if target.column_mapping == "none" and latest.column_mapping != "none":
        # All files of `target` precede column mapping, so they have the logical column names.
        builder = builder.with_files_checked()
    before = latest.domain_metadata.get(CLUSTERING_DOMAIN)
    after = clustering_domain(target.domain_metadata.get(CLUSTERING_DOMAIN))
    if before is None or before == after:
        return builder
    return builder.with_delta_domain(CLUSTERING_DOMAIN, after)


def _configuration(target: TableState, latest: TableState) -> dict[str, str]:
    """Return the table properties of `target`, without properties that must not be restored.

    The names of the materialized row tracking columns aren't restored if row tracking is suspended
    in `target` and was dropped after `target`. In this case, row ids in restored files could equal
    row ids of other live files. If row tracking is enabled again, the columns get new names, so the
    old row ids in the files aren't read.
    """
    configuration = with_enablement_of(target.properties, latest.properties)
    dropped = any(configuration.get(k) != latest.properties.get(k) for k in _MATERIALIZED_COLUMNS)
    if not (dropped and target.table_properties.row_tracking_suspended):
        return configuration
    return {k: v for k, v in configuration.items() if k not in _MATERIALIZED_COLUMNS}


def _difference(
    engine: Engine, target: TableState, latest: TableState
) -> tuple[list[ScanFile], list[ScanFile], FileCounts]:
    """Return the files to restore, the files to remove, and the file counts of `target`."""
    counts = FileCounts()
    restored = list(files_without_keys(engine, target, file_keys(engine, latest), counts))
    removed = list(files_without_keys(engine, latest, file_keys(engine, target)))
    # The versions may contain the path of the same file in different encodings.
    both = {_key(file) for file in restored} & {_key(file) for file in removed}
    return (
        [file for file in restored if _key(file) not in both],
        [file for file in removed if _key(file) not in both],
        counts,
    )


def _restored_add(file: ScanFile, target: TableState) -> AddFile:
    """Return the `add` action of a restored file.

    If row tracking is suspended in `target`, the action gets no row ids. The file's former row ids
    could equal row ids of other live files.
    """
    add = msgspec.structs.replace(file.add, data_change=True)
    if not target.table_properties.row_tracking_suspended:
        return add
    return msgspec.structs.replace(add, base_row_id=None, default_row_commit_version=None)


def _renumbered(engine: Engine, target: TableState, latest: TableState) -> list[ScanFile]:
    """Return the files of `target` that are live in both versions, but with different row ids.

    Row ids differ if row tracking was dropped after `target`, and perhaps enabled again. The
    restore must add these files again with their row ids in `target`. Otherwise, files could lack
    row ids, or several rows could have the same row id.

    If row tracking is supported but disabled in `target`, the files are returned, too, because row
    tracking may be enabled later. If row tracking is unsupported or suspended in `target`, the
    result is empty.
    """
    supported = features.ROW_TRACKING in features.writer_features(target.protocol)
    if not supported or target.table_properties.row_tracking_suspended:
        return []
    latest_keys: list[pa.Array[Any]] = [pa.array([], pa.string())]
    latest_keys_with_ids: list[pa.Array[Any]] = [pa.array([], pa.string())]
    with ScanBuilder(latest).with_whole_adds().build().scan_files(engine) as batches:
        for batch in batches:
            adds = add_structs(batch)
            latest_keys.append(key_strings(adds))
            latest_keys_with_ids.append(_keys_with_ids(adds))
    keys, keys_with_ids = pa.concat_arrays(latest_keys), pa.concat_arrays(latest_keys_with_ids)
    renumbered: list[ScanFile] = []
    with ScanBuilder(target).with_whole_adds().build().scan_files(engine) as batches:
        for batch in batches:
            adds = add_structs(batch)
            selection = pc.and_(
                pc.is_in(key_strings(adds), value_set=keys),
                pc.invert(pc.is_in(_keys_with_ids(adds), value_set=keys_with_ids)),
            )
            renumbered += ScanFileBatch(batch.selected(), selection).rows()
    return renumbered


def _keys_with_ids(adds: pa.StructArray) -> pa.Array[Any]:
    ids = [pc.struct_field(adds, name) for name in ("baseRowId", "defaultRowCommitVersion")]
    strings = [pc.fill_null(pc.cast(values, pa.string()), "") for values in ids]
    keys: pa.Array[Any] = pc.binary_join_element_wise(key_strings(adds), *strings, KEY_SEPARATOR)
    return keys


def _key(file: ScanFile) -> tuple[str, str | None]:
    vector = file.deletion_vector
    return canonical_path(file.path), None if vector is None else vector.unique_id


def _check_vacuums(engine: Engine, target: TableState, latest: TableState) -> None:
    """Raise an error if a vacuum of another engine may be deleting files of the target version.

    A vacuum may be running if there are more VACUUM START than VACUUM END commits after the target
    version. These commits don't identify their vacuum, so they can only be counted. Vacuums that
    started more than a day ago are ignored, because their processes were probably killed. Vacuums
    of Bayou are ignored, because `end_killed_vacuums` checks them. Vacuums that start after this
    check are detected as conflicts when the restore commits.
    """
    since = current_time_ms() - _MAX_VACUUM_MS
    with commit_files(engine, latest.path, catalog=latest.catalog) as files:
        recent = [(v, f) for v, f in files if v <= latest.version and f.modification_time >= since]
    ended = 0
    started: CommitActions | None = None
    with read_commits(engine, latest.path, recent[::-1]) as commits:
        for commit in commits:
            if started is None and commit.version <= target.version:
                return
            operation = operation_of(commit)
            if _has_lease(commit):
                continue
            if operation == Operation.VACUUM_END:
                ended += 1
            elif operation == Operation.VACUUM_START:
                started = started or commit
                if not ended and _timestamp(commit) >= since:
                    raise _vacuum_runs(target, started)
                ended = max(ended - 1, 0)


def _timestamp(commit: CommitActions) -> int:
    return _commit_info(commit).integer("timestamp") or 0


def _has_lease(commit: CommitActions) -> bool:
    if operation_of(commit) not in (Operation.VACUUM_START, Operation.VACUUM_END):
        return False
    tags = _commit_info(commit).get("tags")
    return isinstance(tags, dict) and LEASE_TAG in tags


def _commit_info(commit: CommitActions) -> CommitInfo:
    return next(action for action in commit.actions if isinstance(action, CommitInfo))


def _vacuum_runs(target: TableState, start: CommitActions) -> CommitConflictError:
    return CommitConflictError(
        f"{target.path}: version {target.version} can't be restored, because a vacuum that "
        f"started at version {start.version} or later may still be deleting files that the "
        "restore needs. Nothing was changed. Repeat the restore when the vacuum has ended. If the "
        "vacuum was killed, set ignore_missing_files to restore without checking that all files "
        "exist.",
        table=target.path,
        winning_version=start.version,
        winning_operation=Operation.VACUUM_START,
    )
