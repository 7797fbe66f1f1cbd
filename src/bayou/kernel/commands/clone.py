"""SHALLOW CLONE: a table of its own whose files are, at first, those of another.

Metadata of one version, or table, taken over by another.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pyarrow.compute

from bayou.errors import (
    CommitConflictError,
    SchemaError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from bayou.kernel.engine import Engine
from bayou.kernel.log.table_state import TableState, load_table_state
from bayou.kernel.operation import Operation
from bayou.kernel.scan.scan import ScanBuilder
from bayou.kernel.scan.scan_file import ScanFile, vector_file_path
from bayou.kernel.table_features.column_mapping import physical_name
from bayou.kernel.transaction.builder import TransactionBuilder
from bayou.kernel.transaction.commit_rebase import ENABLEMENT_TIMESTAMP, ENABLEMENT_VERSION
from bayou.protocol import features
from bayou.protocol.actions import AddFile, DeletionVectorDescriptor, Metadata, Protocol
from bayou.protocol.column_metadata import CLUSTERING_DOMAIN
from bayou.protocol.column_rules import IdentityColumn, identity_of, with_high_water_mark
from bayou.protocol.deletion_vectors import stored_vector
from bayou.protocol.file_names import absolute_data_file_uri
from bayou.protocol.properties import IN_COMMIT_TIMESTAMPS, TableProperties, normalize
from bayou.protocol.schema import StructField, StructType

__all__ = ["CloneMetrics", "clone", "clustering_domain", "with_enablement_of", "with_marks_of"]


_ENABLEMENT = frozenset({ENABLEMENT_VERSION, ENABLEMENT_TIMESTAMP})


def with_marks_of(schema: StructType, other: StructType) -> StructType:
    """A schema whose identity columns have given out what they have in another schema, too."""
    marks = {
        physical_name(f): found.high_water_mark
        for f in other
        if (found := identity_of(f)) is not None and found.high_water_mark is not None
    }
    return replace(schema, fields=tuple(_marked(f, marks) for f in schema)) if marks else schema


def with_enablement_of(properties: Mapping[str, str], others: Mapping[str, str]) -> dict[str, str]:
    """Properties that name the commit at which in-commit timestamps began as others do.

    It is the log's, which is one for all versions: commits between two versions may lack the
    timestamps that the older version's properties promise. Where one of the two has none they
    begin anew, or end, and the properties stay.
    """
    if not all(IN_COMMIT_TIMESTAMPS.read(p) for p in (properties, others)):
        return dict(properties)
    return {
        **{k: v for k, v in properties.items() if k not in _ENABLEMENT},
        **{k: v for k, v in others.items() if k in _ENABLEMENT},
    }


def clustering_domain(configuration: str | None) -> str:
    """The domain `delta.clustering` as it is, or without columns where there is none."""
    if configuration is not None:
        return configuration
    empty = {"clusteringColumns": [], "domainName": "delta.clustering"}
    return msgspec.json.encode(empty).decode()


def _marked(field: StructField, marks: Mapping[str, int]) -> StructField:
    mark = marks.get(physical_name(field))
    column = identity_of(field)
    if column is None or mark is None or not _is_further(column, mark):
        return field
    return with_high_water_mark(field, mark)


def _is_further(column: IdentityColumn, mark: int) -> bool:
    current = column.high_water_mark
    return current is None or (mark - current) * column.step > 0


pc: Any = pyarrow.compute

_NOT_CARRIED = frozenset(
    {
        # They are about the source's log.
        "delta.requireCheckpointProtectionBeforeVersion",
        "delta.inCommitTimestampEnablementVersion",
        "delta.inCommitTimestampEnablementTimestamp",
        # Ids stored in the source's files mean rows of the source: the clone numbers its rows anew.
        "delta.rowTracking.materializedRowIdColumnName",
        "delta.rowTracking.materializedRowCommitVersionColumnName",
    }
)
_NOT_CLONED = frozenset(
    {
        features.CATALOG_MANAGED,
        features.CATALOG_MANAGED_PREVIEW,
        features.CATALOG_OWNED_PREVIEW,
        features.CHECKPOINT_PROTECTION,
    }
)
"""Features that are about the source's log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneMetrics:
    """What a clone is made of, in delta-spark's numbers; sizes in bytes.

    Attributes:
        version: the clone's version.
        num_removed_files, num_copied_files, removed_files_size, copied_files_size: 0, for no file
            is touched.
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
    properties: Mapping[str, str] | None = None,
    replace: bool = False,
    transaction_identifiers: bool = True,
) -> CloneMetrics:
    """Make a table at `target` whose files are a version's, under their absolute paths.

    Both tables go their own ways from there. The clone's vacuum never deletes the source's files;
    the source's may delete what the clone still needs.

    Args:
        target: its path, of the engine's store.
        properties: table properties on top of the source's.
        replace: a table may be there already, if it has no files.
        transaction_identifiers: copy the version's transaction identifiers (PROTOCOL.md,
            Transaction Identifiers), so that an application, such as a pipeline or a stream's
            query, continues on the clone where it stood in that version. False: the clone has none.

    Raises:
        TableAlreadyExistsError: there is a table, and it has files or may not be replaced.
        SchemaError: its column mapping is another.
        TablePropertyError: a property that isn't one, or an unusable value.
        UnsupportedFeatureError: the table can't be written.
    """
    path = engine.files.resolve_path(target)
    existing = _existing(engine, path, replace=replace)
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
    if transaction_identifiers:
        builder = builder.with_copied_transaction_ids(source.transaction_actions.values())
    theirs = source.domain_metadata.get(CLUSTERING_DOMAIN)
    ours = None if existing is None else existing.domain_metadata.get(CLUSTERING_DOMAIN)
    if theirs != ours:
        builder = builder.with_delta_domain(CLUSTERING_DOMAIN, theirs)
    transaction = builder.build(engine)
    if existing is None and transaction.read_version >= 0:
        raise _exists(path)  # made meanwhile
    _check_mapping(path, source, transaction.transaction_state(engine).configuration)
    transaction.record_read()
    counts = _count(engine, source)
    try:
        result = transaction.commit(
            engine,
            _adds(engine, source),
            operation_metrics={
                "sourceTableSize": counts[1],
                "sourceNumOfFiles": counts[0],
                "numRemovedFiles": 0,
                "numCopiedFiles": 0,
                "removedFilesSize": 0,
                "copiedFilesSize": 0,
            },
        )
    except CommitConflictError as error:
        if existing is None:
            raise _exists(path) from error
        raise
    result.run_post_commit_hooks(engine)
    return CloneMetrics(
        version=result.version, source_table_size=counts[1], source_num_of_files=counts[0]
    )


def _existing(engine: Engine, path: str, *, replace: bool) -> TableState | None:
    try:
        state = load_table_state(engine, path)
    except TableNotFoundError:
        return None
    if not replace:
        raise _exists(path)
    if _count(engine, state)[0]:
        raise TableAlreadyExistsError(
            f"The table at {path} has files, and only an empty one can be replaced by a clone "
            "(DELTA_UNSUPPORTED_NON_EMPTY_CLONE). "
            "Overwrite it with no rows first, or clone to another path.",
            table=path,
        )
    return state


def _exists(path: str) -> TableAlreadyExistsError:
    return TableAlreadyExistsError(
        f"There is a Delta table at {path} already (DELTA_TABLE_ALREADY_EXISTS). Clone to another "
        "path, or allow to replace it.",
        table=path,
    )


def _metadata(
    source: TableState, existing: TableState | None, asked: Mapping[str, str]
) -> Metadata:
    configuration = {
        **{k: v for k, v in source.properties.items() if k not in _NOT_CARRIED},
        **_row_tracking_columns({**source.properties, **asked}),
    }
    if existing is None:
        return msgspec.structs.replace(
            source.metadata,
            id=str(uuid.uuid4()),
            name=None,
            description=None,
            configuration=configuration,
        )
    kept = {k: v for k, v in existing.properties.items() if k in _NOT_CARRIED}
    schema = with_marks_of(source.schema, existing.schema)
    return msgspec.structs.replace(
        source.metadata,
        id=existing.table_id,
        name=existing.metadata.name,
        description=existing.metadata.description,
        schema_string=schema.to_json(),
        configuration={**configuration, **kept},
    )


def _protocol(source: TableState, existing: TableState | None) -> Protocol:
    names = [n for n in features.all_features(source.protocol) if n not in _NOT_CLONED]
    if existing is not None:
        return features.upgraded(existing.protocol, names)
    if not _NOT_CLONED & set(features.all_features(source.protocol)):
        return source.protocol
    return features.upgraded(Protocol(min_reader_version=1, min_writer_version=2), names)


def _row_tracking_columns(configuration: Mapping[str, str]) -> dict[str, str]:
    """Names of their own, which no file of the source has."""
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
            f"A clone's files are those of {source.path}, whose column mapping is "
            f"{source.column_mapping!r}: {path} can't have {mode!r}.",
            table=path,
        )


def _count(engine: Engine, state: TableState) -> tuple[int, int]:
    """How many files a version has, and their bytes."""
    files = size = 0
    with ScanBuilder(state).build().scan_files(engine) as batches:
        for batch in batches:
            adds: Any = batch.selected().column("add")
            files += len(adds)
            size += pc.sum(pc.struct_field(adds, "size")).as_py() or 0
    return files, size


def _adds(engine: Engine, source: TableState) -> Iterator[AddFile]:
    scan = ScanBuilder(source).with_whole_adds().build()
    with scan.scan_files(engine).flat_map(lambda batch: batch.rows()) as files:
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
    assert path is not None  # it isn't inline
    return msgspec.structs.replace(
        vector,
        storage_type="p",
        path_or_inline_dv=absolute_data_file_uri(path),
        offset=stored.offset,
    )


def _qualified(path: str) -> str:
    return f"file:{path}" if path.startswith("/") else path
