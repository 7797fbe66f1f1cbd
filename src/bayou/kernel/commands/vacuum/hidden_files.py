"""Names of files and folders below a table that aren't the table's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute

from bayou.kernel.engine import UNFINISHED
from bayou.kernel.log.table_state import TableState
from bayou.kernel.table_features.column_mapping import physical_name
from bayou.protocol.file_names import escape_partition_value

__all__ = ["HiddenNames"]

pc: Any = pyarrow.compute

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
