"""Computation of a table's metadata after a transaction."""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import msgspec

from bayou.errors import SchemaError, TablePropertyError, UnsupportedFeatureError
from bayou.kernel.log.table_state import TableState
from bayou.kernel.table_features.column_dependencies import check_not_referenced
from bayou.kernel.table_features.column_mapping import without_mapping
from bayou.kernel.table_features.column_mapping_ids import with_column_ids, with_ids_of
from bayou.kernel.table_features.iceberg_compat import (
    has_nested_field_ids,
    with_required_properties,
)
from bayou.kernel.transaction.schema_evolution import (
    check_fits,
    check_new_table,
    merge_schemas,
    widened_columns,
    widening_rule,
)
from bayou.protocol import column_metadata, features, properties
from bayou.protocol.actions import Metadata
from bayou.protocol.schema import StructType
from bayou.protocol.type_widening import AutomaticWidening, with_type_changes


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRequest:
    """Metadata changes that a transaction requests.

    Attributes:
        schema: schema of a new table, or of the rows to write to an existing table. If None, the
            schema isn't changed.
        evolves: whether new columns of the rows are added to the table.
        automatic_widening: type changes that schema evolution may make in a table with type
            widening; used only if `evolves` is set.
        replaces: whether to replace the table's schema and partition columns.
        set_properties, removed_properties: properties to set, and keys of properties to remove. The
            keys are spelled as in the log.
        metadata: metadata to which the other changes are applied. If None, they are applied to the
            table's metadata.
        files_checked: whether the caller guarantees that the existing rows satisfy new constraints,
            and that the live files have row ids if row tracking is enabled.
        name, description: new name and description. "" removes the table's value, None keeps it.
    """

    schema: StructType | None = None
    evolves: bool = False
    automatic_widening: AutomaticWidening = AutomaticWidening.SAME_FAMILY_TYPE
    replaces: bool = False
    partition_columns: tuple[str, ...] | None = None
    set_properties: Mapping[str, str] = field(default_factory=dict)
    removed_properties: Collection[str] = frozenset()
    metadata: Metadata | None = None
    files_checked: bool = False
    name: str | None = None
    description: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatedMetadata:
    """A table's metadata after a commit.

    Attributes:
        schema: the parsed schema of `metadata`.
        protocol_properties: properties that only change the protocol (`delta.feature.*`,
            `delta.minReaderVersion`) and aren't stored in the metadata.
    """

    metadata: Metadata
    schema: StructType
    protocol_properties: Mapping[str, str]


def update_metadata(
    table: str, state: TableState | None, request: MetadataRequest
) -> UpdatedMetadata:
    """Compute a table's metadata after the commit; `state` is None for a new table."""
    if state is None:
        return _create(table, request)
    return _update(state, request)


def _create(table: str, request: MetadataRequest) -> UpdatedMetadata:
    if request.metadata is not None:
        return _use_metadata(table, request.metadata, request.set_properties)
    schema = request.schema
    assert schema is not None  # checked by the builder
    columns = request.partition_columns or ()
    configuration = with_required_properties(table, None, request.set_properties)
    check_new_table(table, schema, columns, mapped=_is_mapped(configuration))
    nested_ids = has_nested_field_ids(configuration)
    schema, configuration = with_column_ids(
        table, schema, configuration, None, nested_ids=nested_ids
    )
    if properties.ROW_TRACKING.read(configuration):
        configuration = {**configuration, **_row_tracking_columns()}
    stored, protocol_properties = _split_protocol_properties(configuration)
    if any(
        f"{features.FEATURE_PREFIX}{f}" in protocol_properties for f in features.CATALOG_FEATURES
    ):
        stored = {properties.IN_COMMIT_TIMESTAMPS.key: "true", **stored}
    metadata = Metadata(
        id=str(uuid.uuid4()),
        name=request.name or None,
        description=request.description or None,
        schema_string=schema.to_json(),
        partition_columns=list(columns),
        created_time=time.time_ns() // 1_000_000,
        configuration=stored,
    )
    return UpdatedMetadata(
        metadata=metadata, schema=schema, protocol_properties=protocol_properties
    )


def _use_metadata(
    table: str, metadata: Metadata, set_properties: Mapping[str, str]
) -> UpdatedMetadata:
    check_constraints_unchanged(table, metadata.configuration, set_properties)
    stored, protocol_properties = _split_protocol_properties(
        {**metadata.configuration, **set_properties}
    )
    schema = StructType.from_json(metadata.schema_string)
    if has_nested_field_ids(stored):
        schema, stored = with_column_ids(
            table, schema, stored, metadata.configuration, nested_ids=True
        )
        metadata = msgspec.structs.replace(metadata, schema_string=schema.to_json())
    return UpdatedMetadata(
        metadata=msgspec.structs.replace(metadata, configuration=stored),
        schema=schema,
        protocol_properties=protocol_properties,
    )


def _update(state: TableState, request: MetadataRequest) -> UpdatedMetadata:
    columns = request.partition_columns
    if not request.replaces and columns is not None and columns != state.partition_columns:
        raise SchemaError(
            f"{state.path}: the table is partitioned by ({', '.join(state.partition_columns)}), "
            f"not by ({', '.join(columns)}), and its partition columns can't be changed. Use the "
            "table's partition columns, or replace the table.",
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
    merged, protocol_properties = _split_protocol_properties(merged)
    merged = with_required_properties(
        state.path, state.properties, merged, replaces=request.replaces
    )
    if not request.files_checked:
        check_constraints_unchanged(state.path, metadata.configuration, merged)
        if request.metadata is None:
            _check_row_tracking_unchanged(state, merged)
    if properties.ROW_TRACKING.read(merged) and _ROW_ID_COLUMN not in merged:
        merged.update(_row_tracking_columns())
    if request.schema is not None and request.replaces:
        schema = _replace_schema(state, request.schema, columns or (), mapped=_is_mapped(merged))
        metadata = msgspec.structs.replace(metadata, partition_columns=list(columns or ()))
    elif request.schema is not None and request.evolves:
        schema = _evolve_schema(state, schema, request.schema, merged, request.automatic_widening)
    elif request.schema is not None:
        check_fits(state.path, schema, request.schema)
    if request.metadata is None or not request.files_checked:
        nested_ids = has_nested_field_ids(merged)
        schema, merged = with_column_ids(
            state.path, schema, merged, state.properties, nested_ids=nested_ids
        )
    if schema != before:
        metadata = msgspec.structs.replace(metadata, schema_string=schema.to_json())
    if merged != metadata.configuration:
        metadata = msgspec.structs.replace(metadata, configuration=merged)
    if request.name is not None:
        metadata = msgspec.structs.replace(metadata, name=request.name or None)
    if request.description is not None:
        metadata = msgspec.structs.replace(metadata, description=request.description or None)
    return UpdatedMetadata(
        metadata=metadata, schema=schema, protocol_properties=protocol_properties
    )


def preview_version(state: TableState) -> int | None:
    """Return the next version if the table has the feature `typeWidening-preview`, otherwise None.

    The preview records this version as `tableVersion` in the schema.
    """
    has_preview = features.TYPE_WIDENING_PREVIEW in features.all_features(state.protocol)
    return state.version + 1 if has_preview else None


def _evolve_schema(
    state: TableState,
    schema: StructType,
    rows: StructType,
    configuration: Mapping[str, str],
    mode: AutomaticWidening,
) -> StructType:
    """Add the new columns of `rows` to `schema`, and widen columns to the types in `rows`.

    If `rows` was read from a table, its columns may have default values. The new columns don't get
    these defaults.
    """
    merged = merge_schemas(
        state.path,
        schema,
        column_metadata.without_defaults(rows),
        mapped=_is_mapped(configuration),
        widening=widening_rule(configuration, mode),
        merges_int32=True,
    )
    for path in widened_columns(schema, merged):
        change = "changed to the type of the new rows"
        check_not_referenced(state, path, change, "DATA_TYPE_MISMATCH")
    if not properties.TYPE_WIDENING.read(configuration):
        return merged  # the changes of byte, short and void don't need the feature
    return with_type_changes(schema, merged, preview_version(state))


def _replace_schema(
    state: TableState, schema: StructType, partition_columns: tuple[str, ...], *, mapped: bool
) -> StructType:
    """Check the new schema, and return the schema that the table gets.

    - If the new schema equals the table's schema without column mapping metadata, the table's
      schema is returned.
    - If the new schema has its own column mapping metadata, the new schema is returned unchanged.
    - In all other cases, the new schema is returned with column mapping metadata of the table's
      schema. A field gets the metadata of the table's field with the same path and type.

    Args:
        mapped: whether column mapping is enabled, so that names may contain any character.
    """
    check_new_table(state.path, schema, partition_columns, mapped=mapped)
    if without_mapping(state.schema) == schema:
        return state.schema
    # If the new schema has ids, none are taken from the replaced schema: they could be equal.
    has_ids = without_mapping(schema) != schema
    return schema if has_ids else with_ids_of(schema, state.schema)


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


def check_constraints_unchanged(
    table: str, before: Mapping[str, str], after: Mapping[str, str]
) -> None:
    """Raise an error if table properties add or change a CHECK constraint.

    A command that adds a constraint must check all existing rows. A command that only sets
    properties doesn't check them.

    Args:
        before: the properties whose constraints the existing rows satisfy.
    """
    satisfied = {(n.lower(), sql) for n, sql in column_metadata.check_constraints(before).items()}
    for name, sql in column_metadata.check_constraints(after).items():
        if (name.lower(), sql) not in satisfied:
            raise TablePropertyError(
                f"{table}: CHECK constraint {name!r} can't be set as a table property, because "
                "existing rows must be checked first. Add it with alter.add_constraint.",
                table=table,
                key=f"{column_metadata.CONSTRAINT_PREFIX}{name}",
            )


def _check_row_tracking_unchanged(state: TableState, after: Mapping[str, str]) -> None:
    """Raise an error if table properties enable row tracking.

    All existing files must have row ids before row tracking is enabled.
    """
    if properties.ROW_TRACKING.read(after) and not properties.ROW_TRACKING.read(state.properties):
        raise UnsupportedFeatureError(
            f"{state.path}: row tracking can't be enabled by this transaction, because all "
            "existing files need row ids first. Before the transaction, call "
            "alter.set_table_properties({'delta.enableRowTracking': 'true'}).",
            table=state.path,
            features=[features.ROW_TRACKING],
        )


def _split_protocol_properties(
    configuration: Mapping[str, str],
) -> tuple[dict[str, str], dict[str, str]]:
    stored: dict[str, str] = {}
    protocol_properties: dict[str, str] = {}
    for key, value in configuration.items():
        feature = key.removeprefix(features.FEATURE_PREFIX)
        if feature != key:
            name = features.feature_name(feature)
            protocol_properties[f"{features.FEATURE_PREFIX}{name}"] = value
        elif key in _PROTOCOL_KEYS:
            protocol_properties[key] = value
        else:
            stored[key] = value
    return stored, protocol_properties


_PROTOCOL_KEYS = frozenset(
    {"delta.minReaderVersion", "delta.minWriterVersion", "delta.ignoreProtocolDefaults"}
)
