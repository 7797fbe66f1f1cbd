"""Checks that a table can be written: writer features, catalog, properties and reserved columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from bayou.errors import (
    CorruptSchemaError,
    SchemaError,
    TablePropertyError,
    UnsupportedFeatureError,
)
from bayou.kernel.catalog import (
    Catalog,
    CommittingCatalog,
    is_catalog_managed,
    permits_maintenance,
)
from bayou.kernel.log.table_state import TableState
from bayou.kernel.operation import Operation
from bayou.kernel.table_features.column_mapping import (
    physical_name,
    to_physical_schema,
    without_mapping,
)
from bayou.kernel.table_features.reader_support import table_schema
from bayou.protocol import features, properties
from bayou.protocol.actions import Metadata, Protocol, is_change_data_feed_enabled, reserved_columns
from bayou.protocol.property_strings import PropertyValueError
from bayou.protocol.schema import StructType

_MAINTENANCE = {
    Operation.OPTIMIZE: "OPTIMIZE",
    Operation.REORG: "REORG",
    Operation.UPGRADE_UNIFORM: "REORG",
    Operation.VACUUM_START: "VACUUM",
    Operation.VACUUM_END: "VACUUM",
}
"""Maintenance operations that need the catalog's permission in a catalog-managed table.

Each key is an operation in `commitInfo`, and each value is the name of the SQL command. See
PROTOCOL.md, Maintenance Operations on Catalog-managed Tables.
"""


def check_catalog(
    table: str,
    state: TableState | None,
    *,
    protocol: Protocol,
    configuration: Mapping[str, str],
    catalog: Catalog | None,
    operation: Operation,
) -> None:
    """Check that commits to a catalog-managed table go through its catalog."""
    if not is_catalog_managed(protocol.reader_features or ()):
        return
    if isinstance(catalog, CommittingCatalog) and (
        state is None or is_catalog_managed(state.protocol.reader_features or ())
    ):
        if not properties.IN_COMMIT_TIMESTAMPS.read(configuration):
            key = properties.IN_COMMIT_TIMESTAMPS.key
            raise TablePropertyError(
                f"{table}: the table is catalog-managed, which requires in-commit timestamps. Set "
                f"{key} = true.",
                table=table,
                key=key,
            )
        maintenance = _MAINTENANCE.get(operation)
        if maintenance is not None:
            check_maintenance(table, catalog, maintenance)
        return
    if catalog is None:
        reason = (
            "a catalog manages the table and must ratify its commits. Open the table with this "
            "catalog"
        )
    elif isinstance(catalog, CommittingCatalog):
        reason = (
            "an existing table can't become catalog-managed by a commit. Create a new table with "
            "the catalog"
        )
    else:
        reason = (
            "the catalog that manages the table is read-only here: the catalog object has no "
            "method `commit`. Pass a catalog object with that method"
        )
    raise UnsupportedFeatureError(
        f"{table} can't be written: {reason} (table feature {features.CATALOG_MANAGED}).",
        table=table,
        features=[features.CATALOG_MANAGED],
    )


def check_maintenance(table: str, catalog: Catalog | None, operation: str) -> None:
    """Check that the catalog of a catalog-managed table permits a maintenance operation."""
    if not permits_maintenance(catalog, table, operation):
        raise UnsupportedFeatureError(
            f"{table}: the catalog that manages the table ({features.CATALOG_MANAGED}) doesn't "
            f"permit {operation}. The catalog object has no method `permits_maintenance`, or this "
            f"method returned False. Run {operation} through the catalog "
            "(DELTA_UNSUPPORTED_CATALOG_MANAGED_TABLE_OPERATION).",
            table=table,
            features=[features.CATALOG_MANAGED],
        )


def check_properties(table: str, configuration: Mapping[str, str]) -> None:
    """Check the values of the table properties that affect writes, before anything is written."""
    for table_property in _USED_IN_WRITES:
        try:
            table_property.read(configuration)
        except PropertyValueError as error:
            raise TablePropertyError(f"{table}: {error}.", table=table, key=error.key) from error


def normalize_properties(table: str, user_properties: Mapping[str, str]) -> dict[str, str]:
    """Return the user's properties with their keys spelled as in the log."""
    try:
        properties.validate(user_properties)
    except PropertyValueError as error:
        raise TablePropertyError(f"{table}: {error}.", table=table, key=error.key) from error
    return properties.normalize(user_properties)


def check_writable(table: str, protocol: Protocol, metadata: Metadata, schema: StructType) -> None:
    """Check that Bayou supports all writer features of the table."""
    missing = features.unsupported_for_write(protocol, metadata.configuration, schema)
    if missing:
        reason = features.explanation(missing, metadata.configuration)
        raise UnsupportedFeatureError(
            f"{table} can't be written: it needs {', '.join(missing)}, which this version of Bayou "
            f"doesn't support for writes. "
            f"{reason or 'Write it with delta-spark, or drop the feature.'}",
            table=table,
            features=missing,
        )


def check_universal_format(
    table: str, configuration: Mapping[str, str], operation: Operation
) -> None:
    """Check that Bayou can write the metadata of all formats that the table requires.

    These are the formats in `delta.universalFormat.enabledFormats`. Bayou writes only Iceberg
    metadata. VACUUM is allowed with all formats: it changes no rows, so no metadata is needed.
    """
    key = properties.UNIVERSAL_FORMATS.key
    enabled = properties.UNIVERSAL_FORMATS.read(configuration)
    formats = ",".join(each for each in enabled if each != "iceberg")
    if formats and operation not in (Operation.VACUUM_START, Operation.VACUUM_END):
        raise UnsupportedFeatureError(
            f"{table} can't be written: {key} requires {formats} metadata for each commit, "
            "which this version of Bayou doesn't write. Write the table with delta-spark, "
            "or unset the property.",
            table=table,
            features=[f"universalFormat ({formats})"],
        )


def check_change_data_columns(
    table: str, configuration: Mapping[str, str], schema: StructType
) -> None:
    """Check that no column has a name that the change data feed reserves."""
    reserved = reserved_columns(schema) if is_change_data_feed_enabled(configuration) else ()
    if reserved:
        raise SchemaError(
            f"{table}: the change data feed reserves the column name {reserved[0]!r}. Rename the "
            "column, or disable the feed (delta.enableChangeDataFeed).",
            table=table,
            column=reserved[0],
        )


def check_schema_can_be_read(table: str, metadata: Metadata) -> None:
    """Check that the table can still be read with its new schema."""
    try:
        table_schema(table, metadata)
    except CorruptSchemaError as error:
        raise SchemaError(
            f"{table}: the table would be unreadable with the new schema: {error.message} The "
            "table is unchanged.",
            table=table,
        ) from error


def check_row_tracking(
    table: str, state: TableState | None, configuration: Mapping[str, str], schema: StructType
) -> None:
    """Check the row tracking properties, and that no column has a name reserved for row tracking.

    Row tracking must not be both enabled and suspended. A table that was already in this state
    before the commit is accepted, so that its other properties can be changed.

    Args:
        state: the table before the commit; None if the table doesn't exist.
    """
    if _suspends_enabled_row_tracking(configuration) and (
        state is None or not _suspends_enabled_row_tracking(state.properties)
    ):
        raise TablePropertyError(
            f"{table}: row tracking can't be both enabled (delta.enableRowTracking) and suspended "
            "(delta.rowTrackingSuspended). Set one of them.",
            table=table,
            key=properties.ROW_TRACKING_SUSPENDED.key,
        )
    reserved = {
        name.lower()
        for key in (properties.ROW_ID_COLUMN, properties.ROW_COMMIT_VERSION_COLUMN)
        if (name := key.read(configuration)) is not None
    }
    for field in schema if reserved else ():
        if {field.name.lower(), physical_name(field).lower()} & reserved:
            raise SchemaError(
                f"{table}: the column name {field.name!r} is reserved, because row tracking "
                "stores row ids or commit versions in a column of this name. Rename the column.",
                table=table,
                column=field.name,
            )


def _suspends_enabled_row_tracking(configuration: Mapping[str, str]) -> bool:
    enabled, suspended = properties.ROW_TRACKING, properties.ROW_TRACKING_SUSPENDED
    return enabled.read(configuration) and suspended.read(configuration)


_USED_IN_WRITES = (
    properties.APPEND_ONLY,
    properties.IN_COMMIT_TIMESTAMPS,
    properties.ROW_TRACKING,
    properties.CHECKPOINT_INTERVAL,
    properties.EXPIRED_LOG_CLEANUP,
    properties.LOG_RETENTION,
    properties.COMPRESSION_CODEC,
    properties.ISOLATION_LEVEL,
    properties.RANDOMIZE_FILE_PREFIXES,
    properties.RANDOM_PREFIX_LENGTH,
    properties.SKIPPING_COLUMNS,
    properties.SKIPPING_COLUMN_COUNT,
    properties.STRING_PREFIX_LENGTH,
    properties.TARGET_FILE_SIZE,
)


_MODE = "delta.columnMapping.mode"

_ALLOWED: Mapping[str, Callable[[str | None, str], bool]] = {
    "delta.enableDeletionVectors": lambda _, after: after.lower() == "true",
    "delta.checkpointPolicy": lambda _, after: after == "v2",
    "delta.enableInCommitTimestamps": lambda _, after: after.lower() == "true",
    "delta.inCommitTimestampEnablementVersion": lambda before, _: before is None,
    "delta.inCommitTimestampEnablementTimestamp": lambda before, _: before is None,
    _MODE: lambda before, after: before in (None, "none") and after == "name",
    "delta.columnMapping.maxColumnId": lambda *_: True,
}
"""Table properties that can enable a feature.

Each value of the mapping is a function. Its arguments are the old and the new value of the
property, and it returns whether this change only enables a feature.
"""


def only_enables_features(before: Metadata, after: Metadata) -> bool:
    """Whether the only change between two `metaData` actions is that features were enabled.

    As in delta-spark, a commit can be rebased onto such a change. Unlike in delta-spark, the result
    is False if row tracking was enabled, because the files of the commit have no row ids.
    """
    without_configuration = msgspec.structs.replace(
        after, configuration=before.configuration, schema_string=before.schema_string
    )
    if without_configuration != before or before.configuration.keys() - after.configuration.keys():
        return False
    changed = {k for k, v in after.configuration.items() if before.configuration.get(k) != v}
    if not all(
        key in _ALLOWED and _ALLOWED[key](before.configuration.get(key), after.configuration[key])
        for key in changed
    ):
        return False
    if _MODE not in changed:
        return before.schema_string == after.schema_string
    return _only_adds_ids(before.schema_string, after.schema_string)


def _only_adds_ids(before: str, after: str) -> bool:
    """Whether the schema `after` equals `before` except for column ids and physical names.

    The physical names must equal the logical names, so that readers find the columns of older data
    files. This is the case if a table property enables column mapping. A RESTORE to a version with
    column mapping can set other physical names; the result is then False.
    """
    old, new = StructType.from_json(before), StructType.from_json(after)
    logical = without_mapping(new)
    physical = without_mapping(to_physical_schema(new, "name"))
    return without_mapping(old) == logical == physical
