"""Conversion of a Delta table's commits to Iceberg metadata.

The newest Iceberg metadata file records the last Delta version that was converted. The later
commits are converted one by one. A commit that adds or removes files becomes a snapshot. Other
commits only update the metadata file.

In these cases, all files of the version are converted as one snapshot instead:

- The table's folder has no Iceberg metadata of this table in the required Iceberg format version.
- A later commit is no longer in the log, or the last converted version can't be loaded.
- A later commit disables the conversion to Iceberg.
- There are more than `_MAX_COMMITS` later commits.
- A later commit removes a file that the Iceberg metadata doesn't have.
- A partition spec refers to a column that is no longer in the schema, for example because the
  table was overwritten with another schema. The earlier snapshots are then removed.
- The caller of `convert` passes `full=True`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from bayou.errors import BayouError, TableError, TablePropertyError, UniversalFormatError
from bayou.json_decoding import decode_json
from bayou.kernel.catalog import Catalog
from bayou.kernel.engine import Engine
from bayou.kernel.iceberg.data_files import DataFileConverter
from bayou.kernel.iceberg.expiration import without_oldest
from bayou.kernel.iceberg.iceberg_schema import Json
from bayou.kernel.iceberg.manifests.manifest_writer import MetadataWriter
from bayou.kernel.iceberg.metadata_folder import MetadataFolder, location
from bayou.kernel.iceberg.snapshot_writer import (
    DivergedError,
    FileChanges,
    SnapshotWriter,
)
from bayou.kernel.iceberg.table_metadata import (
    DeltaTable,
    converted_version,
    lacks_partition_source,
    new_table,
    retention_property,
    with_delta_metadata,
    with_delta_version,
    with_row_ids,
    without_history,
)
from bayou.kernel.log.commit_times import commit_timestamp, in_commit_time
from bayou.kernel.log.replay import CommitActions, read_commits
from bayou.kernel.log.segment import commit_files
from bayou.kernel.log.table_state import TableState, load_table_state
from bayou.kernel.scan.scan import ScanBuilder
from bayou.kernel.table_features.iceberg_compat import (
    iceberg_compat_version,
    universal_formats,
)
from bayou.kernel.table_features.reader_support import table_schema
from bayou.protocol.actions import AddFile, DomainMetadata, Metadata, RemoveFile
from bayou.protocol.property_strings import PropertyValueError

_LOG = logging.getLogger(__name__)

_MAX_COMMITS = 100
"""Maximum number of commits that are converted one by one, as in delta-spark."""
_MAX_SNAPSHOTS = 1000
"""Maximum number of snapshots in a metadata file; the oldest snapshots are expired."""
_METADATA_FILES = 100
"""Maximum number of Iceberg metadata files that are retained."""
_MAX_ATTEMPTS = 50
_ROW_TRACKING_DOMAIN = "delta.rowTracking"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """Result of a conversion.

    Attributes:
        version: the Delta version that the newest Iceberg metadata now represents.
        base_version: the Delta version that the Iceberg metadata represented before; None if the
            conversion wrote the whole table.
        converted: whether metadata was written; False if the version was already converted.
        metadata_file: path of the newest metadata file.
    """

    version: int
    base_version: int | None
    converted: bool
    metadata_file: str


def is_enabled(configuration: Mapping[str, str]) -> bool:
    """Whether commits of a table with these properties are converted to Iceberg."""
    try:
        return "iceberg" in universal_formats(configuration)
    except PropertyValueError:  # another writer set an invalid value
        return False


def convert(
    engine: Engine,
    table: str,
    version: int | None = None,
    *,
    catalog: Catalog | None = None,
    full: bool = False,
) -> Conversion:
    """Write the Iceberg metadata of a table version.

    If this version or a later version is already converted, the metadata is written only if `full`
    is True.

    Idempotent, and safe to run concurrently with writers, readers and other conversions.

    Args:
        version: the version; None for the latest.
        full: whether to convert the whole table as one snapshot even if an incremental conversion
            is possible.

    Raises:
        UniversalFormatError: conversion to Iceberg isn't enabled, or the table can't be converted.
        PrerequisiteError: the extra `iceberg` isn't installed.
    """
    state = load_table_state(engine, table, version, catalog=catalog)
    compat = iceberg_compat_version(state.properties)
    if not is_enabled(state.properties) or compat is None:
        raise UniversalFormatError(
            f"{state.path}: Iceberg metadata isn't enabled. Set "
            "delta.universalFormat.enabledFormats = 'iceberg' and "
            "delta.enableIcebergCompatV2 = 'true'.",
            table=state.path,
        )
    writer = MetadataWriter(3 if compat >= 3 else 2)
    run = _Run(engine, state, writer, MetadataFolder(engine, state.path))
    for _ in range(_MAX_ATTEMPTS):
        result = run.attempt(full=full)
        if result is not None:
            return result
    raise UniversalFormatError(
        f"{state.path}: the Iceberg metadata of version {state.version} wasn't written, "
        f"because another process wrote Iceberg metadata during each of {_MAX_ATTEMPTS} attempts. "
        f"Run bayou uniform sync {state.path}.",
        table=state.path,
    )


class _Run:
    """Converts one version of a Delta table, in one or more attempts.

    An attempt fails if a concurrent conversion publishes its metadata first.
    """

    def __init__(
        self, engine: Engine, state: TableState, writer: MetadataWriter, folder: MetadataFolder
    ) -> None:
        self._engine = engine
        self._state = state
        self._writer = writer
        self._folder = folder

    def attempt(self, *, full: bool) -> Conversion | None:
        """Convert the version; return None if a concurrent conversion published first."""
        newest = self._folder.newest()
        number, previous = (0, None) if newest is None else newest
        base = None if previous is None else self._usable_version(previous)
        if base is not None and base >= self._state.version and not full:
            self._folder.update_hint()
            return Conversion(
                version=base,
                base_version=base,
                converted=False,
                metadata_file=self._folder.metadata_file(number),
            )
        snapshots = SnapshotWriter(self._engine, self._state.path, self._folder, self._writer)
        try:
            metadata: Json | None = None
            if previous is not None and base is not None and not full:
                metadata = self._incremental(snapshots, previous, base)
            if metadata is None:
                metadata = self._full(snapshots, previous if base is not None else None)
                base = None
            metadata, unreferenced = self._completed(metadata, base)
        except BaseException:
            self._discard(snapshots)
            raise
        # If `publish` raises a storage error, the metadata file may have been written. Therefore
        # the manifests that it refers to aren't deleted.
        if not self._folder.publish(number, previous, metadata, self._writer):
            self._discard(snapshots)
            return None
        self._clean_up(unreferenced)
        return Conversion(
            version=self._state.version,
            base_version=base,
            converted=True,
            metadata_file=self._folder.metadata_file(number + 1),
        )

    def _usable_version(self, metadata: Json) -> int | None:
        """Return the Delta version that `metadata` was converted from.

        The result is None in these cases:

        - `metadata` wasn't written by a conversion of this table at this path.
        - The Iceberg format version of `metadata` differs from the format version of this
          conversion.
        """
        table = self._table(self._state.metadata)
        if (
            metadata.get("table-uuid") != table.uuid
            or metadata["format-version"] != self._writer.format_version
            or metadata.get("location") != location(self._state.path)
        ):
            return None
        return converted_version(metadata)

    def _incremental(self, snapshots: SnapshotWriter, previous: Json, base: int) -> Json | None:
        """Apply the commits after version `base` to the Iceberg metadata `previous`.

        Returns the new metadata; None if the whole table must be converted.
        """
        if self._state.version - base > _MAX_COMMITS:
            return None
        commits = self._commits(base + 1)
        if commits is None or not _all_enabled(commits):
            return None
        table = self._table_before(commits, base)
        if table is None:
            return None
        metadata, converter = previous, self._converter(table)
        for commit in commits:
            for action in commit.actions:
                if isinstance(action, Metadata):
                    table = self._table(action)
                    converter = self._converter(table)
                    metadata = with_delta_metadata(metadata, table)
            changes = _file_changes(commit)
            try:
                metadata = snapshots.apply(metadata, converter, changes)
            except DivergedError as error:
                _LOG.warning(
                    "%s: the Iceberg metadata doesn't contain the file %s, but version %d of the "
                    "table removes this file. Bayou converts the whole table again.",
                    self._state.path,
                    error,
                    commit.version,
                )
                self._discard(snapshots)
                return None
            metadata = with_row_ids(metadata, changes.row_id_high_water_mark)
        if lacks_partition_source(metadata):
            self._discard(snapshots)
            return None
        return metadata

    def _full(self, snapshots: SnapshotWriter, previous: Json | None) -> Json:
        """Convert all files of the version as one snapshot, which is added to `previous`.

        Args:
            previous: the newest Iceberg metadata; None to start with new metadata.
        """
        table = self._table(self._state.metadata)
        metadata = (
            new_table(table, location(self._state.path), self._writer.format_version)
            if previous is None
            else previous
        )
        metadata = with_delta_metadata(metadata, table)
        if lacks_partition_source(metadata):
            metadata = with_delta_metadata(without_history(metadata), table)
        domain = self._state.domain_metadata.get(_ROW_TRACKING_DOMAIN)
        changes = FileChanges(
            version=self._state.version,
            timestamp=commit_timestamp(self._state),
            adds=(),
            removes=(),
            changes_data=True,
            row_id_high_water_mark=_high_water_mark(domain),
        )
        metadata = snapshots.append_all(metadata, self._files(), self._converter(table), changes)
        return with_row_ids(metadata, changes.row_id_high_water_mark)

    def _completed(self, metadata: Json, base: int | None) -> tuple[Json, list[str]]:
        """Record the converted version in `metadata`, and limit the number of snapshots.

        If there are more than `_MAX_SNAPSHOTS` snapshots, the oldest ones are expired.

        Args:
            base: the last converted version before this conversion; None if this conversion wrote
                the whole table.

        Returns:
            The new metadata, and the paths of the files that only expired snapshots reference.
        """
        state = self._state
        properties = state.table_properties
        try:
            retention = min(properties.log_retention_ms, properties.deleted_file_retention_ms)
        except PropertyValueError as error:
            raise TablePropertyError(
                f"{state.path}: {error}.", table=state.path, key=error.key
            ) from error
        metadata = retention_property(metadata, retention)
        metadata = with_delta_version(metadata, state.version, commit_timestamp(state), base)
        surplus = len(metadata["snapshots"]) - _MAX_SNAPSHOTS
        if surplus > 0:
            return without_oldest(self._engine, state.path, metadata, surplus)
        return metadata, []

    def _files(self) -> Iterator[AddFile]:
        scan = ScanBuilder(self._state).with_whole_adds().build()
        with scan.scan_files(self._engine) as batches:
            for batch in batches:
                for file in batch.rows():
                    yield file.add

    def _commits(self, first: int) -> list[CommitActions] | None:
        """Read the commits from version `first` to the version to convert.

        Returns:
            The commits; None if one of them is missing.
        """
        state = self._state
        files = []
        with commit_files(self._engine, state.path, first, catalog=state.catalog) as listed:
            for version, file in listed:
                if version > state.version:
                    break
                files.append((version, file))
        if [version for version, _ in files] != list(range(first, state.version + 1)):
            return None
        return list(read_commits(self._engine, state.path, files))

    def _table_before(self, commits: list[CommitActions], base: int) -> DeltaTable | None:
        """Return the table at version `base`; None if this version can't be loaded.

        Args:
            commits: the commits after `base`.
        """
        if not any(isinstance(a, Metadata) for commit in commits for a in commit.actions):
            return self._table(self._state.metadata)
        try:
            before = load_table_state(
                self._engine, self._state.path, base, catalog=self._state.catalog
            )
        except TableError:
            return None
        return self._table(before.metadata)

    def _table(self, metadata: Metadata) -> DeltaTable:
        path = self._state.path
        return DeltaTable(path=path, metadata=metadata, schema=table_schema(path, metadata))

    def _converter(self, table: DeltaTable) -> DataFileConverter:
        columns = tuple(table.metadata.partition_columns)
        return DataFileConverter(self._engine, table.path, table.schema, columns)

    def _discard(self, snapshots: SnapshotWriter) -> None:
        """Delete the files that a failed attempt has written; log an error instead of raising it.

        Files that can't be deleted have no effect, because no metadata file refers to them.
        """
        try:
            self._folder.delete(snapshots.written)
        except BayouError as error:
            _LOG.debug(
                "%s: files of a failed conversion can't be deleted: %s", self._state.path, error
            )
        snapshots.written.clear()

    def _clean_up(self, unreferenced: list[str]) -> None:
        """Delete old files of the Iceberg metadata; log errors, don't raise them.

        The newest `_METADATA_FILES` metadata files are retained. Metadata files that no conversion
        has written are also retained. They belong to an Iceberg table that was in the folder
        before the first conversion.

        Args:
            unreferenced: paths of the files that only expired snapshots reference.
        """
        folder = self._folder
        try:
            numbers = folder.numbers()[:-_METADATA_FILES]
            old = [
                folder.metadata_file(number) for number in numbers if folder.is_converted(number)
            ]
            folder.delete([*unreferenced, *old])
        except BayouError as error:
            _LOG.warning(
                "%s: old files of the Iceberg metadata can't be deleted: %s",
                self._state.path,
                error,
            )


def _all_enabled(commits: list[CommitActions]) -> bool:
    """Whether conversion to Iceberg stays enabled in all commits.

    Otherwise, the commits can't be converted one by one: while conversion is disabled, commits may
    add deletion vectors or types that Iceberg doesn't support.
    """
    metadata = (a for commit in commits for a in commit.actions if isinstance(a, Metadata))
    return all(is_enabled(each.configuration) for each in metadata)


def _file_changes(commit: CommitActions) -> FileChanges:
    adds = [a for a in commit.actions if isinstance(a, AddFile)]
    removes = [a for a in commit.actions if isinstance(a, RemoveFile)]
    mark: int | None = None
    for action in commit.actions:
        if isinstance(action, DomainMetadata) and action.domain == _ROW_TRACKING_DOMAIN:
            mark = _high_water_mark(action.configuration)
    timestamp = in_commit_time(commit.actions)
    return FileChanges(
        version=commit.version,
        timestamp=commit.file.modification_time if timestamp is None else timestamp,
        adds=adds,
        removes=removes,
        changes_data=any(add.data_change for add in adds)
        or any(remove.data_change for remove in removes),
        row_id_high_water_mark=mark,
    )


class _RowTracking(msgspec.Struct, frozen=True, rename="camel"):
    row_id_high_water_mark: int | None = None


def _high_water_mark(configuration: str | None) -> int | None:
    if configuration is None:
        return None
    try:
        return decode_json(configuration, _RowTracking).row_id_high_water_mark
    except msgspec.DecodeError:
        return None
