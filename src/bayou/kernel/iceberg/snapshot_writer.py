"""Writes Iceberg snapshots: each snapshot applies a commit's changes to the previous snapshot.

Added files go to new manifests. A manifest that contains a removed file is replaced by a new
manifest, in which the entry of the file is DELETED. The new snapshot reuses all other manifests. If
there are many small manifests, they are merged.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from bayou.kernel.deletion_vectors.read import load
from bayou.kernel.engine import Engine
from bayou.kernel.iceberg.data_files import DataFileConverter
from bayou.kernel.iceberg.iceberg_schema import Json
from bayou.kernel.iceberg.manifests.encoded_entry import EncodedFile
from bayou.kernel.iceberg.manifests.encoded_manifest import (
    EncodedEntries,
    EncodedManifest,
    MovedEntries,
    encoded_manifest,
)
from bayou.kernel.iceberg.manifests.entries import (
    ADDED,
    DATA_MANIFEST,
    DELETE_MANIFEST,
    DELETED,
    EXISTING,
    POSITION_DELETES,
    DataFile,
    ManifestEntry,
    ManifestFile,
    NewSnapshot,
    PartitionSpec,
    renewed,
)
from bayou.kernel.iceberg.manifests.manifest_filter import ManifestMatch, matching_manifests
from bayou.kernel.iceberg.manifests.manifest_reader import (
    live_entries,
    read_file,
    read_manifest_list,
    reported,
)
from bayou.kernel.iceberg.manifests.manifest_writer import MetadataWriter
from bayou.kernel.iceberg.manifests.partition_pruning import may_contain
from bayou.kernel.iceberg.metadata_folder import MetadataFolder, location
from bayou.kernel.iceberg.puffin import Blob, write_puffin
from bayou.kernel.iceberg.snapshot_summary import SnapshotTotals, operation_of, summary_of
from bayou.kernel.iceberg.table_metadata import (
    current_snapshot,
    current_spec,
    partition_spec,
    with_snapshot,
)
from bayou.kernel.iceberg.values import IcebergValue
from bayou.protocol.actions import AddFile, DeletionVectorDescriptor, RemoveFile

MANIFEST_ENTRIES = 4000
"""Maximum number of files in a manifest.

With larger manifests, the removal of a file is slower, because its manifest is written again. With
smaller manifests, every commit is slower, because the list of all manifests is written again.
"""
_SMALL_MANIFEST_ENTRIES = MANIFEST_ENTRIES // 4
_SMALL_MANIFESTS_TO_MERGE = 100
_DELETION_VECTORS_PER_FILE = 1000


class DivergedError(Exception):
    """A commit removes a file that no manifest contains; the whole table must be converted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChanges:
    """The file actions of a commit.

    Attributes:
        timestamp: timestamp of the commit in ms since the epoch.
        changes_data: whether an action has `dataChange` true.
        row_id_high_water_mark: the row id high water mark that the commit sets; None if it sets
            none.
    """

    version: int
    timestamp: int
    adds: Sequence[AddFile]
    removes: Sequence[RemoveFile]
    changes_data: bool
    row_id_high_water_mark: int | None = None


@dataclass(slots=True)
class _NewFiles:
    """The `add` actions that add entries to manifests.

    Attributes:
        data: actions that add a data file, by the location of the data file.
        vectors: actions that add a deletion vector, by the location of the data file.
    """

    data: dict[str, AddFile] = field(default_factory=dict)
    vectors: dict[str, AddFile] = field(default_factory=dict)


class SnapshotWriter:
    """Writes the manifests of the snapshots of one conversion.

    `written` has the paths of all files that this object has written.
    """

    def __init__(
        self, engine: Engine, table: str, folder: MetadataFolder, writer: MetadataWriter
    ) -> None:
        self.written: list[str] = []
        self._engine = engine
        self._table = table
        self._folder = folder
        self._writer = writer

    def append_all(
        self,
        metadata: Json,
        files: Iterable[AddFile],
        converter: DataFileConverter,
        changes: FileChanges,
    ) -> Json:
        """Return `metadata` with a new snapshot that contains only `files`.

        If there are no files and no previous snapshot, `metadata` is returned unchanged.

        Args:
            changes: version and timestamp of the snapshot; the actions in this object are ignored.
        """
        new = self._new_snapshot(metadata, changes.version)
        totals = SnapshotTotals()
        manifests: list[ManifestFile] = []
        remaining = iter(files)
        while chunk := list(islice(remaining, MANIFEST_ENTRIES)):
            manifests += self._data_manifests(metadata, chunk, converter, new, totals)
            manifests += self._vector_manifests(metadata, chunk, converter, new, totals)
        if not manifests and current_snapshot(metadata) is None:
            return metadata
        operation = "append" if current_snapshot(metadata) is None else "overwrite"
        summary = summary_of(totals, operation, changes.version, {})
        return self._finish(metadata, manifests, new=new, changes=changes, summary=summary)

    def apply(self, metadata: Json, converter: DataFileConverter, changes: FileChanges) -> Json:
        """Return `metadata` with a new snapshot, which has the file changes of a commit.

        If the commit changes no file, `metadata` is returned unchanged.

        Raises:
            DivergedError: a removed file isn't in the previous snapshot.
        """
        new = self._new_snapshot(metadata, changes.version)
        snapshot = current_snapshot(metadata)
        manifests = (
            []
            if snapshot is None
            else [
                manifest
                for manifest in read_manifest_list(
                    self._engine, self._table, snapshot["manifest-list"]
                )
                if manifest.live_files_count > 0
            ]
        )
        totals = SnapshotTotals()
        added, removed_data, removed_vectors = self._split(converter, changes)
        # A commit may add a live file again without removing it, for example with other tags. The
        # entries of the file and of its deletion vector are then replaced. A file with changed data
        # is new if it was written after the previous snapshot. All other files are searched.
        before = -1 if snapshot is None else snapshot["timestamp-ms"]
        readded = {
            path
            for path, add in added.data.items()
            if path not in removed_data and (not add.data_change or add.modification_time <= before)
        }
        partitions = self._partitions(converter, changes, [*removed_data, *readded])
        retained, matches = self._without(
            metadata,
            manifests,
            removed_data | readded,
            content=DATA_MANIFEST,
            new=new,
            totals=totals,
            partitions=partitions,
        )
        if not removed_data <= matches:
            raise DivergedError(next(iter(removed_data - matches)))
        retained, _ = self._without(
            metadata,
            retained,
            removed_vectors | readded,
            content=DELETE_MANIFEST,
            new=new,
            totals=totals,
            partitions=partitions,
        )
        new_manifests = [
            *self._data_manifests(metadata, list(added.data.values()), converter, new, totals),
            *self._vector_manifests(metadata, list(added.vectors.values()), converter, new, totals),
        ]
        if not new_manifests and retained == manifests:
            return metadata
        merged = self._merge_small(metadata, retained, new)
        return self._finish(
            metadata,
            [*new_manifests, *merged],
            new=new,
            changes=changes,
            summary=summary_of(
                totals,
                operation_of(totals, changes_data=changes.changes_data),
                changes.version,
                {} if snapshot is None else snapshot["summary"],
            ),
        )

    def _new_snapshot(self, metadata: Json, version: int) -> NewSnapshot:
        last = metadata["last-sequence-number"]
        parent = current_snapshot(metadata)
        version_3 = self._writer.format_version >= 3
        return NewSnapshot(
            snapshot_id=secrets.randbits(62) + 1,
            parent_snapshot_id=None if parent is None else parent["snapshot-id"],
            # With row lineage, a row's sequence number is the Delta version of its last change.
            # Rows inherit it from the snapshot.
            sequence_number=max(last + 1, version) if version_3 else last + 1,
            first_row_id=metadata["next-row-id"] if version_3 else None,
        )

    def _split(
        self, converter: DataFileConverter, changes: FileChanges
    ) -> tuple[_NewFiles, set[str], set[str]]:
        """Determine which manifest entries a commit adds and removes.

        Returns:
            Three values:

            - The data files and deletion vectors to add.
            - The locations of the data files to remove.
            - The locations of the data files whose deletion vectors are removed.
        """
        added = _NewFiles()
        adds = {converter.location(add.path): add for add in changes.adds}
        removes = {converter.location(remove.path): remove for remove in changes.removes}
        version_3 = self._writer.format_version >= 3
        removed = set(removes)
        for path, add in adds.items():
            # A commit that changes only a file's deletion vector removes the file and adds it
            # again. In version 3, the data file's entry stays, and only the vector is replaced.
            unchanged = version_3 and path in removes and _is_same_file(add, removes[path])
            if unchanged:
                removed.discard(path)
            else:
                added.data[path] = add
            if version_3 and add.deletion_vector is not None:
                added.vectors[path] = add
        vectors = {p for p, remove in removes.items() if remove.deletion_vector is not None}
        return added, removed, vectors if version_3 else set()

    def _partitions(
        self, converter: DataFileConverter, changes: FileChanges, paths: Collection[str]
    ) -> set[tuple[IcebergValue, ...]] | None:
        """Return the partitions of a commit's `remove` actions and of selected `add` actions.

        Args:
            paths: locations of the files whose `add` actions are included.

        Returns:
            The partitions; None if one of these actions has no partition values.
        """
        partitions = set()
        wanted = set(paths)
        actions: list[AddFile | RemoveFile] = [*changes.removes, *changes.adds]
        for action in actions:
            if isinstance(action, AddFile) and converter.location(action.path) not in wanted:
                continue
            if action.partition_values is None:
                return None
            partitions.add(converter.partition(action.path, action.partition_values))
        return partitions

    def _without(
        self,
        metadata: Json,
        manifests: Sequence[ManifestFile],
        removed: Collection[str],
        *,
        content: int,
        new: NewSnapshot,
        totals: SnapshotTotals,
        partitions: Collection[tuple[IcebergValue, ...]] | None,
    ) -> tuple[list[ManifestFile], set[str]]:
        """Remove data files, or their deletion vectors, from manifests.

        Args:
            removed: locations of data files.
            content: `DATA_MANIFEST` to remove the data files, `DELETE_MANIFEST` to remove their
                deletion vectors.
            partitions: partitions of the data files; None if unknown.

        Returns:
            The manifests after the removal in the same order, and the locations of the data files
            that were found.
        """
        replaced: dict[str, ManifestFile] = {}
        found: set[str] = set()
        for match in self._matches(metadata, manifests, removed, content, partitions):
            for file in match.files.values():
                totals.remove(file)
            found |= match.locations
            replaced[match.manifest.manifest_path] = self._filtered(metadata, match, new)
        return [replaced.get(each.manifest_path, each) for each in manifests], found

    def _matches(
        self,
        metadata: Json,
        manifests: Sequence[ManifestFile],
        files: Collection[str],
        content: int,
        partitions: Collection[tuple[IcebergValue, ...]] | None,
    ) -> Iterator[ManifestMatch]:
        """Yield the manifests with this `content` that contain one of the files.

        The newest manifests are searched first, and the search ends when all files are found. This
        is fast, because new files are removed more often than old files.
        """
        if not files:
            return
        candidates = []
        for manifest in manifests:
            spec = partition_spec(metadata, manifest.partition_spec_id)
            same_spec = manifest.partition_spec_id == metadata["default-spec-id"]
            if manifest.content == content and (
                not same_spec or may_contain(manifest, spec, partitions)
            ):
                candidates.append(manifest)
        with matching_manifests(self._engine, self._table, candidates, files) as matches:
            yield from matches

    def _filtered(self, metadata: Json, match: ManifestMatch, new: NewSnapshot) -> ManifestFile:
        """Write a copy of a manifest in which the entries of the matching files are DELETED."""
        manifest = match.manifest
        spec = _spec(metadata, manifest.partition_spec_id)
        copied = self._copied(spec, manifest, match.encoded, match.files, new)
        return self._manifest(spec, [copied], new, manifest.content)

    def _copied(
        self,
        spec: PartitionSpec,
        manifest: ManifestFile,
        encoded: EncodedManifest | None,
        removed: Mapping[int, EncodedFile],
        new: NewSnapshot,
    ) -> EncodedEntries | MovedEntries:
        """Return the entries of a new manifest that replaces `manifest`.

        These are the live entries of `manifest`. Entries of removed files get the status DELETED.
        All other entries get EXISTING.
        """
        with reported(self._table, manifest.manifest_path):
            if encoded is not None and self._writer.can_move(spec, manifest, encoded):
                return encoded.moved(manifest, new.snapshot_id, removed)
        numbered = list(enumerate(live_entries(self._engine, self._table, manifest)))
        entries = [renewed(e, EXISTING, new) for n, e in numbered if n not in removed]
        entries += [renewed(e, DELETED, new) for n, e in numbered if n in removed]
        return self._writer.encoded(spec, entries)

    def _data_manifests(
        self,
        metadata: Json,
        adds: Sequence[AddFile],
        converter: DataFileConverter,
        new: NewSnapshot,
        totals: SnapshotTotals,
    ) -> Iterator[ManifestFile]:
        remaining = iter(adds)
        while chunk := list(islice(remaining, MANIFEST_ENTRIES)):
            entries = []
            for add in chunk:
                file = converter.convert(add)
                totals.add(file)
                entries.append(self._added(file, new, add.default_row_commit_version))
            yield self._new_manifest(metadata, entries, new, DATA_MANIFEST)

    def _vector_manifests(
        self,
        metadata: Json,
        adds: Sequence[AddFile],
        converter: DataFileConverter,
        new: NewSnapshot,
        totals: SnapshotTotals,
    ) -> Iterator[ManifestFile]:
        """Write the deletion vectors of `adds` to Puffin files; yield manifests that list them."""
        remaining = ((add, add.deletion_vector) for add in adds if add.deletion_vector is not None)
        while chunk := list(islice(remaining, _DELETION_VECTORS_PER_FILE)):
            files = self._puffin_file(chunk, converter)
            for file in files:
                totals.add(file)
            entries = [self._added(file, new, None) for file in files]
            yield self._new_manifest(metadata, entries, new, DELETE_MANIFEST)

    def _puffin_file(
        self,
        adds: Sequence[tuple[AddFile, DeletionVectorDescriptor]],
        converter: DataFileConverter,
    ) -> list[DataFile]:
        blobs = [
            Blob(
                referenced_data_file=converter.location(add.path),
                deleted=load(self._engine, self._table, vector),
            )
            for add, vector in adds
        ]
        data, positions = write_puffin(blobs)
        path = self._folder.new_puffin_file()
        self._put(path, data)
        return [
            DataFile(
                content=POSITION_DELETES,
                file_format="PUFFIN",
                file_path=location(path),
                partition=converter.partition(add.path, add.partition_values),
                record_count=vector.cardinality,
                file_size_in_bytes=len(data),
                referenced_data_file=blob.referenced_data_file,
                content_offset=position.offset,
                content_size_in_bytes=position.length,
            )
            for (add, vector), blob, position in zip(adds, blobs, positions, strict=True)
        ]

    def _added(self, file: DataFile, new: NewSnapshot, row_version: int | None) -> ManifestEntry:
        older = (
            self._writer.format_version >= 3
            and row_version is not None
            and row_version < new.sequence_number
        )
        return ManifestEntry(
            status=ADDED,
            snapshot_id=new.snapshot_id,
            sequence_number=row_version if older else None,
            file_sequence_number=new.sequence_number if older else None,
            data_file=file,
        )

    def _merge_small(
        self, metadata: Json, manifests: Sequence[ManifestFile], new: NewSnapshot
    ) -> list[ManifestFile]:
        """Merge the small manifests of earlier snapshots if there are many of them."""
        result = list(manifests)
        groups: dict[tuple[int, int], list[ManifestFile]] = {}
        for manifest in manifests:
            if (
                manifest.live_files_count < _SMALL_MANIFEST_ENTRIES
                and manifest.added_snapshot_id != new.snapshot_id
            ):
                key = (manifest.content, manifest.partition_spec_id)
                groups.setdefault(key, []).append(manifest)
        for (_, spec_id), small in groups.items():
            if len(small) < _SMALL_MANIFESTS_TO_MERGE:
                continue
            paths = {manifest.manifest_path for manifest in small}
            merged = [self._merged(metadata, spec_id, group, new) for group in _packed(small)]
            result = [m for m in result if m.manifest_path not in paths] + merged
        return result

    def _merged(
        self, metadata: Json, spec_id: int, manifests: Sequence[ManifestFile], new: NewSnapshot
    ) -> ManifestFile:
        if len(manifests) == 1:
            return manifests[0]
        spec = _spec(metadata, spec_id)
        parts = []
        for manifest in manifests:
            data = read_file(self._engine, self._table, manifest.manifest_path)
            with reported(self._table, manifest.manifest_path):
                encoded = encoded_manifest(data)
            parts.append(self._copied(spec, manifest, encoded, {}, new))
        return self._manifest(spec, parts, new, manifests[0].content)

    def _new_manifest(
        self, metadata: Json, entries: Sequence[ManifestEntry], new: NewSnapshot, content: int
    ) -> ManifestFile:
        spec = current_spec(metadata)
        return self._manifest(spec, [self._writer.encoded(spec, entries)], new, content)

    def _manifest(
        self,
        spec: PartitionSpec,
        parts: Sequence[EncodedEntries | MovedEntries],
        new: NewSnapshot,
        content: int,
    ) -> ManifestFile:
        path = self._folder.new_manifest()
        data, manifest = self._writer.manifest(location(path), spec, parts, new, content)
        self._put(path, data)
        return manifest

    def _finish(
        self,
        metadata: Json,
        manifests: Sequence[ManifestFile],
        *,
        new: NewSnapshot,
        changes: FileChanges,
        summary: Mapping[str, str],
    ) -> Json:
        path = self._folder.new_manifest_list(new.snapshot_id)
        self._put(path, self._writer.manifest_list(manifests, new))
        timestamps = [e["timestamp-ms"] for e in metadata.get("snapshot-log", ())[-1:]]
        snapshot: Json = {
            "snapshot-id": new.snapshot_id,
            "sequence-number": new.sequence_number,
            "timestamp-ms": max(changes.timestamp, *timestamps, 0),
            "manifest-list": location(path),
            "summary": dict(summary),
            "schema-id": metadata["current-schema-id"],
        }
        if new.parent_snapshot_id is not None:
            snapshot["parent-snapshot-id"] = new.parent_snapshot_id
        if new.first_row_id is not None:
            mark = changes.row_id_high_water_mark
            after = new.first_row_id if mark is None else max(mark + 1, new.first_row_id)
            snapshot["first-row-id"] = new.first_row_id
            snapshot["added-rows"] = after - new.first_row_id
        return with_snapshot(metadata, snapshot)

    def _put(self, path: str, data: bytes) -> None:
        self.written.append(path)
        self._folder.put(path, data)


def _spec(metadata: Json, spec_id: int) -> PartitionSpec:
    if spec_id == metadata["default-spec-id"]:
        return current_spec(metadata)
    return partition_spec(metadata, spec_id)


def _packed(manifests: Sequence[ManifestFile]) -> Iterator[list[ManifestFile]]:
    """Group small manifests: a group has at most `MANIFEST_ENTRIES` live entries in total."""
    group: list[ManifestFile] = []
    files = 0
    for manifest in manifests:
        if group and files + manifest.live_files_count > MANIFEST_ENTRIES:
            yield group
            group, files = [], 0
        group.append(manifest)
        files += manifest.live_files_count
    yield group


def _is_same_file(add: AddFile, remove: RemoveFile) -> bool:
    return (remove.size is None or remove.size == add.size) and (
        remove.base_row_id is None or remove.base_row_id == add.base_row_id
    )
