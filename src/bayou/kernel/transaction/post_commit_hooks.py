"""What a commit makes due: checksum, checkpoint, compaction, cleanup, manifests, in this order.

The checksum comes first, because it is small and all others gain by it; the cleanup last, because
it deletes what a new checkpoint covers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from bayou.errors import BayouError
from bayou.kernel.catalog import Catalog, permits_maintenance
from bayou.kernel.checkpoint.parts import checkpoint_by_workers
from bayou.kernel.crc.commit_effect import CommitEffect
from bayou.kernel.crc.write import write_checksum
from bayou.kernel.engine import Engine
from bayou.kernel.maintenance.log_cleanup import clean_up_log
from bayou.kernel.maintenance.log_compaction import compact_log, is_compaction_due
from bayou.kernel.maintenance.symlink_manifest import update_symlink_manifests
from bayou.protocol.properties import SYMLINK_MANIFESTS, TableProperties
from bayou.protocol.property_strings import PropertyValueError

__all__ = ["HookName", "PostCommitHook", "due_hooks", "run_hooks"]

_LOG = logging.getLogger(__name__)

HookName: TypeAlias = Literal[
    "checksum", "checkpoint", "log_compaction", "log_cleanup", "symlink_manifest"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PostCommitHook:
    """Work that a commit makes due; the commit stands whether or not it is done.

    Hooks are independent of each other: any of them may be run later, by another process, or by
    nobody. In the order in which they are given each costs least.

    Attributes:
        name: `checksum`, `checkpoint`, `log_compaction`, `log_cleanup` or `symlink_manifest`.
        version: the version that was committed.
        first_version: of a log compaction, the first version that it covers.
        effect: of a checksum, what the commit changed; None: the commit is read.
        retention_ms: of a log cleanup, how long the table keeps commits; None: the table is asked.
        catalog: the one that manages the table, None for none.
    """

    name: HookName
    table: str
    version: int
    first_version: int | None = None
    effect: CommitEffect | None = field(default=None, repr=False, compare=False)
    retention_ms: int | None = None
    catalog: Catalog | None = field(default=None, repr=False, compare=False)

    def run(self, engine: Engine) -> None:
        """Do it; repeatable, safe beside other writers.

        Raises:
            BayouError: it can't be done now.
        """
        match self.name:
            case "checksum":
                write_checksum(engine, self.table, self.version, self.effect, self.catalog)
            case "checkpoint":
                checkpoint_by_workers(engine, self.table, self.version, self.catalog)
            case "log_compaction":
                first = self.first_version
                compact_log(engine, self.table, 0 if first is None else first, self.version)
            case "log_cleanup":
                clean_up_log(
                    engine, self.table, retention_ms=self.retention_ms, catalog=self.catalog
                )
            case "symlink_manifest":
                update_symlink_manifests(engine, self.table, self.version, self.catalog)


def due_hooks(
    table: str,
    version: int,
    configuration: Mapping[str, str],
    *,
    effect: CommitEffect | None = None,
    compaction_interval: int | None = None,
    catalog: Catalog | None = None,
) -> tuple[PostCommitHook, ...]:
    """What a version makes due.

    Args:
        configuration: the table's properties; one that can't be read leaves only the checksum.
        compaction_interval: of log compaction, None for never.
        catalog: the one that manages the table, None for none; without its leave no cleanup is due.
    """
    checksum = PostCommitHook(name="checksum", table=table, version=version, effect=effect)
    try:
        hooks = [
            checksum,
            *_configured_hooks(table, version, configuration, compaction_interval, catalog),
        ]
    except PropertyValueError as error:  # other writers check less; the commit stands
        _LOG.warning(
            "%s: only the checksum of version %d is written. Correct the table property: %s.",
            table,
            version,
            error,
        )
        hooks = [checksum]
    except Exception:  # noqa: BLE001 - the catalog is anyone's code, and the commit stands
        _LOG.warning(
            "%s: only the checksum of version %d is written: its catalog failed.",
            table,
            version,
            exc_info=True,
        )
        hooks = [checksum]
    if catalog is not None:
        hooks = [replace(hook, catalog=catalog) for hook in hooks]
    return tuple(hooks)


def _configured_hooks(
    table: str,
    version: int,
    configuration: Mapping[str, str],
    compaction_interval: int | None,
    catalog: Catalog | None,
) -> list[PostCommitHook]:
    properties = TableProperties(configuration)
    hooks: list[PostCommitHook] = []
    due = version > 0 and version % properties.checkpoint_interval == 0
    if due:
        hooks.append(PostCommitHook(name="checkpoint", table=table, version=version))
    if compaction_interval is not None and is_compaction_due(version, compaction_interval):
        first = version + 1 - compaction_interval
        hooks.append(
            PostCommitHook(name="log_compaction", table=table, version=version, first_version=first)
        )
    permitted = catalog is None or permits_maintenance(catalog, table, "LOG CLEANUP")
    if due and properties.expired_log_cleanup and permitted:
        retention = properties.log_retention_ms
        hooks.append(
            PostCommitHook(name="log_cleanup", table=table, version=version, retention_ms=retention)
        )
    if SYMLINK_MANIFESTS.read(configuration):
        hooks.append(PostCommitHook(name="symlink_manifest", table=table, version=version))
    return hooks


def run_hooks(engine: Engine, hooks: Iterable[PostCommitHook]) -> None:
    """Run hooks in order. One that fails is logged, and the others are run all the same.

    No exception gets out, whatever its type: a caller would take the commit for failed and repeat
    it, which doubles its rows.
    """
    for hook in hooks:
        try:
            hook.run(engine)
        except Exception as error:  # noqa: BLE001 - the commit stands
            _LOG.warning(
                "The %s of %s at version %d failed; the commit stands, and the next one tries "
                "again. %s",
                hook.name.replace("_", " "),
                hook.table,
                hook.version,
                error if isinstance(error, BayouError) else f"{type(error).__name__}: {error}",
                exc_info=None if isinstance(error, BayouError) else error,
            )
