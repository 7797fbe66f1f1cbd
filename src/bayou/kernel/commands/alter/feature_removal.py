"""Steps of DROP FEATURE, for each table feature that can be dropped.

The first steps change the table until its latest version doesn't use the feature. The last step
removes the feature from the protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from bayou.errors import FeatureInUseError
from bayou.kernel.checkpoint.state_files import base_checkpoint
from bayou.kernel.commands.alter.alteration import Alteration, as_json, with_schema
from bayou.kernel.commands.alter.columns import column_description
from bayou.kernel.commands.alter.feature_traces import (
    drop_column_mapping,
    purge_deletion_vectors,
    rewrite_widened_files,
    tombstone_deletion_vectors,
)
from bayou.kernel.commands.alter.row_tracking import without_row_ids
from bayou.kernel.commands.version_files import live_files
from bayou.kernel.engine import Engine
from bayou.kernel.log.replay import CommitActions
from bayou.kernel.log.table_state import TableState, load_table_state
from bayou.kernel.operation import Operation
from bayou.kernel.scan.scan import ScanBuilder
from bayou.kernel.table_features.column_dependencies import ColumnPath
from bayou.kernel.table_features.geospatial import geospatial_columns
from bayou.kernel.transaction.builder import TransactionBuilder
from bayou.protocol import column_metadata, features, properties
from bayou.protocol.actions import AddFile, Metadata, RemoveFile
from bayou.protocol.schema import ArrayType, DataType, MapType, StructField, StructType
from bayou.protocol.type_widening import TYPE_CHANGES_KEY

MAX_COLUMN_ID = "delta.columnMapping.maxColumnId"
_ENABLEMENT = (
    "delta.inCommitTimestampEnablementTimestamp",
    "delta.inCommitTimestampEnablementVersion",
)


class FeatureDrop:
    """State of a DROP FEATURE command: the current table state and the number of commits."""

    def __init__(self, engine: Engine, state: TableState, name: str, engine_info: str) -> None:
        self.engine = engine
        self.state = state
        self.name = name
        self.engine_info = engine_info
        self.commits = 0

    def commit(
        self,
        operation: Operation,
        parameters: Mapping[str, object],
        change: Callable[[TransactionBuilder], TransactionBuilder] = lambda builder: builder,
        *,
        reads_rows: bool = False,
    ) -> None:
        """Commit a change of the table, and reload the table's state."""
        alteration = Alteration(
            engine=self.engine,
            state=self.state,
            engine_info=self.engine_info,
            operation=operation,
            parameters=parameters,
            reads_rows=reads_rows,
        )
        self.reload(alteration.commit(change).num_commits)

    def reload(self, commits: int) -> None:
        """Load the latest table state; `commits` is the number of commits since the last load."""
        self.commits += commits
        self.state = load_table_state(self.engine, self.state.path, catalog=self.state.catalog)

    def unset(self, *keys: str) -> bool:
        """Unset the properties in `keys`; return False if none of them was set."""
        existing = [key for key in keys if key in self.state.properties]
        if existing:
            self.commit(
                Operation.UNSET_TABLE_PROPERTIES,
                {"properties": as_json(existing), "ifExists": True},
                lambda builder: builder.with_table_properties_removed(existing),
            )
        return bool(existing)

    def set(self, values: Mapping[str, str]) -> None:
        self.commit(
            Operation.SET_TABLE_PROPERTIES,
            {"properties": as_json(dict(values))},
            lambda builder: builder.with_table_properties(values),
        )

    def in_use(self, message: str) -> FeatureInUseError:
        return FeatureInUseError(
            f"{self.state.path}: the feature {self.name!r} can't be dropped: {message}",
            table=self.state.path,
            feature=self.name,
        )


_Traces: TypeAlias = Callable[[FeatureDrop], None]
_Check: TypeAlias = Callable[[FeatureDrop], bool]
_Uses: TypeAlias = Callable[[CommitActions], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureRemoval:
    """Steps that remove one table feature.

    Attributes:
        remove_traces: function that commits changes until the latest version doesn't use the
            feature. Some functions raise an error instead, which says what the user must change
            first. If None, there are no traces to remove.
        is_clean: function that returns True if the latest version doesn't use the feature. If None,
            the latest version isn't checked.
        is_in_commit: function that returns whether a commit uses the feature; None if commits never
            use it.
        needs_history: whether readers still need the feature for older versions of the table. If
            True, the older versions must be protected or deleted.
        properties: table properties that are removed together with the feature.
        domain: metadata domain that is removed together with the feature; None if there is none.
    """

    remove_traces: _Traces | None = None
    is_clean: _Check | None = None
    is_in_commit: _Uses | None = None
    needs_history: bool = False
    properties: tuple[str, ...] = ()
    domain: str | None = None


def _refuse_constraints(dropping: FeatureDrop) -> None:
    names = list(column_metadata.check_constraints(dropping.state.properties))
    if names:
        raise dropping.in_use(
            f"the table has the CHECK constraints {', '.join(names)}. Drop them first "
            "(alter.drop_constraint)."
        )


def _refuse_geospatial(dropping: FeatureDrop) -> None:
    names = geospatial_columns(dropping.state.schema)
    if names:
        raise dropping.in_use(
            f"the columns {', '.join(names)} have geometries or geographies. Drop the columns "
            "first (DELTA_CANNOT_DROP_GEOSPATIAL_FEATURE)."
        )


def _remove_deletion_vectors(dropping: FeatureDrop) -> None:
    dropping.unset(properties.DELETION_VECTORS.key)
    if not _has_no_vectors(dropping):
        dropping.reload(
            purge_deletion_vectors(dropping.engine, dropping.state, dropping.engine_info)
        )
    dropping.reload(
        tombstone_deletion_vectors(dropping.engine, dropping.state, dropping.engine_info)
    )


def _has_no_vectors(dropping: FeatureDrop) -> bool:
    if properties.DELETION_VECTORS.read(dropping.state.properties):
        return False
    scan = ScanBuilder(dropping.state).build()
    with scan.scan_files(dropping.engine).flat_map(lambda batch: batch.rows()) as files:
        return all(file.deletion_vector is None for file in files)


def _vector_in_commit(commit: CommitActions) -> bool:
    return any(
        (isinstance(action, AddFile | RemoveFile) and action.deletion_vector is not None)
        or _has_property(action, properties.DELETION_VECTORS.key, "true")
        for action in commit.actions
    )


def _has_property(action: object, key: str, value: str) -> bool:
    return isinstance(action, Metadata) and action.configuration.get(key, "").lower() == value


def _remove_type_changes(dropping: FeatureDrop) -> None:
    dropping.unset(properties.TYPE_WIDENING.key)
    if not _widened(dropping.state.schema, ()):
        return
    dropping.reload(rewrite_widened_files(dropping.engine, dropping.state, dropping.engine_info))
    columns = [
        column_description(path, field, with_type_changes=True)
        for path, field in _widened(dropping.state.schema, ())
    ]
    metadata = with_schema(dropping.state, _without_changes(dropping.state.schema))
    dropping.commit(
        Operation.DROP_FEATURE,
        {"columns": as_json(columns)},
        lambda builder: builder.with_metadata(metadata),
    )


def _has_no_type_changes(dropping: FeatureDrop) -> bool:
    enabled = properties.TYPE_WIDENING.read(dropping.state.properties)
    return not enabled and not _widened(dropping.state.schema, ())


def _type_change_in_commit(commit: CommitActions) -> bool:
    return any(
        isinstance(action, Metadata) and TYPE_CHANGES_KEY in action.schema_string
        for action in commit.actions
    )


def _widened(data_type: DataType, path: ColumnPath) -> list[tuple[ColumnPath, StructField]]:
    match data_type:
        case StructType(fields):
            widened: list[tuple[ColumnPath, StructField]] = []
            for field in fields:
                inner = (*path, field.name)
                if TYPE_CHANGES_KEY in field.metadata:
                    widened.append((inner, field))
                widened += _widened(field.data_type, inner)
            return widened
        case ArrayType():
            return _widened(data_type.element_type, (*path, "element"))
        case MapType():
            return [
                *_widened(data_type.key_type, (*path, "key")),
                *_widened(data_type.value_type, (*path, "value")),
            ]
        case _:
            return []


def _without_changes(schema: StructType) -> StructType:
    return StructType.from_json(_without_change_metadata(schema).to_json())


def _remove_mapping(dropping: FeatureDrop) -> None:
    if dropping.state.column_mapping != "none":
        dropping.reload(drop_column_mapping(dropping.engine, dropping.state, dropping.engine_info))
    dropping.unset(properties.COLUMN_MAPPING_MODE.key)


def _has_no_mapping(dropping: FeatureDrop) -> bool:
    return dropping.state.column_mapping == "none"


def _mapping_in_commit(commit: CommitActions) -> bool:
    return any(
        isinstance(action, Metadata)
        and action.configuration.get(properties.COLUMN_MAPPING_MODE.key, "none").lower() != "none"
        for action in commit.actions
    )


def _suspend_row_tracking(dropping: FeatureDrop) -> None:
    if _has_no_row_ids(dropping):
        return
    dropping.set(
        {properties.ROW_TRACKING.key: "false", properties.ROW_TRACKING_SUSPENDED.key: "true"}
    )
    dropping.state, commits = without_row_ids(
        dropping.engine, dropping.state, engine_info=dropping.engine_info
    )
    dropping.commits += commits


def _has_no_row_ids(dropping: FeatureDrop) -> bool:
    suspended = properties.ROW_TRACKING_SUSPENDED.read(dropping.state.properties)
    if properties.ROW_TRACKING.read(dropping.state.properties) or not suspended:
        return False
    with live_files(dropping.engine, dropping.state) as files:
        return all(file.add.base_row_id is None for file in files)


def _remove_domains(dropping: FeatureDrop) -> None:
    domains = list(dropping.state.domain_metadata)
    if not domains:
        return

    def change(builder: TransactionBuilder) -> TransactionBuilder:
        for domain in domains:
            builder = builder.with_delta_domain(domain, None)
        return builder

    dropping.commit(
        Operation.DOMAIN_METADATA_CLEANUP, {"domainMetadataRemovedCount": len(domains)}, change
    )


def _stop_timestamps(dropping: FeatureDrop) -> None:
    key = properties.IN_COMMIT_TIMESTAMPS.key
    existing = [k for k in _ENABLEMENT if k in dropping.state.properties]
    enabled = properties.IN_COMMIT_TIMESTAMPS.read(dropping.state.properties)
    if existing or enabled:
        dropping.commit(
            Operation.UNSET_TABLE_PROPERTIES,
            {"properties": as_json([*existing, *([key] if enabled else [])]), "ifExists": True},
            lambda builder: builder.with_table_properties_removed(existing).with_table_properties(
                {key: "false"} if enabled else {}
            ),
        )


def _has_no_timestamps(dropping: FeatureDrop) -> bool:
    return not (
        properties.IN_COMMIT_TIMESTAMPS.read(dropping.state.properties)
        or any(key in dropping.state.properties for key in _ENABLEMENT)
    )


def _use_classic_checkpoints(dropping: FeatureDrop) -> None:
    if properties.CHECKPOINT_POLICY.read(dropping.state.properties) == "v2":
        dropping.set({properties.CHECKPOINT_POLICY.key: "classic"})


def _has_classic_checkpoint(dropping: FeatureDrop) -> bool:
    if properties.CHECKPOINT_POLICY.read(dropping.state.properties) == "v2":
        return False
    files = base_checkpoint(dropping.engine, dropping.state)
    checkpoint = dropping.state.log_segment.checkpoint
    return files is None or (checkpoint is not None and not checkpoint.uuid_named)


def _v2_in_commit(commit: CommitActions) -> bool:
    return any(_has_property(a, properties.CHECKPOINT_POLICY.key, "v2") for a in commit.actions)


_WIDENING = FeatureRemoval(
    remove_traces=_remove_type_changes,
    is_clean=_has_no_type_changes,
    is_in_commit=_type_change_in_commit,
    needs_history=True,
)

_GEOSPATIAL = FeatureRemoval(
    remove_traces=_refuse_geospatial,
    is_clean=lambda d: not geospatial_columns(d.state.schema),
    needs_history=True,
)

REMOVALS: Mapping[str, FeatureRemoval] = {
    features.CHECK_CONSTRAINTS: FeatureRemoval(
        remove_traces=_refuse_constraints,
        is_clean=lambda d: not column_metadata.check_constraints(d.state.properties),
    ),
    features.DELETION_VECTORS: FeatureRemoval(
        remove_traces=_remove_deletion_vectors,
        is_clean=_has_no_vectors,
        is_in_commit=_vector_in_commit,
        needs_history=True,
    ),
    features.TYPE_WIDENING: _WIDENING,
    features.TYPE_WIDENING_PREVIEW: _WIDENING,
    features.COLUMN_MAPPING: FeatureRemoval(
        remove_traces=_remove_mapping,
        is_clean=_has_no_mapping,
        is_in_commit=_mapping_in_commit,
        needs_history=True,
    ),
    features.ROW_TRACKING: FeatureRemoval(
        remove_traces=_suspend_row_tracking,
        is_clean=_has_no_row_ids,
        properties=(
            properties.ROW_TRACKING.key,
            properties.ROW_TRACKING_SUSPENDED.key,
            "delta.rowTracking.materializedRowIdColumnName",
            "delta.rowTracking.materializedRowCommitVersionColumnName",
        ),
        domain="delta.rowTracking",
    ),
    features.DOMAIN_METADATA: FeatureRemoval(
        remove_traces=_remove_domains,
        is_clean=lambda d: not d.state.domain_metadata,
    ),
    features.IN_COMMIT_TIMESTAMP: FeatureRemoval(
        remove_traces=_stop_timestamps, is_clean=_has_no_timestamps
    ),
    features.V2_CHECKPOINT: FeatureRemoval(
        remove_traces=_use_classic_checkpoints,
        is_clean=_has_classic_checkpoint,
        is_in_commit=_v2_in_commit,
        needs_history=True,
    ),
    features.GEOSPATIAL: _GEOSPATIAL,
    features.GEOSPATIAL_DEV: _GEOSPATIAL,
    features.VACUUM_PROTOCOL_CHECK: FeatureRemoval(needs_history=True),
    features.MATERIALIZE_PARTITION_COLUMNS: FeatureRemoval(
        properties=(properties.MATERIALIZE_PARTITION_COLUMNS.key,)
    ),
    features.CHECKPOINT_PROTECTION: FeatureRemoval(
        properties=("delta.requireCheckpointProtectionBeforeVersion",)
    ),
}
"""Features that can be dropped, with the same steps as in delta-spark."""


def _without_change_metadata(schema: StructType) -> StructType:
    def of_type(data_type: DataType) -> DataType:
        match data_type:
            case StructType():
                return _without_change_metadata(data_type)
            case ArrayType():
                return ArrayType(
                    element_type=of_type(data_type.element_type),
                    contains_null=data_type.contains_null,
                )
            case MapType():
                return MapType(
                    key_type=of_type(data_type.key_type),
                    value_type=of_type(data_type.value_type),
                    value_contains_null=data_type.value_contains_null,
                )
            case _:
                return data_type

    return StructType(
        tuple(
            StructField(
                name=field.name,
                data_type=of_type(field.data_type),
                nullable=field.nullable,
                metadata={k: v for k, v in field.metadata.items() if k != TYPE_CHANGES_KEY},
            )
            for field in schema
        )
    )
