"""VACUUM on a disk: links to folders, and disks that ignore case."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.engines.arrow.files import ArrowFiles
from bayou.errors import StorageError
from bayou.kernel import closeable
from bayou.kernel.commands.vacuum import vacuum as vacuum_module
from bayou.kernel.commands.vacuum.vacuum import vacuum
from bayou.kernel.engine import FileStatus
from support.log_writer import LogWriter, add, remove
from support.vacuums import HEAD, OLD, age_the_log, put, run
from support.waiting import wait_until


def put_outside(path: Path) -> None:
    path.write_bytes(b"x")
    os.utime(path, ns=(OLD * 1_000_000, OLD * 1_000_000))


@pytest.fixture
def disk(tmp_path: Path) -> LogWriter:
    return LogWriter(ArrowEngine(), str(tmp_path / "table"))


def test_links_to_folders_are_neither_deleted_nor_followed(disk, tmp_path):
    disk.commit(*HEAD, add("day=a/live"), add("x"))
    disk_of_others = tmp_path / "others"
    disk_of_others.mkdir()
    for name in ("live", "orphan"):
        put_outside(disk_of_others / name)
    put(disk, "x")
    put(disk, "y")
    for name, target in {"day=a": disk_of_others, "day=b": tmp_path / "unmounted"}.items():
        os.symlink(target, f"{disk.table}/{name}")
        at = (OLD * 1_000_000, OLD * 1_000_000)
        os.utime(f"{disk.table}/{name}", ns=at, follow_symlinks=False)
    assert run(disk).inventory.column("path").to_pylist() == [f"{disk.table}/y"]
    assert sorted(os.listdir(disk.table)) == ["_delta_log", "day=a", "day=b", "x"]
    assert sorted(os.listdir(disk_of_others)) == ["live", "orphan"]


def test_a_file_that_is_committed_after_the_version_was_read_stays(tmp_path, monkeypatch):
    path = str(tmp_path / "table")
    bayou.write(path, pa.table({"id": [1]}))
    load = vacuum_module.load_table_state

    def load_and_write(*arguments: Any, **options: Any) -> Any:
        state = load(*arguments, **options)
        monkeypatch.undo()
        bayou.write(path, pa.table({"id": [2]}))
        newest = max(file.stat().st_mtime for file in Path(path).glob("*.parquet"))
        wait_until(lambda: time.time() > newest + 0.002)
        return state

    monkeypatch.setattr(vacuum_module, "load_table_state", load_and_write)
    bayou.table(path).vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert sorted(bayou.table(path).to_arrow()["id"].to_pylist()) == [1, 2]


@pytest.mark.parametrize("fails", [False, True])
def test_the_end_is_recorded_although_the_metadata_changed_meanwhile(tmp_path, monkeypatch, fails):
    path = str(tmp_path / "table")
    bayou.write(path, pa.table({"id": [1]}))
    delete = vacuum_module._delete

    def alter_and_delete(*arguments: Any) -> int:
        bayou.table(path).alter.set_table_properties({"mine": "1"})
        bayou.table(path).alter.add_column("note", pa.string())
        if fails:
            raise StorageError("the store failed", path=path)
        return delete(*arguments)

    monkeypatch.setattr(vacuum_module, "_delete", alter_and_delete)
    if fails:
        with pytest.raises(StorageError, match="the store failed"):
            bayou.table(path).vacuum(dry_run=False)
    else:
        bayou.table(path).vacuum(dry_run=False)
    entry = bayou.table(path).history(1)[0]
    assert entry["operation"] == "VACUUM END"
    assert entry["operationParameters"] == {"status": "FAILED" if fails else "COMPLETED"}


def test_lite_deletes_nothing_behind_a_link_to_another_place(disk, tmp_path):
    disk.commit(*HEAD, remove("day=a/gone", deletionTimestamp=OLD))
    age_the_log(disk)
    others = tmp_path / "others"
    others.mkdir()
    put_outside(others / "gone")
    os.symlink(others, f"{disk.table}/day=a")
    assert run(disk, lite=True).num_files_to_delete == 0
    assert os.listdir(others) == ["gone"]


@pytest.mark.parametrize("lite", [True, False])
@pytest.mark.parametrize("opened", ["real", "link"])
@pytest.mark.parametrize("named", ["real", "link"])
def test_a_file_is_the_same_by_every_name_of_its_folder(tmp_path, lite, opened, named):
    real = LogWriter(ArrowEngine(), str(tmp_path / "real" / "table"))
    os.symlink(tmp_path / "real", tmp_path / "link")
    root = f"file://{tmp_path}/{named}/table"
    real.commit(
        *HEAD,
        add(f"{root}/live"),
        add("inner=1/x"),
        remove(f"{tmp_path}/{opened}/table/live", deletionTimestamp=OLD),
        remove("inner=2/x", deletionTimestamp=OLD),
        remove(f"{root}/gone", deletionTimestamp=OLD),
    )
    age_the_log(real)
    for name in ("live", "gone", "inner=2/x"):
        put(real, name)
    os.symlink("inner=2", f"{real.table}/inner=1")
    run(LogWriter(real.engine, f"{tmp_path}/{opened}/table"), lite=lite)
    assert sorted(os.listdir(real.table)) == ["_delta_log", "inner=1", "inner=2", "live"]
    assert os.listdir(f"{real.table}/inner=2") == ["x"]


class _DiskThatIgnoresCase(ArrowFiles):
    """Lists a folder by the name of its first spelling, as disks that ignore case do.

    Args:
        folders: pairs of the name in the log and the name on the disk.
    """

    def __init__(self, folders: list[tuple[str, str]]) -> None:
        super().__init__({})
        self._folders = folders

    @closeable
    def list_tree(
        self,
        path: str,
        skips: Callable[[str], bool],
        *,
        after: str | None = None,
        until: str | None = None,
    ) -> Iterator[FileStatus]:
        with super().list_tree(path, skips, after=after, until=until) as statuses:
            for status in statuses:
                listed = status.path
                for name, on_disk in self._folders:
                    listed = listed.replace(f"/{name}/", f"/{on_disk}/")
                yield replace(status, path=listed)


@pytest.mark.parametrize("lite", [False, True])
def test_a_live_file_in_a_folder_with_another_spelling_on_the_disk_stays(tmp_path, lite):
    """On macOS `day=A` and `day=a` are one folder, and `ü` may have two forms."""
    decomposed = "day=u\u0308"
    folders = [("day=a", "day=A"), ("aB", "Ab"), ("day=ü", decomposed)]
    log = LogWriter(ArrowEngine(files=_DiskThatIgnoresCase(folders)), str(tmp_path / "t"))
    live = ["day=A/1", "day=a/2", "Ab/3", "aB/4", "day=ü/5"]
    log.commit(*HEAD, *(add(quote(name)) for name in live))
    paths = [put(log, name) for name in live]
    orphan = put(log, "day=A/orphan")
    metrics = vacuum(log.engine, log.table, lite=lite)
    assert metrics.num_deleted_files == (0 if lite else 1)
    assert all(map(os.path.exists, paths))
    assert os.path.exists(orphan) is lite


@pytest.mark.process
def test_pandas_is_not_imported(disk):
    disk.commit(*HEAD, add("x"), add("y"))
    disk.commit(remove("y", deletionTimestamp=OLD))
    put(disk, "x")
    put(disk, "orphan")
    program = (
        "import sys, bayou\n"
        f"deleted = bayou.table({disk.table!r}).vacuum(0, dry_run=False, "
        "enforce_retention_duration=False)\n"
        "print(len(deleted), 'pandas' in sys.modules)"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    assert printed.strip() == "1 False"
    assert not os.path.exists(f"{disk.table}/orphan")
