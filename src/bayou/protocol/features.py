"""Table features that readers and writers must support (PROTOCOL.md, Table Features).

Protocols with reader version 3 or writer version 7 list their features. Lower versions imply a
fixed set of features. An implied feature matters only if the table uses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from bayou.protocol.actions import Protocol
from bayou.protocol.column_metadata import (
    CONSTRAINT_PREFIX,
    CURRENT_DEFAULT_KEY,
    GENERATION_EXPRESSION_KEY,
    IDENTITY_START_KEY,
    INVARIANTS_KEY,
)
from bayou.protocol.properties import (
    REDIRECT_FEATURES,
    REDIRECT_READER_WRITER,
    REDIRECT_WRITER_ONLY,
    Redirect,
    redirect_of,
)
from bayou.protocol.schema import (
    TIMESTAMP_NTZ,
    VARIANT,
    DataType,
    GeographyType,
    GeometryType,
    StructField,
    StructType,
    nested_types,
)
from bayou.protocol.type_widening import TYPE_CHANGES_KEY

APPEND_ONLY = "appendOnly"
INVARIANTS = "invariants"
CHECK_CONSTRAINTS = "checkConstraints"
GENERATED_COLUMNS = "generatedColumns"
ALLOW_COLUMN_DEFAULTS = "allowColumnDefaults"
CHANGE_DATA_FEED = "changeDataFeed"
COLUMN_MAPPING = "columnMapping"
IDENTITY_COLUMNS = "identityColumns"
DELETION_VECTORS = "deletionVectors"
ROW_TRACKING = "rowTracking"
TIMESTAMP_NTZ_FEATURE = "timestampNtz"
DOMAIN_METADATA = "domainMetadata"
V2_CHECKPOINT = "v2Checkpoint"
CATALOG_MANAGED = "catalogManaged"
CATALOG_MANAGED_PREVIEW = "catalogManaged-preview"
CATALOG_OWNED_PREVIEW = "catalogOwned-preview"
ICEBERG_COMPAT_V1 = "icebergCompatV1"
ICEBERG_COMPAT_V2 = "icebergCompatV2"
ICEBERG_COMPAT_V3 = "icebergCompatV3"
CLUSTERING = "clustering"
VACUUM_PROTOCOL_CHECK = "vacuumProtocolCheck"
IN_COMMIT_TIMESTAMP = "inCommitTimestamp"
TYPE_WIDENING = "typeWidening"
TYPE_WIDENING_PREVIEW = "typeWidening-preview"
VARIANT_TYPE = "variantType"
VARIANT_TYPE_PREVIEW = "variantType-preview"
VARIANT_SHREDDING = "variantShredding"
VARIANT_SHREDDING_PREVIEW = "variantShredding-preview"
CHECKPOINT_PROTECTION = "checkpointProtection"
GEOSPATIAL = "geospatial"
GEOSPATIAL_DEV = "geospatial-dev"
TIMESTAMP_WITHOUT_TIMEZONE = "timestampWithoutTimezone"
ADAPTIVE_METADATA = "adaptiveMetadata"
ADAPTIVE_METADATA_PREVIEW = "adaptiveMetadata-preview"
COORDINATED_COMMITS_PREVIEW = "coordinatedCommits-preview"
MATERIALIZE_PARTITION_COLUMNS = "materializePartitionColumns"

CATALOG_FEATURES = (CATALOG_MANAGED, CATALOG_MANAGED_PREVIEW, CATALOG_OWNED_PREVIEW)
"""The feature of catalog-managed tables, and the names of its previews."""

TABLE_FEATURES_READER_VERSION = 3
TABLE_FEATURES_WRITER_VERSION = 7
FEATURE_PREFIX = "delta.feature."


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFeature:
    """A table feature and whether Bayou supports it.

    Attributes:
        kind: `reader_writer` if readers and writers must support the feature, `writer` if only
            writers must.
        min_reader, min_writer: lowest protocol versions that imply the feature. If no versions
            imply the feature, the lowest versions that can list it.
        read: whether Bayou can read tables that use the feature.
        write: whether Bayou can write tables that use the feature.
        reason: why the feature isn't supported and what to do instead, in one or two sentences;
            empty if the feature is supported.
    """

    name: str
    kind: Literal["reader_writer", "writer"]
    min_reader: int = 1
    min_writer: int = TABLE_FEATURES_WRITER_VERSION
    read: bool = True
    write: bool = False
    reason: str = ""


def _reader_writer(name: str, *, read: bool, write: bool = False, reason: str = "") -> TableFeature:
    return TableFeature(
        name=name,
        kind="reader_writer",
        min_reader=TABLE_FEATURES_READER_VERSION,
        read=read,
        write=write,
        reason=reason,
    )


def _writer(name: str, *, min_writer: int = 7, write: bool = False) -> TableFeature:
    return TableFeature(name=name, kind="writer", min_writer=min_writer, write=write)


_ADAPTIVE_METADATA = (
    "The list of files is in manifests of Iceberg's format version 4, which isn't final. Drop the "
    "feature with the writer that added it."
)
_COORDINATED_COMMITS = (
    "A commit coordinator must ratify each commit; catalogManaged has replaced the feature. Drop "
    "the feature with delta-spark."
)
_COLLATIONS = (
    "Bounds and comparisons of strings with a collation follow the collation's rules, which Bayou "
    "doesn't apply. Write the table with the writer that added the feature."
)
_ICEBERG_WRITER_COMPAT = (
    "Bayou doesn't follow the feature's rules, such as fixed physical names of columns. Write the "
    "table with Delta Kernel, or use icebergCompatV2 or V3 in a new table."
)
_REDIRECT = (
    "The table is redirected to another table. Read and write the other table; the error message "
    "contains its location."
)

FEATURES: Mapping[str, TableFeature] = {
    feature.name: feature
    for feature in (
        _writer(APPEND_ONLY, min_writer=2, write=True),
        _writer(INVARIANTS, min_writer=2, write=True),
        _writer(CHECK_CONSTRAINTS, min_writer=3, write=True),
        _writer(CHANGE_DATA_FEED, min_writer=4, write=True),
        _writer(GENERATED_COLUMNS, min_writer=4, write=True),
        TableFeature(
            name=COLUMN_MAPPING,
            kind="reader_writer",
            min_reader=2,
            min_writer=5,
            write=True,
        ),
        _writer(IDENTITY_COLUMNS, min_writer=6, write=True),
        _writer(ALLOW_COLUMN_DEFAULTS, write=True),
        _reader_writer(DELETION_VECTORS, read=True, write=True),
        _writer(ROW_TRACKING, write=True),
        _reader_writer(TIMESTAMP_NTZ_FEATURE, read=True, write=True),
        # The name of timestampNtz before PROTOCOL.md had the feature; existing tables list it.
        _reader_writer(TIMESTAMP_WITHOUT_TIMEZONE, read=True, write=True),
        _writer(DOMAIN_METADATA, write=True),
        # The kernel reads V2 checkpoints even if the protocol doesn't list the feature.
        _reader_writer(V2_CHECKPOINT, read=True, write=True),
        # `reader_support` and `writer_support` check that the caller passed the catalog.
        _reader_writer(CATALOG_MANAGED, read=True, write=True),
        # Names of catalogManaged before PROTOCOL.md had the feature.
        _reader_writer(CATALOG_MANAGED_PREVIEW, read=True, write=True),
        _reader_writer(CATALOG_OWNED_PREVIEW, read=True, write=True),
        _writer(ICEBERG_COMPAT_V1, write=True),
        _writer(ICEBERG_COMPAT_V2, write=True),
        _writer(ICEBERG_COMPAT_V3, write=True),
        _writer(CLUSTERING, write=True),
        _reader_writer(VACUUM_PROTOCOL_CHECK, read=True, write=True),
        _writer(IN_COMMIT_TIMESTAMP, write=True),
        _reader_writer(TYPE_WIDENING, read=True, write=True),
        _reader_writer(TYPE_WIDENING_PREVIEW, read=True, write=True),
        _reader_writer(VARIANT_TYPE, read=True, write=True),
        _reader_writer(VARIANT_TYPE_PREVIEW, read=True, write=True),
        # Shredding is optional for writers; Bayou doesn't shred variants.
        _reader_writer(VARIANT_SHREDDING, read=True, write=True),
        _reader_writer(VARIANT_SHREDDING_PREVIEW, read=True, write=True),
        _reader_writer(GEOSPATIAL, read=True, write=True),
        # The name of geospatial before PROTOCOL.md had the feature.
        _reader_writer(GEOSPATIAL_DEV, read=True, write=True),
        _writer(CHECKPOINT_PROTECTION, write=True),
        _writer(MATERIALIZE_PARTITION_COLUMNS, write=True),
        TableFeature(
            name=COORDINATED_COMMITS_PREVIEW,
            kind="writer",
            reason=_COORDINATED_COMMITS,
        ),
        TableFeature(name="collations", kind="writer", reason=_COLLATIONS),
        TableFeature(name="collations-preview", kind="writer", reason=_COLLATIONS),
        TableFeature(name="icebergWriterCompatV1", kind="writer", reason=_ICEBERG_WRITER_COMPAT),
        TableFeature(name="icebergWriterCompatV3", kind="writer", reason=_ICEBERG_WRITER_COMPAT),
        _reader_writer(ADAPTIVE_METADATA, read=False, reason=_ADAPTIVE_METADATA),
        _reader_writer(ADAPTIVE_METADATA_PREVIEW, read=False, reason=_ADAPTIVE_METADATA),
        _reader_writer(REDIRECT_READER_WRITER, read=False, reason=_REDIRECT),
        TableFeature(name=REDIRECT_WRITER_ONLY, kind="writer", reason=_REDIRECT),
    )
}

"""All known features by name."""

_NAMES = {name.lower(): name for name in FEATURES}
"""Names of features as in the protocol, by the name in lower case."""

REBASE_COMPATIBLE_FEATURES = frozenset(
    {
        APPEND_ONLY,
        CHANGE_DATA_FEED,
        COLUMN_MAPPING,
        TIMESTAMP_NTZ_FEATURE,
        DELETION_VECTORS,
        DOMAIN_METADATA,
        V2_CHECKPOINT,
        TYPE_WIDENING,
        TYPE_WIDENING_PREVIEW,
        IN_COMMIT_TIMESTAMP,
        VACUUM_PROTOCOL_CHECK,
    }
)
"""Features that a commit can add to the protocol without making concurrent commits fail.

Unlike in delta-spark, `rowTracking` isn't one of these features, because the files of a concurrent
commit would have no row ids.
"""

_REQUIRES: Mapping[str, tuple[str, ...]] = {
    ROW_TRACKING: (DOMAIN_METADATA,),
    CLUSTERING: (DOMAIN_METADATA,),
    CATALOG_MANAGED: (IN_COMMIT_TIMESTAMP, VACUUM_PROTOCOL_CHECK),
    CATALOG_MANAGED_PREVIEW: (IN_COMMIT_TIMESTAMP, VACUUM_PROTOCOL_CHECK),
    CATALOG_OWNED_PREVIEW: (IN_COMMIT_TIMESTAMP, VACUUM_PROTOCOL_CHECK),
    COORDINATED_COMMITS_PREVIEW: (IN_COMMIT_TIMESTAMP, VACUUM_PROTOCOL_CHECK),
    ICEBERG_COMPAT_V1: (COLUMN_MAPPING,),
    ICEBERG_COMPAT_V2: (COLUMN_MAPPING,),
    ICEBERG_COMPAT_V3: (COLUMN_MAPPING, ROW_TRACKING),
    VARIANT_SHREDDING: (VARIANT_TYPE,),
}

_PREVIEWS: Mapping[str, str] = {
    TYPE_WIDENING: TYPE_WIDENING_PREVIEW,
    VARIANT_TYPE: VARIANT_TYPE_PREVIEW,
    VARIANT_SHREDDING: VARIANT_SHREDDING_PREVIEW,
    TIMESTAMP_NTZ_FEATURE: TIMESTAMP_WITHOUT_TIMEZONE,
    GEOSPATIAL: GEOSPATIAL_DEV,
}
"""Names of preview features, by the name of the final feature.

A protocol may list the final feature or its preview.
"""

_NEVER_ADDED = frozenset({*_PREVIEWS.values(), COORDINATED_COMMITS_PREVIEW, *REDIRECT_FEATURES})
"""Features that are never added to a protocol automatically, even if the metadata uses them."""


def reader_features(protocol: Protocol) -> tuple[str, ...]:
    """Return the features that a protocol lists or implies, and that readers must support."""
    if protocol.min_reader_version >= TABLE_FEATURES_READER_VERSION:
        return tuple(protocol.reader_features or ())
    return tuple(
        feature.name
        for feature in FEATURES.values()
        if feature.kind == "reader_writer" and feature.min_reader <= protocol.min_reader_version
    )


def writer_features(protocol: Protocol) -> tuple[str, ...]:
    """Return the features that a protocol lists or implies, and that writers must support."""
    if protocol.min_writer_version >= TABLE_FEATURES_WRITER_VERSION:
        return tuple(protocol.writer_features or ())
    return tuple(
        feature.name
        for feature in FEATURES.values()
        if feature.min_writer <= protocol.min_writer_version
    )


def unsupported_for_read(
    protocol: Protocol, configuration: Mapping[str, str], schema: StructType
) -> list[str]:
    """Return the features of a table that Bayou doesn't support for reads.

    A feature that the protocol lists is ignored if the metadata shows that the table doesn't use
    the feature. The formats of checkpoints and the type changes of columns aren't checked here.
    """
    if protocol.min_reader_version > TABLE_FEATURES_READER_VERSION:
        return [f"reader version {protocol.min_reader_version}"]
    unsupported = []
    for name in reader_features(protocol):
        feature = FEATURES.get(name)
        if feature is None or (not feature.read and _is_active(name, configuration, schema)):
            unsupported.append(name)
    redirect = redirect_of(configuration)
    if redirect is not None and not redirect.is_ready and redirect.feature in unsupported:
        unsupported.remove(redirect.feature)  # the table can be read until the redirect is ready
    return unsupported


def explanation(names: Iterable[str], configuration: Mapping[str, str]) -> str:
    """Return why features aren't supported, for an error message; "" if no reason is known."""
    redirect = redirect_of(configuration)
    reasons: list[str] = []
    for name in names:
        if redirect is not None and redirect.feature == name:
            reasons.append(_describe_redirect(redirect))
        elif name in FEATURES:
            reasons.append(FEATURES[name].reason)
    return " ".join(dict.fromkeys(filter(None, reasons)))


def _describe_redirect(redirect: Redirect) -> str:
    target = redirect.destination or "another table"
    if redirect.is_ready:
        return f"The table has moved: it is redirected to {target}. Use {target} instead."
    return (
        f"The table is being redirected to {target} (state {redirect.state}), and can't be written "
        "until the redirect is ready or removed."
    )


def unsupported_for_write(
    protocol: Protocol, configuration: Mapping[str, str], schema: StructType
) -> list[str]:
    """Return the features of a table that Bayou doesn't support for writes.

    The result includes the features that Bayou doesn't support for reads.
    """
    unsupported = unsupported_for_read(protocol, configuration, schema)
    # Contrary to PROTOCOL.md, some tables enable column mapping without the feature.
    mapped = _is_active(COLUMN_MAPPING, configuration, schema)
    if mapped and COLUMN_MAPPING not in (*unsupported, *all_features(protocol)):
        unsupported.append(COLUMN_MAPPING)
    variant_features = {VARIANT_TYPE, VARIANT_TYPE_PREVIEW}
    if VARIANT in _types(schema) and variant_features.isdisjoint(all_features(protocol)):
        unsupported.append(VARIANT_TYPE)
    geospatial = {GEOSPATIAL, GEOSPATIAL_DEV}
    if _has_geospatial_types(schema) and geospatial.isdisjoint(all_features(protocol)):
        unsupported.append(GEOSPATIAL)
    if protocol.min_writer_version > TABLE_FEATURES_WRITER_VERSION:
        unsupported.append(f"writer version {protocol.min_writer_version}")
        return unsupported
    for name in (*writer_features(protocol), *reader_features(protocol)):
        feature = FEATURES.get(name)
        refused = feature is None or (not feature.write and _is_active(name, configuration, schema))
        if refused and name not in unsupported:
            unsupported.append(name)
    return unsupported


def all_features(protocol: Protocol) -> tuple[str, ...]:
    """Return the reader and writer features of a protocol, without duplicates."""
    return tuple(dict.fromkeys((*writer_features(protocol), *reader_features(protocol))))


def protocol_for(schema: StructType, configuration: Mapping[str, str]) -> Protocol:
    """Return the lowest protocol that a new table with this schema and these properties needs.

    The protocol may have features that Bayou doesn't support; `unsupported_for_write` returns them.
    """
    lowest = Protocol(min_reader_version=1, min_writer_version=2)
    protocol = with_features(lowest, features_in_use(schema, configuration))
    return with_requested_versions(protocol, configuration)


def with_requested_versions(protocol: Protocol, configuration: Mapping[str, str]) -> Protocol:
    """Upgrade a protocol to `delta.minReaderVersion` and `delta.minWriterVersion`."""
    reader = _version(configuration, "delta.minReaderVersion")
    writer = _version(configuration, "delta.minWriterVersion")
    return with_versions(protocol, reader, writer) if reader or writer else protocol


def with_features(protocol: Protocol, names: Iterable[str]) -> Protocol:
    """Add the features `names`, and the features that they require, to a protocol.

    The result is the lowest protocol with all of these features:

    - If the writer version of `protocol` is 7, the result lists the features by name.
    - Otherwise, the result has the legacy versions that imply exactly these features. If there are
      no such versions, the result lists the features by name.
    """
    before = all_features(protocol)
    required = dict.fromkeys((*before, *_with_required(names)))
    if set(required) == set(before):
        return protocol
    if protocol.min_writer_version < TABLE_FEATURES_WRITER_VERSION:
        for reader, writer in _LEGACY_VERSIONS:
            legacy = Protocol(min_reader_version=reader, min_writer_version=writer)
            if reader >= protocol.min_reader_version and set(all_features(legacy)) == set(required):
                return legacy
    return _listing(required, protocol.min_reader_version)


def with_versions(protocol: Protocol, reader: int = 0, writer: int = 0) -> Protocol:
    """Upgrade a protocol to at least the versions `reader` and `writer`, and keep its features.

    If the writer version becomes 7, the features that the old version implied are listed.
    """
    reader = max(reader, protocol.min_reader_version)
    writer = max(writer, protocol.min_writer_version)
    if reader >= TABLE_FEATURES_READER_VERSION:
        writer = max(writer, TABLE_FEATURES_WRITER_VERSION)
    if (reader, writer) == (protocol.min_reader_version, protocol.min_writer_version):
        return protocol
    if writer < TABLE_FEATURES_WRITER_VERSION:
        return Protocol(min_reader_version=reader, min_writer_version=writer)
    return _listing(dict.fromkeys(all_features(protocol)), reader)


def without_feature(protocol: Protocol, name: str) -> Protocol:
    """Remove a feature from a protocol.

    If a legacy version implies exactly the remaining features, the result has this version.
    Otherwise the result lists the remaining features.
    """
    remaining = [feature for feature in all_features(protocol) if feature != name]
    for reader, writer in _LEGACY_VERSIONS:
        legacy = Protocol(min_reader_version=reader, min_writer_version=writer)
        if set(all_features(legacy)) == set(remaining):
            return legacy
    return _listing(remaining, 1)


def features_requiring(name: str) -> tuple[str, ...]:
    """Return the names of the features that require the feature `name`."""
    return tuple(feature for feature, required in _REQUIRES.items() if name in required)


_LEGACY_VERSIONS = ((1, 1), (1, 2), (1, 3), (1, 4), (2, 5), (2, 6))


def _listing(names: Iterable[str], min_reader: int) -> Protocol:
    """Create a protocol that lists the features `names`.

    Args:
        min_reader: lowest reader version of the protocol.
    """
    features = [FEATURES.get(n) or _reader_writer(n, read=False) for n in names]
    for_readers = [f for f in features if f.kind == "reader_writer"]
    reader = max((f.min_reader for f in for_readers), default=1)
    reader = max(reader, min_reader)
    return Protocol(
        min_reader_version=reader,
        min_writer_version=TABLE_FEATURES_WRITER_VERSION,
        reader_features=[f.name for f in for_readers]
        if reader == TABLE_FEATURES_READER_VERSION
        else None,
        writer_features=[f.name for f in features],
    )


def _with_required(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        yield from _with_required(_REQUIRES.get(name, ()))
        yield name


def _version(configuration: Mapping[str, str], key: str) -> int:
    return int(configuration.get(key, "0"))


def feature_name(name: str) -> str:
    """Return a feature's name as in the protocol. Upper and lower case of `name` are ignored.

    The name of an unknown feature is returned unchanged.

    Example:
        >>> feature_name("timestampNTZ")
        'timestampNtz'
    """
    return _NAMES.get(name.lower(), name)


def features_in_use(
    schema: StructType, configuration: Mapping[str, str], protocol: Protocol | None = None
) -> list[str]:
    """Return the features that a table's metadata uses, and the features that properties request.

    A property `delta.feature.<name>` requests a feature. As in delta-spark, upper and lower case of
    the name are ignored. If the protocol or a property has the preview of a feature, such as
    `typeWidening-preview`, the final feature is returned only if a property requests it.

    Args:
        protocol: the table's protocol; None for a new table.
    """
    requested = [
        feature_name(key.removeprefix(FEATURE_PREFIX))
        for key in configuration
        if key.startswith(FEATURE_PREFIX)
    ]
    existing = {*requested, *(() if protocol is None else all_features(protocol))}
    used = [
        name
        for name in FEATURES
        if name not in _NEVER_ADDED
        and _PREVIEWS.get(name) not in existing
        and _is_enabled(name, configuration, schema)
    ]
    return list(dict.fromkeys((*used, *requested)))


def _is_active(name: str, configuration: Mapping[str, str], schema: StructType) -> bool:
    """Whether a table uses a feature.

    The result is True if the metadata doesn't show whether the table uses the feature.
    """
    if name in _ACTIVE_WHEN_LISTED:
        return True
    enabled = _is_enabled(name, configuration, schema)
    return True if enabled is None else enabled


def _is_enabled(name: str, configuration: Mapping[str, str], schema: StructType) -> bool | None:
    if name in _ENABLING_PROPERTIES:
        return _is_true(configuration, _ENABLING_PROPERTIES[name])
    if name in _ENABLING_METADATA:
        return _has_metadata(schema, _ENABLING_METADATA[name])
    if name in REDIRECT_FEATURES:
        return f"delta.{name}" in configuration
    match name:
        case "coordinatedCommits-preview":
            return "delta.coordinatedCommits.commitCoordinator-preview" in configuration
        case "columnMapping":
            return configuration.get("delta.columnMapping.mode", "none").lower() != "none"
        case "checkConstraints":
            return any(key.startswith(CONSTRAINT_PREFIX) for key in configuration)
        case "v2Checkpoint":
            return configuration.get("delta.checkpointPolicy", "classic").lower() == "v2"
        case "invariants":
            return any(
                INVARIANTS_KEY in field.metadata or not field.nullable for field in _fields(schema)
            )
        case "timestampNtz" | "timestampWithoutTimezone":
            return TIMESTAMP_NTZ in _types(schema)
        case "geospatial" | "geospatial-dev":
            return _has_geospatial_types(schema)
        case "typeWidening":
            return _is_true(configuration, "delta.enableTypeWidening") or _has_metadata(
                schema, TYPE_CHANGES_KEY
            )
        case "variantType":
            return VARIANT in _types(schema)
        case _:
            return None


# These features restrict readers and writers even if their table property is false.
_ACTIVE_WHEN_LISTED = frozenset({DELETION_VECTORS, ROW_TRACKING, V2_CHECKPOINT})
_ENABLING_PROPERTIES: Mapping[str, str] = {
    APPEND_ONLY: "delta.appendOnly",
    CHANGE_DATA_FEED: "delta.enableChangeDataFeed",
    DELETION_VECTORS: "delta.enableDeletionVectors",
    ROW_TRACKING: "delta.enableRowTracking",
    ICEBERG_COMPAT_V1: "delta.enableIcebergCompatV1",
    ICEBERG_COMPAT_V2: "delta.enableIcebergCompatV2",
    ICEBERG_COMPAT_V3: "delta.enableIcebergCompatV3",
    IN_COMMIT_TIMESTAMP: "delta.enableInCommitTimestamps",
    MATERIALIZE_PARTITION_COLUMNS: "delta.enableMaterializePartitionColumnsFeature",
    VARIANT_SHREDDING: "delta.enableVariantShredding",
}
_ENABLING_METADATA: Mapping[str, str] = {
    GENERATED_COLUMNS: GENERATION_EXPRESSION_KEY,
    IDENTITY_COLUMNS: IDENTITY_START_KEY,
    ALLOW_COLUMN_DEFAULTS: CURRENT_DEFAULT_KEY,
    TYPE_WIDENING_PREVIEW: TYPE_CHANGES_KEY,
}


def _has_geospatial_types(schema: StructType) -> bool:
    return any(isinstance(data_type, GeometryType | GeographyType) for data_type in _types(schema))


def _is_true(configuration: Mapping[str, str], key: str) -> bool:
    return configuration.get(key, "").strip().lower() == "true"


def _has_metadata(schema: StructType, key: str) -> bool:
    return any(key in field.metadata for field in _fields(schema))


def _fields(schema: StructType) -> Iterator[StructField]:
    return (field for _, _, field in nested_types(schema) if field is not None)


def _types(schema: StructType) -> Iterator[DataType]:
    return (data_type for _, data_type, _ in nested_types(schema))
