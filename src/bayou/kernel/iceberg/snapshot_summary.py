"""The operation and the counters in the summary of a snapshot."""

from __future__ import annotations

from dataclasses import dataclass

from bayou.kernel.iceberg.iceberg_schema import Json
from bayou.kernel.iceberg.manifests.encoded_entry import EncodedFile
from bayou.kernel.iceberg.manifests.entries import POSITION_DELETES, DataFile
from bayou.kernel.iceberg.table_metadata import VERSION_KEY


@dataclass(slots=True)
class SnapshotTotals:
    """Numbers of files, records and bytes that a snapshot adds and removes."""

    added_files: int = 0
    added_records: int = 0
    added_bytes: int = 0
    deleted_files: int = 0
    deleted_records: int = 0
    deleted_bytes: int = 0
    added_vectors: int = 0
    added_positions: int = 0
    removed_vectors: int = 0
    removed_positions: int = 0

    def add(self, file: DataFile) -> None:
        """Count a file that the snapshot adds."""
        if file.content == POSITION_DELETES:
            self.added_vectors += 1
            self.added_positions += file.record_count
        else:
            self.added_files += 1
            self.added_records += file.record_count
            self.added_bytes += file.file_size_in_bytes

    def remove(self, file: EncodedFile) -> None:
        """Count a file that the snapshot removes."""
        if file.content == POSITION_DELETES:
            self.removed_vectors += 1
            self.removed_positions += file.record_count
        else:
            self.deleted_files += 1
            self.deleted_records += file.record_count
            self.deleted_bytes += file.file_size_in_bytes


def operation_of(totals: SnapshotTotals, *, changes_data: bool) -> str:
    """Return the snapshot's operation: `append`, `delete`, `overwrite` or `replace`.

    Args:
        changes_data: whether an action of the Delta commit has `dataChange` true.
    """
    if not changes_data:
        return "replace"
    if totals.added_files == 0:
        return "delete"
    removes = totals.deleted_files or totals.added_vectors or totals.removed_vectors
    return "overwrite" if removes else "append"


def summary_of(
    totals: SnapshotTotals, operation: str, version: int, previous: Json
) -> dict[str, str]:
    """Return the summary of a snapshot.

    Args:
        version: the version of the Delta table.
        previous: summary of the previous snapshot; empty if the new snapshot doesn't contain files
            of the previous snapshot.
    """
    counted = {
        "added-data-files": totals.added_files,
        "added-records": totals.added_records,
        "added-files-size": totals.added_bytes,
        "deleted-data-files": totals.deleted_files,
        "deleted-records": totals.deleted_records,
        "removed-files-size": totals.deleted_bytes,
        "added-delete-files": totals.added_vectors,
        "added-dvs": totals.added_vectors,
        "added-position-deletes": totals.added_positions,
        "removed-delete-files": totals.removed_vectors,
        "removed-dvs": totals.removed_vectors,
        "removed-position-deletes": totals.removed_positions,
    }
    changed = {
        "total-data-files": totals.added_files - totals.deleted_files,
        "total-records": totals.added_records - totals.deleted_records,
        "total-files-size": totals.added_bytes - totals.deleted_bytes,
        "total-delete-files": totals.added_vectors - totals.removed_vectors,
        "total-position-deletes": totals.added_positions - totals.removed_positions,
        "total-equality-deletes": 0,
    }
    return {
        "operation": operation,
        VERSION_KEY: str(version),
        **{key: str(count) for key, count in counted.items() if count},
        **{key: str(int(previous.get(key, 0)) + count) for key, count in changed.items()},
    }
