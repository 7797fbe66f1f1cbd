"""Names that only one of several writers gets, on disks with and without hard links."""

from __future__ import annotations

import errno
import multiprocessing
import os
from pathlib import Path

import pytest

from bayou.engines.arrow.storage.exclusive_create import (
    PUBLISH_FUNCTIONS,
    is_unchanged,
    publish_exclusively,
    rename_exclusively,
)
from bayou.errors import StorageError

KEYS = 2_000


def unsupported(temporary: str, path: str) -> None:
    """What `os.link` does on a disk that has no hard links."""
    raise OSError(errno.EPERM, os.strerror(errno.EPERM), temporary, None, path)


WITHOUT_LINKS = (unsupported, rename_exclusively)


def put(folder: str, writer: str, key: int) -> bool:
    temporary = f"{folder}/.{writer}.{key}.tmp"
    Path(temporary).write_text(writer)
    return publish_exclusively(temporary, f"{folder}/{key}", functions=WITHOUT_LINKS)


def put_all(folder: str, writer: str) -> list[bool]:
    return [put(folder, writer, key) for key in range(KEYS)]


def create_all(folder: str, writer: str) -> list[bool]:
    """As a foreign writer that creates its commits exclusively and takes no lock of ours."""
    won = []
    for key in range(KEYS):
        temporary = Path(folder, f".{writer}.{key}.tmp")  # keeps in step with the others
        temporary.write_text(writer)
        temporary.unlink()
        try:
            with open(f"{folder}/{key}", "x") as file:
                file.write(writer)
            won.append(True)
        except FileExistsError:
            won.append(False)
    return won


@pytest.mark.parametrize("ways", [PUBLISH_FUNCTIONS, WITHOUT_LINKS], ids=["links", "no links"])
def test_the_first_of_two_files_gets_the_name(tmp_path: Path, ways) -> None:
    target = tmp_path / "target"
    for name in ("first", "second"):
        (tmp_path / name).write_text(name)
    assert publish_exclusively(f"{tmp_path}/first", str(target), functions=ways) is True
    assert publish_exclusively(f"{tmp_path}/second", str(target), functions=ways) is False
    assert target.read_text() == "first"


@pytest.mark.process
def test_a_foreign_writer_loses_no_commit_to_us_on_a_disk_without_hard_links(
    tmp_path: Path,
) -> None:
    folder = str(tmp_path)
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        ours = pool.apply_async(put_all, (folder, "ours"))
        others = pool.apply_async(put_all, (folder, "others"))
        foreign = pool.apply_async(create_all, (folder, "foreign"))
        won = {"ours": ours.get(), "others": others.get(), "foreign": foreign.get()}
    for key in range(KEYS):
        winners = [writer for writer, results in won.items() if results[key]]
        assert [Path(folder, str(key)).read_text()] == winners


def test_a_disk_on_which_commits_could_replace_each_other_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    with pytest.raises(StorageError, match=r"neither hard links nor .*another disk"):
        publish_exclusively(f"{tmp_path}/a", f"{tmp_path}/b", functions=(unsupported, unsupported))
    assert os.listdir(tmp_path) == ["a"]


def test_another_error_is_no_reason_to_try_another_way(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    with pytest.raises(FileNotFoundError):
        publish_exclusively(f"{tmp_path}/a", f"{tmp_path}/missing/b")


def test_a_file_that_a_writer_renamed_over_ours_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "commit"
    path.write_bytes(b"ours")
    named = path.stat()
    assert is_unchanged(str(path), named, b"ours")
    (tmp_path / "theirs").write_bytes(b"theirs")
    os.rename(tmp_path / "theirs", path)
    assert not is_unchanged(str(path), named, b"ours")
    (tmp_path / "copy").write_bytes(b"ours")  # another inode, as some file systems have it
    os.rename(tmp_path / "copy", path)
    assert is_unchanged(str(path), named, b"ours")
    path.unlink()
    assert is_unchanged(str(path), named, b"ours")
