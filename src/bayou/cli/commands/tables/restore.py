"""`bayou restore`: restore a table to an earlier version."""

from __future__ import annotations

import shlex

import typer

from bayou.cli.exit_on_error import WRONG_USAGE, exit_on_error
from bayou.cli.output import output_for
from bayou.cli.shared_arguments import (
    AsJson,
    AsOf,
    AtVersion,
    DryRun,
    FromConfig,
    Settings,
    TablePath,
    check_time,
)
from bayou.cli.tables import open_table


def restore(
    table: TablePath,
    version: AtVersion = None,
    as_of: AsOf = None,
    dry_run: DryRun = False,
    config: FromConfig = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Restore a table to an earlier version.

    Later versions stay in the table's history, and can be restored too.

    Example:
        bayou restore lake/events --version 41 --dry-run
    """
    output = output_for(as_json=as_json)
    with exit_on_error(output):
        if (version is None) == (as_of is None):
            output.error(
                "restore: the version is missing or set twice. Set either --version or --as-of",
                kind="UsageError",
            )
            raise typer.Exit(WRONG_USAGE)
        target = check_time(as_of) if version is None else version
        assert target is not None  # one of them is set
        handle = open_table(table, config, settings)
        before = handle.snapshot()
        metrics = handle.restore(target, dry_run=dry_run)
        restored = {"version": None if dry_run else metrics.version}
        output.facts(
            "Would be restored" if dry_run else "Restored",
            {
                **(restored if as_json or not dry_run else {}),
                "files": metrics.num_of_files_after_restore,
                "files taken out": metrics.num_removed_files,
                "files brought back": metrics.num_restored_files,
                "bytes": metrics.table_size_after_restore,
                **({"dry run": dry_run} if as_json else {}),
            },
            event="restored",
        )
        if dry_run:
            return
        undo = ["bayou", "restore", table, "--version", str(before.version)]
        if config is not None:
            undo += ["--config", str(config)]
        undo += [part for setting in settings or () for part in ("--set", _without_secret(setting))]
        output.notice(f"to undo the restore, run: {shlex.join(undo)}")
        if any(app.startswith("kafka/") for app in before.transactions):
            output.notice(
                f"{table}: a pipeline writes to this table and stops at a RESTORE. See "
                "accept-restore on the page Backup and recovery of the documentation"
            )


def _without_secret(setting: str) -> str:
    from bayou.ingest.config.plaintext_secrets import is_secret

    key, _, value = setting.partition("=")
    has_section = value.lstrip().startswith(("{", "["))  # it may contain secrets
    return f"{key}=..." if is_secret(key) or has_section else setting
