"""Post-commit hooks: maintenance after a commit, such as a checkpoint.

The hooks run in this order: checksum, Iceberg metadata, checkpoint, log compaction, log cleanup and
symlink manifest. The checksum is first, because the other hooks are faster with it. Log cleanup
runs after the checkpoint, because log cleanup deletes only commits before a checkpoint. Log cleanup
also runs after the conversion to Iceberg metadata, because the conversion reads the commits.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, TypeAlias

from bayou.errors import BayouError
from bayou.kernel.catalog import Catalog, permits_maintenance
from bayou.kernel.checkpoint.parts import write_checkpoint_with_workers
from bayou.kernel.crc.commit_effect import CommitEffect
from bayou.kernel.crc.write import write_checksum
from bayou.kernel.engine import Engine, commit_settings
from bayou.kernel.iceberg.delta_to_iceberg import convert, is_enabled
from bayou.kernel.iceberg.expiration import expire_snapshots
from bayou.kernel.maintenance.log_cleanup import clean_up_log
from bayou.kernel.maintenance.log_compaction import compact_log, is_compaction_due
from bayou.kernel.maintenance.symlink_manifest import update_symlink_manifests
from bayou.kernel.transaction.background_hooks import BackgroundHooks
from bayou.protocol.properties import SYMLINK_MANIFESTS, TableProperties
from bayou.protocol.property_strings import PropertyValueError

_LOG = logging.getLogger(__name__)

HookName: TypeAlias = Literal[
    "checksum",
    "iceberg_metadata",
    "checkpoint",
    "log_compaction",
    "log_cleanup",
    "symlink_manifest",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PostCommitHook:
    """Maintenance that is due after a commit. The commit is valid even if the hook never runs.

    A hook may run later, or in another process. Hooks may run in any order. The order in which
    `due_hooks` returns the hooks is the fastest.

    Attributes:
        name: `checksum`, `iceberg_metadata`, `checkpoint`, `log_compaction`, `log_cleanup` or
            `symlink_manifest`.
        table: path of the table.
        version: the committed version.
        first_version: for a log compaction, the first version to compact.
        effect: for a checksum, the changes of the commit. If None, the changes are read from the
            log.
        retention_ms: for a log cleanup, the log retention. If None, the table property is read.
        catalog: the catalog that manages the table; None if no catalog does.

    Examples:
        >>> adds = write_data(engine, transaction.transaction_state(engine), rows)
        >>> result = transaction.commit(engine, adds)
        >>> for hook in result.post_commit_hooks:
        ...     print(hook.name)
        ...     hook.run(engine)
    """

    name: HookName
    table: str
    version: int
    first_version: int | None = None
    effect: CommitEffect | None = field(default=None, repr=False, compare=False)
    retention_ms: int | None = None
    catalog: Catalog | None = field(default=None, repr=False, compare=False)

    def run(self, engine: Engine) -> None:
        """Run the hook. Idempotent and safe with concurrent writers.

        Raises:
            BayouError: the hook failed.
        """
        match self.name:
            case "checksum":
                write_checksum(engine, self.table, self.version, self.effect, self.catalog)
            case "iceberg_metadata":
                convert(engine, self.table, self.version, catalog=self.catalog)
            case "checkpoint":
                write_checkpoint_with_workers(engine, self.table, self.version, self.catalog)
            case "log_compaction":
                first = self.first_version
                compact_log(engine, self.table, 0 if first is None else first, self.version)
            case "log_cleanup":
                cleanup = clean_up_log(
                    engine, self.table, retention_ms=self.retention_ms, catalog=self.catalog
                )
                if cleanup.earliest_version is not None:
                    expire_snapshots(engine, self.table, cleanup.earliest_version)
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
    """Return the hooks to run after a commit.

    If a table property is invalid or the catalog fails, only the hook `checksum` is returned.

    Args:
        configuration: the table properties.
        effect: changes of the commit, for the checksum.
        compaction_interval: number of commits after which a log compaction file is written; None
            if none are written.
    """
    checksum = PostCommitHook(name="checksum", table=table, version=version, effect=effect)
    try:
        hooks = [
            checksum,
            *_configured_hooks(table, version, configuration, compaction_interval, catalog),
        ]
    except PropertyValueError as error:  # written by another writer; the commit is valid
        _LOG.warning(
            "%s: the post-commit hooks of version %d, except the version checksum, are skipped, "
            "because a table property is invalid: %s. Correct the property.",
            table,
            version,
            error,
        )
        hooks = [checksum]
    except Exception:  # noqa: BLE001 - the catalog is foreign code, and the commit is valid
        _LOG.warning(
            "%s: the catalog raised an error, so the post-commit hooks of version %d, except the "
            "version checksum, are skipped. The commit is valid, and a later commit tries again.",
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
    if is_enabled(configuration):
        hooks.append(PostCommitHook(name="iceberg_metadata", table=table, version=version))
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
    """Run hooks in order. Errors are logged and not raised, because the commit has succeeded.

    Hooks that the engine skips (`CommitDefaults`) don't run. The hook that writes Iceberg metadata
    runs in the background if an instance of `BackgroundHooks` is active.
    """
    background = BackgroundHooks.current()
    skipped = commit_settings(engine).skipped_hooks
    for hook in hooks:
        if hook.name in skipped:
            continue
        if background is not None and hook.name == "iceberg_metadata":
            background.submit((hook.name, hook.table), partial(_run, engine, hook))
        else:
            _run(engine, hook)


def _run(engine: Engine, hook: PostCommitHook) -> None:
    try:
        hook.run(engine)
    except Exception as error:  # noqa: BLE001 - the commit is valid
        _LOG.warning(
            "%s: the %s of version %d failed. The commit is valid, and a later commit tries "
            "again. Cause: %s",
            hook.table,
            hook.name.replace("_", " "),
            hook.version,
            error if isinstance(error, BayouError) else f"{type(error).__name__}: {error}",
            exc_info=None if isinstance(error, BayouError) else error,
        )
