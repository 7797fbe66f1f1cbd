"""Which files lie below a table's folder, by their real paths.

VACUUM deletes only below the table's real path. A disk may have several names for one folder, and a
folder of the table may be a link to another place; both are resolved here.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.errors import ArgumentError
from bayou.kernel.engine import Engine
from bayou.kernel.scan.scan_file import data_file_path, vector_file_path
from bayou.protocol.actions import DeletionVectorDescriptor

__all__ = ["TableFolder"]

pc: Any = pyarrow.compute

_DOTS = re.compile(r"//|(?:^|/)\.{1,2}(?:/|$)")


class TableFolder:
    """A table's folder. Each folder below it is resolved once.

    Args:
        engine: reaches the store.
        table: the table's path.
    """

    def __init__(self, engine: Engine, table: str) -> None:
        self._files = engine.files
        self._table = table
        self._real = engine.files.real_path(table)
        self._folders: dict[str, str | None] = {table: ""}

    def relative_path(self, uri: str) -> str | None:
        """The real path of a file that the log names, decoded and relative to the table.

        Returns:
            None if the file isn't below the table.

        Raises:
            CorruptTableError: a relative path that leaves the table.
        """
        return self._relative(data_file_path(self._table, uri))

    def vector_path(self, storage_type: str, text: str) -> str | None:
        """The same for the file of a deletion vector; None for an inline one, too.

        Raises:
            CorruptTableError: the descriptor isn't valid.
        """
        descriptor = DeletionVectorDescriptor(
            storage_type=storage_type, path_or_inline_dv=text, size_in_bytes=1, cardinality=1
        )
        path = vector_file_path(self._table, descriptor)
        return None if path is None else self._relative(path)

    def real_paths(self, paths: Any) -> list[str]:
        """The real relative paths of those relative paths that lead through a link."""
        if "://" in self._table:  # object stores have no links
            return []
        folders = pc.unique(pc.replace_substring_regex(paths, "/?[^/]*$", "")).to_pylist()
        linked = [f for f in folders if f and self._folder(f"{self._table}/{f}") not in (f, None)]
        if not linked:
            return []
        prefixes = tuple(f"{folder}/" for folder in linked)
        found = (self._relative(f"{self._table}/{p}") for p in paths.to_pylist())
        named = zip(paths.to_pylist(), found, strict=True)
        return [real for path, real in named if real is not None and path.startswith(prefixes)]

    def own_files(self, files: pa.Table) -> pa.Table:
        """The rows whose `path` is the real path of a file below the table.

        A path that leads through a link below the table is left out: the folder that the link
        points to isn't the table's.
        """
        paths = files.column("path").combine_chunks()
        folders = pc.replace_substring_regex(paths, "/[^/]*$", "").dictionary_encode()
        own = [self._is_own(folder) for folder in folders.dictionary.to_pylist()]
        if all(own):
            return files
        return files.filter(pa.array(own, pa.bool_()).take(folders.indices))

    def _is_own(self, folder: str) -> bool:
        if folder == self._table:
            return True
        below = folder.removeprefix(f"{self._table}/")
        return below != folder and self._folder(folder) == below

    def _relative(self, path: str) -> str | None:
        if path.startswith(f"{self._table}/"):
            below = path[len(self._table) + 1 :]
            if _DOTS.search(below):
                path = f"{self._table}/{posixpath.normpath(below)}"
        folder, _, name = path.rpartition("/")
        if name in ("", ".", ".."):
            return None
        below_table = self._folder(folder)
        if below_table is None:
            return None
        return f"{below_table}/{name}" if below_table else name

    def _folder(self, folder: str) -> str | None:
        """The real path of a folder, relative to the table; None if it isn't below the table."""
        if folder not in self._folders:
            self._folders[folder] = self._resolved(folder)
        return self._folders[folder]

    def _resolved(self, folder: str) -> str | None:
        try:
            real = self._files.real_path(folder)
        except ArgumentError:  # a path of another kind of store
            return None
        if real == self._real:
            return ""
        below = real.removeprefix(f"{self._real}/")
        return None if below == real or _DOTS.search(below) else below
