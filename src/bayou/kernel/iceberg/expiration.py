"""Expires Iceberg snapshots, and deletes the manifests and Puffin files that no snapshot needs."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from bayou.errors import UniversalFormatError
from bayou.kernel.engine import Engine
from bayou.kernel.iceberg.iceberg_schema import Json
from bayou.kernel.iceberg.manifests.entries import DELETE_MANIFEST
from bayou.kernel.iceberg.manifests.manifest_reader import live_entries, read_manifest_list
from bayou.kernel.iceberg.manifests.manifest_writer import MetadataWriter
from bayou.kernel.iceberg.metadata_folder import MetadataFolder, engine_path
from bayou.kernel.iceberg.table_metadata import (
    converted_version,
    snapshot_delta_version,
    without_snapshots,
)

_LOG = logging.getLogger(__name__)

_MAX_ATTEMPTS = 50
_DAY = 86_400_000


def expire_snapshots(engine: Engine, table: str, earliest_version: int) -> int:
    """Remove the snapshots that aren't needed to read Delta versions from `earliest_version` on.

    A Delta version whose commit changed no files uses the snapshot of an earlier version.
    Therefore, a snapshot is removed only if the next snapshot belongs to `earliest_version` or an
    earlier version. Manifests and Puffin files that only removed snapshots reference are deleted.

    Returns:
        Number of removed snapshots.
    """
    folder = MetadataFolder(engine, table)
    for _ in range(_MAX_ATTEMPTS):
        newest = folder.newest()
        if newest is None or converted_version(newest[1]) is None:
            return 0
        number, metadata = newest
        versions = [snapshot_delta_version(snapshot) for snapshot in metadata["snapshots"]]
        expired = 0
        while (
            expired + 1 < len(versions)
            and (following := versions[expired + 1]) is not None
            and following <= earliest_version
        ):
            expired += 1
        if not expired:
            return 0
        writer = MetadataWriter(metadata["format-version"])
        after, unreferenced = without_oldest(engine, table, metadata, expired)
        if folder.publish(number, metadata, after, writer):
            folder.delete(unreferenced)
            return expired
    return 0


def delete_orphans(engine: Engine, table: str, before: int) -> int:
    """Delete files that killed conversions left in the folder `metadata`; return their number.

    Nothing is deleted if the folder also has the metadata of another Iceberg writer. All Iceberg
    writers name their manifests in the same way, so the manifests of the other writer look like
    files of a killed conversion.

    Args:
        before: time in ms since the epoch. Files are deleted only if they were last modified before
            this time and more than a day ago. A running conversion may still publish newer files.
    """
    folder = MetadataFolder(engine, table)
    candidates = folder.written_before(min(before, time.time_ns() // 1_000_000 - _DAY))
    newest = folder.newest()
    if not candidates or newest is None or converted_version(newest[1]) is None:
        return 0
    if folder.has_other_metadata():
        return 0
    needed = _needed_names(engine, table, newest[1]["snapshots"])
    orphans = [path for path in candidates if path.rpartition("/")[2] not in needed]
    folder.delete(orphans)
    return len(orphans)


def without_oldest(
    engine: Engine, table: str, metadata: Json, count: int
) -> tuple[Json, list[str]]:
    """Remove the oldest `count` snapshots from `metadata`.

    Returns the new metadata, and the paths of the files that only removed snapshots reference.
    """
    expired = metadata["snapshots"][:count]
    retained = metadata["snapshots"][count:]
    unreferenced = _unreferenced_files(engine, table, expired, retained)
    after = without_snapshots(metadata, {snapshot["snapshot-id"] for snapshot in expired})
    return after, unreferenced


def _unreferenced_files(
    engine: Engine, table: str, expired: Sequence[Json], retained: Sequence[Json]
) -> list[str]:
    """Return the manifest lists, manifests and Puffin files that only expired snapshots reference.

    Once a snapshot no longer references a file, no later snapshot references the file again.
    Therefore, only the oldest retained snapshot is compared with the expired snapshots.
    """
    if not expired:
        return []
    needed: set[str] = set()
    for snapshot in retained[:1]:
        needed = _read_files(engine, table, snapshot)
    unreferenced: set[str] = set()
    for snapshot in expired:
        unreferenced |= _files(engine, table, snapshot) - needed
    return sorted(engine_path(each) for each in unreferenced)


def _needed_names(engine: Engine, table: str, snapshots: Sequence[Json]) -> set[str]:
    """Return the names of the manifest lists, manifests and Puffin files of snapshots.

    The caller compares names instead of locations. Each file has a unique name, but two locations
    can refer to the same file, for example if one of them contains a symbolic link.
    """
    locations = set[str]().union(*(_read_files(engine, table, each) for each in snapshots))
    return {each.rpartition("/")[2] for each in locations}


def _files(engine: Engine, table: str, snapshot: Json) -> set[str]:
    """Return the locations of a snapshot's manifest list, manifests and Puffin files.

    Files of an expired snapshot may already be deleted. If the manifest list or a manifest of
    deletion vectors can't be read, the result is empty.
    """
    try:
        return _read_files(engine, table, snapshot)
    except UniversalFormatError as error:
        _LOG.debug("%s: files of an expired Iceberg snapshot can't be deleted: %s", table, error)
        return set()


def _read_files(engine: Engine, table: str, snapshot: Json) -> set[str]:
    files = {snapshot["manifest-list"]}
    for manifest in read_manifest_list(engine, table, snapshot["manifest-list"]):
        files.add(manifest.manifest_path)
        if manifest.content == DELETE_MANIFEST:
            files |= {e.data_file.file_path for e in live_entries(engine, table, manifest)}
    return files
