"""Table properties: the `configuration` of the table's metadata (PROTOCOL.md, Table Properties).

Only keys under `delta.` are interpreted; all other keys belong to the user.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from bayou.json_decoding import decode_json
from bayou.protocol.property_strings import (
    PropertyValueError,
    TableProperty,
    any_string,
    boolean,
    byte_size,
    column_list,
    column_paths,
    integer_at_least,
    interval,
    one_of,
    set_of,
)

SYMLINK_MANIFESTS = TableProperty(
    key="delta.compatibility.symlinkFormatManifest.enabled", default=False, parse=boolean
)
APPEND_ONLY = TableProperty(key="delta.appendOnly", default=False, parse=boolean)
CHECKPOINT_INTERVAL = TableProperty(
    key="delta.checkpointInterval", default=10, parse=integer_at_least(1)
)
CHECKPOINT_POLICY = TableProperty(
    key="delta.checkpointPolicy", default="classic", parse=one_of("classic", "v2")
)
CHECKPOINT_STATS_AS_JSON = TableProperty(
    key="delta.checkpoint.writeStatsAsJson", default=True, parse=boolean
)
CHECKPOINT_STATS_AS_STRUCT = TableProperty(
    key="delta.checkpoint.writeStatsAsStruct", default=False, parse=boolean
)
SKIPPING_COLUMN_COUNT = TableProperty(
    key="delta.dataSkippingNumIndexedCols", default=32, parse=integer_at_least(-1)
)
SKIPPING_COLUMNS: TableProperty[str | None] = TableProperty(
    key="delta.dataSkippingStatsColumns", default=None, parse=column_list
)
STRING_PREFIX_LENGTH = TableProperty(
    key="delta.dataSkippingStringPrefixLength", default=32, parse=integer_at_least(0)
)
LOG_RETENTION: TableProperty[int | None] = TableProperty(
    key="delta.logRetentionDuration", default=30 * 86_400_000, parse=interval
)
DELETED_FILE_RETENTION: TableProperty[int | None] = TableProperty(
    key="delta.deletedFileRetentionDuration", default=7 * 86_400_000, parse=interval
)
TRANSACTION_RETENTION: TableProperty[int | None] = TableProperty(
    key="delta.setTransactionRetentionDuration", default=None, parse=interval
)
EXPIRED_LOG_CLEANUP = TableProperty(
    key="delta.enableExpiredLogCleanup", default=True, parse=boolean
)
COMPRESSION_CODEC = TableProperty(
    key="delta.parquet.compression.codec",
    default="zstd",
    parse=one_of("zstd", "snappy", "gzip", "lz4", "lz4_raw", "none", "uncompressed"),
)
TARGET_FILE_SIZE: TableProperty[int | None] = TableProperty(
    key="delta.targetFileSize", default=None, parse=byte_size
)
RANDOMIZE_FILE_PREFIXES = TableProperty(
    key="delta.randomizeFilePrefixes", default=False, parse=boolean
)
RANDOM_PREFIX_LENGTH = TableProperty(
    key="delta.randomPrefixLength", default=2, parse=integer_at_least(1)
)
ISOLATION_LEVEL = TableProperty(
    key="delta.isolationLevel",
    default="Serializable",
    parse=one_of("Serializable", "WriteSerializable", "SnapshotIsolation"),
)
COLUMN_MAPPING_MODE = TableProperty(
    key="delta.columnMapping.mode", default="none", parse=one_of("none", "name", "id")
)
CHANGE_DATA_FEED = TableProperty(key="delta.enableChangeDataFeed", default=False, parse=boolean)
DELETION_VECTORS = TableProperty(key="delta.enableDeletionVectors", default=False, parse=boolean)
IN_COMMIT_TIMESTAMPS = TableProperty(
    key="delta.enableInCommitTimestamps", default=False, parse=boolean
)
CHECKPOINT_PROTECTION_BEFORE = TableProperty(
    key="delta.requireCheckpointProtectionBeforeVersion",
    default=0,
    parse=integer_at_least(0),
    settable=False,
)
ROW_TRACKING = TableProperty(key="delta.enableRowTracking", default=False, parse=boolean)
ROW_TRACKING_SUSPENDED = TableProperty(
    key="delta.rowTrackingSuspended", default=False, parse=boolean
)
ROW_ID_COLUMN: TableProperty[str | None] = TableProperty(
    key="delta.rowTracking.materializedRowIdColumnName",
    default=None,
    parse=any_string,
    settable=False,
)
ROW_COMMIT_VERSION_COLUMN: TableProperty[str | None] = TableProperty(
    key="delta.rowTracking.materializedRowCommitVersionColumnName",
    default=None,
    parse=any_string,
    settable=False,
)
TYPE_WIDENING = TableProperty(key="delta.enableTypeWidening", default=False, parse=boolean)
MATERIALIZE_PARTITION_COLUMNS = TableProperty(
    key="delta.enableMaterializePartitionColumnsFeature", default=False, parse=boolean
)
ICEBERG_COMPAT_V1 = TableProperty(key="delta.enableIcebergCompatV1", default=False, parse=boolean)
ICEBERG_COMPAT_V2 = TableProperty(key="delta.enableIcebergCompatV2", default=False, parse=boolean)
ICEBERG_COMPAT_V3 = TableProperty(key="delta.enableIcebergCompatV3", default=False, parse=boolean)
UNIVERSAL_FORMATS: TableProperty[tuple[str, ...]] = TableProperty(
    key="delta.universalFormat.enabledFormats", default=(), parse=set_of("iceberg", "hudi")
)

PROPERTIES: Mapping[str, TableProperty[object]] = {
    p.key: p
    for p in (
        APPEND_ONLY,
        CHECKPOINT_INTERVAL,
        CHECKPOINT_POLICY,
        CHECKPOINT_STATS_AS_JSON,
        CHECKPOINT_STATS_AS_STRUCT,
        SKIPPING_COLUMN_COUNT,
        SKIPPING_COLUMNS,
        STRING_PREFIX_LENGTH,
        LOG_RETENTION,
        DELETED_FILE_RETENTION,
        TRANSACTION_RETENTION,
        EXPIRED_LOG_CLEANUP,
        COMPRESSION_CODEC,
        TARGET_FILE_SIZE,
        RANDOMIZE_FILE_PREFIXES,
        RANDOM_PREFIX_LENGTH,
        ISOLATION_LEVEL,
        COLUMN_MAPPING_MODE,
        CHANGE_DATA_FEED,
        DELETION_VECTORS,
        TableProperty(
            key="delta.columnMapping.maxColumnId",
            default=None,
            parse=integer_at_least(0),
            settable=False,
        ),
        TYPE_WIDENING,
        MATERIALIZE_PARTITION_COLUMNS,
        ROW_TRACKING,
        IN_COMMIT_TIMESTAMPS,
        TableProperty(
            key="delta.inCommitTimestampEnablementVersion",
            default=None,
            parse=integer_at_least(0),
            settable=False,
        ),
        TableProperty(
            key="delta.inCommitTimestampEnablementTimestamp",
            default=None,
            parse=integer_at_least(0),
            settable=False,
        ),
        ROW_ID_COLUMN,
        ROW_COMMIT_VERSION_COLUMN,
        ROW_TRACKING_SUSPENDED,
        ICEBERG_COMPAT_V1,
        ICEBERG_COMPAT_V2,
        ICEBERG_COMPAT_V3,
        TableProperty(key="delta.enableVariantShredding", default=False, parse=boolean),
        UNIVERSAL_FORMATS,
        TableProperty(
            key="delta.universalFormat.iceberg.atomicConversion.supported",
            default=False,
            parse=boolean,
        ),
        TableProperty(key="delta.parquet.format.version", default="1.0.0", parse=any_string),
        TableProperty(key="delta.sampleRetentionDuration", default=None, parse=interval),
        TableProperty(key="delta.checkpointRetentionDuration", default=None, parse=interval),
        SYMLINK_MANIFESTS,
        TableProperty(key="delta.autoOptimize", default=None, parse=boolean),
        TableProperty(key="delta.autoOptimize.autoCompact", default=None, parse=boolean),
        TableProperty(key="delta.autoOptimize.optimizeWrite", default=None, parse=any_string),
        TableProperty(key="delta.tuneFileSizesForRewrites", default=None, parse=any_string),
        TableProperty(key="delta.enableFullRetentionRollback", default=True, parse=boolean),
        TableProperty(key="delta.minReaderVersion", default=None, parse=integer_at_least(1)),
        TableProperty(key="delta.minWriterVersion", default=None, parse=integer_at_least(1)),
        TableProperty(key="delta.ignoreProtocolDefaults", default=False, parse=boolean),
        CHECKPOINT_PROTECTION_BEFORE,
    )
}
"""All known table properties. Keys are full property keys, such as `delta.appendOnly`."""

REDIRECT_READER_WRITER = "redirectReaderWriter-preview"
REDIRECT_WRITER_ONLY = "redirectWriterOnly-preview"
REDIRECT_FEATURES = (REDIRECT_READER_WRITER, REDIRECT_WRITER_ONLY)

_FEATURE_STATES = ("supported", "enabled")
_OPEN_PREFIXES = ("delta.constraints.", "delta.feature.", "delta.universalformat.config.")


def validate(configuration: Mapping[str, str]) -> None:
    """Validate properties that a user sets; keys outside `delta.` are always valid.

    Raises:
        PropertyValueError: an unknown key under `delta.`, a key that only writers set, or an
            invalid value.
    """
    for key, value in configuration.items():
        known = _lookup(key)
        if known is not None:
            if not known.settable:
                raise PropertyValueError(
                    known.key,
                    f"table property {key!r} is set by writers, not by users. Remove it from the "
                    "properties",
                )
            known.read({known.key: value})
        elif key.lower().startswith("delta.feature.") and value.lower() not in _FEATURE_STATES:
            raise PropertyValueError(
                key,
                (
                    f"table property {key!r} has the invalid value {value!r}. The only valid "
                    "value is 'supported'"
                ),
            )
        elif key.lower().startswith("delta.") and not key.lower().startswith(_OPEN_PREFIXES):
            raise PropertyValueError(key, _unknown(key))


def is_settable(key: str) -> bool:
    """Whether a user can set a property; false for a known property that only writers set."""
    known = _lookup(key)
    return known is None or known.settable


def normalize(configuration: Mapping[str, str]) -> dict[str, str]:
    """Return the properties with known keys spelled as in `PROPERTIES`.

    Keys are matched without case, because Spark passes the keys of options in lower case.
    """
    return {
        known.key if (known := _lookup(key)) is not None else key: value
        for key, value in configuration.items()
    }


def _lookup(key: str) -> TableProperty[object] | None:
    return PROPERTIES.get(key) or _BY_FOLDED_KEY.get(key.lower())


_BY_FOLDED_KEY = {key.lower(): known for key, known in PROPERTIES.items()}


def _unknown(key: str) -> str:
    import difflib

    close = difflib.get_close_matches(key.lower(), _BY_FOLDED_KEY, n=1, cutoff=0.6)
    hint = f" (did you mean {_BY_FOLDED_KEY[close[0]].key!r}?)" if close else ""
    return f"unknown table property {key!r}{hint}"


@dataclass(frozen=True, slots=True)
class TableProperties:
    """Typed values of table properties. Reading an invalid value raises `PropertyValueError`."""

    configuration: Mapping[str, str]

    @property
    def append_only(self) -> bool:
        """Whether rows may only be appended."""
        return APPEND_ONLY.read(self.configuration)

    @property
    def checkpoint_interval(self) -> int:
        """Number of commits between two checkpoints."""
        return CHECKPOINT_INTERVAL.read(self.configuration)

    @property
    def checkpoint_policy(self) -> str:
        """Format of checkpoints: `classic` or `v2`."""
        return CHECKPOINT_POLICY.read(self.configuration)

    @property
    def write_stats_as_json(self) -> bool:
        """Whether checkpoints contain `add.stats`."""
        return CHECKPOINT_STATS_AS_JSON.read(self.configuration)

    @property
    def write_stats_as_struct(self) -> bool:
        """Whether checkpoints contain `add.stats_parsed`.

        If the property isn't set, the value is the opposite of `write_stats_as_json`.
        """
        if CHECKPOINT_STATS_AS_STRUCT.key in self.configuration:
            return CHECKPOINT_STATS_AS_STRUCT.read(self.configuration)
        return not self.write_stats_as_json

    @property
    def data_skipping_column_count(self) -> int:
        """Number of leading leaf columns for which writers collect statistics; -1 for all."""
        return SKIPPING_COLUMN_COUNT.read(self.configuration)

    @property
    def data_skipping_columns(self) -> tuple[tuple[str, ...], ...] | None:
        """Paths of the columns for which writers collect statistics.

        None if `delta.dataSkippingStatsColumns` isn't set. Then `data_skipping_column_count`
        determines the columns.
        """
        columns = SKIPPING_COLUMNS.read(self.configuration)
        return None if columns is None else column_paths(columns)

    @property
    def string_prefix_length(self) -> int:
        """Number of characters to which statistics truncate the minimum and maximum of strings."""
        return STRING_PREFIX_LENGTH.read(self.configuration)

    @property
    def log_retention_ms(self) -> int:
        """Minimum retention of commit files, in ms."""
        return LOG_RETENTION.read(self.configuration) or 0

    @property
    def deleted_file_retention_ms(self) -> int:
        """Minimum retention of removed files and of their `remove` actions, in ms."""
        return DELETED_FILE_RETENTION.read(self.configuration) or 0

    @property
    def transaction_retention_ms(self) -> int | None:
        """Retention of transaction identifiers in ms; None if they don't expire."""
        return TRANSACTION_RETENTION.read(self.configuration)

    @property
    def expired_log_cleanup(self) -> bool:
        """Whether writing a checkpoint deletes expired commits."""
        return EXPIRED_LOG_CLEANUP.read(self.configuration)

    @property
    def compression_codec(self) -> str:
        """Parquet compression codec of new files, in lower case; `none` for no compression."""
        codec = COMPRESSION_CODEC.read(self.configuration)
        return "none" if codec == "uncompressed" else codec

    @property
    def optimize_write(self) -> bool:
        """Whether writers group rows by partition before they write files."""
        value = self.configuration.get("delta.autoOptimize.optimizeWrite", "false")
        return value.strip().lower() == "true"

    @property
    def auto_compact(self) -> bool:
        """Whether writers compact small files after a commit.

        True if `delta.autoOptimize` or `delta.autoOptimize.autoCompact` is `true`. An invalid value
        means False, and raises no error.
        """
        keys = ("delta.autoOptimize", "delta.autoOptimize.autoCompact")
        return any(self.configuration.get(key, "").strip().lower() == "true" for key in keys)

    @property
    def target_file_size(self) -> int | None:
        """Target size of data files in bytes; None if the property isn't set."""
        return TARGET_FILE_SIZE.read(self.configuration)

    @property
    def randomize_file_prefixes(self) -> bool:
        """Whether data files are in folders with random names instead of partition folders."""
        return RANDOMIZE_FILE_PREFIXES.read(self.configuration)

    @property
    def random_prefix_length(self) -> int:
        """Length of a random folder name in characters."""
        return RANDOM_PREFIX_LENGTH.read(self.configuration)

    @property
    def isolation_level(self) -> str:
        """Isolation level: `Serializable`, `WriteSerializable` or `SnapshotIsolation`."""
        return ISOLATION_LEVEL.read(self.configuration)

    @property
    def column_mapping_mode(self) -> str:
        """Column mapping mode: `none`, `name` or `id`."""
        return COLUMN_MAPPING_MODE.read(self.configuration)

    @property
    def change_data_feed(self) -> bool:
        """Whether the change data feed is enabled."""
        return CHANGE_DATA_FEED.read(self.configuration)

    @property
    def deletion_vectors(self) -> bool:
        """Whether commands may write deletion vectors."""
        return DELETION_VECTORS.read(self.configuration)

    @property
    def in_commit_timestamps(self) -> bool:
        """Whether commits have in-commit timestamps."""
        return IN_COMMIT_TIMESTAMPS.read(self.configuration)

    @property
    def row_tracking(self) -> bool:
        """Whether rows have row ids and row commit versions."""
        return ROW_TRACKING.read(self.configuration)

    @property
    def row_tracking_suspended(self) -> bool:
        """Whether new files get no row ids, for example while row tracking is being dropped."""
        return ROW_TRACKING_SUSPENDED.read(self.configuration)


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirect:
    """The redirect of a table to another table, as stored in a table property.

    delta-spark has two preview table features for redirects, which aren't in PROTOCOL.md. The key
    of the property consists of `delta.` and the name of the feature.

    Attributes:
        feature: name of the table feature.
        state: `ENABLE-REDIRECT-IN-PROGRESS`, `REDIRECT-READY` or `DROP-REDIRECT-IN-PROGRESS`; empty
            if the property is malformed.
        destination: location of the other table; None if the property doesn't name it.
    """

    feature: str
    state: str
    destination: str | None

    @property
    def is_ready(self) -> bool:
        """Whether the table can't be read, because queries must use the destination instead.

        True if the state is `REDIRECT-READY`, or if the property is malformed.
        """
        return self.state in ("REDIRECT-READY", "")


def redirect_of(configuration: Mapping[str, str]) -> Redirect | None:
    """Return the redirect in a table's properties; None if there is none."""
    for feature in REDIRECT_FEATURES:
        value = configuration.get(f"delta.{feature}")
        if value is not None:
            return _parse_redirect(feature, value)
    return None


def _parse_redirect(feature: str, value: str) -> Redirect:
    redirect = _json_object(value)
    spec = redirect.get("spec")
    if isinstance(spec, str):
        spec = _json_object(spec)
    names = ("destPath", "redirectDest", "tablePath")
    paths = (spec.get(name) for name in names) if isinstance(spec, dict) else ()
    state = redirect.get("state")
    return Redirect(
        feature=feature,
        state=state if isinstance(state, str) else "",
        destination=next((path for path in paths if isinstance(path, str)), None),
    )


def _json_object(value: str) -> dict[str, Any]:
    try:
        decoded = decode_json(value, object)
    except msgspec.DecodeError:
        return {}
    return decoded if isinstance(decoded, dict) else {}
