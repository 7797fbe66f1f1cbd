"""Reading manifests and manifest lists, of format versions 2 and 3, with fastavro."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from bayou.errors import StorageError, UniversalFormatError
from bayou.kernel.engine import ByteRange, Engine
from bayou.kernel.iceberg.manifests.entries import (
    DELETED,
    DataFile,
    FieldSummary,
    ManifestEntry,
    ManifestFile,
)
from bayou.kernel.iceberg.metadata_folder import engine_path
from bayou.kernel.iceberg.values import IcebergValue

_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001  # fastavro's local timestamps
_EPOCH_UTC = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)


def read_manifest_list(engine: Engine, table: str, location: str) -> list[ManifestFile]:
    """Read a manifest list.

    Raises:
        UniversalFormatError: the file is missing or can't be read.
    """
    return [_manifest_file(record) for record in _records(engine, table, location)]


def read_manifest(engine: Engine, table: str, manifest: ManifestFile) -> Iterator[ManifestEntry]:
    """Yield a manifest's entries, including deleted ones, with inherited fields filled in."""
    for record in _records(engine, table, manifest.manifest_path):
        yield _entry(record, manifest)


def live_entries(engine: Engine, table: str, manifest: ManifestFile) -> Iterator[ManifestEntry]:
    """Yield the live entries of a manifest: the entries that aren't deleted."""
    for entry in read_manifest(engine, table, manifest):
        if entry.status != DELETED:
            yield entry


def read_file(engine: Engine, table: str, location: str) -> bytes:
    """Read a manifest or manifest list.

    Raises:
        UniversalFormatError: the file is missing or can't be read.
    """
    with reported(table):
        return b"".join(engine.files.read_files([ByteRange(path=engine_path(location))]))


def _records(engine: Engine, table: str, location: str) -> Iterator[dict[str, Any]]:
    import fastavro

    data = read_file(engine, table, location)
    with reported(table, location):
        reader: Any = fastavro.reader(io.BytesIO(data))
        yield from reader


@contextmanager
def reported(table: str, location: str = "") -> Iterator[None]:
    """Context manager that converts errors of reading Iceberg metadata to `UniversalFormatError`.

    Args:
        location: location of the file that the `with` block decodes, for the error message.
    """
    try:
        yield
    except StorageError as error:
        raise UniversalFormatError(
            f"{table}: the Iceberg metadata can't be read: {error} Run bayou uniform sync "
            f"{table} --full.",
            table=table,
        ) from error
    except (ValueError, KeyError, IndexError, EOFError, TypeError) as error:
        raise UniversalFormatError(
            f"{table}: the Iceberg metadata can't be read: {engine_path(location)} isn't a valid "
            f"Avro file ({error}). Run bayou uniform sync {table} --full.",
            table=table,
        ) from error


def _manifest_file(record: Mapping[str, Any]) -> ManifestFile:
    return ManifestFile(
        manifest_path=record["manifest_path"],
        manifest_length=record["manifest_length"],
        partition_spec_id=record["partition_spec_id"],
        content=record.get("content") or 0,
        sequence_number=record.get("sequence_number") or 0,
        min_sequence_number=record.get("min_sequence_number") or 0,
        added_snapshot_id=record["added_snapshot_id"],
        added_files_count=_count(record, "added", "files"),
        existing_files_count=_count(record, "existing", "files"),
        deleted_files_count=_count(record, "deleted", "files"),
        added_rows_count=_count(record, "added", "rows"),
        existing_rows_count=_count(record, "existing", "rows"),
        deleted_rows_count=_count(record, "deleted", "rows"),
        partitions=tuple(
            FieldSummary(
                contains_null=summary["contains_null"],
                contains_nan=summary.get("contains_nan"),
                lower_bound=summary.get("lower_bound"),
                upper_bound=summary.get("upper_bound"),
            )
            for summary in record.get("partitions") or ()
        ),
        first_row_id=record.get("first_row_id"),
    )


def _count(record: Mapping[str, Any], status: str, unit: str) -> int:
    count = record.get(f"{status}_{unit}_count")
    if count is None and unit == "files":  # the name in version 1 of the format
        count = record.get(f"{status}_data_files_count")
    return int(count or 0)


def _entry(record: Mapping[str, Any], manifest: ManifestFile) -> ManifestEntry:
    file = record["data_file"]
    sequence_number = record.get("sequence_number")
    file_sequence_number = record.get("file_sequence_number")
    snapshot_id = record.get("snapshot_id")
    return ManifestEntry(
        status=record["status"],
        snapshot_id=manifest.added_snapshot_id if snapshot_id is None else snapshot_id,
        sequence_number=manifest.sequence_number if sequence_number is None else sequence_number,
        file_sequence_number=manifest.sequence_number
        if file_sequence_number is None
        else file_sequence_number,
        data_file=DataFile(
            content=file.get("content") or 0,
            file_path=file["file_path"],
            file_format=file["file_format"].upper(),
            partition=tuple(_internal(value) for value in file["partition"].values()),
            record_count=file["record_count"],
            file_size_in_bytes=file["file_size_in_bytes"],
            value_counts=_map(file.get("value_counts")),
            null_value_counts=_map(file.get("null_value_counts")),
            lower_bounds=_map(file.get("lower_bounds")),
            upper_bounds=_map(file.get("upper_bounds")),
            first_row_id=file.get("first_row_id"),
            referenced_data_file=file.get("referenced_data_file"),
            content_offset=file.get("content_offset"),
            content_size_in_bytes=file.get("content_size_in_bytes"),
        ),
    )


def _map(items: Any) -> dict[int, Any] | None:
    return {item["key"]: item["value"] for item in items or ()} or None


def _internal(value: Any) -> IcebergValue:
    match value:
        case dt.datetime():
            return (value - (_EPOCH if value.tzinfo is None else _EPOCH_UTC)) // _MICROSECOND
        case dt.date():
            return value.toordinal() - _EPOCH_DAY
        case _:
            converted: IcebergValue = value
            return converted
