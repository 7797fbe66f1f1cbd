"""Symlink manifests: lists of a table's data files for Presto, Athena and Hive.

Each partition has a file `manifest` in its folder below `_symlink_format_manifest`. Each line of
the file is the URI of a data file, as in `GenerateSymlinkManifest` of delta-spark 4.4.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import pyarrow as pa

from bayou.errors import UnsupportedFeatureError
from bayou.kernel.arrow.compute import pc
from bayou.kernel.catalog import Catalog
from bayou.kernel.engine import Engine
from bayou.kernel.log.replay import read_commits
from bayou.kernel.log.segment import commit_files
from bayou.kernel.log.table_state import TableState, load_table_state
from bayou.kernel.scan.data_skipping.pruning import (
    PartitionKey,
    partition_key,
    partition_predicate,
)
from bayou.kernel.scan.scan import ScanBuilder
from bayou.kernel.scan.scan_file import data_file_path
from bayou.protocol import features
from bayou.protocol.actions import Action, AddFile, Metadata, RemoveFile
from bayou.protocol.file_names import partition_directory
from bayou.protocol.schema import StructField

_FOLDER = "_symlink_format_manifest"
_CONDITIONS = {
    features.COLUMN_MAPPING: "DELTA_UNSUPPORTED_MANIFEST_GENERATION_WITH_COLUMN_MAPPING",
    features.DELETION_VECTORS: "DELTA_UNSUPPORTED_GENERATE_WITH_DELETION_VECTORS",
}
_ACTIONS = {
    features.COLUMN_MAPPING: "Copy the rows to a table without column mapping.",
    features.DELETION_VECTORS: "Remove them with REORG TABLE ... APPLY (PURGE).",
}


def update_symlink_manifests(
    engine: Engine, table: str, version: int, catalog: Catalog | None = None
) -> None:
    """Write the manifests of the partitions in which the commit `version` added or removed files.

    The manifests list the files of the latest version. In these cases, the manifests of all
    partitions are written:

    - The commit changed the metadata.
    - The file actions of the commit have no partition values.
    - The commit is no longer in the log.
    - The table isn't partitioned, or has no manifests yet.
    """
    state = load_table_state(engine, table, catalog=catalog)
    commits = [
        (v, file) for v, file in commit_files(engine, table, catalog=catalog) if v == version
    ]
    partitions: dict[str, PartitionKey] | None = {}
    for commit in read_commits(engine, state.path, commits):
        partitions = _changed_partitions(state, commit.actions)
    if not commits or not state.partition_columns or not _has_manifests(engine, state.path):
        partitions = None
    write_symlink_manifests(engine, state, partitions)


def write_symlink_manifests(
    engine: Engine, state: TableState, partitions: Mapping[str, PartitionKey] | None = None
) -> int:
    """Write the manifests of a version, and delete the manifests of partitions without files.

    Args:
        partitions: the partitions to update, as a mapping from the folder of a partition to its
            partition values. If None, all partitions are updated.

    Returns:
        The number of manifests written.

    Raises:
        UnsupportedFeatureError: the table has deletion vectors or column mapping, which readers of
            manifests don't apply.
    """
    if state.column_mapping != "none":
        raise _unsupported(state, features.COLUMN_MAPPING, "column mapping")
    root = f"{state.path}/{_FOLDER}"
    lines = _lines(engine, state, partitions)
    if partitions is None and not lines and not state.partition_columns:
        lines = {"": []}
    written = set()
    for folder, paths in lines.items():
        directory = f"{root}/{folder}" if folder else root
        engine.files.mkdirs(directory)
        path = f"{directory}/manifest"
        engine.files.put(path, "".join(f"{line}\n" for line in paths).encode())
        written.add(path)
    if partitions is None:
        old = [path for path in _existing(engine, root) if path not in written]
    else:
        old = [f"{root}/{folder}/manifest" for folder in partitions if folder not in lines]
    engine.files.delete_files(old)
    engine.files.delete_empty_folders(path.rpartition("/")[0] for path in old)
    return len(written)


def _changed_partitions(
    state: TableState, actions: Collection[Action]
) -> dict[str, PartitionKey] | None:
    """Return the partitions in which a commit adds or removes files.

    Returns:
        A mapping from the folder of a partition to its partition values. None if the commit changes
        the metadata, or if an action has no valid partition values.
    """
    partitions: dict[str, PartitionKey] = {}
    names = state.partition_columns
    columns = _partition_fields(state)
    for action in actions:
        if isinstance(action, Metadata):
            return None
        if isinstance(action, AddFile | RemoveFile):
            values = action.partition_values
            if values is None or any(name not in values for name in names):
                return None
            folder = partition_directory(names, {name: values[name] for name in names})
            if folder not in partitions:
                try:
                    partitions[folder] = partition_key(values, columns)
                except ValueError:  # the scan of all files raises an error that names the file
                    return None
    return partitions


def _partition_fields(state: TableState) -> list[StructField]:
    return [f for name in state.partition_columns if (f := state.schema.get(name)) is not None]


def _lines(
    engine: Engine, state: TableState, partitions: Mapping[str, PartitionKey] | None
) -> dict[str, list[str]]:
    lines: dict[str, list[str]] = {}
    scan = ScanBuilder(state)
    if partitions is not None:
        if not partitions:
            return lines
        scan = scan.with_filter(
            partition_predicate(_partition_fields(state), set(partitions.values()))
        )
    with scan.build().scan_files(engine) as batches:
        for batch in batches:
            add: Any = batch.selected().column("add")
            if pc.any(pc.is_valid(pc.struct_field(add, "deletionVector"))).as_py():
                raise _unsupported(state, features.DELETION_VECTORS, "deletion vectors")
            for folder, paths in _by_folder(state, add):
                if partitions is None or folder in partitions:
                    lines.setdefault(folder, []).extend(paths)
    return lines


def _by_folder(state: TableState, add: Any) -> Iterator[tuple[str, list[str]]]:
    """Group files by partition; yield the folder and the file URIs of each partition.

    Args:
        add: `add` actions as structs.
    """
    uris: Any = pc.struct_field(add, "path")
    names = state.partition_columns
    if not names:
        yield "", [_address(state.path, str(uri)) for uri in uris.to_pylist()]
        return
    maps: Any = pc.struct_field(add, "partitionValues")
    columns = [pc.map_lookup(maps, pa.scalar(name), "first") for name in names]
    table: Any = pa.table([*columns, uris], names=[*(str(i) for i in range(len(names))), "uri"])
    keys = [str(i) for i in range(len(names))]
    grouped = table.group_by(keys).aggregate([("uri", "list")])
    for row in grouped.to_pylist():
        values = {name: row[key] for name, key in zip(names, keys, strict=True)}
        folder = partition_directory(names, values)
        yield folder, [_address(state.path, uri) for uri in row["uri_list"]]


def _address(table: str, uri: str) -> str:
    path = data_file_path(table, uri)
    return path if "://" in path else f"file:{path}"


def _has_manifests(engine: Engine, table: str) -> bool:
    """Whether the table has a manifest."""
    with engine.files.list_tree(f"{table}/{_FOLDER}", lambda _: False) as files:
        return next(iter(files), None) is not None


def _existing(engine: Engine, root: str) -> list[str]:
    with engine.files.list_tree(root, lambda _: False) as files:
        return [file.path for file in files if file.path.endswith("/manifest")]


def _unsupported(state: TableState, feature: str, name: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"{state.path}: the table has {name}, which readers of symlink manifests don't support "
        f"({_CONDITIONS[feature]}). {_ACTIONS[feature]}",
        table=state.path,
        features=[feature],
    )
