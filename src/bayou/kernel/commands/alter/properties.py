"""SET TBLPROPERTIES and UNSET TBLPROPERTIES (PROTOCOL.md, Table Properties)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from bayou.errors import TablePropertyError
from bayou.kernel.commands.alter.alteration import Alteration, AlterationMetrics, as_json
from bayou.kernel.commands.alter.row_tracking import enable_row_tracking
from bayou.kernel.engine import Engine
from bayou.kernel.log.table_state import TableState
from bayou.kernel.operation import Operation
from bayou.kernel.table_features.iceberg_compat import iceberg_compat_version
from bayou.kernel.transaction.builder import TransactionBuilder
from bayou.protocol import features, properties
from bayou.protocol.actions import Metadata
from bayou.protocol.column_metadata import CONSTRAINT_PREFIX
from bayou.protocol.property_strings import PropertyValueError

_COMMENT = "comment"


def set_properties(
    engine: Engine, state: TableState, configuration: Mapping[str, str], *, engine_info: str
) -> AlterationMetrics:
    """Set table properties; properties that enable a feature also upgrade the protocol.

    The key `comment` sets the table's description. `delta.enableIcebergCompatV3` also enables row
    tracking. Before row tracking is enabled, separate commits assign row ids to all files.
    """
    requested = properties.normalize(configuration)
    if _implies_row_tracking(state, requested):
        requested[properties.ROW_TRACKING.key] = "true"
    for key in requested:
        _check_is_plain_property(state, key, requested[key])
    _validate(state, {k: v for k, v in requested.items() if k != _COMMENT})
    commits = 1
    tags: dict[str, str] = {}
    row_tracking = properties.ROW_TRACKING.read(requested)
    table_properties = {key: value for key, value in requested.items() if key != _COMMENT}

    def change(builder: TransactionBuilder) -> TransactionBuilder:
        builder = _with_comment(builder, state, requested.get(_COMMENT))
        builder = builder.with_table_properties(table_properties)
        return builder.with_files_checked() if row_tracking else builder

    alteration = Alteration(
        engine=engine,
        state=state,
        engine_info=engine_info,
        operation=Operation.SET_TABLE_PROPERTIES,
        parameters={"properties": as_json(dict(configuration))},
        tags=tags,
    )
    if row_tracking and not properties.ROW_TRACKING.read(state.properties):
        alteration.check(change)
        state, done = enable_row_tracking(engine, state, engine_info=engine_info)
        commits += done
        if len(requested) == 1:
            tags["rowTrackingEnablementOnly"] = "true"
        alteration = replace(alteration, state=state)
    metrics = alteration.commit(change)
    return AlterationMetrics(version=metrics.version, num_commits=commits)


def unset_properties(
    engine: Engine,
    state: TableState,
    keys: Sequence[str],
    *,
    if_exists: bool = False,
    engine_info: str,
) -> AlterationMetrics:
    """Reset properties to their defaults, without changing the protocol."""
    requested = list(properties.normalize(dict.fromkeys(keys, "")))
    existing = {*state.properties, _COMMENT}
    missing = [key for key in requested if key not in existing]
    if missing and not if_exists:
        raise TablePropertyError(
            f"{state.path}: property {missing[0]!r} isn't set. The table's properties are: "
            f"{', '.join(sorted(state.properties)) or 'none'}.",
            table=state.path,
            key=missing[0],
        )
    for key in requested:
        _check_is_plain_property(state, key, None)
    alteration = Alteration(
        engine=engine,
        state=state,
        engine_info=engine_info,
        operation=Operation.UNSET_TABLE_PROPERTIES,
        parameters={"properties": as_json(requested), "ifExists": if_exists},
    )

    def change(builder: TransactionBuilder) -> TransactionBuilder:
        if _COMMENT in requested:
            builder = builder.with_metadata(_with_description(state.metadata, None))
        return builder.with_table_properties_removed(requested)

    return alteration.commit(change)


def set_name(
    engine: Engine, state: TableState, name: str, *, engine_info: str
) -> AlterationMetrics:
    """Set the table's name (PROTOCOL.md, Change Metadata); an empty string removes it."""
    alteration = Alteration(
        engine=engine,
        state=state,
        engine_info=engine_info,
        operation=Operation.SET_TABLE_PROPERTIES,
        parameters={"properties": as_json({"name": name})},
    )
    metadata = msgspec.structs.replace(state.metadata, name=name or None)
    return alteration.commit(lambda builder: builder.with_metadata(metadata))


def _implies_row_tracking(state: TableState, requested: Mapping[str, str]) -> bool:
    """Whether the new properties enable IcebergCompatV3, but don't set row tracking."""
    after = {**state.properties, **requested}
    return iceberg_compat_version(after) == 3 and properties.ROW_TRACKING.key not in after


def _validate(state: TableState, configuration: Mapping[str, str]) -> None:
    """Raise an error if a value of `configuration` is invalid.

    Call this function before the first commit, so that an error leaves the table unchanged.
    """
    try:
        properties.validate(configuration)
    except PropertyValueError as error:
        raise TablePropertyError(
            f"{state.path}: {error}.", table=state.path, key=error.key
        ) from error


def _check_is_plain_property(state: TableState, key: str, value: str | None) -> None:
    mode = properties.COLUMN_MAPPING_MODE
    command = None
    if key.lower().startswith(CONSTRAINT_PREFIX):
        reason = "a constraint must be checked against all rows"
        command = "alter.add_constraint and alter.drop_constraint"
    elif key.lower() == f"{features.FEATURE_PREFIX}{features.CLUSTERING}".lower():
        reason = (
            "clustering needs columns (DELTA_ALTER_TABLE_SET_CLUSTERING_TABLE_FEATURE_NOT_ALLOWED)"
        )
        command = "alter.cluster_by"
    elif key == mode.key and state.column_mapping != "none" and value in (None, "none"):
        reason = "removing column mapping rewrites all files"
        command = f"alter.drop_feature({features.COLUMN_MAPPING!r})"
    if command is not None:
        raise TablePropertyError(
            f"{state.path}: {key!r} can't be changed as a property, because {reason}. Use "
            f"{command}.",
            table=state.path,
            key=key,
        )


def _with_comment(
    builder: TransactionBuilder, state: TableState, comment: str | None
) -> TransactionBuilder:
    if comment is None:
        return builder
    return builder.with_metadata(_with_description(state.metadata, comment))


def _with_description(metadata: Metadata, comment: str | None) -> Metadata:
    return msgspec.structs.replace(metadata, description=comment)
