"""Rules of `TableMachine` that maintain, restore, clone or read the table."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from bayou.errors import VersionNotFoundError
from bayou.kernel import Operation, Snapshot, Table, write_data
from bayou.kernel.checkpoint.parts import plan_checkpoint, write_checkpoint_part
from bayou.kernel.commands.clone import clone
from bayou.kernel.commands.optimize.optimize import plan_optimize, plan_zorder
from bayou.kernel.commands.optimize.purge import plan_purge
from bayou.kernel.commands.optimize.rewrite_execution import run_plan
from bayou.kernel.commands.restore import restore
from bayou.kernel.commands.vacuum.referenced_files import referenced_files
from bayou.kernel.commands.vacuum.vacuum import vacuum
from bayou.kernel.maintenance.log_cleanup import clean_up_log
from bayou.kernel.maintenance.log_compaction import compact_log
from support.table_history import INFO, WRITERS, TableHistory
from support.table_model import Condition, Effect
from support.table_rows import batch_of, conditions, read_feed, read_rows, replayed

__all__ = ["UpkeepRules"]

_DAY = 24 * 60 * 60 * 1000
_LATER = 1 << 53


class UpkeepRules(TableHistory):
    """Rules that maintain files and log, restore and clone versions, and check reads."""

    @rule(
        writer=WRITERS,
        kind=st.sampled_from(["optimize", "zorder", "purge"]),
        size=st.sampled_from([1, 1 << 20]),
    )
    def rewrite(self, writer: int, kind: str, size: int) -> None:
        """Run OPTIMIZE, Z-order or a purge. A target of one byte doesn't combine files."""

        def run(snapshot: Snapshot) -> int:
            match kind:
                case "optimize":
                    plan = plan_optimize(self._engine, snapshot, INFO, target_bytes=size)
                case "zorder":
                    columns: tuple[str, ...] = ("id", "v")
                    if snapshot.table_properties.data_skipping_column_count == 1:
                        columns = ("id",)  # it takes columns that have statistics
                    plan = plan_zorder(self._engine, snapshot, INFO, columns, target_bytes=size)
                case _:
                    plan = plan_purge(self._engine, snapshot, INFO, target_bytes=size)
            version = run_plan(self._engine, plan, INFO).version
            return snapshot.version if version is None else version

        self._attempt(writer, run, lambda _: Effect(), f"{kind}, {size}")

    @precondition(lambda self: self._model.version > self._first_readable())
    @rule(writer=WRITERS, data=st.data())
    def restore_version(self, writer: int, data: st.DataObject) -> None:
        """RESTORE a version whose files exist; the writer may have read an older version."""
        latest = self._latest()
        seen = self._seen[writer]
        to = data.draw(st.integers(self._first_readable(), latest.version - 1), label="version")
        wanted = self._table.snapshot_as_of_version(self._engine, to)
        if to < seen.version < latest.version and self._columns_stay(to):
            # What was appended blindly meanwhile stays, where the isolation level lets it.
            self._attempt(
                writer,
                lambda s: restore(self._engine, s, wanted, INFO).version,
                lambda before: Effect(gone=before, new=self._model.rows(to)),
                f"restore {to}",
            )
            return
        note(f"restore {to}")
        done = restore(self._engine, latest, wanted, INFO)
        self._model.restore(done.version, to)

    @rule(parts=st.sampled_from([1, 3]))
    def checkpoint(self, parts: int) -> None:
        """Write a checkpoint of the latest version, as a single file or multi-part."""
        if parts == 1:
            assert self._table.checkpoint(self._engine) == self._model.version
            return
        plan = plan_checkpoint(self._engine, self._path, max_parts=parts)
        written = [write_checkpoint_part(self._engine, part) for part in plan.parts]
        assert plan.finish(self._engine, written) == self._model.version

    @precondition(lambda self: self._model.version > self._cleaned + 1)
    @rule(commits=st.integers(2, 5))
    def compact(self, commits: int) -> None:
        """Write a log compaction file for the last commits."""
        last = self._model.version
        compact_log(self._engine, self._path, max(self._cleaned + 1, last + 1 - commits), last)

    @rule()
    def clean_up(self) -> None:
        """Run log cleanup as if three days had passed; open transactions are given up."""
        self._nobody_is_at_work()
        in_days = time.time_ns() // 1_000_000 + 3 * _DAY
        clean_up_log(self._engine, self._path, retention_ms=0, now=in_days)
        self._cleaned = self._model.version

    @rule(lite=st.booleans())
    def vacuum_all(self, lite: bool) -> None:
        """VACUUM with a retention of 0; open transactions are given up."""
        self._open = [None, None]
        try:
            vacuum(
                self._engine,
                self._path,
                0,
                lite=lite,
                enforce_retention_duration=False,
                engine_info=INFO,
            )
        except VersionNotFoundError:
            if not lite or self._cleaned < 0:
                raise
            return
        self._model.commit_nothing(self._model.version + 2)  # it says when it begins, when it ends
        self._vacuumed = self._model.version
        if not lite:
            self._check_only_live_files()

    @rule()
    def clone_and_write(self) -> None:
        """Check that a clone has the same rows, and that an append to it works."""
        target = f"{self._path}-clone"
        clone(self._engine, self._latest(), target, INFO)
        table = Table.for_path(self._engine, target)
        there = table.latest_snapshot(self._engine)
        assert read_rows(self._engine, there) == self._model.rows()
        builder = there.build_update_table_transaction(INFO, Operation.WRITE)
        transaction = builder.build(self._engine)
        new = {-1: {"id": -1, **dict.fromkeys(self._model.columns()[1:])}}
        state = transaction.transaction_state(self._engine)
        adds = write_data(self._engine, state, batch_of(new))
        transaction.commit(self._engine, adds).run_post_commit_hooks(self._engine)
        then = table.latest_snapshot(self._engine)
        assert read_rows(self._engine, then) == {**self._model.rows(), **new}
        shutil.rmtree(target)

    @rule(data=st.data())
    def travel(self, data: st.DataObject) -> None:
        """Check that an earlier version still has its rows."""
        versions = st.integers(self._first_readable(), self._model.version)
        version = data.draw(versions, label="version")
        snapshot = self._table.snapshot_as_of_version(self._engine, version)
        assert read_rows(self._engine, snapshot) == self._model.rows(version)

    @rule(data=st.data())
    def replay_feed(self, data: st.DataObject) -> None:
        """Check that a feed turns the rows before its range into those of its last version."""
        latest = self._model.version
        firsts = [v for v in range(1, latest + 1) if self._has_feed(v, latest)]
        if not firsts:
            return
        first = data.draw(st.sampled_from(firsts), label="first")
        last = data.draw(st.integers(first, latest), label="last")
        feed = read_feed(self._engine, self._table, first, last)
        rows = replayed(feed, self._model.rows(first - 1), self._model.columns(last))
        assert rows == self._model.rows(last)

    @rule(condition=conditions())
    def look_for(self, condition: Condition) -> None:
        """Check that data skipping skips no file with a row that a filter matches."""
        found = read_rows(self._engine, self._latest(), filter=condition.text)
        wanted = condition.of(self._model.rows())
        assert {key: found.get(key) for key in wanted} == wanted

    def _columns_stay(self, first: int) -> bool:
        versions = range(first, self._model.version + 1)
        return all(self._model.columns(v) == self._model.columns() for v in versions)

    def _nobody_is_at_work(self) -> None:
        self._seen = [self._latest(), self._latest()]
        self._open = [None, None]

    def _check_only_live_files(self) -> None:
        root = Path(self._path)
        paths = (p.relative_to(root) for p in root.rglob("*") if p.is_file())
        there = sorted(str(p) for p in paths if p.parts[0] != "_delta_log")
        named = referenced_files(self._engine, self._latest(), deleted_before=_LATER)
        kept: list[Any] = named.contains(there).to_pylist()
        assert all(kept), f"unreferenced: {[n for n, k in zip(there, kept, strict=True) if not k]}"
