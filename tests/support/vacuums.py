"""Helpers for tests of VACUUM: write files of a given age, and run a VACUUM with checks."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Iterator
from typing import Any

from bayou.kernel import Table
from bayou.kernel.commands.vacuum.orphan_files import (
    ListingRange,
    ListingResult,
    list_range,
)
from bayou.kernel.commands.vacuum.referenced_files import ReferencedFiles
from bayou.kernel.commands.vacuum.vacuum import VacuumMetrics, vacuum
from support.log_writer import LogWriter, metadata, protocol

HOUR = 3_600_000


OLD = time.time_ns() // 1_000_000 - 1000 * HOUR


HEAD = (protocol(), metadata({"id": "long", "_p": "string", "day": "string"}, ["_p", "day"]))


def ago(hours: int) -> int:
    """Return the time some hours before this call, ms since the epoch."""
    return time.time_ns() // 1_000_000 - hours * HOUR


def put(log: LogWriter, name: str, *, at: int = OLD, size: int = 3) -> str:
    """Write a file to the table's folder, with `at` as its modification time."""
    path = f"{log.table}/{name}"
    with log.engine.files.open_output(path) as output:
        output.write(b"x" * size)
    if path.startswith("memory:"):
        log.engine.files.set_modification_time(path, at)
    else:
        os.utime(path, ns=(at * 1_000_000, at * 1_000_000))
    return path


def names(log: LogWriter) -> list[str]:
    """Return the files in the table's folder, without its log."""
    found = log.engine.files.list_tree(log.table, lambda f: f == f"{log.table}/_delta_log")
    return sorted(s.path[len(log.table) + 1 :] for s in found if not s.path.endswith("/"))


def run(log: LogWriter, hours: float | None = 0, **options: Any) -> VacuumMetrics:
    """Run a VACUUM. Before it, check that a dry run with a divided listing finds the same files."""
    options.setdefault("enforce_retention_duration", False)

    def in_shares(whole: ListingRange, kept: ReferencedFiles) -> Iterator[ListingResult]:
        sent = pickle.loads(pickle.dumps(kept))
        for share in whole.split(kept, 3):
            yield list_range(log.engine, share, sent)

    if not options.get("lite"):
        shared = vacuum(
            log.engine, log.table, hours, **{**options, "dry_run": True}, list_ranges=in_shares
        )
        alone = vacuum(log.engine, log.table, hours, **{**options, "dry_run": True})
        assert shared.inventory.sort_by("path").equals(alone.inventory.sort_by("path"))
        assert shared.num_files_to_delete == alone.num_files_to_delete
        assert shared.num_vacuumed_directories == alone.num_vacuumed_directories
    return vacuum(log.engine, log.table, hours, **options)


def history(log: LogWriter) -> list[dict[str, Any]]:
    return Table.for_path(log.engine, log.table).history(log.engine)


def age_commits(log: LogWriter, *milliseconds: int) -> None:
    for version, at in enumerate(milliseconds):
        path = log.path(f"{version:020d}.json")
        if path.startswith("memory:"):
            log.engine.files.set_modification_time(path, at)
        else:
            os.utime(path, ns=(at * 1_000_000, at * 1_000_000))


def age_the_log(log: LogWriter) -> None:
    for status in log.engine.files.list_from(f"{log.table}/_delta_log/"):
        if log.table.startswith("memory:"):
            log.engine.files.set_modification_time(status.path, OLD)
        else:
            os.utime(status.path, ns=(OLD * 1_000_000, OLD * 1_000_000))
