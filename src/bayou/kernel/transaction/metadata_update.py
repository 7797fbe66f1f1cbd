"""A table's metadata as a transaction leaves it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import msgspec

from bayou.errors import SchemaError, TablePropertyError, UnsupportedFeatureError
from bayou.kernel.log.table_state import TableState
from bayou.kernel.table_features.column_dependencies import refuse_if_used
from bayou.kernel.table_features.column_mapping import with_column_ids, without_mapping
from bayou.kernel.transaction.schema_evolution import (
    check_fits,
    check_new_table,
    merge_schemas,
    widened_columns,
)
from bayou.protocol import column_rules, features, properties
from bayou.protocol.actions import Metadata
from bayou.protocol.schema import StructType
from bayou.protocol.type_changes import with_type_changes

__all__ = ["MetadataChange", "MetadataRequest", "changed_metadata", "preview_version"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRequest:
    """What a transaction asks for.

    Attributes:
        schema: of a new table, or of the rows for an existing one; None where it isn't told.
        evolves: columns of the rows that the table lacks are added.
        replaces: schema and partition columns take the place of the table's.
        partition_columns: None where they aren't told.
        set_properties, removed_properties: their keys as they stand in the log.
        metadata: what the table's is replaced by first; None leaves it.
        files_checked: the table's files were found to go with new constraints and row ids.
        description: what the table is about; None leaves it, an empty text takes it away.
    """

    schema: StructType | None = None
    evolves: bool = False
    replaces: bool = False
    partition_columns: tuple[str, ...] | None = None
    set_properties: Mapping[str, str] = field(default_factory=dict)
    removed_properties: Collection[str] = frozenset()
    metadata: Metadata | None = None
    files_checked: bool = False
    description: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataChange:
    """Metadata once the transaction is committed.

    Attributes:
        schema: that of `metadata`, parsed.
        asked_features: properties that ask something of the protocol (`delta.feature.*`,
            `delta.minReaderVersion`) and aren't kept.
    """

    metadata: Metadata
    schema: StructType
    asked_features: Mapping[str, str]


def changed_metadata(
    table: str, state: TableState | None, request: MetadataRequest
) -> MetadataChange:
    """Metadata of a new table, where there is no state, or of an existing one.

    Raises:
        SchemaError: schema or partitioning can't be, or don't fit the table.
        TablePropertyError: a property that the table can't be given so.
        UnsupportedFeatureError: a property that takes more than a property.
    """
    if state is None:
        return _new(table, request)
    return _updated(state, request)


def _new(table: str, request: MetadataRequest) -> MetadataChange:
    if request.metadata is not None:
        return _as_given(request.metadata, request.set_properties)
    schema = request.schema
    assert schema is not None  # the builder asks for it
    columns = request.partition_columns or ()
    configuration = dict(request.set_properties)
    check_new_table(table, schema, columns, mapped=_is_mapped(configuration))
    schema, configuration = with_column_ids(table, schema, configuration, None)
    if properties.ROW_TRACKING.read(configuration):
        configuration = {**configuration, **_row_tracking_columns()}
    kept, asked = _without_feature_keys(configuration)
    if f"{features.FEATURE_PREFIX}{features.CATALOG_MANAGED}" in asked:
        kept = {properties.IN_COMMIT_TIMESTAMPS.key: "true", **kept}
    metadata = Metadata(
        id=str(uuid.uuid4()),
        description=request.description or None,
        schema_string=schema.to_json(),
        partition_columns=list(columns),
        created_time=time.time_ns() // 1_000_000,
        configuration=kept,
    )
    return MetadataChange(metadata=metadata, schema=schema, asked_features=asked)


def _as_given(metadata: Metadata, set_properties: Mapping[str, str]) -> MetadataChange:
    kept, asked = _without_feature_keys({**metadata.configuration, **set_properties})
    return MetadataChange(
        metadata=msgspec.structs.replace(metadata, configuration=kept),
        schema=StructType.from_json(metadata.schema_string),
        asked_features=asked,
    )


def _updated(state: TableState, request: MetadataRequest) -> MetadataChange:
    given = request.partition_columns
    if not request.replaces and given is not None and given != state.partition_columns:
        raise SchemaError(
            f"{state.path} is partitioned by ({', '.join(state.partition_columns)}), not by "
            f"({', '.join(given)}); the partitioning of an existing table stays.",
            table=state.path,
        )
    metadata, schema = state.metadata, state.schema
    if request.metadata is not None:
        metadata = request.metadata
        schema = StructType.from_json(metadata.schema_string)
    before = schema
    merged = {
        key: value
        for key, value in {**metadata.configuration, **request.set_properties}.items()
        if key not in request.removed_properties
    }
    merged, asked = _without_feature_keys(merged)
    if request.metadata is None and not request.files_checked:
        _check_changed_properties(state, merged)
    if properties.ROW_TRACKING.read(merged) and _ROW_ID_COLUMN not in merged:
        merged.update(_row_tracking_columns())
    if request.schema is not None and request.replaces:
        schema = _replaced(state, request.schema, given or (), mapped=_is_mapped(merged))
        metadata = msgspec.structs.replace(metadata, partition_columns=list(given or ()))
    elif request.schema is not None and request.evolves:
        schema = _evolved(state, schema, request.schema, merged)
    elif request.schema is not None:
        check_fits(state.path, schema, request.schema)
    if request.metadata is None or not request.files_checked:
        schema, merged = with_column_ids(state.path, schema, merged, state.properties)
    if schema != before:
        metadata = msgspec.structs.replace(metadata, schema_string=schema.to_json())
    if merged != metadata.configuration:
        metadata = msgspec.structs.replace(metadata, configuration=merged)
    if request.description is not None:
        metadata = msgspec.structs.replace(metadata, description=request.description or None)
    return MetadataChange(metadata=metadata, schema=schema, asked_features=asked)


def preview_version(state: TableState) -> int | None:
    """What the next commit's version is where type changes tell it: in the feature's preview."""
    has_preview = features.TYPE_WIDENING_PREVIEW in features.all_features(state.protocol)
    return state.version + 1 if has_preview else None


def _evolved(
    state: TableState, schema: StructType, rows: StructType, configuration: Mapping[str, str]
) -> StructType:
    """The schema with the columns, and where types widen the types, that rows bring."""
    merged = merge_schemas(
        state.path,
        schema,
        rows,
        mapped=_is_mapped(configuration),
        widens=properties.TYPE_WIDENING.read(configuration),
    )
    widened = widened_columns(schema, merged)
    if not widened:
        return merged
    for path in widened:
        refuse_if_used(state, path, "changed to a wider type, which the rows have")
    return with_type_changes(schema, merged, preview_version(state))


def _replaced(
    state: TableState, schema: StructType, partition_columns: tuple[str, ...], *, mapped: bool
) -> StructType:
    """The schema that takes the place of a table's; the table's own where that is the same."""
    check_new_table(state.path, schema, partition_columns, mapped=mapped)
    return state.schema if without_mapping(state.schema) == schema else schema


def _is_mapped(configuration: Mapping[str, str]) -> bool:
    return properties.COLUMN_MAPPING_MODE.read(configuration) != "none"


_ROW_ID_COLUMN = "delta.rowTracking.materializedRowIdColumnName"


def _row_tracking_columns() -> dict[str, str]:
    return {
        _ROW_ID_COLUMN: f"_row-id-col-{uuid.uuid4()}",
        "delta.rowTracking.materializedRowCommitVersionColumnName": (
            f"_row-commit-version-col-{uuid.uuid4()}"
        ),
    }


def _check_changed_properties(state: TableState, after: Mapping[str, str]) -> None:
    """What an existing table can't be given, or lose, by a property alone."""
    before = state.properties
    if properties.ROW_TRACKING.read(after) and not properties.ROW_TRACKING.read(before):
        raise UnsupportedFeatureError(
            f"{state.path} has no row tracking, and enabling it on an existing table gives ids to "
            "all of its files, in commits of their own. Enable it with "
            "alter.set_properties({'delta.enableRowTracking': 'true'}) first.",
            table=state.path,
            features=[features.ROW_TRACKING],
        )
    kept = {name for name, _ in column_rules.check_constraints(before).items()}
    new = [name for name in column_rules.check_constraints(after) if name not in kept]
    if new:
        raise TablePropertyError(
            f"{state.path}: a CHECK constraint ({new[0]}) can't be set as a property of a table "
            "that may have rows: they must be checked first. Add it with alter.add_constraint.",
            table=state.path,
            key=f"{features.CONSTRAINT_PREFIX}{new[0]}",
        )


def _without_feature_keys(
    configuration: Mapping[str, str],
) -> tuple[dict[str, str], dict[str, str]]:
    """Properties that are kept, and those that ask something of the protocol only."""
    prefix = features.FEATURE_PREFIX
    asking = {k: v for k, v in configuration.items() if k.startswith(prefix) or k in _OF_PROTOCOL}
    return {k: v for k, v in configuration.items() if k not in asking}, asking


_OF_PROTOCOL = frozenset(
    {"delta.minReaderVersion", "delta.minWriterVersion", "delta.ignoreProtocolDefaults"}
)
