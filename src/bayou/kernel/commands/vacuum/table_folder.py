"""Which files lie below a table's folder, by their real paths.

VACUUM deletes only below the table's real path. A disk may have several names for one folder, and a
folder of the table may be a link to another place; both are resolved here.

Names of files and folders below a table that aren't the table's.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute

from bayou.errors import ArgumentError
from bayou.kernel.engine import UNFINISHED, Engine
from bayou.kernel.log.table_state import TableState
from bayou.kernel.scan.scan_file import data_file_path, vector_file_path
from bayou.kernel.table_features.column_mapping import physical_name
from bayou.protocol.actions import DeletionVectorDescriptor
from bayou.protocol.file_names import escape_partition_value

__all__ = ["HiddenNames", "TableFolder"]


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


_HIDING = (".", "_")
_NEVER_HIDDEN = ("_delta_index", "_change_data")
_ICEBERG = "metadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenNames:
    """Names that begin with `.` or `_`, with some exceptions; pickles.

    Attributes:
        prefixes: of folders that are partitions whatever else they look like.
        iceberg: folders named `metadata` are Iceberg's.
    """

    prefixes: tuple[str, ...] = ()
    iceberg: bool = False

    @classmethod
    def of(cls, state: TableState) -> Self:
        """Those of a table."""
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
        """Whether a folder of this name isn't the table's."""
        if not name.startswith(_HIDING):
            return self.iceberg and name == _ICEBERG
        return not name.startswith((*_NEVER_HIDDEN, *self.prefixes))

    def hide_files(self, names: pa.StringArray) -> pa.BooleanArray:
        """Whether files of these names aren't the table's; those are that a writer left unfinished.

        What a killed writer had begun has a hidden name, so that nobody reads it.
        """
        hidden: pa.BooleanArray = _begin_with_any(names, _HIDING)
        if pc.any(hidden).as_py():
            shown = _begin_with_any(names, (*_NEVER_HIDDEN, *self.prefixes))
            begun = pc.match_substring_regex(names, f"(?s)^(?:{UNFINISHED.pattern})$")
            hidden = pc.and_not(hidden, pc.or_(shown, begun))
        return hidden


def _begin_with_any(names: pa.StringArray, prefixes: tuple[str, ...]) -> Any:
    found = pc.starts_with(names, prefixes[0])
    for prefix in prefixes[1:]:
        found = pc.or_(found, pc.starts_with(names, prefix))
    return found
