"""RESTORE: a table gets the files, schema and properties of an earlier version again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute

from bayou.errors import ArgumentError, DataFileError, FileMissingError
from bayou.kernel.commands.clone import (
    clustering_domain,
    with_enablement_of,
    with_marks_of,
)
from bayou.kernel.engine import Engine
from bayou.kernel.log.file_action_keys import KEY_SEPARATOR, key_texts
from bayou.kernel.log.table_state import TableState
from bayou.kernel.operation import Operation
from bayou.kernel.scan.scan import ScanBuilder
from bayou.kernel.scan.scan_file import ScanFile, ScanFileBatch, vector_file_path
from bayou.kernel.transaction.builder import TransactionBuilder
from bayou.kernel.transaction.table_update import remove_of
from bayou.protocol import features
from bayou.protocol.actions import Action
from bayou.protocol.column_metadata import CLUSTERING_DOMAIN
from bayou.protocol.file_names import canonical_path

__all__ = ["RestoreMetrics", "restore"]

pc: Any = pyarrow.compute

_REQUESTS = 16
_NAMED = 10
"""Most missing files that an error names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreMetrics:
    """What a restore did, in delta-spark's numbers; sizes in bytes.

    Attributes:
        version: the version it has become.
    """

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
    wanted: TableState,
    engine_info: str,
    *,
    timestamp: str | None = None,
    ignore_missing_files: bool = False,
) -> RestoreMetrics:
    """Make a table's next version what an earlier one was.

    The versions between stay readable. The protocol never shrinks; row ids and identity columns
    go on above what they have given out.

    Args:
        latest: the version that the commit is based on.
        wanted: the version to be restored.
        timestamp: what it was asked for by, for the history; None: by its number.
        ignore_missing_files: don't look whether the files are still there.

    Raises:
        ArgumentError: the version isn't an earlier one.
        DataFileError: files of the version are gone; names them.
        CommitConflictError: another writer committed meanwhile.
        UnsupportedFeatureError: the table can't be written.
    """
    if wanted.version >= latest.version:
        raise ArgumentError(
            f"{latest.path} is at version {latest.version}; only an earlier version can be "
            f"restored, not {wanted.version} (DELTA_CANNOT_RESTORE_TABLE_VERSION).",
            argument="version",
        )
    restored, removed, counts = _difference(engine, wanted, latest)
    renumbered = _renumbered(engine, wanted, latest)
    if not ignore_missing_files:
        _check_files(engine, wanted, restored)
    transaction = _builder(latest, wanted, engine_info, timestamp).build(engine)
    transaction.record_read()
    now = time.time_ns() // 1_000_000
    actions: list[Action] = [
        *(msgspec.structs.replace(file.add, data_change=True) for file in restored),
        *(remove_of(file.add, now) for file in removed),
        *(msgspec.structs.replace(file.add, data_change=False) for file in renumbered),
    ]
    metrics = {
        "numRestoredFiles": len(restored),
        "restoredFilesSize": sum(file.size for file in restored),
        "numRemovedFiles": len(removed),
        "removedFilesSize": sum(file.size for file in removed),
        "numOfFilesAfterRestore": counts.files,
        "tableSizeAfterRestore": counts.size,
    }
    result = transaction.commit(engine, actions, operation_metrics=metrics)
    result.run_post_commit_hooks(engine)
    return RestoreMetrics(
        version=result.version,
        table_size_after_restore=counts.size,
        num_of_files_after_restore=counts.files,
        num_removed_files=len(removed),
        num_restored_files=len(restored),
        removed_files_size=metrics["removedFilesSize"],
        restored_files_size=metrics["restoredFilesSize"],
    )


def _builder(
    latest: TableState, wanted: TableState, engine_info: str, timestamp: str | None
) -> TransactionBuilder:
    schema = with_marks_of(wanted.schema, latest.schema)
    metadata = msgspec.structs.replace(
        wanted.metadata, configuration=with_enablement_of(wanted.properties, latest.properties)
    )
    if schema != wanted.schema:
        metadata = msgspec.structs.replace(metadata, schema_string=schema.to_json())
    builder = (
        TransactionBuilder(
            table=latest.path,
            read_state=latest,
            engine_info=engine_info,
            operation=Operation.RESTORE,
        )
        .with_metadata(metadata)
        .with_features(features.all_features(wanted.protocol))
        .with_operation_parameters(
            {"version": wanted.version if timestamp is None else None, "timestamp": timestamp}
        )
    )
    if wanted.column_mapping == "none" and latest.column_mapping != "none":
        # All files are of a time before columns were mapped: they have the columns' own names.
        builder = builder.with_files_checked()
    before = latest.domain_metadata.get(CLUSTERING_DOMAIN)
    after = clustering_domain(wanted.domain_metadata.get(CLUSTERING_DOMAIN))
    if before is None or before == after:
        return builder
    return builder.with_delta_domain(CLUSTERING_DOMAIN, after)


@dataclass(slots=True)
class _Counts:
    files: int = 0
    size: int = 0


def _difference(
    engine: Engine, wanted: TableState, latest: TableState
) -> tuple[list[ScanFile], list[ScanFile], _Counts]:
    """Files of the one version only, of the other only, and what the first has in all."""
    counts = _Counts()
    restored = list(_missing_from(engine, wanted, _texts(engine, latest), counts))
    removed = list(_missing_from(engine, latest, _texts(engine, wanted)))
    # A writer may have spelled a path anew, with a new deletion vector for example.
    both = {_key(file) for file in restored} & {_key(file) for file in removed}
    return (
        [file for file in restored if _key(file) not in both],
        [file for file in removed if _key(file) not in both],
        counts,
    )


def _renumbered(engine: Engine, wanted: TableState, latest: TableState) -> list[ScanFile]:
    """Files that are in both versions with different row ids, as they are in the wanted version.

    Dropping row tracking between the versions removed the ids, and enabling it again assigned new
    ones. Without this, ids would be missing, or equal those of files that come back.
    """
    if not wanted.table_properties.row_tracking:
        return []
    kept: list[pa.Array[Any]] = [pa.array([], pa.string())]
    same: list[pa.Array[Any]] = [pa.array([], pa.string())]
    with ScanBuilder(latest).with_whole_adds().build().scan_files(engine) as batches:
        for batch in batches:
            adds = _adds(batch)
            kept.append(key_texts(adds))
            same.append(_texts_with_ids(adds))
    keys, keys_with_ids = pa.concat_arrays(kept), pa.concat_arrays(same)
    found: list[ScanFile] = []
    with ScanBuilder(wanted).with_whole_adds().build().scan_files(engine) as batches:
        for batch in batches:
            adds = _adds(batch)
            others = pc.and_(
                pc.is_in(key_texts(adds), value_set=keys),
                pc.invert(pc.is_in(_texts_with_ids(adds), value_set=keys_with_ids)),
            )
            found += ScanFileBatch(batch.selected(), others).rows()
    return found


def _texts_with_ids(adds: pa.StructArray) -> pa.Array[Any]:
    """Keys of files with their row ids and commit versions."""
    ids = [pc.struct_field(adds, name) for name in ("baseRowId", "defaultRowCommitVersion")]
    texts = [pc.fill_null(pc.cast(values, pa.string()), "") for values in ids]
    found: pa.Array[Any] = pc.binary_join_element_wise(key_texts(adds), *texts, KEY_SEPARATOR)
    return found


def _key(file: ScanFile) -> tuple[str, str | None]:
    vector = file.deletion_vector
    return canonical_path(file.path), None if vector is None else vector.unique_id


def _texts(engine: Engine, state: TableState) -> pa.Array[Any]:
    """Keys of all live files of a version."""
    found: list[pa.Array[Any]] = [pa.array([], pa.string())]
    with ScanBuilder(state).build().scan_files(engine) as batches:
        found += [key_texts(_adds(batch)) for batch in batches]
    return pa.concat_arrays(found)


def _missing_from(
    engine: Engine, state: TableState, texts: pa.Array[Any], counts: _Counts | None = None
) -> Iterator[ScanFile]:
    """Live files of a version whose keys aren't among some."""
    with ScanBuilder(state).with_whole_adds().build().scan_files(engine) as batches:
        for batch in batches:
            adds = _adds(batch)
            if counts is not None:
                counts.files += len(adds)
                counts.size += pc.sum(pc.struct_field(adds, "size")).as_py() or 0
            others = pc.invert(pc.is_in(key_texts(adds), value_set=texts))
            yield from ScanFileBatch(batch.selected(), others).rows()


def _adds(batch: ScanFileBatch) -> pa.StructArray:
    adds: Any = batch.selected().column("add")
    assert isinstance(adds, pa.StructArray)
    return adds


def _check_files(engine: Engine, wanted: TableState, files: Sequence[ScanFile]) -> None:
    paths = list(dict.fromkeys(path for file in files for path in _paths(file)))

    def is_missing(path: str) -> bool:
        try:
            engine.files.status(path)
        except FileMissingError:
            return True
        return False

    with ThreadPoolExecutor(_REQUESTS, thread_name_prefix="bayou-status") as pool:
        missing = [p for p, gone in zip(paths, pool.map(is_missing, paths), strict=True) if gone]
    if missing:
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        raise DataFileError(
            f"Version {wanted.version} of {wanted.path} can't be restored: {len(missing)} of its "
            f"files are gone, by VACUUM or by hand: {', '.join(missing[:_NAMED])}{more}. Restore a "
            "later version, or bring the files back; with ignore_missing_files the table is "
            "restored all the same, and reading those files will fail.",
            table=wanted.path,
            file=missing[0],
        )


def _paths(file: ScanFile) -> Iterator[str]:
    yield file.status.path
    vector = file.deletion_vector
    path = None if vector is None else vector_file_path(file.table_root, vector)
    if path is not None:
        yield path
