"""Whether a table as a transaction leaves it is one that can be written.

Changes of metadata that a commit on its way goes behind: features that were turned on.

As delta-spark's conflict checker: what was written without a feature may stand in a table that has
it since. Row tracking is the exception, though delta-spark passes it: the files would have no ids.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

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
from bayou.kernel.table_features.column_mapping import physical_name
from bayou.kernel.table_features.reader_support import table_schema
from bayou.protocol import features, properties
from bayou.protocol.actions import Metadata, Protocol, is_feed_enabled, reserved_columns
from bayou.protocol.property_strings import PropertyValueError
from bayou.protocol.schema import StructField, StructType

__all__ = [
    "check_catalog",
    "check_change_data_columns",
    "check_maintenance",
    "check_properties",
    "check_row_tracking_columns",
    "check_schema_can_be_read",
    "check_universal_format",
    "check_writable",
    "given_properties",
    "only_enables",
]


_UNIVERSAL_FORMATS = "delta.universalFormat.enabledFormats"
_MAINTENANCE = {
    Operation.OPTIMIZE: "OPTIMIZE",
    Operation.REORG: "REORG",
    Operation.VACUUM_START: "VACUUM",
    Operation.VACUUM_END: "VACUUM",
}
"""What a catalog must permit (PROTOCOL.md, Maintenance Operations on Catalog-managed Tables)."""


def check_catalog(
    table: str,
    state: TableState | None,
    *,
    protocol: Protocol,
    configuration: Mapping[str, str],
    catalog: Catalog | None,
    operation: Operation,
) -> None:
    """Check that a table which a catalog manages is committed to through that catalog.

    Args:
        state: the version that the commit is made from, None for a new table.
        protocol, configuration: once it is committed.

    Raises:
        UnsupportedFeatureError: no catalog is at hand, it can only be read or doesn't permit
            maintenance, or the table isn't one of a catalog yet.
        TablePropertyError: in-commit timestamps are off, which such a table needs.
    """
    if not is_catalog_managed(protocol.reader_features or ()):
        return
    if isinstance(catalog, CommittingCatalog) and (
        state is None or is_catalog_managed(state.protocol.reader_features or ())
    ):
        if not properties.IN_COMMIT_TIMESTAMPS.read(configuration):
            key = properties.IN_COMMIT_TIMESTAMPS.key
            raise TablePropertyError(
                f"{table} is managed by a catalog, which publishes commits later than they are "
                f"made: it needs {key} = true, and can't do without.",
                table=table,
                key=key,
            )
        maintenance = _MAINTENANCE.get(operation)
        if maintenance is not None:
            check_maintenance(table, catalog, maintenance)
        return
    if catalog is None:
        what = "alone takes its commits: give that catalog with the table"
    elif isinstance(catalog, CommittingCatalog):
        what = "must take over an existing table itself: make a new table with it"
    else:
        what = "can't be written through this object: it has no method `commit`"
    raise UnsupportedFeatureError(
        f"{table} can't be written: a catalog manages it ({features.CATALOG_MANAGED}), which "
        f"{what}.",
        table=table,
        features=[features.CATALOG_MANAGED],
    )


def check_maintenance(table: str, catalog: Catalog | None, operation: str) -> None:
    """Check that the catalog which manages a table lets others do this.

    Raises:
        UnsupportedFeatureError: it doesn't.
    """
    if not permits_maintenance(catalog, table, operation):
        raise UnsupportedFeatureError(
            f"{operation} of {table} is for the catalog that manages it "
            f"({features.CATALOG_MANAGED}), which doesn't permit it to others: its object has no "
            "method `permits_maintenance`, or that says no. Have the catalog do it "
            "(DELTA_UNSUPPORTED_CATALOG_MANAGED_TABLE_OPERATION).",
            table=table,
            features=[features.CATALOG_MANAGED],
        )


def check_properties(table: str, configuration: Mapping[str, str]) -> None:
    """What is set to nonsense is said before anything is written."""
    for known in _USED_IN_WRITES:
        try:
            known.read(configuration)
        except PropertyValueError as error:
            raise TablePropertyError(f"{table}: {error}.", table=table, key=error.key) from error


def given_properties(table: str, given: Mapping[str, str]) -> dict[str, str]:
    """What a user gives, under the spelling of keys that stands in the log.

    Raises:
        TablePropertyError: there is no such property, or it can't have that value.
    """
    try:
        properties.validate(given)
    except PropertyValueError as error:
        raise TablePropertyError(f"{table}: {error}.", table=table, key=error.key) from error
    return properties.normalize(given)


def check_writable(table: str, protocol: Protocol, metadata: Metadata, schema: StructType) -> None:
    """Check that everything the table asks of a writer is supported.

    Raises:
        UnsupportedFeatureError: names what isn't.
    """
    missing = features.unsupported_for_write(protocol, metadata.configuration, schema)
    if missing:
        raise UnsupportedFeatureError(
            f"{table} can't be written: it needs {', '.join(missing)} of a writer, which this "
            "version of Bayou doesn't support. Write it with delta-spark, or without that feature.",
            table=table,
            features=missing,
        )


def check_universal_format(
    table: str, configuration: Mapping[str, str], operation: Operation
) -> None:
    """Check that nobody reads the table through metadata of another format, which would grow stale.

    VACUUM passes: it changes no rows.

    Raises:
        UnsupportedFeatureError: `delta.universalFormat.enabledFormats` names a format.
    """
    formats = configuration.get(_UNIVERSAL_FORMATS, "").strip()
    if formats and operation not in (Operation.VACUUM_START, Operation.VACUUM_END):
        raise UnsupportedFeatureError(
            f"{table} can't be written: readers of {formats} are to find each commit in metadata "
            f"of that format ({_UNIVERSAL_FORMATS}), which this version of Bayou doesn't write. "
            "Write it with delta-spark, or do without that property.",
            table=table,
            features=[f"universalFormat ({formats})"],
        )


def check_change_data_columns(
    table: str, configuration: Mapping[str, str], schema: StructType
) -> None:
    """The change data feed gives rows three columns more; a table with it has none of that name."""
    reserved = reserved_columns(schema) if is_feed_enabled(configuration) else ()
    if reserved:
        raise SchemaError(
            f"{table} can't have a column {reserved[0]!r}: the name belongs to the change data "
            "feed, which is on (delta.enableChangeDataFeed). Rename the column, or turn the feed "
            "off.",
            table=table,
            column=reserved[0],
        )


def check_schema_can_be_read(table: str, metadata: Metadata) -> None:
    """Refuse a schema that readers would refuse: its commit would close the table for good.

    Raises:
        SchemaError: readers couldn't have it.
    """
    try:
        table_schema(table, metadata)
    except CorruptSchemaError as error:
        raise SchemaError(
            f"{table} can't have this schema, for nobody could read it: {error.message} Nothing "
            "was changed.",
            table=table,
        ) from error


def check_row_tracking_columns(
    table: str, configuration: Mapping[str, str], schema: StructType
) -> None:
    """Data files keep row ids in columns whose names the table has chosen; no other has them."""
    taken = {
        name.lower()
        for key in (properties.ROW_ID_COLUMN, properties.ROW_COMMIT_VERSION_COLUMN)
        if (name := key.read(configuration)) is not None
    }
    for field in schema if taken else ():
        if {field.name.lower(), physical_name(field).lower()} & taken:
            raise SchemaError(
                f"{table} can't have a column {field.name!r}: row tracking keeps what it needs in "
                "a column of that name. Rename the column.",
                table=table,
                column=field.name,
            )


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
"""What a property may be changed to, by what it was."""

_COLUMN_IDS = frozenset(
    {
        "delta.columnMapping.id",
        "delta.columnMapping.physicalName",
        "delta.columnMapping.nested.ids",
    }
)


def only_enables(before: Metadata, after: Metadata) -> bool:
    """Whether nothing but features of this kind came between two metaData actions."""
    others = msgspec.structs.replace(
        after, configuration=before.configuration, schema_string=before.schema_string
    )
    if others != before or before.configuration.keys() - after.configuration.keys():
        return False
    changed = {k for k, v in after.configuration.items() if before.configuration.get(k) != v}
    if not all(
        key in _ALLOWED and _ALLOWED[key](before.configuration.get(key), after.configuration[key])
        for key in changed
    ):
        return False
    return before.schema_string == after.schema_string or (
        _MODE in changed and _are_numbered(before.schema_string, after.schema_string)
    )


def _are_numbered(before: str, after: str) -> bool:
    """Whether the columns got ids, and are the same otherwise."""
    old, new = StructType.from_json(before), StructType.from_json(after)
    return [_without_ids(field) for field in old] == [_without_ids(field) for field in new]


def _without_ids(field: StructField) -> StructField:
    kept = {k: v for k, v in field.metadata.items() if k not in _COLUMN_IDS}
    return replace(field, metadata=kept)
