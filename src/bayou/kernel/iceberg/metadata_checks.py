"""Checks of an Iceberg metadata file that an earlier conversion has written.

A conversion starts from the newest metadata file. This file may be damaged, so the fields that the
conversion reads are checked first.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from bayou.kernel.iceberg.iceberg_schema import Json, iceberg_types

_Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _Kebab(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A JSON object with keys in kebab case."""


class _SchemaField(_Kebab, frozen=True, kw_only=True):
    id: _Long
    name: str
    type: str | dict[str, Any]


class _Schema(_Kebab, frozen=True, kw_only=True):
    schema_id: _Long
    fields: list[_SchemaField]


class _PartitionField(_Kebab, frozen=True, kw_only=True):
    source_id: _Long
    field_id: _Long
    name: str


class _PartitionSpec(_Kebab, frozen=True, kw_only=True):
    spec_id: _Long
    fields: list[_PartitionField]


class _Snapshot(_Kebab, frozen=True, kw_only=True):
    snapshot_id: _Long
    sequence_number: _Long
    timestamp_ms: _Long
    manifest_list: str
    summary: dict[str, str]


class _SnapshotLogEntry(_Kebab, frozen=True, kw_only=True):
    snapshot_id: _Long
    timestamp_ms: _Long


class _TableMetadata(_Kebab, frozen=True, kw_only=True):
    """The fields of table metadata that a conversion reads."""

    format_version: Literal[2, 3]
    last_sequence_number: _Long
    last_updated_ms: _Long
    last_column_id: _Long
    schemas: list[_Schema]
    current_schema_id: _Long
    partition_specs: list[_PartitionSpec]
    default_spec_id: _Long
    last_partition_id: _Long
    properties: dict[str, str]
    snapshots: list[_Snapshot] = msgspec.field(default_factory=lambda: [])
    current_snapshot_id: _Long | None = None
    next_row_id: _Long = 0
    snapshot_log: list[_SnapshotLogEntry] = msgspec.field(default_factory=lambda: [])
    metadata_log: list[Any] = msgspec.field(default_factory=lambda: [])


def check_metadata(metadata: Json) -> None:
    """Check the fields that a conversion reads from Iceberg metadata of format version 2 or 3.

    Raises:
        ValueError: a field is missing or invalid.
    """
    try:
        checked = msgspec.convert(metadata, _TableMetadata)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error
    if all(schema.schema_id != checked.current_schema_id for schema in checked.schemas):
        raise ValueError(f"schema {checked.current_schema_id} is missing")
    if all(spec.spec_id != checked.default_spec_id for spec in checked.partition_specs):
        raise ValueError(f"partition spec {checked.default_spec_id} is missing")
    try:
        columns = set[int]().union(*(iceberg_types(schema) for schema in metadata["schemas"]))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"a schema is invalid: {error}") from error
    for spec in checked.partition_specs:
        for field in spec.fields:
            if field.source_id not in columns:
                raise ValueError(f"column {field.source_id}, the source of a partition, is missing")
