"""CLONE: create a table with the schema, properties and rows of another table's version.

A shallow clone references the source's data files; a deep clone copies them (`copied_files`).
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import msgspec

from bayou.errors import (
    ArgumentError,
    CommitConflictError,
    SchemaError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from bayou.kernel.arrow.compute import pc
from bayou.kernel.commands.copied_files import CopiedFiles, CopyFiles, copy_files
from bayou.kernel.commands.metrics_by_name import MetricsByName
from bayou.kernel.commands.version_files import (
    check_files_exist,
    file_keys,
    files_without_keys,
    live_files,
)
from bayou.kernel.engine import Engine
from bayou.kernel.log.table_state import TableState, load_table_state
from bayou.kernel.operation import Operation
from bayou.kernel.scan.scan import ScanBuilder
from bayou.kernel.scan.scan_file import ScanFile, vector_file_path
from bayou.kernel.table_features.column_mapping import physical_name
from bayou.kernel.transaction.builder import TransactionBuilder
from bayou.kernel.transaction.commit import discard_unless_committed
from bayou.kernel.transaction.in_commit_timestamps import ENABLEMENT_TIMESTAMP, ENABLEMENT_VERSION
from bayou.protocol import features
from bayou.protocol.actions import AddFile, DeletionVectorDescriptor, Metadata, Protocol
from bayou.protocol.actions import Transaction as TransactionIdentifier
from bayou.protocol.column_metadata import (
    CLUSTERING_DOMAIN,
    IdentityColumn,
    identity_column,
    with_high_water_mark,
)
from bayou.protocol.deletion_vectors import stored_vector
from bayou.protocol.file_names import absolute_data_file_uri
from bayou.protocol.properties import IN_COMMIT_TIMESTAMPS, TableProperties, normalize
from bayou.protocol.schema import StructField, StructType

_ENABLEMENT = frozenset({ENABLEMENT_VERSION, ENABLEMENT_TIMESTAMP})


def with_high_water_marks(schema: StructType, other: StructType) -> StructType:
    """Return `schema` with the high water marks of identity columns advanced to those in `other`.

    A mark in `other` is used only if it is further in the direction of the column's step.
    """
    marks = {
        physical_name(f): identity.high_water_mark
        for f in other
        if (identity := identity_column(f)) is not None and identity.high_water_mark is not None
    }
    if not marks:
        return schema
    return replace(schema, fields=tuple(_with_mark(f, marks) for f in schema))


def with_enablement_of(properties: Mapping[str, str], others: Mapping[str, str]) -> dict[str, str]:
    """Return `properties` with the two in-commit timestamp enablement properties of `others`.

    These properties are the version and the time at which in-commit timestamps were enabled
    (PROTOCOL.md, In-Commit Timestamps). If `properties` or `others` doesn't enable in-commit
    timestamps, `properties` is returned unchanged.
    """
    if not all(IN_COMMIT_TIMESTAMPS.read(p) for p in (properties, others)):
        return dict(properties)
    return {
        **{k: v for k, v in properties.items() if k not in _ENABLEMENT},
        **{k: v for k, v in others.items() if k in _ENABLEMENT},
    }


def clustering_domain(configuration: str | None) -> str:
    """Return the configuration to commit for the domain `delta.clustering`.

    If `configuration` is None, the result is a configuration without clustering columns.
    """
    if configuration is not None:
        return configuration
    empty = {"clusteringColumns": [], "domainName": "delta.clustering"}
    return msgspec.json.encode(empty).decode()


def _with_mark(field: StructField, marks: Mapping[str, int]) -> StructField:
    mark = marks.get(physical_name(field))
    column = identity_column(field)
    if column is None or mark is None or not _is_further(column, mark):
        return field
    return with_high_water_mark(field, mark)


def _is_further(column: IdentityColumn, mark: int) -> bool:
    current = column.high_water_mark
    return current is None or (mark - current) * column.step > 0


_UNCLONED_PROPERTIES = frozenset(
    {
        # These describe the source's log.
        "delta.requireCheckpointProtectionBeforeVersion",
        "delta.inCommitTimestampEnablementVersion",
        "delta.inCommitTimestampEnablementTimestamp",
        # The clone assigns new row ids, so it must not read the row ids in the source's files.
        "delta.rowTracking.materializedRowIdColumnName",
        "delta.rowTracking.materializedRowCommitVersionColumnName",
    }
)
_UNCLONED_FEATURES = frozenset({*features.CATALOG_FEATURES, features.CHECKPOINT_PROTECTION})
"""Table features that a clone doesn't get, because they describe the log of the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneMetrics(MetricsByName):
    """Metrics of a clone, with the names of delta-spark's metrics. Sizes are in bytes.

    The metrics of removed and copied files are 0 for a shallow clone.

    Attributes:
        version: the clone's version.
    """

    version: int
    source_table_size: int
    source_num_of_files: int
    num_removed_files: int = 0
    num_copied_files: int = 0
    removed_files_size: int = 0
    copied_files_size: int = 0


def clone(
    engine: Engine,
    source: TableState,
    target: str,
    engine_info: str,
    *,
    shallow: bool = True,
    properties: Mapping[str, str] | None = None,
    replace: bool = False,
    transaction_identifiers: bool = True,
    run_copies: CopyFiles | None = None,
) -> CloneMetrics:
    """Create a table at `target` with the rows of `source`.

    Later changes to one table don't affect the other. Vacuuming the clone never deletes files of
    the source. Vacuuming the source may delete files that a shallow clone needs.

    A deep clone can be repeated with `replace=True`. It then copies only the files that were added
    to the source since the last clone. A failed clone changes nothing.

    Args:
        shallow: whether the clone references the source's data files by absolute paths; if False,
            the files are copied.
        properties: table properties to set in addition to the properties of the source.
        replace: whether to replace an existing table at `target`. A shallow clone can't replace a
            table that has data files.
        transaction_identifiers: whether to copy the source's transaction identifiers (PROTOCOL.md,
            Transaction Identifiers). A pipeline or streaming query that wrote to the source can
            then continue in the clone after the last batch that the clone contains. An identifier
            of a replaced table that isn't copied from the source gets the version -1, as if its
            application had never written to the table.
        run_copies: function that copies the files of a deep clone in other processes. If None, this
            process copies them.

    Raises:
        DataFileError: the source of a shallow clone is an earlier version, and VACUUM has deleted
            files of this version. Files of the latest version aren't checked.
        StorageError: a deep clone can't copy a file.
    """
    path = engine.files.resolve_path(target)
    if not shallow and engine.files.real_path(path) == engine.files.real_path(source.path):
        raise ArgumentError(
            f"{path}: a table can't be replaced by a clone of itself "
            "(DELTA_UNSUPPORTED_CLONE_REPLACE_SAME_TABLE). Clone to another path, or use restore.",
            argument="target",
        )
    if shallow:
        _check_old_files(engine, source)
    existing = _existing(engine, path, replace=replace, must_be_empty=shallow)
    builder = (
        TransactionBuilder(
            table=path, read_state=existing, engine_info=engine_info, operation=Operation.CLONE
        )
        .with_metadata(_metadata(source, existing, properties or {}))
        .with_protocol(_protocol(source, existing))
        .with_table_properties(properties or {})
        .with_operation_parameters(
            {
                "source": f"delta.`{_qualified(source.path)}`",
                "sourceVersion": source.version,
            }
        )
    )
    copied = source.transaction_actions if transaction_identifiers else {}
    withdrawn = _withdrawn(existing, copied)
    builder = builder.with_copied_transaction_ids([*copied.values(), *withdrawn])
    clustering = source.domain_metadata.get(CLUSTERING_DOMAIN)
    current = None if existing is None else existing.domain_metadata.get(CLUSTERING_DOMAIN)
    if clustering != current:
        builder = builder.with_delta_domain(CLUSTERING_DOMAIN, clustering)
    transaction = builder.build(engine)
    if existing is None and transaction.read_version >= 0:
        raise _exists(path)  # another writer has created the table concurrently
    configuration = transaction.transaction_state(engine).configuration
    _check_mapping(path, source, configuration)
    transaction.record_read()
    counts = _count(engine, source)
    row_tracking = TableProperties(configuration).row_tracking
    files = CopiedFiles(engine, source, path, existing, row_tracking=row_tracking)
    try:
        with discard_unless_committed(files.discard):
            if not shallow:
                files.copy(run_copies or partial(copy_files, engine))
            metrics = CloneMetrics(
                version=-1,
                source_table_size=counts[1],
                source_num_of_files=counts[0],
                num_removed_files=files.removed,
                num_copied_files=files.copied,
                removed_files_size=files.removed_bytes,
                copied_files_size=files.copied_bytes,
            )
            result = transaction.commit(
                engine,
                _adds(engine, source) if shallow else files.actions,
                operation_metrics=_operation_metrics(metrics),
            )
    except CommitConflictError as error:
        if existing is None:
            raise _exists(path) from error
        raise
    result.run_post_commit_hooks(engine)
    return dataclasses.replace(metrics, version=result.version)


def _withdrawn(
    existing: TableState | None, copied: Mapping[str, TransactionIdentifier]
) -> list[TransactionIdentifier]:
    """Return an identifier with the version -1 for each application of a replaced table.

    Applications in `copied` are skipped. The version -1 means that the application has never
    written to the table. It replaces the old version, because a `txn` action can't be removed.
    """
    known = {} if existing is None else existing.transactions
    applications = sorted(known.keys() - copied.keys())
    return [TransactionIdentifier(app_id=app, version=-1) for app in applications]


def _operation_metrics(metrics: CloneMetrics) -> dict[str, int]:
    return {
        "sourceTableSize": metrics.source_table_size,
        "sourceNumOfFiles": metrics.source_num_of_files,
        "numRemovedFiles": metrics.num_removed_files,
        "numCopiedFiles": metrics.num_copied_files,
        "removedFilesSize": metrics.removed_files_size,
        "copiedFilesSize": metrics.copied_files_size,
    }


def _check_old_files(engine: Engine, source: TableState) -> None:
    """Check that the files of `source` exist. Skip files that are live in the latest version."""
    latest = load_table_state(engine, source.path, catalog=source.catalog)
    if latest.version > source.version:
        files = list(files_without_keys(engine, source, file_keys(engine, latest)))
        check_files_exist(engine, source, files, "cloned")


def _existing(
    engine: Engine, path: str, *, replace: bool, must_be_empty: bool
) -> TableState | None:
    try:
        state = load_table_state(engine, path)
    except TableNotFoundError:
        return None
    if not replace:
        raise _exists(path)
    if must_be_empty and _count(engine, state)[0]:
        raise TableAlreadyExistsError(
            f"{path}: the table isn't empty, and a shallow clone can only replace an empty table "
            "(DELTA_UNSUPPORTED_NON_EMPTY_CLONE). Truncate it first, or clone to another path.",
            table=path,
        )
    return state


def _exists(path: str) -> TableAlreadyExistsError:
    return TableAlreadyExistsError(
        f"{path}: a Delta table already exists (DELTA_TABLE_ALREADY_EXISTS). Clone to another "
        "path, or replace the table (replace=True).",
        table=path,
    )


def _metadata(
    source: TableState, existing: TableState | None, properties: Mapping[str, str]
) -> Metadata:
    configuration = {
        **{k: v for k, v in source.properties.items() if k not in _UNCLONED_PROPERTIES},
        **_row_tracking_columns({**source.properties, **properties}),
    }
    if existing is None:
        return msgspec.structs.replace(
            source.metadata,
            id=str(uuid.uuid4()),
            name=None,
            description=None,
            configuration=configuration,
        )
    retained = {k: v for k, v in existing.properties.items() if k in _UNCLONED_PROPERTIES}
    schema = with_high_water_marks(source.schema, existing.schema)
    return msgspec.structs.replace(
        source.metadata,
        id=existing.table_id,
        name=existing.metadata.name,
        description=existing.metadata.description,
        schema_string=schema.to_json(),
        configuration={**configuration, **retained},
    )


def _protocol(source: TableState, existing: TableState | None) -> Protocol:
    names = [n for n in features.all_features(source.protocol) if n not in _UNCLONED_FEATURES]
    if existing is not None:
        return features.with_features(existing.protocol, names)
    if not _UNCLONED_FEATURES & set(features.all_features(source.protocol)):
        return source.protocol
    return features.with_features(Protocol(min_reader_version=1, min_writer_version=2), names)


def _row_tracking_columns(configuration: Mapping[str, str]) -> dict[str, str]:
    """Return the table properties that name the materialized row tracking columns of the clone.

    The names are new and unique. If row tracking is disabled, no properties are returned.
    """
    if not TableProperties(normalize(configuration)).row_tracking:
        return {}
    return {
        "delta.rowTracking.materializedRowIdColumnName": f"_row-id-col-{uuid.uuid4()}",
        "delta.rowTracking.materializedRowCommitVersionColumnName": (
            f"_row-commit-version-col-{uuid.uuid4()}"
        ),
    }


def _check_mapping(path: str, source: TableState, configuration: Mapping[str, str]) -> None:
    mode = configuration.get("delta.columnMapping.mode", "none").lower()
    if mode != source.column_mapping:
        raise SchemaError(
            f"{path}: the clone would have the column mapping mode {mode!r}, but the files of "
            f"{source.path} have the mode {source.column_mapping!r}. Don't set "
            "delta.columnMapping.mode, or clone to another path.",
            table=path,
        )


def _count(engine: Engine, state: TableState) -> tuple[int, int]:
    """Return the number of live files of a version, and their total size in bytes."""
    files = size = 0
    with ScanBuilder(state).build().scan_files(engine) as batches:
        for batch in batches:
            adds: Any = batch.selected().column("add")
            files += len(adds)
            size += pc.sum(pc.struct_field(adds, "size")).as_py() or 0
    return files, size


def _adds(engine: Engine, source: TableState) -> Iterator[AddFile]:
    with live_files(engine, source) as files:
        for file in files:
            yield msgspec.structs.replace(
                file.add,
                path=absolute_data_file_uri(file.status.path),
                deletion_vector=_absolute(file),
                data_change=True,
                base_row_id=None,
                default_row_commit_version=None,
            )


def _absolute(file: ScanFile) -> DeletionVectorDescriptor | None:
    vector = file.deletion_vector
    if vector is None or vector.storage_type == "i":
        return vector
    stored = stored_vector(vector)
    path = vector_file_path(file.table_root, vector)
    assert path is not None  # the vector isn't inline
    return msgspec.structs.replace(
        vector,
        storage_type="p",
        path_or_inline_dv=absolute_data_file_uri(path),
        offset=stored.offset,
    )


def _qualified(path: str) -> str:
    return f"file:{path}" if path.startswith("/") else path
