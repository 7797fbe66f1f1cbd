"""Table properties set and unset (PROTOCOL.md, Table Properties)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from bayou.errors import TablePropertyError
from bayou.kernel.commands.alter.alteration import Alteration, AlterationMetrics, as_json
from bayou.kernel.commands.alter.row_tracking import enable_row_tracking
from bayou.kernel.engine import Engine
from bayou.kernel.log.table_state import TableState
from bayou.kernel.operation import Operation
from bayou.kernel.transaction.builder import TransactionBuilder
from bayou.protocol import features, properties
from bayou.protocol.actions import Metadata
from bayou.protocol.property_strings import PropertyValueError

__all__ = ["set_properties", "unset_properties"]

_COMMENT = "comment"


def set_properties(
    engine: Engine, state: TableState, configuration: Mapping[str, str], *, engine_info: str
) -> AlterationMetrics:
    """Set properties; those that turn a feature on raise the protocol for it.

    `comment` is the table's description. Turning row tracking on gives ids to all files first, in
    commits of their own.

    Raises:
        TablePropertyError: a property that isn't one, an unusable value, or one that takes more
            than a property.
        UnsupportedFeatureError: it asks for a feature that isn't supported.
    """
    given = properties.normalize(configuration)
    for key in given:
        _refuse_by_property(state, key, given[key])
    _validate(state, {k: v for k, v in given.items() if k != _COMMENT})
    commits = 1
    tags: dict[str, str] = {}
    row_tracking = properties.ROW_TRACKING.read(given)
    if row_tracking and properties.ROW_TRACKING_SUSPENDED.read({**state.properties, **given}):
        raise TablePropertyError(
            f"{state.path}: row tracking can't be on (delta.enableRowTracking) and suspended "
            "(delta.rowTrackingSuspended) at once.",
            table=state.path,
            key=properties.ROW_TRACKING_SUSPENDED.key,
        )
    if row_tracking and not properties.ROW_TRACKING.read(state.properties):
        state, done = enable_row_tracking(engine, state, engine_info=engine_info)
        commits += done
        if len(given) == 1:
            tags["rowTrackingEnablementOnly"] = "true"
    kept = {key: value for key, value in given.items() if key != _COMMENT}

    def change(builder: TransactionBuilder) -> TransactionBuilder:
        builder = _with_comment(builder, state, given.get(_COMMENT))
        builder = builder.with_table_properties(kept)
        return builder.with_files_checked() if row_tracking else builder

    alteration = Alteration(
        engine=engine,
        state=state,
        engine_info=engine_info,
        operation=Operation.SET_TABLE_PROPERTIES,
        parameters={"properties": as_json(dict(configuration))},
        tags=tags,
    )
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
    """Unset properties: their defaults hold. The protocol stays as it is.

    Raises:
        TablePropertyError: the table doesn't have one, or it takes more than a property.
    """
    given = list(properties.normalize(dict.fromkeys(keys, "")))
    have = {*state.properties, _COMMENT}
    missing = [key for key in given if key not in have]
    if missing and not if_exists:
        raise TablePropertyError(
            f"{state.path} has no property {missing[0]!r}; it has "
            f"{', '.join(sorted(state.properties)) or 'none'}.",
            table=state.path,
            key=missing[0],
        )
    for key in given:
        _refuse_by_property(state, key, None)
    alteration = Alteration(
        engine=engine,
        state=state,
        engine_info=engine_info,
        operation=Operation.UNSET_TABLE_PROPERTIES,
        parameters={"properties": as_json(given), "ifExists": if_exists},
    )

    def change(builder: TransactionBuilder) -> TransactionBuilder:
        if _COMMENT in given:
            builder = builder.with_metadata(_described(state.metadata, None))
        return builder.with_table_properties_removed(given)

    return alteration.commit(change)


def _validate(state: TableState, configuration: Mapping[str, str]) -> None:
    """Before anything is committed: enabling row tracking takes commits of its own."""
    try:
        properties.validate(configuration)
    except PropertyValueError as error:
        raise TablePropertyError(
            f"{state.path}: {error}.", table=state.path, key=error.key
        ) from error


def _refuse_by_property(state: TableState, key: str, value: str | None) -> None:
    """What looks like a property and isn't one, or isn't one alone."""
    mode = properties.COLUMN_MAPPING_MODE
    instead = None
    if key.lower().startswith(features.CONSTRAINT_PREFIX):
        what = "a constraint is checked against all rows"
        instead = "alter.add_constraint and alter.drop_constraint"
    elif key == f"{features.FEATURE_PREFIX}{features.CLUSTERING}":
        what = (
            "a table is clustered by columns "
            "(DELTA_ALTER_TABLE_SET_CLUSTERING_TABLE_FEATURE_NOT_ALLOWED)"
        )
        instead = "alter.cluster_by"
    elif key == mode.key and state.column_mapping != "none" and value in (None, "none"):
        what = "without column mapping all files must be rewritten"
        instead = f"alter.drop_feature({features.COLUMN_MAPPING!r})"
    if instead is not None:
        raise TablePropertyError(
            f"{state.path}: {key!r} can't be changed as a property: {what}. Use {instead}.",
            table=state.path,
            key=key,
        )


def _with_comment(
    builder: TransactionBuilder, state: TableState, comment: str | None
) -> TransactionBuilder:
    if comment is None:
        return builder
    return builder.with_metadata(_described(state.metadata, comment))


def _described(metadata: Metadata, comment: str | None) -> Metadata:
    return msgspec.structs.replace(metadata, description=comment)
