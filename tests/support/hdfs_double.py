"""A double of HDFS behind pyarrow's interface, with the behavior of `HadoopFileSystem`.

HDFS's rename never overwrites, and adds a file to a folder that is the target. But pyarrow's `move`
deletes a file that is the target, and repeats the rename. Without a name node, pyarrow's
`get_file_info` finds no file, and raises no error.

libhdfs isn't in any registry of packages, so the tests have no real HDFS.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs

__all__ = ["hdfs_double"]


def hdfs_double(folder: Path) -> pafs.FileSystem:
    """Return a file system with HDFS's behavior over a local folder."""
    return pafs.PyFileSystem(HdfsDouble(folder))


class HdfsDouble(pafs.FileSystemHandler):
    """The handler.

    Attributes:
        is_reachable: whether the name node answers.
    """

    def __init__(self, folder: Path) -> None:
        self.is_reachable = True
        self._files = pafs.SubTreeFileSystem(str(folder), pafs.LocalFileSystem())
        self._namespace = threading.Lock()

    def get_type_name(self) -> str:
        return "hdfs"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[pafs.FileInfo]:
        if not self.is_reachable:
            return [pafs.FileInfo(path, type=pafs.FileType.NotFound) for path in paths]
        return [_absolute(info) for info in self._files.get_file_info([_inner(p) for p in paths])]

    def get_file_info_selector(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
        if not selector.allow_not_found:
            self._check_reachable()
        elif not self.is_reachable:
            return []
        inner = pafs.FileSelector(
            _inner(selector.base_dir),
            allow_not_found=selector.allow_not_found,
            recursive=selector.recursive,
        )
        return [_absolute(info) for info in self._files.get_file_info(inner)]

    def create_dir(self, path: str, recursive: bool) -> None:
        self._files.create_dir(_inner(path), recursive=recursive)

    def delete_file(self, path: str) -> None:
        self._check_reachable()
        self._files.delete_file(_inner(path))

    def delete_dir(self, path: str) -> None:
        self._check_reachable()
        self._files.delete_dir(_inner(path))

    def move(self, src: str, dest: str) -> None:
        try:
            self._rename(src, dest)
        except OSError:
            source, target = self.get_file_info([src, dest])
            if not (source.is_file and target.is_file):
                raise
            self.delete_file(dest)
            self._rename(src, dest)

    def _rename(self, src: str, dest: str) -> None:
        self._check_reachable()
        with self._namespace:
            if self._files.get_file_info(_inner(dest)).type == pafs.FileType.Directory:
                dest = f"{dest}/{src.rpartition('/')[2]}"
            if self._files.get_file_info(_inner(dest)).type != pafs.FileType.NotFound:
                raise OSError(5, f"HDFS rename of {src!r} to {dest!r} failed")
            self._files.move(_inner(src), _inner(dest))

    def _check_reachable(self) -> None:
        if not self.is_reachable:
            raise OSError(5, "the name node doesn't answer")

    def open_input_file(self, path: str) -> Any:
        self._check_reachable()
        return self._files.open_input_file(_inner(path))

    def open_input_stream(self, path: str) -> Any:
        return self._files.open_input_stream(_inner(path))

    def open_output_stream(self, path: str, metadata: dict[str, str]) -> Any:
        return self._files.open_output_stream(_inner(path))

    def _not_used(self, *_: object) -> Any:
        raise NotImplementedError

    copy_file = delete_dir_contents = delete_root_dir_contents = _not_used
    open_append_stream = _not_used


def _inner(path: str) -> str:
    return path.lstrip("/")


def _absolute(info: pafs.FileInfo) -> pafs.FileInfo:
    return pafs.FileInfo(
        f"/{info.path.lstrip('/')}", type=info.type, size=info.size, mtime_ns=info.mtime_ns
    )
