"""Manifests, manifest entries and data files, with the field names of Iceberg's spec.

Format versions 2 and 3 share these classes. pyiceberg's manifest writers read the attributes of
these objects, so the names of the attributes must not change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from bayou.kernel.iceberg.iceberg_schema import Json
from bayou.kernel.iceberg.values import IcebergValue

EXISTING, ADDED, DELETED = 0, 1, 2
"""Values of `manifest_entry.status`."""
DATA, POSITION_DELETES = 0, 1
"""Values of `data_file.content`."""
DATA_MANIFEST, DELETE_MANIFEST = 0, 1
"""Values of `manifest_file.content`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """`data_file`: a data file, or the deletion vector of a data file.

    Attributes:
        file_path: location of the file, a URI.
        partition: values of the partition fields, in the order of the spec.
        value_counts, null_value_counts, lower_bounds, upper_bounds: statistics of columns, by field
            id; None if no column has the statistic.
        first_row_id: row id of the file's first row (version 3).
        referenced_data_file, content_offset, content_size_in_bytes: set only for deletion vectors.
    """

    column_sizes: ClassVar[None] = None
    nan_value_counts: ClassVar[None] = None
    key_metadata: ClassVar[None] = None
    split_offsets: ClassVar[None] = None
    equality_ids: ClassVar[None] = None
    sort_order_id: ClassVar[None] = None

    file_path: str
    partition: tuple[IcebergValue, ...]
    record_count: int
    file_size_in_bytes: int
    content: int = DATA
    file_format: Literal["PARQUET", "PUFFIN"] = "PARQUET"
    value_counts: Mapping[int, int] | None = None
    null_value_counts: Mapping[int, int] | None = None
    lower_bounds: Mapping[int, bytes] | None = None
    upper_bounds: Mapping[int, bytes] | None = None
    first_row_id: int | None = None
    referenced_data_file: str | None = None
    content_offset: int | None = None
    content_size_in_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestEntry:
    """`manifest_entry`: a file in a manifest, and its status.

    Attributes:
        sequence_number, file_sequence_number: None in a new manifest if the entry inherits the
            snapshot's sequence number. In manifests that are read, inherited numbers are filled in.
    """

    status: int
    snapshot_id: int
    sequence_number: int | None
    file_sequence_number: int | None
    data_file: DataFile


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSummary:
    """`field_summary` of a partition field."""

    contains_null: bool
    contains_nan: bool | None
    lower_bound: bytes | None
    upper_bound: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """`manifest_file`: an entry of a manifest list."""

    key_metadata: ClassVar[None] = None

    manifest_path: str
    manifest_length: int
    partition_spec_id: int
    content: int
    sequence_number: int
    min_sequence_number: int
    added_snapshot_id: int
    added_files_count: int
    existing_files_count: int
    deleted_files_count: int
    added_rows_count: int
    existing_rows_count: int
    deleted_rows_count: int
    partitions: tuple[FieldSummary, ...] = ()
    first_row_id: int | None = None

    @property
    def live_files_count(self) -> int:
        """Number of live files: added and existing files."""
        return self.added_files_count + self.existing_files_count

    @property
    def live_rows_count(self) -> int:
        """Number of rows in the live files."""
        return self.added_rows_count + self.existing_rows_count


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSpec:
    """A partition spec, and the schema that it is bound to.

    Attributes:
        spec_id: `spec-id` of the spec.
        fields: JSON of the partition fields.
        types: Iceberg types of the partition fields' values.
        schema: JSON of the schema, with `schema-id`.
    """

    spec_id: int
    fields: Sequence[Json]
    types: Sequence[str]
    schema: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSnapshot:
    """Identifiers of the snapshot that is being written."""

    snapshot_id: int
    parent_snapshot_id: int | None
    sequence_number: int
    first_row_id: int | None = None


def renewed(entry: ManifestEntry, status: int, snapshot: NewSnapshot) -> ManifestEntry:
    """Return a copy of an older manifest's entry, for a new manifest.

    Args:
        status: status of the copy, `EXISTING` or `DELETED`. A DELETED copy gets the id of the new
            snapshot.
    """
    if status == DELETED:
        return replace(entry, status=DELETED, snapshot_id=snapshot.snapshot_id)
    return replace(entry, status=EXISTING)
