"""Real paths of files in a table's folder, and rules for hidden files and folders.

VACUUM deletes only files below the table's real path. This module resolves symbolic links. With
links, a folder can have several paths, and a path below the table can lead to a folder outside the
table.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa

from bayou.errors import ArgumentError
from bayou.kernel.arrow.arrays import to_array
from bayou.kernel.arrow.compute import pc
from bayou.kernel.engine import TEMPORARY_FILE_PATTERN, Engine
from bayou.kernel.log.table_state import TableState
from bayou.kernel.scan.scan_file import data_file_path, vector_file_path
from bayou.kernel.table_features.column_mapping import physical_name
from bayou.protocol.actions import DeletionVectorDescriptor
from bayou.protocol.file_names import escape_partition_value

_DOTS = re.compile(r"//|(?:^|/)\.{1,2}(?:/|$)")


class TableFolder:
    """A table's folder; caches the resolved path of each folder below the table."""

    def __init__(self, engine: Engine, table: str) -> None:
        self._files = engine.files
        self._table = table
        self._real = engine.files.real_path(table)
        self._folders: dict[str, str | None] = {table: ""}

    def relative_path(self, uri: str) -> str | None:
        """Return a file's path relative to the table; None if the file is outside the table.

        The result isn't URL-encoded, and its symbolic links are resolved.

        Args:
            uri: the file's path in the log.
        """
        return self._relative(data_file_path(self._table, uri))

    def vector_path(self, storage_type: str, path_or_inline: str) -> str | None:
        """Return a deletion vector file's path relative to the table, as `relative_path` does.

        The result is None for an inline vector, and for a file outside the table.

        Args:
            storage_type, path_or_inline: fields of the deletion vector descriptor in the log.
        """
        descriptor = DeletionVectorDescriptor(
            storage_type=storage_type,
            path_or_inline_dv=path_or_inline,
            size_in_bytes=1,
            cardinality=1,
        )
        path = vector_file_path(self._table, descriptor)
        return None if path is None else self._relative(path)

    def real_paths(self, paths: Any) -> list[str]:
        """Return the real paths for the relative paths in `paths` that contain a symbolic link."""
        if "://" in self._table:  # object stores have no links
            return []
        folders = pc.unique(pc.replace_substring_regex(paths, "/?[^/]*$", "")).to_pylist()
        linked = [f for f in folders if f and self._folder(f"{self._table}/{f}") not in (f, None)]
        if not linked:
            return []
        prefixes = tuple(f"{folder}/" for folder in linked)
        resolved = (self._relative(f"{self._table}/{p}") for p in paths.to_pylist())
        pairs = zip(paths.to_pylist(), resolved, strict=True)
        return [real for path, real in pairs if real is not None and path.startswith(prefixes)]

    def own_files(self, files: pa.Table) -> pa.Table:
        """Return the rows whose `path` is the real path of a file below the table.

        Paths that contain a symbolic link below the table are excluded.
        """
        paths = files.column("path").combine_chunks()
        folders = pc.replace_substring_regex(paths, "/[^/]*$", "").dictionary_encode()
        own = [self._is_own(folder) for folder in folders.dictionary.to_pylist()]
        if all(own):
            return files
        return files.filter(to_array(own, pa.bool_()).take(folders.indices))

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
        """Return the real path of a folder relative to the table; None if it is outside the table.

        The result for the table's own folder is empty.
        """
        if folder not in self._folders:
            self._folders[folder] = self._resolve(folder)
        return self._folders[folder]

    def _resolve(self, folder: str) -> str | None:
        try:
            real = self._files.real_path(folder)
        except ArgumentError:  # a path of another store
            return None
        if real == self._real:
            return ""
        below = real.removeprefix(f"{self._real}/")
        return None if below == real or _DOTS.search(below) else below


_HIDDEN_PREFIXES = (".", "_")
_VISIBLE_PREFIXES = ("_delta_index", "_change_data")
_ICEBERG = "metadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenNames:
    """Rules that determine which files and folders are hidden.

    Files and folders whose names begin with `.` or `_` are hidden, with some exceptions.

    Attributes:
        prefixes: name prefixes of partition folders, which are never hidden.
        iceberg: whether folders named `metadata` are hidden, because they belong to Iceberg.
    """

    prefixes: tuple[str, ...] = ()
    iceberg: bool = False

    @classmethod
    def of(cls, state: TableState) -> Self:
        formats = state.properties.get("delta.universalFormat.enabledFormats", "")
        return cls(
            prefixes=tuple(
                f"{escape_partition_value(name)}="
                for field in state.schema
                if field.name in state.partition_columns
                for name in (field.name, physical_name(field))
            ),
            iceberg="iceberg" in formats.lower(),
        )

    def hide_folder(self, name: str) -> bool:
        if not name.startswith(_HIDDEN_PREFIXES):
            return self.iceberg and name == _ICEBERG
        return not name.startswith((*_VISIBLE_PREFIXES, *self.prefixes))

    def hide_files(self, names: pa.StringArray) -> pa.BooleanArray:
        """Return a mask that is true for hidden file names.

        Temporary files of killed writers aren't hidden, although their names begin with `.`. VACUUM
        deletes them.
        """
        hidden: pa.BooleanArray = _starts_with_any(names, _HIDDEN_PREFIXES)
        if pc.any(hidden).as_py():
            visible = _starts_with_any(names, (*_VISIBLE_PREFIXES, *self.prefixes))
            unfinished = pc.match_substring_regex(
                names, f"(?s)^(?:{TEMPORARY_FILE_PATTERN.pattern})$"
            )
            hidden = pc.and_not(hidden, pc.or_(visible, unfinished))
        return hidden


def _starts_with_any(names: pa.StringArray, prefixes: tuple[str, ...]) -> Any:
    mask = pc.starts_with(names, prefixes[0])
    for prefix in prefixes[1:]:
        mask = pc.or_(mask, pc.starts_with(names, prefix))
    return mask
