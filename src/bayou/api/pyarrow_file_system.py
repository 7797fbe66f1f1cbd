"""Files of an engine as a file system of pyarrow's, to read from."""

from __future__ import annotations

import io
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.fs

from bayou.errors import FileMissingError
from bayou.kernel import FileSystemClient

__all__ = ["EngineFileSystem"]


class EngineFileSystem(pyarrow.fs.FileSystemHandler):
    """Reads every byte through a `FileSystemClient`; writes nothing."""

    def __init__(self, files: FileSystemClient) -> None:
        self._files = files

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EngineFileSystem) and other._files is self._files

    def __hash__(self) -> int:
        return hash(id(self._files))

    def get_type_name(self) -> str:
        return "bayou"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: str | list[str]) -> list[Any]:
        return [self._info(path) for path in ([paths] if isinstance(paths, str) else paths)]

    def _info(self, path: str) -> Any:
        try:
            size = self._files.status(path).size
        except FileMissingError:
            return pyarrow.fs.FileInfo(path, pyarrow.fs.FileType.NotFound)
        return pyarrow.fs.FileInfo(path, pyarrow.fs.FileType.File, size=size)

    def open_input_file(self, path: str) -> Any:
        source: Any = self._files.open_input(path)
        return source if isinstance(source, pa.NativeFile) else pa.PythonFile(source, "r")

    def open_input_stream(self, path: str) -> Any:
        return self.open_input_file(path)

    def get_file_info_selector(self, selector: Any) -> NoReturn:
        _refuse()

    def create_dir(self, path: str, recursive: bool) -> NoReturn:
        _refuse()

    def delete_dir(self, path: str) -> NoReturn:
        _refuse()

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> NoReturn:
        _refuse()

    def delete_root_dir_contents(self) -> NoReturn:
        _refuse()

    def delete_file(self, path: str) -> NoReturn:
        _refuse()

    def move(self, src: str, dest: str) -> NoReturn:
        _refuse()

    def copy_file(self, src: str, dest: str) -> NoReturn:
        _refuse()

    def open_output_stream(self, path: str, metadata: Any) -> NoReturn:
        _refuse()

    def open_append_stream(self, path: str, metadata: Any) -> NoReturn:
        _refuse()


def _refuse() -> NoReturn:
    raise io.UnsupportedOperation("a table's dataset is read-only, and knows its files")
