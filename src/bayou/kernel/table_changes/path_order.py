"""The texts by which files are put in order, whoever wrote their paths."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.protocol.data_file_paths import hadoop_spelling

__all__ = ["path_order"]

pc: Any = pyarrow.compute

_SPELLED_IN_SEVERAL_WAYS = r"[^A-Za-z0-9_\-.=/]|^/"


def path_order(paths: pa.Array[Any]) -> pa.Array[Any]:
    """For each path of the log the text that orders it, equal for all spellings of one file."""
    several = pc.match_substring_regex(paths, _SPELLED_IN_SEVERAL_WAYS)
    if not pc.any(several).as_py():
        return paths
    found: list[Any] = paths.filter(several).to_pylist()
    texts = [hadoop_spelling(path) for path in found]
    ordered: pa.Array[Any] = pc.replace_with_mask(paths, several, pa.array(texts, pa.string()))
    return ordered
