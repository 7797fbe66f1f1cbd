from __future__ import annotations

import errno
import multiprocessing
import os
import re
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pyarrow as pa
import pytest

import bayou
from bayou.engines.arrow.storage.local_files import LocalFiles
from bayou.engines.arrow.storage.os_errors import storage_errors
from bayou.errors import FileMissingError, StorageError
from bayou.kernel.engine import ByteRange


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_a_file_uri_is_the_path_in_it_taken_as_decoded() -> None:
    files = LocalFiles()
    assert files.resolve_path("file:///a/b%20c/") == "/a/b%20c"
    assert files.resolve_path("file:/a/b") == "/a/b"
    assert files.resolve_path("file://localhost/a/b") == "/a/b"


def test_a_relative_path_is_below_the_working_directory(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert LocalFiles().resolve_path("a/../b/") == f"{tmp_path}/b"


def test_file_uris_are_listed_and_read_like_paths(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    files = LocalFiles()
    assert [s.path for s in files.list_from(f"file://{tmp_path}/")] == [f"{tmp_path}/a"]
    assert list(files.read_files([ByteRange(path=f"file://{tmp_path}/a")])) == [b"1"]


def put_all(folder: str, writer: int) -> list[bool]:
    files = LocalFiles()
    return [files.put_if_absent(f"{folder}/{key:03d}", b"%d\n" % writer * 500) for key in range(50)]


@pytest.mark.process
def test_of_eight_processes_that_put_fifty_names_each_name_has_one_winner(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(8) as pool:
        results = pool.starmap(put_all, [(str(tmp_path), writer) for writer in range(8)])
    for key in range(50):
        winners = [writer for writer, won in enumerate(results) if won[key]]
        assert len(winners) == 1
        assert (tmp_path / f"{key:03d}").read_bytes() == b"%d\n" % winners[0] * 500
    assert len(names(tmp_path)) == 50


def test_putting_into_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileMissingError):
        LocalFiles().put_if_absent(f"{tmp_path}/missing/a", b"1")


def test_unfinished_files_are_hidden_and_gone_afterwards(tmp_path: Path) -> None:
    output = LocalFiles().open_output(f"{tmp_path}/a")
    output.write(b"1")
    (hidden,) = names(tmp_path)
    assert hidden.startswith(".")
    output.close()
    assert names(tmp_path) == ["a"]


def test_an_output_that_is_dropped_leaves_nothing(tmp_path: Path) -> None:
    output = LocalFiles().open_output(f"{tmp_path}/a")
    output.write(b"1")
    del output
    assert names(tmp_path) == []


def test_folders_made_for_an_output_go_with_the_last_file_in_them(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    files = LocalFiles()
    paths = [f"{tmp_path}/{name}" for name in ("theirs/a", "ours/b/c", "ours/b/d", "ours/e/f")]
    for path in paths[:3]:
        files.open_output(path).close()
    files.open_output(paths[3]).discard()
    assert sorted(names(tmp_path / "ours")) == ["b"]
    files.delete_files(paths[:2])
    assert sorted(names(tmp_path)) == ["ours", "theirs"]
    files.delete_files(paths[2:])
    assert names(tmp_path) == ["theirs"]


def write_and_delete(path: str) -> int:
    files = LocalFiles()
    for _ in range(1_000):
        files.open_output(path).close()
        files.delete_files([path])
    return len(files._folders._unsynced)


@pytest.mark.process
def test_a_folder_that_another_process_deletes_while_it_is_empty_is_created_again(
    tmp_path: Path,
) -> None:
    paths = [f"{tmp_path}/_change_data/p=1/{name}" for name in "abc"]
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        assert pool.map(write_and_delete, paths) == [0, 0, 0]


def test_a_file_where_a_folder_is_needed_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    files = LocalFiles()
    for action in (files.open_output, files.mkdirs, files.status, files.open_input):
        with pytest.raises(FileMissingError, match="a is a file, not a folder") as caught:
            action(f"{tmp_path}/a/b")
        assert caught.value.obstacle == f"{tmp_path}/a"


def test_long_names_can_be_written(tmp_path: Path) -> None:
    name = "é" * 120  # 240 bytes of the 255 that file systems take
    files = LocalFiles()
    assert files.put_if_absent(f"{tmp_path}/{name}", b"1") is True
    files.put(f"{tmp_path}/{name}", b"2")
    with files.open_output(f"{tmp_path}/{name}") as output:
        output.write(b"3")
    assert (tmp_path / name).read_bytes() == b"3"


@pytest.mark.parametrize("name", ["nul\0", "surrogate\ud800"])
def test_names_that_no_disk_can_hold_are_an_error(tmp_path: Path, name: str) -> None:
    files = LocalFiles()
    with pytest.raises(StorageError):
        files.put(f"{tmp_path}/{name}", b"1")
    with pytest.raises(StorageError):
        files.open_input(f"{tmp_path}/{name}")
    with pytest.raises(StorageError):
        files.status(f"{tmp_path}/{name}")


def test_files_can_be_read_by_others_as_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        files = LocalFiles()
        files.put_if_absent(f"{tmp_path}/a", b"1")
        with files.open_output(f"{tmp_path}/b") as output:
            output.write(b"1")
    finally:
        os.umask(before)
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a", "b")}
    assert modes == {0o644}


def test_reading_closes_its_files(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12")
    before = len(os.listdir("/proc/self/fd"))
    contents = LocalFiles().read_files([ByteRange(path=f"{tmp_path}/a")] * 5)
    next(contents)
    assert len(os.listdir("/proc/self/fd")) == before


FULL_DISK = """
import resource, sys
import pyarrow as pa
from bayou.engines.arrow import ArrowEngine
from bayou.engines.arrow.storage.os_errors import storage_errors
from bayou.errors import StorageError
from bayou.kernel.engine import ParquetWriteOptions

folder = sys.argv[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
engine = ArrowEngine()
batch = pa.RecordBatch.from_pydict({"i": list(range(300_000))})

def write_data():
    options = ParquetWriteOptions(compression="none")
    list(engine.parquet.write_parquet_files(folder, [batch], ["i"], options))

def write_output():
    with engine.files.open_output(folder + "/output") as output:
        output.write(b"x" * 1_000_000)

attempts = [
    lambda: engine.files.put_if_absent(folder + "/commit", b"x" * 1_000_000),
    lambda: engine.files.put(folder + "/put", b"x" * 1_000_000),
    lambda: engine.parquet.write_parquet_file_atomically(folder + "/c", batch.schema, [batch]),
    write_data,
    write_output,
]
for attempt in attempts:
    try:
        attempt()
    except StorageError as error:
        print(error)
    else:
        raise SystemExit("no error")
"""


@pytest.mark.process
def test_a_full_disk_is_one_clear_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    # A limit on the size of a file stands for the full disk: the same system calls fail.
    folder = tmp_path / "folder"
    folder.mkdir()
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(FULL_DISK))
    result = subprocess.run(
        [sys.executable, "-W", "error", script, folder],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    assert len(lines) == 5
    for line in lines:
        assert "disk is full" in line
        assert str(folder) in line
    assert names(folder) == []


def test_a_refused_permission_is_an_error_that_says_so() -> None:
    with pytest.raises(StorageError, match="permission"), storage_errors("/a", "write"):
        raise PermissionError(errno.EACCES, "Permission denied")


def test_a_local_input_is_read_by_pyarrow_itself(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12")
    with LocalFiles().open_input(f"{tmp_path}/a") as file:
        assert isinstance(file, pa.NativeFile)


def test_a_link_is_listed_with_size_and_time_of_the_file_that_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_bytes(b"x" * 1000)
    (tmp_path / "folder").mkdir()
    link = tmp_path / "folder" / "link"
    link.symlink_to(tmp_path / "elsewhere" / "file")
    os.utime(link, (1, 1), follow_symlinks=False)
    os.utime(tmp_path / "elsewhere" / "file", (5, 5))
    with LocalFiles().list_tree(str(tmp_path / "folder"), lambda _: False) as found:
        assert [(s.path, s.size, s.modification_time) for s in found] == [(str(link), 1000, 5000)]


@pytest.mark.parametrize(
    ("nanoseconds", "milliseconds"),
    [(5_000_000_000, 5000), (5_000_000_001, 5001), (5_000_999_999, 5001), (4_999_999_999, 4999)],
)
def test_only_a_truncated_time_is_listed_as_a_whole_second(
    tmp_path: Path, nanoseconds: int, milliseconds: int
) -> None:
    # VACUUM takes a whole second for the earliest time of a file that is up to a second newer.
    (tmp_path / "file").write_bytes(b"x")
    os.utime(tmp_path / "file", ns=(nanoseconds, nanoseconds))
    with LocalFiles().list_tree(str(tmp_path), lambda _: False) as found:
        assert [status.modification_time for status in found] == [milliseconds]


def test_links_to_folders_are_not_listed_and_not_deleted(tmp_path: Path) -> None:
    files = LocalFiles()
    (tmp_path / "tree").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_bytes(b"x")
    for name, target in {"folder": "other", "nothing": "missing", "file": "other/file"}.items():
        (tmp_path / "tree" / name).symlink_to(tmp_path / target)
    asked: list[str] = []
    began = time.time_ns() // 1_000_000
    listed = files.list_tree(str(tmp_path / "tree"), lambda f: bool(asked.append(f)))
    times = {Path(status.path).name: status.modification_time for status in listed}
    assert sorted(times) == ["file", "nothing"]
    assert times["nothing"] >= began  # nobody can say how old it is
    assert asked == [str(tmp_path / "tree" / "folder")]
    files.delete_files([str(tmp_path / "tree" / name) for name in ("folder", "nothing", "file")])
    assert sorted(p.name for p in (tmp_path / "tree").iterdir()) == ["folder", "nothing"]
    assert files.real_path(f"{tmp_path}/tree/folder/file") == f"{tmp_path.resolve()}/other/file"


def test_the_folder_around_every_new_folder_is_synced_before_a_file_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def recorded(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", recorded)
    path = str(tmp_path / "a" / "t")
    rows = pa.table({"id": [1], "d": ["x"], "e": ["y"]})
    bayou.write(path, rows, partition_by=["d", "e"])
    for folder in ("", "/a", "/a/t", "/a/t/d=x", "/a/t/d=x/e=y", "/a/t/_delta_log"):
        assert f"{tmp_path}{folder}" in synced
    order = [synced.index(f"{tmp_path}{folder}") for folder in ("", "/a", "/a/t", "/a/t/d=x")]
    assert order == sorted(order)


def test_folders_that_are_made_on_demand_are_synced_and_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    files = LocalFiles()
    files.mkdirs(str(tmp_path / "a" / "b"))
    assert synced == [str(tmp_path), str(tmp_path / "a")]
    files.mkdirs(str(tmp_path / "a" / "b"))
    assert len(synced) == 2
    with files.open_output(str(tmp_path / "a" / "b" / "file")) as output:
        output.write(b"x")
    files.delete_files([str(tmp_path / "a" / "b" / "file")])
    assert (tmp_path / "a" / "b").is_dir()


def test_no_code_makes_folders_of_a_table_without_syncing_them() -> None:
    """Folders of tables are made by `CreatedFolders` only."""
    source = Path(bayou.__file__).parent
    makes = re.compile(r"\bos\.(?:mkdir|makedirs)\(")
    found = {
        str(f.relative_to(source)) for f in source.rglob("*.py") if makes.search(f.read_text())
    }
    assert found == {"engines/arrow/storage/exclusive_create.py"}


def test_what_is_no_file_is_an_error_and_no_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    os.symlink("/dev/zero", tmp_path / "device")
    files = LocalFiles()
    for name in ("pipe", "device"):
        with pytest.raises(StorageError, match="it is a pipe, a socket or a device"):
            list(files.read_files([ByteRange(path=f"{tmp_path}/{name}")]))
        with pytest.raises(StorageError, match="it is a pipe, a socket or a device"):
            files.open_input(f"{tmp_path}/{name}")
    with pytest.raises(StorageError, match="directory"):
        files.open_input(str(tmp_path))


def test_a_link_to_nothing_is_listed_so_that_its_content_is_missed(tmp_path: Path) -> None:
    os.symlink(tmp_path / "on a disk that is away", tmp_path / "2.json")
    (tmp_path / "1.json").write_bytes(b"x")
    (tmp_path / "3.json").mkdir()
    files = LocalFiles()
    listed = [s.path for s in files.list_from(f"{tmp_path}/")]
    assert listed == [f"{tmp_path}/1.json", f"{tmp_path}/2.json"]
    with pytest.raises(FileMissingError):
        list(files.read_files([ByteRange(path=listed[1])]))
