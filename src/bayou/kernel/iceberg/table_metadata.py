"""Iceberg's table metadata as JSON: schemas, partition specs, snapshots and table properties.

The functions return new dictionaries and don't change their arguments.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bayou.errors import UniversalFormatError
from bayou.kernel.iceberg.iceberg_schema import (
    FIRST_PARTITION_FIELD_ID,
    Json,
    iceberg_types,
    max_field_id,
    to_iceberg_schema,
    to_name_mapping,
    to_partition_fields,
)
from bayou.kernel.iceberg.manifests.entries import PartitionSpec
from bayou.protocol.actions import Metadata
from bayou.protocol.schema import StructType

VERSION_KEY = "delta-version"
TIMESTAMP_KEY = "delta-timestamp"
BASE_VERSION_KEY = "base-delta-version"
HIGH_WATER_MARK = "delta-high-water-mark"
_NAME_MAPPING = "schema.name-mapping.default"
_OWN_PROPERTIES = (
    *(VERSION_KEY, TIMESTAMP_KEY, BASE_VERSION_KEY, HIGH_WATER_MARK),
    _NAME_MAPPING,
)
_USER_PROPERTIES = "delta.universalformat.config.iceberg."
_SNAPSHOT_AGE = "history.expire.max-snapshot-age-ms"
_DEFAULT_SNAPSHOT_AGE_MS = 5 * 86_400_000
_METADATA_LOG_ENTRIES = 100
_NO_SNAPSHOT = -1
_VERSION = re.compile("[0-9]{1,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaTable:
    """Path, metadata and schema of a version of the Delta table."""

    path: str
    metadata: Metadata
    schema: StructType

    @property
    def uuid(self) -> str:
        """Value of `table-uuid`: the id in the Delta metadata.

        If the id isn't a UUID, a UUID is computed from the id. All known writers use UUIDs.
        """
        try:
            return str(uuid.UUID(self.metadata.id))
        except ValueError:
            return str(uuid.uuid5(uuid.NAMESPACE_URL, self.metadata.id))


def new_table(table: DeltaTable, location: str, format_version: int) -> Json:
    """Return the Iceberg metadata of a new table, which has no snapshots yet."""
    metadata: Json = {
        "format-version": format_version,
        "table-uuid": table.uuid,
        "location": location,
        "last-sequence-number": 0 if format_version < 3 else _NO_SNAPSHOT,
        "last-updated-ms": 0,
        "last-column-id": 0,
        "schemas": [],
        "current-schema-id": _NO_SNAPSHOT,
        "partition-specs": [],
        "default-spec-id": _NO_SNAPSHOT,
        "last-partition-id": FIRST_PARTITION_FIELD_ID - 1,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": {},
        "snapshots": [],
        "snapshot-log": [],
        "metadata-log": [],
        "refs": {},
    }
    if format_version >= 3:
        metadata["next-row-id"] = 0
    return metadata


def with_delta_metadata(metadata: Json, table: DeltaTable) -> Json:
    """Set the schema, partition spec and properties in `metadata` to those of a Delta table.

    Raises:
        UniversalFormatError: the schema has no equivalent in Iceberg.
    """
    schema = to_iceberg_schema(table.path, table.schema, metadata["format-version"])
    with_schema = _with_schema(metadata, schema)
    fields = to_partition_fields(table.path, table.schema, table.metadata.partition_columns)
    with_spec = _with_spec(with_schema, fields)
    own = {key: value for key, value in metadata["properties"].items() if key in _OWN_PROPERTIES}
    configuration = table.metadata.configuration
    names = json.dumps(to_name_mapping(table.path, table.schema, configuration))
    properties = {**_properties(configuration), **own, _NAME_MAPPING: names}
    return {**with_spec, "properties": properties}


def current_spec(metadata: Json) -> PartitionSpec:
    """Return the partition spec that new files use."""
    return partition_spec(metadata, metadata["default-spec-id"])


def partition_spec(metadata: Json, spec_id: int) -> PartitionSpec:
    """Return a partition spec by id.

    Raises:
        UniversalFormatError: the metadata has no such spec.
    """
    spec = next((s for s in metadata["partition-specs"] if s["spec-id"] == spec_id), None)
    if spec is None:
        table = metadata["location"].removeprefix("file://")
        raise UniversalFormatError(
            f"{table}: the Iceberg metadata can't be read: a manifest has the partition spec "
            f"{spec_id}, which doesn't exist. Run bayou uniform sync {table} --full.",
            table=table,
        )
    types: dict[int, str] = {}
    newest_last = sorted(
        metadata["schemas"], key=lambda s: s["schema-id"] == metadata["current-schema-id"]
    )
    bound = newest_last[-1]
    for schema in newest_last:
        types.update(iceberg_types(schema))
        sources = {field["source-id"] for field in spec["fields"]}
        if sources <= iceberg_types(schema).keys():
            bound = schema
    return PartitionSpec(
        spec_id=spec_id,
        fields=spec["fields"],
        types=[types[field["source-id"]] for field in spec["fields"]],
        schema=bound,
    )


def current_snapshot(metadata: Json) -> Json | None:
    """Return the current snapshot; None if the table has none."""
    snapshot_id = metadata.get("current-snapshot-id")
    return next((s for s in metadata["snapshots"] if s["snapshot-id"] == snapshot_id), None)


def with_snapshot(metadata: Json, snapshot: Json) -> Json:
    """Add a snapshot and make it the current one."""
    timestamp = snapshot["timestamp-ms"]
    snapshot_id = snapshot["snapshot-id"]
    return {
        **metadata,
        "snapshots": [*metadata["snapshots"], snapshot],
        "current-snapshot-id": snapshot_id,
        "refs": {"main": {"snapshot-id": snapshot_id, "type": "branch"}},
        "snapshot-log": [
            *metadata.get("snapshot-log", ()),
            {"snapshot-id": snapshot_id, "timestamp-ms": timestamp},
        ],
        "last-sequence-number": snapshot["sequence-number"],
        "last-updated-ms": max(metadata["last-updated-ms"], timestamp),
    }


def without_snapshots(metadata: Json, expired: Collection[int]) -> Json:
    """Remove the snapshots with the ids `expired`, and shorten the snapshot log.

    The last entry that refers to a removed snapshot, and all entries before it, are removed from
    the snapshot log.
    """
    log: list[Json] = []
    for entry in metadata.get("snapshot-log", ()):
        log = [] if entry["snapshot-id"] in expired else [*log, entry]
    return {
        **metadata,
        "snapshots": [s for s in metadata["snapshots"] if s["snapshot-id"] not in expired],
        "snapshot-log": log,
    }


def lacks_partition_source(metadata: Json) -> bool:
    """Whether a partition spec has a source column that the current schema lacks.

    Many readers can't load metadata with such a spec, even if only old snapshots use it.
    """
    columns = {field["id"] for field in _current_schema(metadata)["fields"]}
    return any(
        field["source-id"] not in columns
        for spec in metadata["partition-specs"]
        for field in spec["fields"]
    )


def without_history(metadata: Json) -> Json:
    """Remove all snapshots and partition specs.

    The counters of ids and sequence numbers keep their values, so that no number is used again.
    """
    emptied: Json = {
        **metadata,
        "partition-specs": [],
        "default-spec-id": _NO_SNAPSHOT,
        "snapshots": [],
        "snapshot-log": [],
        "refs": {},
    }
    emptied.pop("current-snapshot-id", None)
    return emptied


def with_delta_version(
    metadata: Json, version: int, timestamp: int, base_version: int | None
) -> Json:
    """Record the converted version of the Delta table.

    Args:
        timestamp: commit timestamp of the version.
        base_version: the Delta version that the Iceberg metadata represented before; None if the
            conversion wrote the whole table.
    """
    properties = {
        **metadata["properties"],
        VERSION_KEY: str(version),
        TIMESTAMP_KEY: str(timestamp),
    }
    properties.pop(BASE_VERSION_KEY, None)
    if base_version is not None:
        properties[BASE_VERSION_KEY] = str(base_version)
    updated: Json = {
        **metadata,
        "properties": properties,
        "last-updated-ms": max(metadata["last-updated-ms"], timestamp),
    }
    if metadata["format-version"] >= 3:  # the sequence numbers are versions
        updated["last-sequence-number"] = max(metadata["last-sequence-number"], version)
    return updated


def with_row_ids(metadata: Json, high_water_mark: int | None) -> Json:
    """If Iceberg's format version is 3, record the row id high water mark of the Delta table."""
    if metadata["format-version"] < 3 or high_water_mark is None:
        return metadata
    properties = {**metadata["properties"], HIGH_WATER_MARK: str(high_water_mark)}
    next_row_id = max(metadata["next-row-id"], high_water_mark + 1)
    return {**metadata, "properties": properties, "next-row-id": next_row_id}


def with_previous_file(metadata: Json, location: str, last_updated: int) -> Json:
    """Add the replaced metadata file at `location` to the metadata log."""
    entry = {"metadata-file": location, "timestamp-ms": last_updated}
    log = [*metadata.get("metadata-log", ()), entry]
    return {**metadata, "metadata-log": log[-_METADATA_LOG_ENTRIES:]}


def converted_version(metadata: Json) -> int | None:
    """Return the last converted version of the Delta table; None if there is none."""
    return _version(metadata.get("properties"))


def snapshot_delta_version(snapshot: Json) -> int | None:
    """Return the Delta version of a snapshot; None if a conversion didn't write the snapshot."""
    return _version(snapshot.get("summary"))


def _version(properties: object) -> int | None:
    version = properties.get(VERSION_KEY) if isinstance(properties, dict) else None
    return int(version) if isinstance(version, str) and _VERSION.fullmatch(version) else None


def _with_schema(metadata: Json, schema: Json) -> Json:
    existing = next(
        (s for s in metadata["schemas"] if s["fields"] == schema["fields"]),
        None,
    )
    if existing is not None:
        return {**metadata, "current-schema-id": existing["schema-id"]}
    schema_id = max((s["schema-id"] for s in metadata["schemas"]), default=-1) + 1
    added = {**schema, "schema-id": schema_id, "identifier-field-ids": []}
    return {
        **metadata,
        "schemas": [*metadata["schemas"], added],
        "current-schema-id": schema_id,
        "last-column-id": max(metadata["last-column-id"], max_field_id(schema)),
    }


def _with_spec(metadata: Json, fields: Sequence[Json]) -> Json:
    """Make the partition spec with these fields the default spec.

    A spec with the same source columns is reused. If there is none, a new spec is added.

    In all specs, each partition field is renamed to the current name of its source column. After a
    source column was renamed, a new column may have the old name, and Iceberg doesn't allow a
    partition field that has the name of another column.
    """
    sources = [field["source-id"] for field in fields]
    specs = _with_current_names(metadata)
    for spec in specs:
        if [field["source-id"] for field in spec["fields"]] == sources:
            return {**metadata, "partition-specs": specs, "default-spec-id": spec["spec-id"]}
    known = {f["source-id"]: f["field-id"] for spec in specs for f in spec["fields"]}
    last = metadata["last-partition-id"]
    added = []
    for field in fields:
        field_id = known.get(field["source-id"])
        if field_id is None:
            last += 1
            field_id = last
        added.append({**field, "field-id": field_id})
    spec_id = max((s["spec-id"] for s in specs), default=-1) + 1
    return {
        **metadata,
        "partition-specs": [*specs, {"spec-id": spec_id, "fields": added}],
        "default-spec-id": spec_id,
        "last-partition-id": last,
    }


def _current_schema(metadata: Json) -> Json:
    current = metadata["current-schema-id"]
    schema: Json = next(s for s in metadata["schemas"] if s["schema-id"] == current)
    return schema


def _with_current_names(metadata: Json) -> list[Json]:
    """Return the partition specs; each field gets the current name of its source column."""
    names = {field["id"]: field["name"] for field in _current_schema(metadata)["fields"]}
    return [
        {
            **spec,
            "fields": [
                {**field, "name": names.get(field["source-id"], field["name"])}
                for field in spec["fields"]
            ],
        }
        for spec in metadata["partition-specs"]
    ]


def _properties(configuration: Mapping[str, str]) -> dict[str, str]:
    """Return the Iceberg properties for a table with these Delta table properties."""
    properties = {
        # Iceberg's maintenance must not delete files that the Delta table needs.
        "gc.enabled": "false",
        # Bounds aren't exact: Delta's statistics truncate timestamps to milliseconds, for example.
        # In Iceberg's default mode, Spark would return the bounds as results of MIN and MAX.
        "write.metadata.metrics.default": "counts",
    }
    for key, value in configuration.items():
        if key.lower().startswith(_USER_PROPERTIES):
            properties[key[len(_USER_PROPERTIES) :].lower()] = value
    return properties


def retention_property(metadata: Json, retention_ms: int) -> Json:
    """Set the Iceberg property for the maximum age of snapshots to `retention_ms`.

    `metadata` is returned unchanged if it already has this property, or if Iceberg's default
    maximum age isn't longer than `retention_ms`.
    """
    if retention_ms >= _DEFAULT_SNAPSHOT_AGE_MS or _SNAPSHOT_AGE in metadata["properties"]:
        return metadata
    properties: dict[str, Any] = {**metadata["properties"], _SNAPSHOT_AGE: str(retention_ms)}
    return {**metadata, "properties": properties}
