"""Manifests of a table's files for Presto, Athena and others that read symlinks (Hive's format).

Below `_symlink_format_manifest` each partition has a file `manifest`: the addresses of its data
files, one a line. Source: `GenerateSymlinkManifest` of delta-spark 4.4.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.errors import FileMissingError, UnsupportedFeatureError
from bayou.kernel.engine import Engine
from bayou.kernel.scan_file import data_file_path
from bayou.kernel.snapshot import Snapshot
from bayou.protocol import features
from bayou.protocol.file_names import partition_directory

__all__ = ["write_symlink_manifests"]

pc: Any = pyarrow.compute

_FOLDER = "_symlink_format_manifest"


def write_symlink_manifests(engine: Engine, snapshot: Snapshot) -> int:
    """Write the manifests of a version, and delete those of partitions that are gone.

    Returns:
        How many manifests there are.

    Raises:
        UnsupportedFeatureError: files whose rows others would read wrongly: with deletion vectors,
            or with mapped columns.
    """
    if snapshot.column_mapping != "none":
        raise _unreadable(snapshot, features.COLUMN_MAPPING, "mapped columns")
    root = f"{snapshot.path}/{_FOLDER}"
    lines = _lines(engine, snapshot)
    if not lines and not snapshot.partition_columns:
        lines = {"": []}
    written = set()
    for folder, paths in lines.items():
        place = f"{root}/{folder}" if folder else root
        engine.files.mkdirs(place)
        path = f"{place}/manifest"
        engine.files.put(path, "".join(f"{line}\n" for line in paths).encode())
        written.add(path)
    old = [path for path in _existing(engine, root) if path not in written]
    engine.files.delete_files(old)
    engine.files.delete_empty_folders(path.rpartition("/")[0] for path in old)
    return len(written)


def _lines(engine: Engine, snapshot: Snapshot) -> dict[str, list[str]]:
    """Addresses of data files by the folder of their partition."""
    found: dict[str, list[str]] = {}
    with snapshot.scan_builder().build().scan_files(engine) as batches:
        for batch in batches:
            add: Any = batch.selected().column("add")
            if pc.any(pc.is_valid(pc.struct_field(add, "deletionVector"))).as_py():
                raise _unreadable(snapshot, features.DELETION_VECTORS, "deletion vectors")
            for folder, paths in _by_folder(snapshot, add):
                found.setdefault(folder, []).extend(paths)
    return found


def _by_folder(snapshot: Snapshot, add: Any) -> Iterator[tuple[str, list[str]]]:
    """A batch's addresses, the partition values looked at once for each partition."""
    uris: Any = pc.struct_field(add, "path")
    names = snapshot.partition_columns
    if not names:
        yield "", [_address(snapshot.path, str(uri)) for uri in uris.to_pylist()]
        return
    maps: Any = pc.struct_field(add, "partitionValues")
    columns = [pc.map_lookup(maps, pa.scalar(name), "first") for name in names]
    table: Any = pa.table([*columns, uris], names=[*(str(i) for i in range(len(names))), "uri"])
    keys = [str(i) for i in range(len(names))]
    grouped = table.group_by(keys).aggregate([("uri", "list")])
    for row in grouped.to_pylist():
        values = {name: row[key] for name, key in zip(names, keys, strict=True)}
        folder = partition_directory(names, values)
        yield folder, [_address(snapshot.path, uri) for uri in row["uri_list"]]


def _address(table: str, uri: str) -> str:
    path = data_file_path(table, uri)
    return path if "://" in path else f"file:{path}"


def _existing(engine: Engine, root: str) -> list[str]:
    try:
        with engine.files.list_tree(root, lambda _: False) as files:
            return [file.path for file in files if file.path.endswith("/manifest")]
    except FileMissingError:
        return []


def _unreadable(snapshot: Snapshot, feature: str, what: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"{snapshot.path} has {what}, which readers of symlink manifests know nothing of "
        "(DELTA_UNSUPPORTED_GENERATE_WITH_DELETION_VECTORS for deletion vectors: rid the files of "
        "them with REORG TABLE ... APPLY (PURGE)).",
        table=snapshot.path,
        features=[feature],
    )
