"""DROP FEATURE: a feature and its traces leave the table, as delta-spark does it.

Where readers of older versions must know the feature, three checkpoints are put before the protocol
changes and one behind it, and `checkpointProtection` says that nobody may rebuild, or clean up by
halves, what is older. Or, with the history truncated, the older versions are gone.
"""

from __future__ import annotations

import time

import msgspec

from bayou.errors import (
    ConcurrentAppendError,
    ConcurrentDeleteReadError,
    UnsupportedFeatureError,
)
from bayou.kernel.checkpoint.write import checkpoint
from bayou.kernel.commands.alter.alteration import AlterationMetrics
from bayou.kernel.commands.alter.feature_removal import REMOVALS, Dropping, FeatureRemoval
from bayou.kernel.engine import Engine
from bayou.kernel.log.replay import read_commits
from bayou.kernel.log.segment import commit_files
from bayou.kernel.log.table_state import TableState
from bayou.kernel.maintenance.log_cleanup import clean_up_log
from bayou.kernel.operation import Operation
from bayou.kernel.transaction.builder import TransactionBuilder
from bayou.protocol import features, properties
from bayou.protocol.actions import Protocol

__all__ = ["drop_feature"]

_BARRIERS = 3
_ATTEMPTS = 10
"""How often other writers' appends may come between the last look at the table and the commit."""

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
    """Take a feature out of the table, in as many commits as that takes.

    Args:
        truncate_history: the versions that use it are deleted, once they are older than 24 hours,
            instead of being protected. The first call takes the traces out of the latest version
            and says how long to wait; a second one ends it.
        now: ms since the epoch; the clock's where it is None.

    Raises:
        UnsupportedFeatureError: the table doesn't have it, or it can't be dropped.
        FeatureInUseError: another feature or something of the table needs it, or versions that use
            it aren't old enough.
        CommitConflictError: another writer was in between.
    """
    removal = _removal(state, name)
    own_history = removal.needs_history or name == features.CHECKPOINT_PROTECTION
    dropping = Dropping(engine, state, name, engine_info)
    _refuse_needed(dropping)
    if truncate_history and not own_history:
        raise dropping.in_use(
            "its history needn't be truncated; leave truncate_history out "
            "(DELTA_FEATURE_DROP_HISTORY_TRUNCATION_NOT_ALLOWED)."
        )
    if name == features.CHECKPOINT_PROTECTION and not truncate_history:
        raise dropping.in_use(
            "it protects versions that must be gone first; give truncate_history=True "
            "(DELTA_FEATURE_CAN_ONLY_DROP_CHECKPOINT_PROTECTION_WITH_HISTORY_TRUNCATION)."
        )
    now = time.time_ns() // 1_000_000 if now is None else now
    before = dropping.commits
    if removal.remove_traces is not None:
        removal.remove_traces(dropping)
    changed = dropping.commits > before
    if name == features.CHECKPOINT_PROTECTION:
        _truncate_protected(dropping, now)
    elif truncate_history:
        _truncate(dropping, removal, changed=changed, now=now)
    elif removal.needs_history:
        for _ in range(_BARRIERS):
            _barrier(dropping)
    _lower_once_clean(dropping, removal, truncate_history=truncate_history)
    if removal.needs_history and not truncate_history:
        checkpoint(engine, state.path, dropping.state.version, state.catalog)
    return AlterationMetrics(version=dropping.state.version, num_commits=dropping.commits)


def _removal(state: TableState, name: str) -> FeatureRemoval:
    there = features.all_features(state.protocol)
    if name not in there:
        raise UnsupportedFeatureError(
            f"{state.path} doesn't have the feature {name!r}; it has {', '.join(there) or 'none'} "
            "(DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT).",
            table=state.path,
            features=[name],
        )
    removal = REMOVALS.get(name)
    if removal is None:
        raise UnsupportedFeatureError(
            f"The feature {name!r} can't be dropped from {state.path}; {', '.join(REMOVALS)} can "
            "(DELTA_FEATURE_DROP_NONREMOVABLE_FEATURE).",
            table=state.path,
            features=[name],
        )
    return removal


def _refuse_needed(dropping: Dropping) -> None:
    there = features.all_features(dropping.state.protocol)
    needing = [other for other in features.requiring(dropping.name) if other in there]
    if needing:
        raise dropping.in_use(
            f"{', '.join(needing)} needs it (DELTA_FEATURE_DROP_DEPENDENT_FEATURE). Drop that "
            "first."
        )


def _barrier(dropping: Dropping) -> None:
    """A commit that does nothing, and its checkpoint: nobody has to read what is behind it."""
    dropping.commit(Operation.EMPTY_COMMIT, {})
    state = dropping.state
    checkpoint(dropping.engine, state.path, state.version, state.catalog)


def _truncate(dropping: Dropping, removal: FeatureRemoval, *, changed: bool, now: int) -> None:
    """Delete the versions that use the feature, or say when that can be done."""
    _barrier(dropping)
    if changed:
        raise dropping.in_use(
            "its traces are out of the latest version, and older ones still have it "
            "(DELTA_FEATURE_DROP_WAIT_FOR_RETENTION_PERIOD). Those must "
            "be 24 hours old before they are deleted: call drop_feature again then, with "
            "truncate_history=True, or now without it."
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
            f"version {using} still uses it (DELTA_FEATURE_DROP_HISTORICAL_VERSIONS_EXIST). "
            "Versions must be 24 hours old before they are deleted: call drop_feature again later, "
            "with truncate_history=True, or now without it."
        )


def _truncate_protected(dropping: Dropping, now: int) -> None:
    before = properties.CHECKPOINT_PROTECTION_BEFORE.read(dropping.state.properties)
    if _first_version(dropping) >= before:
        return
    _barrier(dropping)
    _clean_up(dropping, now)
    first = _first_version(dropping)
    if first < before:
        raise dropping.in_use(
            f"versions {first} to {before - 1} are still there. They must be 24 hours old before "
            "they are deleted: call drop_feature again later."
        )


def _first_version(dropping: Dropping) -> int:
    files = commit_files(dropping.engine, dropping.state.path, catalog=dropping.state.catalog)
    return next((version for version, _ in files), 0)


def _clean_up(dropping: Dropping, now: int) -> None:
    clean_up_log(
        dropping.engine,
        dropping.state.path,
        retention_ms=_TRUNCATED_HISTORY_MS,
        now=now,
        granularity_ms=_MINUTE,
        catalog=dropping.state.catalog,
    )


def _lower_once_clean(
    dropping: Dropping, removal: FeatureRemoval, *, truncate_history: bool
) -> None:
    """Take the feature out of the protocol of a version that was looked at, and of no other."""
    for left in reversed(range(_ATTEMPTS)):
        if removal.is_clean is not None and not removal.is_clean(dropping):
            raise dropping.in_use("another writer brought it back meanwhile. Try again.")
        try:
            _lower(dropping, removal, truncate_history=truncate_history)
        except (ConcurrentAppendError, ConcurrentDeleteReadError):
            if not left or removal.is_clean is None:
                raise
            dropping.went_on(0)
        else:
            return


def _lower(dropping: Dropping, removal: FeatureRemoval, *, truncate_history: bool) -> None:
    """The commit that takes the feature out of the protocol."""
    state = dropping.state
    protects = removal.needs_history and not truncate_history
    protocol = _without(state.protocol, dropping.name, protects=protects)

    def change(builder: TransactionBuilder) -> TransactionBuilder:
        builder = builder.with_protocol(protocol)
        kept = {k: v for k, v in state.properties.items() if k not in removal.properties}
        if protects:
            kept[_BEFORE_VERSION] = str(state.version + 1)
        metadata = msgspec.structs.replace(state.metadata, configuration=kept)
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
        protocol = features.upgraded(protocol, [features.CHECKPOINT_PROTECTION])
    return features.without(protocol, name)
