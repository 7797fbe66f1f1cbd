"""DROP FEATURE: remove a table feature, with the same commits as delta-spark.

The command first removes the feature's traces, for example deletion vectors, from the latest
version. Then it removes the feature from the protocol.

Readers may still need the feature to read older versions (`FeatureRemoval.needs_history`). In this
case, the command writes three checkpoints, removes the feature from the protocol and writes another
checkpoint. It also adds delta-spark's feature `checkpointProtection`, which protects the
checkpoints of the older versions. If `truncate_history` is True, the command deletes the older
versions instead.
"""

from __future__ import annotations

import msgspec

from bayou.errors import (
    ConcurrentAppendError,
    ConcurrentDeleteReadError,
    UnsupportedFeatureError,
)
from bayou.kernel.checkpoint.write import checkpoint
from bayou.kernel.commands.alter.alteration import AlterationMetrics
from bayou.kernel.commands.alter.feature_removal import REMOVALS, FeatureDrop, FeatureRemoval
from bayou.kernel.engine import Engine
from bayou.kernel.log.replay import read_commits
from bayou.kernel.log.segment import commit_files
from bayou.kernel.log.table_state import TableState
from bayou.kernel.maintenance.log_cleanup import clean_up_log
from bayou.kernel.operation import Operation
from bayou.kernel.transaction.builder import TransactionBuilder
from bayou.kernel.transaction.commit_table_actions import current_time_ms
from bayou.protocol import features, properties
from bayou.protocol.actions import Protocol

_NUM_BARRIERS = 3
_MAX_ATTEMPTS = 10
"""Maximum number of attempts to change the protocol while other writers add or remove files."""

_TRUNCATED_HISTORY_MS = 24 * 3_600_000
_MINUTE = 60_000
_BEFORE_VERSION = "delta.requireCheckpointProtectionBeforeVersion"


def drop_feature(
    engine: Engine,
    state: TableState,
    name: str,
    *,
    truncate_history: bool = False,
    engine_info: str,
    now: int | None = None,
) -> AlterationMetrics:
    """Drop a table feature in one or more commits.

    Args:
        truncate_history: whether to delete the older versions that use the feature. These versions
            must be 24 hours old. Otherwise, an error says when to call `drop_feature` again, and
            the protocol still lists the feature. If False, the older versions are kept, and the
            feature `checkpointProtection` is added if readers need `name` for these versions.
        now: current time in ms since the epoch; None for the system clock.
    """
    name = features.feature_name(name)
    removal = _removal(state, name)
    own_history = removal.needs_history or name == features.CHECKPOINT_PROTECTION
    dropping = FeatureDrop(engine, state, name, engine_info)
    _check_not_required(dropping)
    if truncate_history and not own_history:
        raise dropping.in_use(
            "dropping this feature doesn't require truncating the history "
            "(DELTA_FEATURE_DROP_HISTORY_TRUNCATION_NOT_ALLOWED). Remove the "
            "argument truncate_history."
        )
    if name == features.CHECKPOINT_PROTECTION and not truncate_history:
        raise dropping.in_use(
            "the versions that the feature protects must be deleted first "
            "(DELTA_FEATURE_CAN_ONLY_DROP_CHECKPOINT_PROTECTION_WITH_HISTORY_TRUNCATION). Set "
            "truncate_history=True."
        )
    now = current_time_ms() if now is None else now
    before = dropping.commits
    if removal.remove_traces is not None:
        removal.remove_traces(dropping)
    changed = dropping.commits > before
    if name == features.CHECKPOINT_PROTECTION:
        _truncate_protected(dropping, now)
    elif truncate_history:
        _truncate(dropping, removal, changed=changed, now=now)
    elif removal.needs_history:
        for _ in range(_NUM_BARRIERS):
            _barrier(dropping)
    _lower_once_clean(dropping, removal, truncate_history=truncate_history)
    if removal.needs_history and not truncate_history:
        checkpoint(engine, state.path, dropping.state.version, state.catalog)
    return AlterationMetrics(version=dropping.state.version, num_commits=dropping.commits)


def _removal(state: TableState, name: str) -> FeatureRemoval:
    present = features.all_features(state.protocol)
    if name not in features.FEATURES:
        raise UnsupportedFeatureError(
            f"{state.path}: unknown table feature {name!r} "
            "(DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE). The table's features are: "
            f"{', '.join(present) or 'none'}.",
            table=state.path,
            features=[name],
        )
    if name not in present:
        raise UnsupportedFeatureError(
            f"{state.path}: the table doesn't have the feature {name!r} "
            "(DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT). The table's features are: "
            f"{', '.join(present) or 'none'}.",
            table=state.path,
            features=[name],
        )
    removal = REMOVALS.get(name)
    if removal is None:
        raise UnsupportedFeatureError(
            f"{state.path}: the feature {name!r} can't be dropped "
            "(DELTA_FEATURE_DROP_NONREMOVABLE_FEATURE). Features that can be dropped: "
            f"{', '.join(REMOVALS)}.",
            table=state.path,
            features=[name],
        )
    return removal


def _check_not_required(dropping: FeatureDrop) -> None:
    present = features.all_features(dropping.state.protocol)
    dependent = [other for other in features.features_requiring(dropping.name) if other in present]
    if dependent:
        raise dropping.in_use(
            f"the table has {', '.join(dependent)}, which requires this feature "
            "(DELTA_FEATURE_DROP_DEPENDENT_FEATURE). Drop the dependent features first."
        )


def _barrier(dropping: FeatureDrop) -> None:
    """Commit a version without changes, and write a checkpoint of this version.

    Readers of this version and later versions then need no earlier commits.
    """
    dropping.commit(Operation.EMPTY_COMMIT, {})
    state = dropping.state
    checkpoint(dropping.engine, state.path, state.version, state.catalog)


def _truncate(dropping: FeatureDrop, removal: FeatureRemoval, *, changed: bool, now: int) -> None:
    """Delete the versions that use the feature, or raise an error that says how long to wait.

    Args:
        changed: whether this command has just removed the feature's traces. If True, the version
            before this command still uses the feature. This version is too new to be deleted.
    """
    _barrier(dropping)
    if changed:
        raise dropping.in_use(
            "the latest version no longer uses the feature, but older versions do "
            "(DELTA_FEATURE_DROP_WAIT_FOR_RETENTION_PERIOD). Call drop_feature again with "
            "truncate_history=True when these versions are 24 hours old. To keep these "
            "versions, call drop_feature without truncate_history."
        )
    _clean_up(dropping, now)
    uses = removal.is_in_commit
    if uses is None:
        return
    files = list(commit_files(dropping.engine, dropping.state.path, catalog=dropping.state.catalog))
    with read_commits(dropping.engine, dropping.state.path, files) as commits:
        using = next((c.version for c in commits if uses(c)), None)
    if using is not None:
        raise dropping.in_use(
            f"version {using} still uses the feature "
            "(DELTA_FEATURE_DROP_HISTORICAL_VERSIONS_EXIST). Call drop_feature again with "
            "truncate_history=True when that version is 24 hours old. To keep that version, "
            "call drop_feature without truncate_history."
        )


def _truncate_protected(dropping: FeatureDrop, now: int) -> None:
    before = properties.CHECKPOINT_PROTECTION_BEFORE.read(dropping.state.properties)
    if _first_version(dropping) >= before:
        return
    _barrier(dropping)
    _clean_up(dropping, now)
    first = _first_version(dropping)
    if first < before:
        raise dropping.in_use(
            f"versions {first} to {before - 1} still exist, and the feature protects them. Call "
            "drop_feature again when these versions are 24 hours old."
        )


def _first_version(dropping: FeatureDrop) -> int:
    files = commit_files(dropping.engine, dropping.state.path, catalog=dropping.state.catalog)
    return next((version for version, _ in files), 0)


def _clean_up(dropping: FeatureDrop, now: int) -> None:
    clean_up_log(
        dropping.engine,
        dropping.state.path,
        retention_ms=_TRUNCATED_HISTORY_MS,
        now=now,
        granularity_ms=_MINUTE,
        catalog=dropping.state.catalog,
    )


def _lower_once_clean(
    dropping: FeatureDrop, removal: FeatureRemoval, *, truncate_history: bool
) -> None:
    """Remove the feature from the protocol, if the latest version doesn't use the feature.

    If a concurrent commit conflicts, the table is reloaded and checked again. If another writer has
    started to use the feature again, an error is raised.
    """
    for remaining in reversed(range(_MAX_ATTEMPTS)):
        if removal.is_clean is not None and not removal.is_clean(dropping):
            raise dropping.in_use(
                "another writer has started to use the feature again. Call drop_feature again."
            )
        try:
            _lower(dropping, removal, truncate_history=truncate_history)
        except (ConcurrentAppendError, ConcurrentDeleteReadError):
            if not remaining or removal.is_clean is None:
                raise
            dropping.reload(0)
        else:
            return


def _lower(dropping: FeatureDrop, removal: FeatureRemoval, *, truncate_history: bool) -> None:
    state = dropping.state
    protects = removal.needs_history and not truncate_history
    protocol = _without(state.protocol, dropping.name, protects=protects)

    def change(builder: TransactionBuilder) -> TransactionBuilder:
        builder = builder.with_protocol(protocol)
        configuration = {k: v for k, v in state.properties.items() if k not in removal.properties}
        if protects:
            configuration[_BEFORE_VERSION] = str(state.version + 1)
        metadata = msgspec.structs.replace(state.metadata, configuration=configuration)
        builder = builder.with_metadata(metadata)
        if removal.domain is not None and removal.domain in state.domain_metadata:
            builder = builder.with_delta_domain(removal.domain, None)
        return builder

    dropping.commit(
        Operation.DROP_FEATURE,
        {"featureName": dropping.name, "truncateHistory": truncate_history},
        change,
        reads_rows=removal.is_clean is not None,
    )


def _without(protocol: Protocol, name: str, *, protects: bool) -> Protocol:
    if protects:
        protocol = features.with_features(protocol, [features.CHECKPOINT_PROTECTION])
    return features.without_feature(protocol, name)
