"""The log-replay keys of file actions (path and deletion vector id), as Arrow columns.

If a checkpoint and a newer commit have actions with the same key, a scan ignores the action in the
checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from bayou.kernel.arrow.arrays import to_array
from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.serialization import array_from_bytes, array_to_bytes
from bayou.protocol.file_names import equivalent_paths

FileKey: TypeAlias = tuple[str, str | None]
"""Log-replay key of a file action: path and deletion vector id (None if there is no vector)."""

KEY_SEPARATOR = "\x00"
"""Separates the path and the deletion vector id in the string form of a log-replay key."""

_LOOKUP_CHUNK_SIZE = 131_072
"""Maximum number of log-replay keys in one call of `is_in`.

This number limits the memory of the hash table that `is_in` builds.
"""

_MIN_COLUMNAR_KEYS = 256
"""Minimum number of log-replay keys that are converted with Arrow's compute functions.

Fewer keys are converted one by one, which is faster.
"""

_SINGLE_SPELLING = r"^[A-Za-z0-9_\-.=][A-Za-z0-9_\-.=/]*$"
"""Regular expression that matches paths with only one encoding; see `equivalent_paths`."""


@dataclass(frozen=True, slots=True)
class FileActionKeys:
    """Log-replay keys of the files that the commits after a checkpoint add or remove.

    A checkpoint may encode a path differently from the commits. For each path, the columns contain
    all encodings that writers produce, so the paths of a checkpoint needn't be decoded.

    Attributes:
        paths: the distinct paths.
        keys: the distinct log-replay keys, as strings: path, `KEY_SEPARATOR` and deletion vector
            id.
    """

    paths: pa.Array[Any]
    keys: pa.Array[Any]

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_bytes, (array_to_bytes(self.paths), array_to_bytes(self.keys))

    @classmethod
    def from_keys(cls, keys: Iterable[FileKey]) -> FileActionKeys:
        """Create the columns from log-replay keys.

        Args:
            keys: the log-replay keys. Their paths can have any encoding that is valid in a log.
        """
        spelled = sorted(
            {(name, dv_id or "") for path, dv_id in keys for name in equivalent_paths(path)}
        )
        return cls(
            to_array(sorted({path for path, _ in spelled}), pa.string()),
            to_array([path + KEY_SEPARATOR + dv_id for path, dv_id in spelled], pa.string()),
        )

    @classmethod
    def from_columns(cls, paths: pa.Array[Any], keys: pa.Array[Any]) -> FileActionKeys:
        """Create the columns from file actions.

        Args:
            paths: the path of each action.
            keys: the log-replay key of each action as a string, in the order of `paths`.
        """
        if len(paths) < _MIN_COLUMNAR_KEYS:
            return cls._from_strings(paths, keys)
        has_single_spelling = pc.match_substring_regex(paths, _SINGLE_SPELLING)
        other = pc.invert(has_single_spelling)
        distinct = cls(
            pc.unique(paths.filter(has_single_spelling)),
            pc.unique(keys.filter(has_single_spelling)),
        )
        return distinct.union(cls._from_strings(paths.filter(other), keys.filter(other)))

    @classmethod
    def _from_strings(cls, paths: pa.Array[Any], keys: pa.Array[Any]) -> FileActionKeys:
        pairs: Any = zip(paths.to_pylist(), keys.to_pylist(), strict=True)
        return cls.from_keys((path, key.rpartition(KEY_SEPARATOR)[2]) for path, key in pairs)

    def union(self, other: FileActionKeys) -> FileActionKeys:
        if len(other.keys) == 0:
            return self
        return FileActionKeys(_union(self.paths, other.paths), _union(self.keys, other.keys))

    @property
    def has_vectors(self) -> bool:
        """Whether any of the keys has a deletion vector id."""
        return len(self.keys) > 0 and not pc.all(pc.ends_with(self.keys, KEY_SEPARATOR)).as_py()

    def unseen_mask(self, adds: pa.StructArray) -> pa.BooleanArray | None:
        """Return a mask that selects the actions whose log-replay keys aren't in `keys`.

        Args:
            adds: `add` or `remove` actions as structs.

        Returns:
            The mask; None if all actions are selected.
        """
        if len(self.paths) == 0:
            return None
        paths = pc.struct_field(adds, "path")
        candidates = _is_in(paths, self.paths)
        if not pc.any(candidates).as_py():
            return None
        seen = _is_in(key_strings(adds.filter(candidates)), self.keys)
        unseen: pa.BooleanArray = pc.invert(pc.replace_with_mask(candidates, candidates, seen))
        return unseen


def key_strings(files: pa.StructArray, paths: Any = None) -> pa.Array[Any]:
    """Return the log-replay key of each file as a string.

    The string consists of the path, `KEY_SEPARATOR` and the deletion vector id, which is empty if
    the file has no deletion vector.

    Args:
        paths: paths to use instead of `files.path`, one for each file.
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
    keys: pa.Array[Any] = pc.binary_join_element_wise(paths, pc.fill_null(dv_id, ""), KEY_SEPARATOR)
    return keys


def _is_in(strings: Any, value_set: pa.Array[Any]) -> Any:
    result = None
    for start in range(0, len(value_set), _LOOKUP_CHUNK_SIZE):
        chunk = value_set.slice(start, _LOOKUP_CHUNK_SIZE).cast(strings.type)
        matches = pc.is_in(strings, value_set=chunk)
        result = matches if result is None else pc.or_(result, matches)
    return result


def _union(left: pa.Array[Any], right: pa.Array[Any]) -> pa.Array[Any]:
    if left.type != right.type:
        left, right = left.cast(pa.large_string()), right.cast(pa.large_string())
    distinct = pc.unique(pa.concat_arrays([left, right]))
    ordered: pa.Array[Any] = distinct.take(pc.sort_indices(distinct))
    return ordered


def _from_bytes(paths: bytes, keys: bytes) -> FileActionKeys:
    return FileActionKeys(array_from_bytes(paths), array_from_bytes(keys))
