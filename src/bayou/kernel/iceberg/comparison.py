"""Comparison of a table's Iceberg metadata with its Delta log, file by file."""

from __future__ import annotations

from dataclasses import dataclass

from bayou.kernel.catalog import Catalog
from bayou.kernel.engine import Engine
from bayou.kernel.iceberg.data_files import DataFileConverter
from bayou.kernel.iceberg.delta_to_iceberg import is_enabled
from bayou.kernel.iceberg.manifests.entries import DELETE_MANIFEST
from bayou.kernel.iceberg.manifests.manifest_reader import live_entries, read_manifest_list
from bayou.kernel.iceberg.metadata_folder import MetadataFolder
from bayou.kernel.iceberg.table_metadata import converted_version, current_snapshot
from bayou.kernel.log.table_state import TableState, load_table_state
from bayou.kernel.scan.scan import ScanBuilder

_MAX_EXAMPLES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergStatus:
    """The Iceberg metadata of a table, compared with its Delta log.

    Attributes:
        version: latest version of the Delta table.
        converted_version: last version that was converted to Iceberg; None if there is none.
        files: number of data files in the Iceberg metadata.
        problems: differences between the Iceberg metadata and the Delta log at the converted
            version, one sentence each; empty if there are none.
    """

    version: int
    converted_version: int | None
    files: int = 0
    problems: tuple[str, ...] = ()

    @property
    def lag(self) -> int:
        """Number of versions that weren't converted yet."""
        converted = self.converted_version
        return self.version + 1 if converted is None else max(self.version - converted, 0)


@dataclass(frozen=True, slots=True)
class _File:
    """Properties of a data file that are compared between the Delta log and Iceberg metadata."""

    size: int
    partition: str  # as a string, because NaN isn't equal to itself
    deleted_rows: int


def iceberg_status(
    engine: Engine, table: str, *, catalog: Catalog | None = None
) -> IcebergStatus | None:
    """Compare a table's Iceberg metadata with its Delta log; None if conversion isn't enabled.

    Raises:
        UniversalFormatError: the Iceberg metadata can't be read.
    """
    latest = load_table_state(engine, table, catalog=catalog)
    if not is_enabled(latest.properties):
        return None
    folder = MetadataFolder(engine, latest.path)
    newest = folder.newest()
    converted = None if newest is None else converted_version(newest[1])
    if newest is None or converted is None:
        problem = f"there is no Iceberg metadata of the table in {folder.path}"
        return IcebergStatus(version=latest.version, converted_version=None, problems=(problem,))
    number, metadata = newest
    state = latest
    if converted < latest.version:
        state = load_table_state(engine, table, converted, catalog=catalog)
    problems = []
    hint = folder.hint()
    if hint != number:
        problems.append(f"version-hint.text names {hint}, but the newest metadata file is {number}")
    if converted > latest.version:
        problems.append(
            f"the Iceberg metadata was converted from version {converted}, which the Delta table "
            "doesn't have"
        )
    delta = _delta_files(engine, state)
    iceberg = _iceberg_files(engine, latest.path, metadata)
    problems += _differences(delta, iceberg)
    return IcebergStatus(
        version=latest.version,
        converted_version=converted,
        files=len(iceberg),
        problems=tuple(problems),
    )


def iceberg_lag(engine: Engine, table: str, *, catalog: Catalog | None = None) -> int | None:
    """Return the number of versions that weren't converted; None if conversion isn't enabled."""
    latest = load_table_state(engine, table, catalog=catalog)
    if not is_enabled(latest.properties):
        return None
    newest = MetadataFolder(engine, latest.path).newest()
    converted = None if newest is None else converted_version(newest[1])
    return IcebergStatus(version=latest.version, converted_version=converted).lag


def _delta_files(engine: Engine, state: TableState) -> dict[str, _File]:
    converter = DataFileConverter(engine, state.path, state.schema, state.partition_columns)
    files = {}
    scan = ScanBuilder(state).with_whole_adds().build()
    with scan.scan_files(engine) as batches:
        for batch in batches:
            for file in batch.rows():
                vector = file.deletion_vector
                files[converter.location(file.path)] = _File(
                    file.size,
                    repr(converter.partition(file.path, file.partition_values)),
                    0 if vector is None else vector.cardinality,
                )
    return files


def _iceberg_files(engine: Engine, table: str, metadata: dict[str, object]) -> dict[str, _File]:
    snapshot = current_snapshot(metadata)
    if snapshot is None:
        return {}
    files: dict[str, _File] = {}
    deleted: dict[str, int] = {}
    for manifest in read_manifest_list(engine, table, snapshot["manifest-list"]):
        for entry in live_entries(engine, table, manifest):
            file = entry.data_file
            if manifest.content == DELETE_MANIFEST:
                path = file.referenced_data_file or ""
                deleted[path] = deleted.get(path, 0) + file.record_count
            else:
                files[file.file_path] = _File(file.file_size_in_bytes, repr(file.partition), 0)
    for path, count in deleted.items():
        file_of_vector = files.get(path, _File(0, "", 0))
        files[path] = _File(file_of_vector.size, file_of_vector.partition, count)
    return files


def _differences(delta: dict[str, _File], iceberg: dict[str, _File]) -> list[str]:
    missing = sorted(delta.keys() - iceberg.keys())
    surplus = sorted(iceberg.keys() - delta.keys())
    changed = sorted(path for path in delta.keys() & iceberg.keys() if delta[path] != iceberg[path])
    problems = []
    for paths, problem in (
        (missing, "files are missing in Iceberg"),
        (surplus, "files are in Iceberg only"),
        (changed, "files differ from Delta in size, partition or number of deleted rows"),
    ):
        if paths:
            examples = ", ".join(paths[:_MAX_EXAMPLES])
            problems.append(f"{len(paths):,} {problem}: {examples}")
    return problems
