"""Keys of files that commits behind a checkpoint touched, as columns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute

from bayou.protocol.file_names import spellings

__all__ = ["KEY_SEPARATOR", "FileKey", "TouchedKeys", "key_texts"]

pc: Any = pyarrow.compute

FileKey: TypeAlias = tuple[str, str | None]
"""Path and dvId."""

KEY_SEPARATOR = "\x00"
"""Between path and dvId where both are one text."""

_LOOKED_UP_AT_ONCE = 131_072
"""A look-up makes a hash table of the keys, so it takes as many of them at a time."""


@dataclass(frozen=True, slots=True)
class TouchedKeys:
    """Keys (path, dvId) that commits behind a checkpoint added or removed, as sorted columns.

    A checkpoint may spell a path otherwise than the commits do: every spelling that writers produce
    is a path and has its keys here, so that the checkpoint's rows are compared as they stand. Most
    paths have one.

    Attributes:
        paths: the distinct paths, string.
        keys: one text a key, path and dvId, string.
    """

    paths: pa.Array[Any]
    keys: pa.Array[Any]

    @classmethod
    def of(cls, keys: Iterable[FileKey]) -> TouchedKeys:
        """The columns for some keys, whose paths stand as the log has them."""
        known = sorted({(text, dv_id or "") for path, dv_id in keys for text in spellings(path)})
        return cls(
            pa.array(sorted({path for path, _ in known}), pa.string()),
            pa.array([path + KEY_SEPARATOR + dv_id for path, dv_id in known], pa.string()),
        )

    def and_those_of(self, other: TouchedKeys) -> TouchedKeys:
        """The keys of both."""
        return TouchedKeys(_union(self.paths, other.paths), _union(self.keys, other.keys))

    @property
    def has_vectors(self) -> bool:
        """Whether a key has a dvId, so that the vectors of a checkpoint's files must be known."""
        return len(self.keys) > 0 and not pc.all(pc.ends_with(self.keys, KEY_SEPARATOR)).as_py()

    def untouched(self, adds: pa.StructArray) -> pa.BooleanArray | None:
        """Rows of `add` structs (or `remove`s) whose key isn't touched; None where that is all."""
        if len(self.paths) == 0:
            return None
        paths = pc.struct_field(adds, "path")
        suspects = _is_in(paths, self.paths)
        if not pc.any(suspects).as_py():
            return None
        touched = _is_in(key_texts(adds.filter(suspects)), self.keys)
        untouched: pa.BooleanArray = pc.invert(pc.replace_with_mask(suspects, suspects, touched))
        return untouched


def key_texts(files: pa.StructArray, paths: Any = None) -> pa.Array[Any]:
    """Path and dvId of each file as one text; see `DeletionVectorDescriptor.unique_id`.

    Args:
        paths: to be taken instead of the files' own, None for those.
    """
    paths = pc.struct_field(files, "path") if paths is None else paths
    vectors = pc.struct_field(files, "deletionVector")
    offset = pc.struct_field(vectors, "offset")
    suffix = pc.if_else(
        pc.is_valid(offset),
        pc.binary_join_element_wise("@", pc.cast(offset, pa.string()), ""),
        "",
    )
    dv_id = pc.binary_join_element_wise(
        pc.struct_field(vectors, "storageType"),
        pc.struct_field(vectors, "pathOrInlineDv"),
        suffix,
        "",
    )
    texts: pa.Array[Any] = pc.binary_join_element_wise(
        paths, pc.fill_null(dv_id, ""), KEY_SEPARATOR
    )
    return texts


def _is_in(texts: Any, known: pa.Array[Any]) -> Any:
    found = None
    for start in range(0, len(known), _LOOKED_UP_AT_ONCE):
        piece = known.slice(start, _LOOKED_UP_AT_ONCE).cast(texts.type)
        some = pc.is_in(texts, value_set=piece)
        found = some if found is None else pc.or_(found, some)
    return found


def _union(one: pa.Array[Any], other: pa.Array[Any]) -> pa.Array[Any]:
    if one.type != other.type:
        one, other = one.cast(pa.large_string()), other.cast(pa.large_string())
    distinct = pc.unique(pa.concat_arrays([one, other]))
    ordered: pa.Array[Any] = distinct.take(pc.sort_indices(distinct))
    return ordered
